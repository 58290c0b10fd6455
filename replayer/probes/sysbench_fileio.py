"""File sizes x modes x numbers of threads, one row each (as sysbench fileio does)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from replayer.machine.host import Host
from replayer.run.probe_context import Parallel, ProbeSpec, Rig
from replayer.storage import reference_tools
from replayer.storage.io_job import Access, Load, Target
from replayer.storage.io_result import Tally
from replayer.units import Duration, Size, show_size

Mode = Literal["seqwr", "seqrd", "rndrd", "rndwr", "rndrw"]
_READ_SHARE = {"seqwr": 0.0, "seqrd": 1.0, "rndrd": 1.0, "rndwr": 0.0}
_CSV = "name,size,mode,threads,MB/s,requests/s,min,avg,max,95th"


class Spec(ProbeSpec):
    """sysbench's own parameters, with its defaults but for direct I/O and no fsync."""

    sizes: tuple[Size, ...] = Field(default=(1 << 30,), min_length=1)
    """Of all files of a client together."""
    modes: tuple[Mode, ...] = Field(
        default=("seqwr", "seqrd", "rndrd", "rndwr", "rndrw"), min_length=1
    )
    threads: tuple[Parallel, ...] = Field(default=(1, 4, 8, 16), min_length=1)
    file_num: int = Field(default=128, ge=1, le=65536)
    file_block_size: Size = Field(default=16 << 10, ge=512)
    file_rw_ratio: float = Field(default=1.5, gt=0)
    """Reads for each write in the mode rndrw."""
    time: Duration = Field(default=10.0, gt=0)
    """Of each row."""
    direct: bool = True


@dataclass(frozen=True, slots=True)
class _Row:
    """What one row of the table is about."""

    size: int
    mode: Mode
    threads: int


def needs(spec: Spec, host: Host) -> int:  # noqa: ARG001 - the signature is every probe's
    """Return the bytes of one client's files: sizes are measured one after the other."""
    return max(spec.sizes)


def run(spec: Spec, rig: Rig) -> None:
    """Measure every row."""
    rig.writable(writes=any(mode not in {"seqrd", "rndrd"} for mode in spec.modes))
    csv = [_CSV]
    for size in spec.sizes:
        targets = rig.files(
            "sysbench",
            spec.file_num,
            size // spec.file_num,
            block_size=spec.file_block_size,
            direct=spec.direct,
        )
        for mode in spec.modes:
            for threads in spec.threads:
                csv += _row(spec, rig, targets, _Row(size, mode, threads))
                rig.findings.lines("csv", csv)
        if spec.cross_check:
            _cross_check(spec, rig, targets[:1], size)
        for target in targets:
            if not spec.device:
                rig.workspace.forget(target)


def _row(spec: Spec, rig: Rig, targets: list[Target], row: _Row) -> list[str]:
    """Measure one row; return its lines of CSV."""
    load = _load(spec, row.mode, row.threads)
    _prepare(spec, rig, targets, row.mode)
    size = show_size(row.size)
    found = rig.exercise(f"{spec.name}: {size} {row.mode} {row.threads} threads", [load], targets)
    rig.io_rows(found, [load], targets)
    lines = []
    if len(targets) > 1:
        for client, tallies in enumerate(found.by_client, 1):
            lines.append(_add(rig, f"{spec.name}.{client}", row, tallies[0]))
    lines.append(_add(rig, spec.name, row, found.of()))
    metric = f"sysbench_fileio.{row.mode}.{size.replace(' ', '')}.threads_{row.threads}.throughput"
    rig.findings.measure(metric, found.of().throughput, "bytes/s")
    return lines


def _add(rig: Rig, name: str, row: _Row, tally: Tally) -> str:
    """Add a row to the table and return it as CSV; times are milliseconds, as sysbench has them."""
    seen = tally.latencies
    nanoseconds = (seen.least_ns, seen.mean_ns, seen.most_ns, seen.percentile_ns(95))
    times = dict(zip(("min_ms", "avg_ms", "max_ms", "95th_ms"), nanoseconds, strict=True))
    rates = {"MB/s": tally.throughput / 1e6, "requests/s": tally.iops}
    in_ms = {key: value / 1e6 for key, value in times.items()}
    rig.findings.row(
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


def _prepare(spec: Spec, rig: Rig, targets: list[Target], mode: Mode) -> None:
    """Empty the files before seqwr, as sysbench does; they are whole again only if it filled them.

    So a shortened file is filled up before another mode reads it.
    """
    if spec.device:
        return
    for target in targets:
        if mode == "seqwr":
            rig.workspace.empty(target)
        else:
            rig.workspace.refill(target)


def _load(spec: Spec, mode: Mode, threads: int) -> Load:
    ratio = spec.file_rw_ratio
    return Load(
        name=f"{spec.name}: {mode}",
        threads=threads,
        block_size=spec.file_block_size,
        access=Access.SHARED if mode.startswith("seq") else Access.RANDOM,
        read_share=_READ_SHARE.get(mode, ratio / (1 + ratio)),
        direct=spec.direct,
        seconds=spec.time,
        seed=spec.seed,
    )


def _cross_check(spec: Spec, rig: Rig, targets: list[Target], size: int) -> None:
    """Run sysbench in turn, with files of its own names in the same folder."""
    if spec.device or not spec.direct:
        rig.findings.note("cross-check skipped: sysbench is compared on files with direct I/O")
        return
    folder = rig.folder / "peer"
    folder.mkdir()
    threads = 4 if 4 in spec.threads else spec.threads[-1]
    for mode in spec.modes:
        load = _load(spec, mode, threads)

        def ours(load: Load = load, mode: Mode = mode) -> float:
            _prepare(spec, rig, targets, mode)
            return rig.exercise(f"{spec.name}: {mode}", [load], targets).of().throughput / 1e6

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

        rig.alternate(f"{mode} {threads} threads", "sysbench", "MB/s", ours, theirs)
    reference_tools.clear(folder)
