"""Reads and writes of one kind, with every key of the I/O engine (as fio does)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from replayer.errors import Impossible
from replayer.machine.host import Host
from replayer.model import Better
from replayer.run.probe_context import ProbeContext, ProbeSpec, label
from replayer.storage import reference_tools
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, Sync
from replayer.units import Count, Duration, Size

_FIO = {
    (BlockOrder.RANDOM, "read"): "randread",
    (BlockOrder.RANDOM, "write"): "randwrite",
    (BlockOrder.RANDOM, "mixed"): "randrw",
    (BlockOrder.SEQUENTIAL, "read"): "read",
    (BlockOrder.SEQUENTIAL, "write"): "write",
}


ON_HOSTS = True


class Spec(ProbeSpec):
    """The reads and writes, and their duration."""

    access: BlockOrder = BlockOrder.RANDOM
    """Order of the blocks: `random` is uniform, `zipf` prefers some blocks by `theta`, `sequential`
    gives each thread its own region, `shared` is one sequential walk of all threads."""
    operation: Literal["read", "write", "mixed"] = "read"
    """Reads, writes, or both in the proportion of `read_percent`."""
    read_percent: float = Field(default=70, gt=0, lt=100)
    """The percentage of reads if operation = "mixed"."""
    block_size: Size = Field(default=8192, ge=1, le=1 << 30)
    """Bytes of one request."""
    depth: int = Field(default=1, ge=1, le=4096)
    """Threads of each client, and so the number of requests under way at a time."""
    files: int = Field(default=1, ge=1, le=65536)
    """Number of files of each client."""
    size: Size = Field(default=1 << 30, ge=512)
    """Size of all files of a client together."""
    working_set: Size | None = None
    """The part of the files that is used; all of it if not given."""
    duration: Duration | None = Field(default=30.0, gt=0)
    """Seconds that are measured, without the warm-up."""
    amount: Size | None = None
    """Bytes to read or write; if a duration is given too, the earlier of the two ends the run."""
    warm_up: Duration = Field(default=2.0, ge=0)
    """Seconds of work before counting begins; none if an amount is given."""
    direct: bool = True
    """Use O_DIRECT; false goes through the page cache."""
    dsync: bool = False
    """Use O_DSYNC: every write is on the disk before it counts."""
    fsync_every: int = Field(default=0, ge=0)
    """Number of writes of a thread after which an fdatasync follows, inside the latency; 0 for
    none."""
    huge_pages: bool = True
    """Put buffers on huge pages, if the kernel grants them: a device then moves a block in one
    piece or a few, as into the page cache's large folios; fio's buffers are as with false."""
    rate: Count | None = None
    """Limit of operations per second of each client."""
    theta: float = Field(default=1.1, gt=0, le=4)
    """The exponent if access = "zipf": the larger, the hotter the hottest blocks."""

    def lasts(self) -> float:
        """Return the seconds of duration and warm-up; 0 if an amount of bytes is given."""
        return 0.0 if self.amount or self.duration is None else self.duration + self.warm_up

    @model_validator(mode="after")
    def _ends(self) -> "Spec":
        if self.duration is None and self.amount is None:
            raise ValueError("it needs a duration or an amount")
        return self


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the size of all files of one client, in bytes."""
    return spec.size


def run(spec: Spec, context: ProbeContext) -> None:
    """Make the files, do the reads or writes, and add the results to the context's findings."""
    context.writable(writes=spec.operation != "read")
    each = spec.size // spec.files
    if each < spec.block_size:
        raise Impossible(
            f"{spec.name}: {spec.files} files of {spec.size} bytes hold no block of "
            f"{spec.block_size} bytes each; ask for fewer files or a larger size"
        )
    targets = context.files("io", spec.files, each, block_size=spec.block_size, direct=spec.direct)
    job = _job(spec)
    io = context.run_io(f"{spec.name}: {label(job)}", [job], targets)
    context.io_rows(io, [job], targets)
    result = io.of()
    findings = context.findings
    findings.measure("io.iops", result.iops, "IOPS")
    findings.measure("io.throughput", result.throughput, "bytes/s", says="io.iops")
    findings.percentiles("io.latency", result.latencies)
    findings.histogram("io.latency", result.latencies)
    findings.measure("io.cpu_per_operation", io.cpu_per_operation, "s", Better.LESS)
    if spec.cross_check:
        _cross_check(spec, context, job, targets[:1])


def _job(spec: Spec) -> IoJob:
    share = {"read": 1.0, "write": 0.0, "mixed": spec.read_percent / 100}[spec.operation]
    return IoJob(
        name=spec.name,
        threads=spec.depth,
        block_size=spec.block_size,
        access=spec.access,
        read_share=share,
        direct=spec.direct,
        dsync=spec.dsync,
        sync=Sync.FDATASYNC if spec.fsync_every else Sync.NONE,
        sync_every=max(1, spec.fsync_every),
        seconds=spec.duration,
        operations=None if spec.amount is None else max(1, spec.amount // spec.block_size),
        warmup=0.0 if spec.amount is not None else spec.warm_up,
        huge=spec.huge_pages,
        rate=spec.rate,
        working_set=spec.working_set,
        theta=spec.theta,
        seed=spec.seed,
    )


def _cross_check(
    spec: Spec, context: ProbeContext, job: IoJob, targets: Sequence[IoTarget]
) -> None:
    """Run fio and the probe's own job in turn on the first client's file, and compare the IOPS."""
    mode = _FIO.get((spec.access, spec.operation))
    plain = not (spec.fsync_every or spec.rate or spec.working_set)
    if mode is None or not plain or spec.files > 1 or spec.device or spec.duration is None:
        context.findings.note(
            "cross-check skipped: fio is compared on one file, with random or sequential reads or "
            "writes, or random ones of both, for a duration, without fsync, rate or working set"
        )
        return
    seconds = spec.duration
    path = targets[0].paths[0]
    if job.huge:
        job = replace(job, huge=False)
        context.findings.note(reference_tools.SMALL_PAGES)

    def ours() -> float:
        return context.run_io("replayer", [job], targets).of().iops

    def theirs() -> float:
        return reference_tools.fio(
            path,
            mode=mode,
            block_size=spec.block_size,
            jobs=spec.depth,
            seconds=seconds,
            size=spec.size,
            warmup=job.warmup,
            direct=spec.direct,
            dsync=spec.dsync,
            read_percent=round(spec.read_percent),
            regions=spec.access is BlockOrder.SEQUENTIAL,
        ).iops

    context.alternate(label(job), "fio", "IOPS", ours, theirs)
