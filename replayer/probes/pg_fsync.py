"""The write-ahead log's path: 8 KiB writes, each brought to the disk (as pg_test_fsync does)."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from replayer.disk import peers
from replayer.disk.load import Access, Load, Sync, Target
from replayer.errors import ReplayerError
from replayer.host import Host
from replayer.rig import ProbeSpec, Rig
from replayer.units import Duration, Size

Method = Literal["open_datasync", "fdatasync", "fsync"]
_SEGMENT_BYTES = 16 << 20


class Spec(ProbeSpec):
    """Which ways of PostgreSQL's wal_sync_method are measured, and for how long each."""

    methods: tuple[Method, ...] = Field(
        default=("open_datasync", "fdatasync", "fsync"), min_length=1
    )
    block_size: Size = Field(default=8192, ge=512)
    duration: Duration = Field(default=5.0, gt=0)
    direct: bool = True
    """O_DIRECT with open_datasync, as pg_test_fsync has it."""


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the bytes of one client's file: one segment of the log."""
    return max(_SEGMENT_BYTES, spec.block_size)


def run(spec: Spec, rig: Rig) -> None:
    """Measure every method on one segment that is overwritten again and again."""
    rig.writable(writes=True)
    targets = rig.files(
        "wal", 1, needs(spec, rig.host), block_size=spec.block_size, direct=spec.direct
    )
    for method in spec.methods:
        load = _load(spec, method)
        found = rig.exercise(f"{spec.name}: {method}", [load], targets)
        rig.io_rows(found, [load], targets)
        tally = found.of()
        rig.findings.row(
            "pg_fsync",
            method=method,
            **{"ops/s": tally.iops},
            usecs_per_op=1e6 * len(targets) / tally.iops,
            p99_us=tally.latencies.percentile_ns(99) / 1e3,
            max_us=tally.latencies.most_ns / 1e3,
        )
        if len(targets) > 1:
            each = [f"{tallies[0].iops:.3f} ops/sec" for tallies in found.by_client]
            rig.findings.lines(f"{method} of each client", each)
        rig.findings.measure(f"pg_fsync.{method}", tally.iops, "ops/s")
        rig.findings.latency[f"pg_fsync.{method}"] = tally.latencies.payload()
    if spec.cross_check:
        _cross_check(spec, rig, targets[:1])


def _load(spec: Spec, method: Method) -> Load:
    by_call = {"fdatasync": Sync.FDATASYNC, "fsync": Sync.FSYNC}
    return Load(
        name=f"{spec.name}: {method}",
        threads=1,
        block_size=spec.block_size,
        access=Access.SEQUENTIAL,
        read_share=0.0,
        direct=spec.direct and method == "open_datasync",
        dsync=method == "open_datasync",
        sync=by_call.get(method, Sync.NONE),
        seconds=spec.duration,
        seed=spec.seed,
    )


def _cross_check(spec: Spec, rig: Rig, targets: list[Target]) -> None:
    """Run pg_test_fsync on a file beside ours, in turn."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = str(rig.folder / "peer")
    seconds = max(1, round(spec.duration))
    if spec.device or spec.block_size != 8192:
        rig.findings.note("cross-check skipped: pg_test_fsync writes 8 KiB to a file")
        return
    try:
        for method in spec.methods:
            load = _load(spec, method)

            def ours(load: Load = load) -> float:
                return rig.exercise(load.name, [load], targets).of().iops

            def theirs(method: str = method) -> float:
                return peers.pg_test_fsync(path, seconds=seconds, folders=folders)[method]

            rig.alternate(method, "pg_test_fsync", "ops/s", ours, theirs)
    except ReplayerError as error:
        if "not installed" not in str(error):
            raise
        rig.findings.note("cross-check skipped: pg_test_fsync is not installed")
