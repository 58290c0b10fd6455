"""The write-ahead log's writes: 8 KiB each, each brought to the disk (as pg_test_fsync does)."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from replayer import shell
from replayer.machine.host import Host
from replayer.run.probe_context import ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, Sync
from replayer.units import Duration, Size

Method = Literal["open_datasync", "fdatasync", "fsync"]
_SEGMENT_BYTES = 16 << 20
_ROUNDS = 2


class Spec(ProbeSpec):
    """The values of PostgreSQL's wal_sync_method to measure, and the seconds for each."""

    methods: tuple[Method, ...] = Field(
        default=("open_datasync", "fdatasync", "fsync"), min_length=1
    )
    """The methods to measure, as in wal_sync_method."""
    block_size: Size = Field(default=8192, ge=512)
    """Bytes of one write."""
    duration: Duration = Field(default=5.0, gt=0)
    """Seconds for each method."""
    direct: bool = True
    """Use O_DIRECT with open_datasync, as pg_test_fsync does."""


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the size of one client's file: one 16 MiB segment of the log, or a larger block."""
    return max(_SEGMENT_BYTES, spec.block_size)


def run(spec: Spec, context: ProbeContext) -> None:
    """Measure each wal_sync_method in `spec` on one file, which is overwritten again and again."""
    context.writable(writes=True)
    targets = context.files(
        "wal", 1, needs(spec, context.host), block_size=spec.block_size, direct=spec.direct
    )
    for method in spec.methods:
        job = _job(spec, method)
        io = context.run_io(f"{spec.name}: {method}", [job], targets)
        context.io_rows(io, [job], targets)
        result = io.of()
        context.findings.row(
            "pg_fsync",
            method=method,
            **{"ops/s": result.iops},
            usecs_per_op=1e6 * len(targets) / result.iops,
            p99_us=result.latencies.percentile_ns(99) / 1e3,
            max_us=result.latencies.most_ns / 1e3,
        )
        if len(targets) > 1:
            each = [f"{results[0].iops:.3f} ops/sec" for results in io.by_client]
            context.findings.lines(f"{method} of each client", each)
        context.findings.measure(f"pg_fsync.{method}", result.iops, "ops/s")
        context.findings.histogram(f"pg_fsync.{method}", result.latencies)
    if spec.cross_check:
        _cross_check(spec, context, targets[:1])


def _job(spec: Spec, method: Method) -> IoJob:
    by_call = {"fdatasync": Sync.FDATASYNC, "fsync": Sync.FSYNC}
    return IoJob(
        name=f"{spec.name}: {method}",
        threads=1,
        block_size=spec.block_size,
        access=BlockOrder.SEQUENTIAL,
        read_share=0.0,
        direct=spec.direct and method == "open_datasync",
        dsync=method == "open_datasync",
        sync=by_call.get(method, Sync.NONE),
        seconds=spec.duration,
        seed=spec.seed,
    )


def _cross_check(spec: Spec, context: ProbeContext, targets: list[IoTarget]) -> None:
    """Run pg_test_fsync and the probe's own jobs in turn, and compare the rates of each method."""
    if spec.device or spec.block_size != 8192:
        context.findings.note("cross-check skipped: pg_test_fsync writes 8 KiB to a file")
        return
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    program = shell.find("pg_test_fsync", *programs)
    if program is None:
        context.findings.note("cross-check skipped: pg_test_fsync is not installed")
        return
    folder = context.folder / "peer"
    folder.mkdir()
    seconds = max(1, round(spec.duration))
    mine: dict[Method, list[float]] = {method: [] for method in spec.methods}
    other: dict[Method, list[float]] = {method: [] for method in spec.methods}
    for _ in range(_ROUNDS):
        for method in spec.methods:
            job = _job(spec, method)
            mine[method].append(context.run_io(job.name, [job], targets).of().iops)
        with context.progress.task(f"{spec.name}: pg_test_fsync"):
            rates = reference_tools.pg_test_fsync(program, folder, seconds=seconds)
        for method in spec.methods:
            other[method] += [rates[method]] if method in rates else []
    for method in spec.methods:
        if len(other[method]) < _ROUNDS:  # such as open_datasync where there is no direct I/O
            context.findings.note(f"cross-check skipped: pg_test_fsync has no rate of {method}")
            continue
        context.compared(method, "pg_test_fsync", "ops/s", mine[method], other[method])
