"""File sizes x modes x numbers of threads, one row each (as sysbench fileio does)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from replayer.machine.host import Host
from replayer.run.probe_context import Parallel, ProbeContext, ProbeSpec
from replayer.storage import reference_tools
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget
from replayer.storage.io_result import IoResult
from replayer.units import Duration, Size, show_size

Mode = Literal["seqwr", "seqrd", "rndrd", "rndwr", "rndrw"]
_READ_SHARE = {"seqwr": 0.0, "seqrd": 1.0, "rndrd": 1.0, "rndwr": 0.0}
_CSV = "name,size,mode,threads,MB/s,requests/s,min,avg,max,95th"


class Spec(ProbeSpec):
    """sysbench's own parameters, with its defaults except for direct I/O and no fsync."""

    sizes: tuple[Size, ...] = Field(default=(1 << 30,), min_length=1)
    """Size of all files of a client together."""
    modes: tuple[Mode, ...] = Field(
        default=("seqwr", "seqrd", "rndrd", "rndwr", "rndrw"), min_length=1
    )
    """--file-test-mode: sequential write and read, random read, write, and both."""
    threads: tuple[Parallel, ...] = Field(default=(1, 4, 8, 16), min_length=1)
    """Numbers of threads."""
    file_num: int = Field(default=128, ge=1, le=65536)
    """Number of files of each client."""
    file_block_size: Size = Field(default=16 << 10, ge=512)
    """Bytes of one request."""
    file_rw_ratio: float = Field(default=1.5, gt=0)
    """Reads for each write in the mode rndrw."""
    time: Duration = Field(default=10.0, gt=0)
    """Seconds for each row."""
    direct: bool = True
    """Use O_DIRECT; false goes through the page cache."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The parameters of one measurement, which is one row of the table."""

    size: int
    mode: Mode
    threads: int


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the bytes of one client's files: the largest size, as sizes are measured in turn."""
    return max(spec.sizes)


def run(spec: Spec, context: ProbeContext) -> None:
    """Measure every row of the table: each size with each mode and each number of threads."""
    context.writable(writes=any(mode not in {"seqrd", "rndrd"} for mode in spec.modes))
    csv = [_CSV]
    for size in spec.sizes:
        targets = context.files(
            "sysbench",
            spec.file_num,
            size // spec.file_num,
            block_size=spec.file_block_size,
            direct=spec.direct,
        )
        for mode in spec.modes:
            for threads in spec.threads:
                csv += _row(spec, context, targets, _Row(size, mode, threads))
                context.findings.lines("csv", csv)
        if spec.cross_check:
            _cross_check(spec, context, targets[:1], size)
        for target in targets:
            if not spec.device:
                context.workspace.forget(target)


def _row(spec: Spec, context: ProbeContext, targets: list[IoTarget], row: _Row) -> list[str]:
    """Measure one row of the table; return its lines of CSV.

    There is one line for all clients, after one for each client if there are several.
    """
    job = _job(spec, row.mode, row.threads)
    _prepare(spec, context, targets, row.mode)
    size = show_size(row.size)
    io = context.run_io(f"{spec.name}: {size} {row.mode} {row.threads} threads", [job], targets)
    context.io_rows(io, [job], targets)
    lines = []
    if len(targets) > 1:
        for client, results in enumerate(io.by_client, 1):
            lines.append(_add(context, f"{spec.name}.{client}", row, results[0]))
    lines.append(_add(context, spec.name, row, io.of()))
    metric = f"sysbench_fileio.{row.mode}.{size.replace(' ', '')}.threads_{row.threads}.throughput"
    context.findings.measure(metric, io.of().throughput, "bytes/s")
    return lines


def _add(context: ProbeContext, name: str, row: _Row, result: IoResult) -> str:
    """Add a row to the table and return it as a line of CSV; times are in ms, as in sysbench."""
    seen = result.latencies
    nanoseconds = (seen.least_ns, seen.mean_ns, seen.most_ns, seen.percentile_ns(95))
    times = dict(zip(("min_ms", "avg_ms", "max_ms", "95th_ms"), nanoseconds, strict=True))
    rates = {"MB/s": result.throughput / 1e6, "requests/s": result.iops}
    in_ms = {key: value / 1e6 for key, value in times.items()}
    context.findings.row(
        "sysbench_fileio",
        name=name,
        size=show_size(row.size),
        mode=row.mode,
        threads=row.threads,
        **rates,
        **in_ms,
    )
    figures = [f"{rate:.2f}" for rate in rates.values()] + [f"{ms:.3f}" for ms in in_ms.values()]
    return ",".join([name, str(row.size), row.mode, str(row.threads), *figures])


def _prepare(spec: Spec, context: ProbeContext, targets: list[IoTarget], mode: Mode) -> None:
    """Empty the files before the mode seqwr, as sysbench does; refill them before any other mode.

    The mode seqwr may end before it has filled the files, and the other modes need full files.
    """
    if spec.device:
        return
    for target in targets:
        if mode == "seqwr":
            context.workspace.empty(target)
        else:
            context.workspace.refill(target)


def _job(spec: Spec, mode: Mode, threads: int) -> IoJob:
    ratio = spec.file_rw_ratio
    return IoJob(
        name=f"{spec.name}: {mode}",
        threads=threads,
        block_size=spec.file_block_size,
        access=BlockOrder.SHARED if mode.startswith("seq") else BlockOrder.RANDOM,
        read_share=_READ_SHARE.get(mode, ratio / (1 + ratio)),
        direct=spec.direct,
        seconds=spec.time,
        # Buffers as sysbench has them: these figures are compared with sysbench's.
        huge=False,
        seed=spec.seed,
    )


def _cross_check(spec: Spec, context: ProbeContext, targets: list[IoTarget], size: int) -> None:
    """Run sysbench and the probe's own jobs in turn, and compare the throughput of each mode.

    sysbench makes its own files, because it uses only its own file names.
    """
    if spec.device or not spec.direct:
        context.findings.note("cross-check skipped: sysbench is compared on files with direct I/O")
        return
    folder = context.folder / "peer"
    folder.mkdir()
    threads = 4 if 4 in spec.threads else spec.threads[-1]
    for mode in spec.modes:
        job = _job(spec, mode, threads)

        def ours(job: IoJob = job, mode: Mode = mode) -> float:
            _prepare(spec, context, targets, mode)
            return context.run_io(f"{spec.name}: {mode}", [job], targets).of().throughput / 1e6

        def theirs(mode: Mode = mode) -> float:
            return (
                reference_tools.sysbench_fileio(
                    folder,
                    mode=mode,
                    files=spec.file_num,
                    size=size,
                    block_size=spec.file_block_size,
                    threads=threads,
                    seconds=spec.time,
                ).throughput
                / 1e6
            )

        context.alternate(f"{mode} {threads} threads", "sysbench", "MB/s", ours, theirs)
    reference_tools.clear(folder)
