"""Probes against the tools that people use, in turn, on the same file."""

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from replayer.conditions import memory_bound
from replayer.errors import ReplayerError
from replayer.machine.host import Host
from replayer.storage import reference_tools
from replayer.storage.files import Workspace
from replayer.storage.io_job import MIB, BlockOrder, IoJob, IoTarget, Sync
from replayer.storage.io_run import run_io
from tests.benchmarks import Pairs, Row

_Given = TypeVar("_Given")

NAME = "storage"
ROUNDS = 7
SECONDS = 1.5
WARM_UP = 0.3
SIZE = 1 << 30
KEPT_MEMORY = 3 << 30
BONNIE_SIZE = 2 * KEPT_MEMORY
"""Twice the memory, as bonnie++ wants it, so that neither measures the page cache."""
BONNIE_ROUNDS = 5
PINGS = 100
PING_ROUNDS = 15


def run(workdir: Path) -> list[Row]:
    """Return a row for each bar; a tool that is missing gives rows that say so."""
    with Workspace(workdir) as workspace:
        target = workspace.files("file", 1, SIZE, block_size=8192)
        rows = [*_random(target), *_sequential(target), *_ioping(target)]
        with huge_pages() as why:
            rows += _sequential(target, huge=True, why=why)
            workspace.forget(target)
            rows += _bonnie(workspace, why)
        rows += _sysbench(workspace)
    return rows


@contextlib.contextmanager
def huge_pages(size: int | None = None) -> Iterator[str]:
    """Reserve `size` bytes as huge pages, or all memory but KEPT_MEMORY; yield why not, else ""."""
    host = Host()
    no_server: Any = None
    with contextlib.ExitStack() as stack:
        why = str(memory_bound.refusal("hugepages", host) or "")
        if not why:
            os.sync()
            host.write("proc/sys/vm/drop_caches", "3")
            keep = KEPT_MEMORY if size is None else host.memory("MemFree") - size
            try:
                stack.enter_context(
                    memory_bound.bound("hugepages", no_server, host, keep_bytes=keep, changed=print)
                )
            except ReplayerError as error:
                why = str(error)
        yield why


def alternate(
    ours: Callable[[], _Given], theirs: Callable[[], _Given], rounds: int = ROUNDS
) -> list[tuple[_Given, _Given]]:
    """Return what both gave in so many rounds, A B then B A, and so on."""
    pairs = []
    for turn in range(rounds):
        if turn % 2:
            other = theirs()
            pairs.append((ours(), other))
        else:
            mine = ours()
            pairs.append((mine, theirs()))
    return pairs


def row(what: str, against: str, bar: str, pairs: Pairs, unit: str) -> Row:
    """Return a row whose ratio is the median of those of the rounds, halves of one moment."""
    return {
        "what": what,
        "against": against,
        "bar": bar,
        "ratio": median(mine / other for mine, other in pairs),
        "samples": [{"replayer": a, "peer": b} for a, b in pairs],
        "unit": unit,
    }


def _missing(tool: str, *rows: tuple[str, str], why: str = "") -> list[Row]:
    why = why or f"no {tool} here"
    return [
        {"what": what, "against": tool, "bar": bar, "ratio": None, "skipped": why}
        for what, bar in rows
    ]


def _job(**keys: Any) -> IoJob:
    return IoJob(name="bench", **keys)


def _random(target: IoTarget) -> list[Row]:
    depths = (1, 4, 16, 50)
    if reference_tools.installed("fio") is None:
        return _missing("fio psync", *((f"random reads, depth {d}", ">= 0.95") for d in depths))
    rows = []
    for depth in depths:
        job = _job(threads=depth, block_size=8192, seconds=SECONDS, warmup=WARM_UP)

        def ours(job: IoJob = job) -> tuple[float, float, float]:
            found = run_io([job], [target])
            result = found.of()
            return result.iops, result.latencies.percentile_ns(99), found.cpu_per_operation

        def theirs(depth: int = depth) -> tuple[float, float, float]:
            found = reference_tools.fio(
                target.paths[0],
                mode="randread",
                block_size=8192,
                jobs=depth,
                seconds=SECONDS,
                size=SIZE,
                warmup=WARM_UP,
            )
            return found.iops, found.p99_ns, found.cpu_per_operation

        pairs = alternate(ours, theirs)
        iops, p99, cpu = ([(a[i], b[i]) for a, b in pairs] for i in range(3))
        what = f"8 KiB random direct reads, depth {depth}"
        rows.append(row(what, "fio psync", ">= 0.95", iops, "IOPS"))
        if depth in {1, 4}:
            rows.append(row(f"{what}: p99", "fio psync", ">= 0.85, <= 1.15", p99, "ns"))
        if depth == 16:
            rows.append(row(f"{what}: CPU per operation", "fio psync", "<= 2", cpu, "s"))
    return rows


