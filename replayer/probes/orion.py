"""Small random reads at growing depth and large reads at growing streams (as Oracle's ORION does).

Keys and summary lines have ORION's names.  A depth is a number of threads, each with one request
under way, like the blocking reads of a database.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, field_validator

from replayer.machine.host import Host
from replayer.model import Better
from replayer.run.probe_context import ProbeContext, ProbeSpec, label
from replayer.run.step_recorder import StepRecorder
from replayer.storage import reference_tools
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget
from replayer.storage.io_result import IoResult
from replayer.units import Duration, Size

ON_HOSTS = True


class Spec(ProbeSpec):
    """ORION's own parameters."""

    run: Literal["simple", "normal"] = "simple"
    """simple: small reads alone, then large reads alone; normal: also every combination of both."""
    small: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    """Numbers of small requests under way at a time."""
    large: tuple[int, ...] = (1, 2, 4, 8)
    """Numbers of large requests under way at a time."""
    size_small: Size = Field(default=8 << 10, ge=512)
    """Bytes of a small request."""
    size_large: Size = Field(default=1 << 20, ge=512)
    """Bytes of a large request."""
    type: Literal["rand", "seq"] = "rand"
    """Position of the large reads: random, or each stream sequential."""
    write: float = Field(default=0, ge=0, le=100)
    """Percent of the small requests that write."""
    duration: Duration = Field(default=60.0, gt=0)
    """Seconds for each point."""
    warm_up: Duration = Field(default=1.0, ge=0)
    """Seconds of work before each point that are not counted."""
    size: Size = Field(default=1 << 30, ge=1 << 20)
    """Size of each client's file."""

    @field_validator("small", "large")
    @classmethod
    def _growing(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or list(value) != sorted(set(value)) or not 1 <= value[0] <= value[-1] <= 4096:
            raise ValueError("it must be growing numbers from 1 to 4096, such as [1, 2, 4]")
        return value


@dataclass(frozen=True)
class _Point:
    """The results of one client, or of all together, at one point.

    A point is a number of small and a number of large requests under way at the same time. A result
    is None if there were no such requests.
    """

    small: int
    large: int
    small_result: IoResult | None
    large_result: IoResult | None

    @property
    def at(self) -> str:
        """Return the point in ORION's format, such as `@ Small=4 and Large=0`."""
        return f"@ Small={self.small} and Large={self.large}"


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the size of one client's file, in bytes."""
    return spec.size


def run(spec: Spec, context: ProbeContext) -> None:
    """Measure every point (numbers of small and large requests under way); add ORION's summary.

    After an error, the summary has the points up to then.
    """
    context.writable(writes=spec.write > 0)
    targets = context.files("orion", 1, spec.size, block_size=spec.size_small)
    points: dict[str, list[_Point]] = {}
    try:
        for small, large in _plan(spec):
            for client, point in _measure(spec, context, targets, small, large).items():
                points.setdefault(client, []).append(point)
    finally:
        _sum_up(spec, context.findings, points)
    if spec.cross_check:
        _cross_check(spec, context, targets[:1])


def _plan(spec: Spec) -> list[tuple[int, int]]:
    if spec.run == "simple":
        return [(small, 0) for small in spec.small] + [(0, large) for large in spec.large]
    return [
        (small, large) for large in (0, *spec.large) for small in (0, *spec.small) if small or large
    ]


def _measure(
    spec: Spec, context: ProbeContext, targets: Sequence[IoTarget], small: int, large: int
) -> dict[str, _Point]:
    """Measure one point: `small` small and `large` large requests under way at the same time.

    Returns name of client -> its results.  With several clients, `all` has their sum.
    """
    jobs = _jobs(spec, small, large)
    title = f"{spec.name}: small {small}, large {large}"
    io = context.run_io(title, jobs, targets)
    context.io_rows(io, jobs, targets)
    points = {
        context.client_name(client): _point(small, large, results)
        for client, results in enumerate(io.by_client)
    }
    if len(targets) > 1:
        points["all"] = _point(small, large, [io.of(place) for place in range(len(jobs))])
    return points


def _point(small: int, large: int, results: Sequence[IoResult]) -> _Point:
    rest = list(results)
    return _Point(small, large, rest.pop(0) if small else None, rest.pop(0) if large else None)


def _jobs(spec: Spec, small: int, large: int) -> list[IoJob]:
    jobs = []
    if small:
        jobs.append(
            IoJob(
                name=f"{spec.name}: small",
                threads=small,
                block_size=spec.size_small,
                read_share=1 - spec.write / 100,
                seconds=spec.duration,
                warmup=spec.warm_up,
                seed=spec.seed,
            )
        )
    if large:
        jobs.append(
            IoJob(
                name=f"{spec.name}: large",
                threads=large,
                block_size=spec.size_large,
                access=BlockOrder.SEQUENTIAL if spec.type == "seq" else BlockOrder.RANDOM,
                seconds=spec.duration,
                warmup=spec.warm_up,
                seed=spec.seed + 1,
            )
        )
    return jobs


def _sum_up(spec: Spec, findings: StepRecorder, points: dict[str, list[_Point]]) -> None:
    """Add the results at all points to the findings, in ORION's formats.

    There is a summary for each client.  Histogram and CSV are those of all clients together.
    """
    for client, own in points.items():
        several = len(points) > 1
        findings.lines(f"summary.client {client}" if several else "summary", _summary(own))
        if not several or client == "all":
            _measurements(findings, own)
            _histogram(findings, own)
            if spec.run == "normal":
                _matrices(spec, findings, own)


def _small_only(points: Sequence[_Point]) -> list[tuple[_Point, IoResult]]:
    return [(point, point.small_result) for point in points if point.small_result is not None]


def _large_only(points: Sequence[_Point]) -> list[tuple[_Point, IoResult]]:
    return [(point, point.large_result) for point in points if point.large_result is not None]


def _summary(points: Sequence[_Point]) -> list[str]:
    lines = []
    if large := _large_only(points):
        point, result = max(large, key=lambda pair: pair[1].throughput)
        lines.append(f"Maximum Large MBPS={result.throughput / (1 << 20):.2f} {point.at}")
    if small := _small_only(points):
        point, result = max(small, key=lambda pair: pair[1].iops)
        lines.append(f"Maximum Small IOPS={result.iops:.0f} {point.at}")
        lines += _latency_lines(point, result)
        point, result = min(small, key=lambda pair: pair[1].latencies.mean_ns)
        lines.append(f"Minimum Small Latency={result.latencies.mean_ns / 1e3:.2f} usecs {point.at}")
        lines += _latency_lines(point, result)
    return lines


def _latency_lines(point: _Point, result: IoResult) -> list[str]:
    return [
        f"Small {kind} Latency: avg={seen.mean_ns / 1e3:.0f} us, min={seen.least_ns / 1e3:.0f} us, "
        f"max={seen.most_ns / 1e3:.0f} us, std dev={seen.deviation_ns / 1e3:.0f} us {point.at}"
        for kind, seen in (("Read", result.reads), ("Write", result.writes))
        if seen.operations
    ]


def _measurements(findings: StepRecorder, points: Sequence[_Point]) -> None:
    if large := _large_only(points):
        _, result = max(large, key=lambda pair: pair[1].throughput)
        findings.measure("orion.max_large_throughput", result.throughput, "bytes/s")
    if small := _small_only(points):
        _, fastest = max(small, key=lambda pair: pair[1].iops)
        _, quickest = min(small, key=lambda pair: pair[1].latencies.mean_ns)
        findings.measure("orion.max_small_iops", fastest.iops, "IOPS")
        findings.measure(
            "orion.min_small_latency", quickest.latencies.mean_ns / 1e9, "s", Better.LESS
        )
        findings.percentiles("orion.small_latency", fastest.latencies)
        findings.histogram("orion.small_latency", fastest.latencies)


def _histogram(findings: StepRecorder, points: Sequence[_Point]) -> None:
    """Add ORION's histogram of the small requests' latencies at the point with the most IOPS."""
    small = _small_only(points)
    if not small:
        return
    point, result = max(small, key=lambda pair: pair[1].iops)
    reads = {low: (high, many) for low, high, many in result.reads.doublings()}
    writes = {low: (high, many) for low, high, many in result.writes.doublings()}
    lines = [
        f"Small Read / Write Latency Histogram {point.at}",
        f"{'Latency:':<26}{'# of IOs (read)':>18}{'# of IOs (write)':>18}",
    ]
    for low in sorted(reads | writes):
        high = (reads.get(low) or writes[low])[0]
        read, written = reads.get(low, (0, 0))[1], writes.get(low, (0, 0))[1]
        lines.append(f"{low:>9} - {high:<9} us: {read:>19}{written:>18}")
    findings.lines("histogram", lines)


def _matrices(spec: Spec, findings: StepRecorder, points: Sequence[_Point]) -> None:
    """Add ORION's matrices of IOPS, MBPS and latency as CSV.

    They have a line for each number of large requests and a column for each number of small ones.
    """
    known = {(point.small, point.large): point for point in points}
    rows, columns = (0, *spec.large), (0, *spec.small)

    def csv(name: str, value: str) -> None:
        head = ", ".join(["Large/Small", *map(str, columns)])
        body = [
            ", ".join([str(large), *(_cell(known.get((small, large)), value) for small in columns)])
            for large in rows
        ]
        findings.lines(name, [head, *body])

    csv("iops.csv", "iops")
    csv("mbps.csv", "mbps")
    csv("lat.csv", "lat")


def _cell(point: _Point | None, value: str) -> str:
    """Return a figure of a point as text; "" if the point had no request of that kind.

    `value` names it: `iops` or `lat` (mean, in µs) of small requests, `mbps` (MiB/s) of large ones.
    """
    result = (
        None if point is None else point.large_result if value == "mbps" else point.small_result
    )
    if result is None:
        return ""
    if value == "mbps":
        return f"{result.throughput / (1 << 20):.2f}"
    return f"{result.iops:.0f}" if value == "iops" else f"{result.latencies.mean_ns / 1e3:.2f}"


def _cross_check(spec: Spec, context: ProbeContext, targets: Sequence[IoTarget]) -> None:
    """Run fio and the probe's own job in turn, and compare the IOPS.

    This is done with the fewest and the most small reads, and with the fewest large ones.
    """
    if spec.device or spec.write:
        context.findings.note("cross-check skipped: fio is compared on files and with reads only")
        return
    context.findings.note(reference_tools.SMALL_PAGES)
    for small, large in ((spec.small[0], 0), (spec.small[-1], 0), (0, spec.large[0])):
        job = replace(_jobs(spec, small, large)[0], huge=False)

        def ours(job: IoJob = job) -> float:
            return context.run_io(f"{spec.name}: {label(job)}", [job], targets).of().iops

        def theirs(job: IoJob = job) -> float:
            return reference_tools.fio(
                targets[0].paths[0],
                mode="read" if job.access is BlockOrder.SEQUENTIAL else "randread",
                block_size=job.block_size,
                jobs=job.threads,
                seconds=spec.duration,
                size=spec.size,
                warmup=spec.warm_up,
                direct=targets[0].direct,
                regions=job.access is BlockOrder.SEQUENTIAL,
            ).iops

        context.alternate(label(job), "fio", "IOPS", ours, theirs)
