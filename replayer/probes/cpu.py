"""Integer divisions on one to all cores: numpy searches for primes, and the passes are counted.

A pass does the divisions of one event of sysbench cpu, in numpy's loops instead of a compiler's
scalar one.  So its rate can only be compared with the same probe's rate on another machine.
"""

from pydantic import Field

from replayer.model import Better
from replayer.run.probe_context import Parallel, ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.spin import spin
from replayer.storage.spin_worker import SpinWork
from replayer.units import Duration


class Spec(ProbeSpec):
    """The length of a pass, the numbers of processes, and their duration."""

    cpu_max_prime: int = Field(default=10000, ge=3, le=10_000_000)
    """One pass tests every number up to this one."""
    duration: Duration = Field(default=10.0, gt=0)
    """Seconds for each number of processes."""
    threads: tuple[Parallel, ...] = ()
    """Numbers of processes; 1, 2, 4 and so on to all cores if not given."""


def run(spec: Spec, context: ProbeContext) -> None:
    """Measure the rate of passes with each number of processes, and how it grows with them."""
    cores = context.cores()
    counts = spec.threads or steps(cores)
    base: float | None = None
    for many in counts:
        work = SpinWork(kind="cpu", seconds=spec.duration, limit=spec.cpu_max_prime)
        title = f"{spec.name}: {many} processes"
        with context.progress.task(title), context.window() as opened:
            result = spin(work, many, opened)
        rate = result.operations / result.seconds
        base = base or rate / many
        seen = result.latencies
        context.findings.row(
            "cpu",
            processes=many,
            **{"passes/s": rate, "passes/s of each": rate / many},
            scaling=rate / (base * many),
            min_us=seen.least_ns / 1e3,
            avg_us=seen.mean_ns / 1e3,
            max_us=seen.most_ns / 1e3,
            p95_us=seen.percentile_ns(95) / 1e3,
        )
        context.findings.measure(f"cpu.events.processes_{many}", rate, "passes/s")
        context.findings.measure(
            f"cpu.scaling.processes_{many}", rate / (base * many), "", Better.MORE
        )
        if spec.cross_check:
            _cross_check(spec, context, work, many)
    if spec.clients > 1:
        context.findings.note("several clients are for storage: the processors were measured once")


def steps(cores: int) -> tuple[int, ...]:
    """Return the powers of two below the number of cores, and this number itself."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return (*counts, cores) if cores > 1 else (1,)


def _cross_check(spec: Spec, context: ProbeContext, work: SpinWork, many: int) -> None:
    """Run sysbench cpu and the probe's own work in turn, and compare the rates.

    `many` is the number of processes.
    """

    def theirs() -> float:
        return reference_tools.sysbench_cpu(
            threads=many, seconds=spec.duration, max_prime=spec.cpu_max_prime
        )

    context.alternate(f"{many} processes", "sysbench", "1/s", lambda: _rate(work, many), theirs)
    context.findings.note(
        "the cross-check holds passes of numpy's loops against events of sysbench's scalar loop: "
        "the same divisions, by other code, so that the ratio is not of two measurements of one "
        "thing"
    )


def _rate(work: SpinWork, many: int) -> float:
    result = spin(work, many)
    return result.operations / result.seconds