def _sequential(target: IoTarget, *, huge: bool = False, why: str = "") -> list[Row]:
    """Compare streams as each has them; with `huge`, fio's buffers lie on huge pages as well."""
    cases = [(mode, streams) for mode in ("read", "write") for streams in (1, 8)]
    pages = ", both on huge pages" if huge else ""
    if why or reference_tools.installed("fio") is None:
        skipped = ((f"1 MiB {m}s, {s} streams{pages}", ">= 0.97") for m, s in cases)
        return _missing("fio psync", *skipped, why=why)
    rows = []
    for mode, streams in cases:
        job = _job(
            threads=streams,
            block_size=MIB,
            access=BlockOrder.SEQUENTIAL,
            read_share=float(mode == "read"),
            seconds=SECONDS,
            warmup=WARM_UP,
        )

        def ours(job: IoJob = job) -> float:
            return run_io([job], [target]).of().throughput / 1e6

        def theirs(mode: str = mode, streams: int = streams) -> float:
            found = reference_tools.fio(
                target.paths[0],
                mode=mode,
                block_size=MIB,
                jobs=streams,
                seconds=SECONDS,
                size=SIZE,
                warmup=WARM_UP,
                regions=True,
                huge=huge,
            )
            return found.throughput / 1e6

        what = f"1 MiB sequential direct {mode}s, {streams} streams{pages}"
        rows.append(row(what, "fio psync", ">= 0.97", alternate(ours, theirs), "MB/s"))
    return rows


def _ioping(target: IoTarget) -> list[Row]:
    what, bar = "ioping-write: mean", ">= 0.9, <= 1.1"
    if reference_tools.installed("ioping") is None:
        return _missing("ioping -WWW", (what, bar))
    size, interval = 64 * MIB, 0.005
    job = _job(
        threads=1,
        block_size=4096,
        read_share=0.0,
        direct=False,
        drop=True,
        sync=Sync.FDATASYNC,
        operations=PINGS,
        skip=1,
        rate=1 / interval,
        working_set=size,
    )

    def ours() -> float:
        return run_io([job], [target]).of().latencies.mean_ns / 1e3

    def theirs() -> float:
        found = reference_tools.ioping(
            target.paths[0], write=True, size=size, block_size=4096, count=PINGS, interval=interval
        )
        return found.mean_ns / 1e3

    return [row(what, "ioping -WWW", bar, alternate(ours, theirs, PING_ROUNDS), "us")]


def _sysbench(workspace: Workspace) -> list[Row]:
    modes = {"seqwr": 0.0, "seqrd": 1.0, "rndrd": 1.0, "rndwr": 0.0, "rndrw": 0.6}
    bar = ">= 0.9, <= 1.1"
    if reference_tools.installed("sysbench") is None:
        return _missing("sysbench fileio", *((f"fileio {m}, 4 threads", bar) for m in modes))
    # Small pages on both sides, as sysbench has them.
    shape = {"files": 16, "size": 512 * MIB, "block_size": 16384, "threads": 4}
    target = workspace.files("fileio", 16, 32 * MIB, block_size=16384)
    folder = workspace.folder / "peer"
    folder.mkdir()
    rows = []
    for mode, share in modes.items():
        job = _job(
            threads=4,
            block_size=16384,
            access=BlockOrder.SHARED if mode.startswith("seq") else BlockOrder.RANDOM,
            read_share=share,
            huge=False,
            seconds=SECONDS,
        )

        def ours(mode: str = mode, job: IoJob = job) -> float:
            if mode == "seqwr":
                workspace.empty(target)
            else:
                workspace.refill(target)
            return run_io([job], [target]).of().throughput / 1e6

        def theirs(mode: str = mode) -> float:
            found = reference_tools.sysbench_fileio(folder, mode=mode, seconds=SECONDS, **shape)
            return found.throughput / 1e6

        pairs = alternate(ours, theirs)
        rows.append(row(f"fileio {mode}, 4 threads", "sysbench fileio", bar, pairs, "MB/s"))
    workspace.forget(target)
    reference_tools.clear(folder)
    return rows


def _bonnie(workspace: Workspace, why: str) -> list[Row]:
    phases = ("put_block", "rewrite", "get_block")
    bar = ">= 0.85, <= 1.15"
    if why or reference_tools.installed("bonnie++") is None:
        return _missing("bonnie++", *((f"bonnie {phase}", bar) for phase in phases), why=why)
    folder = workspace.folder / "bonnie"
    folder.mkdir()

    def ours() -> list[float]:
        target = workspace.files("ours", 1, BONNIE_SIZE, block_size=8192, filled=False)
        figures = []
        for phase in phases:
            writes = phase != "get_block"
            job = _job(
                threads=1,
                block_size=8192,
                access=BlockOrder.SEQUENTIAL,
                read_share=float(not writes),
                rewrite=phase == "rewrite",
                direct=False,
                finish=Sync.FSYNC if writes else Sync.NONE,
                operations=BONNIE_SIZE // 8192,
            )
            figures.append(run_io([job], [target]).of().throughput / 1024)
        workspace.forget(target)
        return figures

    def theirs() -> list[float]:
        fields = reference_tools.bonnie(folder, size=BONNIE_SIZE, chunk=8192, files=0)
        return [float(fields[phase].strip("+") or "nan") for phase in phases]

    pairs = alternate(ours, theirs, BONNIE_ROUNDS)
    rows = []
    for i, phase in enumerate(phases):
        told = [(a[i], b[i]) for a, b in pairs if not math.isnan(b[i])]
        bonnie = (f"bonnie {phase}", "bonnie++", bar)
        if len(told) >= 3:
            rows.append(row(*bonnie, told, "KiB/s"))
        else:
            rows += _missing("bonnie++", (bonnie[0], bar), why="bonnie++ was too fast to tell")
    return rows
