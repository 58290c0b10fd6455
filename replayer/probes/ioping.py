"""One request at a time, timed one by one, like a ping to the storage (as ioping does)."""

from typing import Literal

from pydantic import Field

from replayer.machine.host import Host
from replayer.model import Better
from replayer.run.probe_context import ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.io_job import IoJob, IoTarget, Sync
from replayer.storage.io_result import IoResult
from replayer.units import Count, Duration, Size, show_duration, show_size


class Spec(ProbeSpec):
    """ioping's own parameters."""

    operation: Literal["read", "write"] = "read"
    """A write is followed by fdatasync inside its latency, as in `ioping -WWW`."""
    block_size: Size = Field(default=4096, ge=512)
    """Bytes of one request."""
    size: Size = Field(default=64 << 20, ge=4096)
    """The working set: ioping's default of 1 MiB makes disks with a cache look too fast."""
    count: Count | None = Field(default=None, ge=1)
    """Number of requests, without the first one, which is not counted."""
    duration: Duration | None = Field(default=10.0, gt=0)
    """Seconds of requests, if no count is given."""
    interval: Duration = Field(default=0.1, ge=0)
    """Seconds from the beginning of one request to that of the next."""
    direct: bool = False
    """Use O_DIRECT; otherwise the block is dropped from the page cache before each request."""


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the size of one client's file, in bytes."""
    return spec.size


def run(spec: Spec, context: ProbeContext) -> None:
    """Send the requests, and add the results, also in ioping's format, to the findings."""
    context.writable(writes=spec.operation == "write")
    targets = context.files("ioping", 1, spec.size, block_size=spec.block_size, direct=spec.direct)
    job = _job(spec)
    io = context.run_io(spec.name, [job], targets)
    context.io_rows(io, [job], targets)
    findings = context.findings
    if len(targets) > 1:
        for client, results in enumerate(io.by_client, 1):
            findings.lines(f"print.client {client}", _lines(spec, context, results[0]))
    result = io.of()
    findings.lines("print", _lines(spec, context, result))
    findings.measure("ioping.iops", len(targets) * 1e9 / result.latencies.mean_ns, "IOPS")
    findings.measure("ioping.latency.avg", result.latencies.mean_ns / 1e9, "s", Better.LESS)
    findings.percentiles("ioping.latency", result.latencies)
    findings.histogram("ioping.latency", result.latencies)
    if spec.cross_check:
        _cross_check(spec, context, targets[:1], result.operations)


def _job(spec: Spec, count: int | None = None) -> IoJob:
    wanted = count or spec.count
    writes = spec.operation == "write"
    return IoJob(
        name=spec.name,
        threads=1,
        block_size=spec.block_size,
        read_share=0.0 if writes else 1.0,
        direct=spec.direct,
        drop=not spec.direct,
        sync=Sync.FDATASYNC if writes else Sync.NONE,
        seconds=None if wanted else spec.duration,
        operations=wanted,
        skip=1,
        rate=1 / spec.interval if spec.interval else None,
        seed=spec.seed,
    )


def _lines(spec: Spec, context: ProbeContext, result: IoResult) -> list[str]:
    """Return a result as the four lines that ioping prints at its end."""
    seen = result.latencies
    total = seen.total_ns / 1e9
    moved = f"{show_size(result.bytes)} {'read' if spec.operation == 'read' else 'written'}"
    issued = result.issued_reads + result.issued_writes
    where = spec.device or str(context.storage)
    spread = (seen.least_ns, seen.mean_ns, seen.most_ns, seen.deviation_ns)
    counted = f"{_thousands(seen.operations / total)} iops, {show_size(result.bytes / total)}/s"
    spent = show_duration(result.seconds)
    size, rate = issued * spec.block_size, issued / result.seconds
    every = f"{_thousands(rate)} iops, {show_size(rate * spec.block_size)}/s"
    return [
        f"--- {where} ({context.file_system()}) ioping statistics ---",
        f"{seen.operations} requests completed in {show_duration(total)}, {moved}, {counted}",
        f"generated {issued} requests in {spent}, {show_size(size)}, {every}",
        "min/avg/max/mdev = " + " / ".join(show_duration(ns / 1e9) for ns in spread),
    ]


def _thousands(value: float) -> str:
    return f"{value / 1000:.2f} k" if value >= 1000 else f"{value:.0f}"


def _cross_check(
    spec: Spec, context: ProbeContext, targets: list[IoTarget], operations: int
) -> None:
    """Run ioping and the probe's own job in turn on the same file, and compare the latencies.

    `operations` is the number of requests of each run.
    """
    count = max(1, operations)
    job = _job(spec, count)

    def ours() -> float:
        return context.run_io(spec.name, [job], targets).of().latencies.mean_ns / 1e3

    def theirs() -> float:
        measured = reference_tools.ioping(
            targets[0].paths[0],
            write=spec.operation == "write",
            size=spec.size,
            block_size=spec.block_size,
            count=count,
            interval=spec.interval,
            direct=spec.direct,
        )
        return measured.mean_ns / 1e3

    if spec.device:
        context.findings.note("cross-check skipped: ioping is compared on files only")
        return
    context.alternate(f"mean of a {spec.operation}", "ioping", "us", ours, theirs)
