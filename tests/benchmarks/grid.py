"""The I/O engine against fio psync on points that nobody chose, like with like.

Both work on one file that was written whole, with the same number of threads, and both have their
buffers on small pages, or both on huge ones.  Each ratio is of alternating rounds.

The last row is fio against itself: a file that fio lays out for random writes is reserved and never
written, and on some storage, the disk of this virtual machine among them, that is another disk.
"""

import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from replayer.storage import reference_tools
from replayer.storage.files import Workspace
from replayer.storage.io_job import MIB, IoJob, IoTarget
from replayer.storage.io_run import run_io
from tests.benchmarks import Row
from tests.benchmarks.storage import alternate, huge_pages, row

NAME = "grid"
POINTS = 12
ROUNDS = 5
"""With three, fio itself was at 0.91 to 1.03 of fio."""
SECONDS = 1.5
WARM_UP = 0.3
SIZE = 1 << 30
BLOCKS = tuple(4096 << step for step in range(7))
DEEPEST = 128
KINDS = ("reads", "writes", "mixed", "dsync")
HUGE_BYTES = 512 * MIB
"""What fio's buffers take at most on huge pages, one of 2 MiB for each thread, and more."""
BAR = ">= 0.95"


@dataclass(frozen=True)
class Point:
    """What both do."""

    kind: str
    block: int
    depth: int
    reads: int
    """Percent."""
    huge: bool = False

    @property
    def what(self) -> str:
        """Return it in words."""
        words = {"mixed": f"{self.reads} % reads", "dsync": "O_DSYNC writes"}
        pages = ", huge pages" if self.huge else ""
        kind = words.get(self.kind, self.kind)
        return f"grid: {self.block >> 10} KiB random {kind}, depth {self.depth}{pages}"

    @property
    def job(self) -> IoJob:
        """Return it as replayer does it."""
        return IoJob(
            name="bench",
            threads=self.depth,
            block_size=self.block,
            read_share=self.reads / 100,
            dsync=self.kind == "dsync",
            huge=self.huge,
            seconds=SECONDS,
            warmup=WARM_UP,
        )

    def fio(self, path: str) -> float:
        """Return the IOPS of fio doing it on a file."""
        return reference_tools.fio(
            path,
            mode={100: "randread", 0: "randwrite"}.get(self.reads, "randrw"),
            block_size=self.block,
            jobs=self.depth,
            seconds=SECONDS,
            size=SIZE,
            warmup=WARM_UP,
            dsync=self.kind == "dsync",
            read_percent=self.reads,
            huge=self.huge,
        ).iops


def draw(seed: int) -> list[Point]:
    """Return points that nobody chose.

    Each kind is as frequent as the others, a third is on huge pages; block sizes and depths are
    uniform in their logarithm.
    """
    drawn = random.Random(seed)
    points = []
    for number in range(POINTS):
        kind = KINDS[number % len(KINDS)]
        reads = {"reads": 100, "mixed": drawn.randint(10, 90)}.get(kind, 0)
        block, depth = drawn.choice(BLOCKS), round(DEEPEST ** drawn.random())
        points.append(Point(kind, block, depth, reads, huge=number // len(KINDS) == 1))
    return points


def run(workdir: Path, seed: int) -> list[Row]:
    """Return a row for each point, and that of fio against itself."""
    points = draw(seed)
    if reference_tools.installed("fio") is None:
        return [_skipped(point, "no fio here") for point in points]
    with Workspace(workdir) as workspace:
        target = workspace.files("file", 1, SIZE, block_size=4096)
        rows = [_row(target, point) for point in points if not point.huge]
        with huge_pages(HUGE_BYTES) as why:
            rows += [
                _skipped(point, why) if why else _row(target, point)
                for point in points
                if point.huge
            ]
        return [*rows, _layouts(target, str(workspace.folder / "own"))]


def _skipped(point: Point, why: str) -> Row:
    return {"what": point.what, "against": "fio psync", "bar": BAR, "ratio": None, "skipped": why}


def _row(target: IoTarget, point: Point) -> Row:
    runs = []

    def ours() -> float:
        before: list[float] = []
        run = run_io([point.job], [target], opened=lambda: before.append(_idle_seconds()))
        whole = (os.cpu_count() or 1) * (run.done_ns - run.opened_ns) / 1e9
        runs.append(replace(run, idle=(_idle_seconds() - before[0]) / whole))
        return run.of().iops

    pairs = alternate(ours, lambda: point.fio(target.paths[0]), ROUNDS)
    what = point.what
    for limit, share in (("processors", "loop_share"), ("interpreter", "loop_time")):
        if sum(run.limit == limit for run in runs) > ROUNDS / 2:
            what += f" (limit: {limit}, Python {median(getattr(run, share) for run in runs):.0%})"
    return row(what, "fio psync", BAR, pairs, "IOPS")


def _layouts(target: IoTarget, own: str) -> Row:
    """Compare fio on a file that it laid out with fio on the one that was written whole."""
    point = Point("writes", 8192, 4, 0)
    pairs = alternate(lambda: point.fio(own), lambda: point.fio(target.paths[0]), ROUNDS)
    what = "fio itself: 8 KiB random writes, depth 4, on a file that it laid out, never written"
    return row(what, "fio psync on a written file", "none", pairs, "IOPS")


def _idle_seconds() -> float:
    """Return for how long all processors together have been idle, or waited for I/O, since boot."""
    ticks = Path("/proc/stat").read_text().split(maxsplit=6)[4:6]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
