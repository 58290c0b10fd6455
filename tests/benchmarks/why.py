"""What `compare` names as the reason: planted causes, and pairs of runs that differ by nothing.

Each cause is planted in every second of twelve runs; what is named for it is printed.  It changes
what all of this machine feels, the read-ahead of the disk and huge pages, for as long as a run
takes: run it on a machine that nobody else uses.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.samples import Side
from replayer.machine.host import Host
from replayer.model import Run, Spent
from replayer.report.documents import explanation as words
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from tests import limited
from tests.benchmarks import Row

NAME = "why"
ASKED_FOR = True
RUNS = 6
"""A side, taking turns."""
PAIRS = 20
"""Of A against A, drawn from the runs in which nothing was planted, and some more of them."""
MORE = 24
_MIB = 1 << 20
_FILES = 8
"""Of 256 MiB, which are read in a second or two."""
_HUGE_PAGES = 1150
"""For 2000 MiB of shared buffers, and what else a server shares."""
_ENVIRONMENT = {"REPLAYER_WITHOUT": ""}

CACHED = 'step = "sessions"\nmemory = "cached"\nnum_schemas = 2\nscale = "64M"\nrun_time = "4s"\n'
WORKLOADS = {
    "cached": f"{CACHED}num_threads = 1\n",
    "four": f"{CACHED}num_threads = 2\n",
    "physical": CACHED.replace('"cached"', '"direct"') + "num_threads = 2\n",
    "walk": 'step = "walk"\nthreads = 2\nblock_size = "16k"\npath = "{files}"\n',
    "commits": f'{CACHED}num_threads = 2\nshared_buffers = "32M"\nmix = "update=80 point=20"\n',
    # The sessions fill the server's own buffers, and read all over them.
    "buffers": CACHED.replace("64M", "750M").replace("4s", "8s")
    + 'num_threads = 1\nshared_buffers = "2000M"\n',
}


@dataclass(frozen=True)
class Place:
    """What a cause is planted on."""

    folder: Path
    """Of the benchmark, on the disk under test."""
    device: str


@dataclass(frozen=True)
class Planted:
    """What a run has besides."""

    options: tuple[str, ...] = ()
    begin: Callable[[], object] | None = None
    """Called in the run's process before it begins."""


Plant = Callable[[Place], contextlib.AbstractContextManager[Planted]]


@contextlib.contextmanager
def _nothing(_place: Place) -> Iterator[Planted]:
    yield Planted()


@dataclass(frozen=True)
class Cause:
    """A cause, the workload that feels it, and the parts one of which is to be named for it."""

    name: str
    workload: str
    parts: frozenset[str]
    plant: Plant
    control: Plant = _nothing
    allowed: tuple[str, ...] = ()
    """What differs by the cause itself."""
    around: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """What all of its runs are within."""


def run(workdir: Path) -> list[Row]:
    """Return a row of how many causes were named, and one of how many pairs of A and A."""
    place = _prepared(workdir)
    named: list[bool | None] = []
    controls: list[Run] = []
    for cause in CAUSES:
        verdict, sides = _tried(cause, place)
        named.append(verdict)
        if cause.workload == "cached" and sides:
            controls += sides[0].runs
    tried = [one for one in named if one is not None]
    share = sum(tried) / len(tried) if tried else 0.0
    rows = [_row("planted causes that were named", ">= 0.9", share, tried)]
    wrong = _alike(place, controls)
    return [*rows, _row("A/A pairs with anything named", "<= 0.05", sum(wrong) / PAIRS, wrong)]


def _row(what: str, bar: str, ratio: float, samples: list[bool]) -> Row:
    return {"what": what, "against": "all", "bar": bar, "ratio": ratio, "samples": samples}


def _prepared(workdir: Path) -> Place:
    """Make the files that are walked, and the workloads."""
    place = Place(workdir, Host().device_of(workdir) or "")
    files = workdir / "files"
    files.mkdir()
    for number in range(_FILES):
        (files / str(number)).write_bytes(os.urandom(_MIB) * 256)
    for name, keys in WORKLOADS.items():
        text = keys.replace("{files}", str(files))
        head = f'# {name}\ndescription = "{name}"\n[[step]]\n'
        (workdir / f"{name}.toml").write_text(head + text)
    return place


def _tried(cause: Cause, place: Place) -> tuple[bool | None, tuple[Side, ...]]:
    """Plant a cause in every second of some runs; return whether it was named, and the sides."""
    control: list[Run] = []
    planted: list[Run] = []
    # A first run makes the tables, and has the memory from the host of a virtual machine.
    order: list[tuple[Plant, list[Run]]] = [(cause.control, [])]
    for number in range(2 * RUNS):
        # A B B A: neither side is always the first.
        second = number % 4 in (1, 2)
        order.append((cause.plant, planted) if second else (cause.control, control))
    try:
        with cause.around():
            for plant, side in order:
                with plant(place) as made:
                    side.append(_performed(cause.workload, place, made.options, made.begin))
    except (OSError, LookupError) as error:
        print(f"  {cause.name}: skipped: {error}", flush=True)
        return None, ()
    except subprocess.SubprocessError as error:
        # It could be planted, so that a run that failed counts as one that named nothing.
        printed = getattr(error, "stderr", None) or b""
        print(f"  {cause.name}: NOT NAMED: {error} {printed.decode()[-300:]}", flush=True)
        return False, ()
    sides = Side("control", tuple(control)), Side(cause.name, tuple(planted))
    compared = compare(*sides, allowed=cause.allowed)
    hit = False
    for why in compared.why:
        section = words.section(why, compared)
        print(f"  {cause.name}:", flush=True)
        print(console.text(terminal_writer.render_parts([section])), flush=True)
        hit |= any(part.part in cause.parts and part.shift > 0 for part in why.moved)
    if not compared.why:
        print(f"  {cause.name}: no metric was shown to differ", flush=True)
    print(f"  {cause.name}: {'named' if hit else 'NOT NAMED'}", flush=True)
    return hit, sides


def _performed(
    workload: str,
    place: Place,
    options: tuple[str, ...] = (),
    begin: Callable[[], object] | None = None,
) -> Run:
    """Run a workload and return its result."""
    results, data = place.folder / "results", place.folder / "data"
    before = set(results.glob("*.json")) if results.is_dir() else set()
    command = [
        *(sys.executable, "-m", "replayer", "run", str(place.folder / f"{workload}.toml")),
        *("--data-dir", str(data), "--results", str(results), *options),
    ]
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        preexec_fn=begin,
        env={**os.environ, **_ENVIRONMENT},
        timeout=300,
    )
    (path,) = set(results.glob("*.json")) - before
    return store.load(path)


def _alike(place: Place, controls: list[Run]) -> list[bool]:
    """Return for pairs of A and A whether anything was named, each a draw of other runs."""
    runs = [*controls, *(_performed("cached", place) for _ in range(MORE - len(controls)))]
    drawn = random.Random(1)
    wrong = []
    for number in range(PAIRS):
        chosen = drawn.sample(runs, 2 * RUNS)
        sides = Side("A", tuple(chosen[:RUNS])), Side("B", tuple(chosen[RUNS:]))
        parts = [part.part for why in compare(*sides).why for part in why.moved]
        wrong.append(bool(parts))
        print(f"  A/A pair {number + 1}: {', '.join(parts) or 'nothing named'}", flush=True)
    return wrong


@contextlib.contextmanager
def _traced(_place: Place) -> Iterator[Planted]:
    """Count every system call of the machine in two maps, as somebody who looks for something."""
    bpftrace = shutil.which("bpftrace")
    if bpftrace is None:
        raise LookupError("bpftrace is not installed")
    program = "tracepoint:raw_syscalls:sys_enter { @[args->id] = count(); @[pid] = count(); }"
    with subprocess.Popen(
        [bpftrace, "-q", "-e", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as tracer:
        try:
            time.sleep(1.5)
            if tracer.poll() is not None:
                raise LookupError("bpftrace cannot attach to raw_syscalls here")
            yield Planted()
        finally:
            tracer.terminate()


@contextlib.contextmanager
def _written(path: Path, value: str) -> Iterator[Planted]:
    """Write a value into a file of the kernel, and what was there afterwards."""
    before = path.read_text().split("[")[-1].split("]")[0].strip()
    path.write_text(value)
    try:
        yield Planted()
    finally:
        path.write_text(before)


def _read_ahead(place: Place) -> contextlib.AbstractContextManager[Planted]:
    return _written(Path(f"/sys/class/block/{place.device}/queue/read_ahead_kb"), "8")


@contextlib.contextmanager
def _reserved() -> Iterator[None]:
    """Reserve huge pages, whether or not the server takes them."""
    pages = Path("/proc/sys/vm/nr_hugepages")
    before = pages.read_text()
    pages.write_text(str(_HUGE_PAGES))
    try:
        if int(pages.read_text()) < _HUGE_PAGES:
            raise LookupError(f"there are not {_HUGE_PAGES} huge pages to be had")
        yield
    finally:
        pages.write_text(before)


@contextlib.contextmanager
def _huge_pages(_place: Place, wanted: str = "on") -> Iterator[Planted]:
    yield Planted(("--pg-set", f"huge_pages={wanted}"))


def _small_pages(place: Place) -> contextlib.AbstractContextManager[Planted]:
    return _huge_pages(place, "off")


@contextlib.contextmanager
def _throttled(place: Place) -> Iterator[Planted]:
    """Let the run's cgroup have so many reads a second of the disk."""
    group = Path(f"/sys/fs/cgroup/blkio/replayer-why-{os.getpid()}")
    number = Path(f"/sys/class/block/{place.device}/dev").read_text().strip()
    group.mkdir()
    try:
        (group / "blkio.throttle.read_iops_device").write_text(f"{number} 4000")
        yield Planted(begin=lambda: (group / "cgroup.procs").write_text("0"))
    finally:
        limited.dissolve(group)


@contextlib.contextmanager
def _one_core(_place: Place) -> Iterator[Planted]:
    first = min(os.sched_getaffinity(0))
    yield Planted(begin=lambda: os.sched_setaffinity(0, {first}))


@contextlib.contextmanager
def _commits(_place: Place, wanted: str = "on") -> Iterator[Planted]:
    yield Planted(("--pg-set", f"synchronous_commit={wanted}"))


def _lazy_commits(place: Place) -> contextlib.AbstractContextManager[Planted]:
    return _commits(place, "off")


CAUSES = (
    Cause("busy tracepoint", "cached", frozenset({Spent.ENTRY}), _traced),
    Cause("read-ahead", "walk", frozenset({Spent.DEVICE}), _read_ahead),
    Cause("huge pages off", "buffers", frozenset({Spent.SERVER, Spent.FAULTS}), _small_pages,
          _huge_pages, allowed=("*.settings.huge_pages",), around=_reserved),
    Cause("slower device", "physical", frozenset({Spent.DEVICE}), _throttled),
    Cause("fewer cores", "four", frozenset({Spent.RUN_QUEUE}), _one_core),
    Cause("synchronous commits", "commits", frozenset({Spent.LOG}), _commits, _lazy_commits,
          allowed=("*.settings.synchronous_commit",)),
)  # fmt: skip
