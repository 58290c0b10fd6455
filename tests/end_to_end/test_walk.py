"""The walk on real files and on the real server's table: every byte, every proof, every failure."""

import contextlib
import dataclasses
import json
import mmap
import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.journal import alive, identity
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import Cold, Outcome, Temperature
from replayer.run.context import Context
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.walk import file_listing as walk_listing
from replayer.steps.walk import outcome as walk_outcome
from replayer.steps.walk import reading as walk_reading
from replayer.steps.walk import step as walk
from replayer.steps.walk.file_listing import FileListing
from replayer.steps.walk.reading import WalkMeasurement
from replayer.steps.walk.spec import Spec
from replayer.storage import file_reader
from replayer.tables import relations
from replayer.watch.sampler import Sampler
from replayer.watch.workers import WorkerPool
from tests.command import Replayer
from tests.fixture_types import Holder
from tests.known import known
from tests.performed import performed, values
from tests.repeated import repeat_until
from tests.waiting import wait_until

BLOCK = 4096
PRIME = 23
METRICS = {
    "walk.files": "files", "walk.bytes": "bytes", "walk.list.real": "s", "walk.list.user": "s",
    "walk.list.system": "s", "walk.read.real": "s", "walk.read.user": "s", "walk.read.system": "s",
    "walk.throughput": "bytes/s", "walk.iops": "1/s",
}  # fmt: skip
MODES = ["read", "mmap", "direct"]


Read = Callable[[Spec, Context, Sampler, FileListing], WalkMeasurement]


def spec_of(**keys: object) -> Spec:
    """Return a small spec that leaves files as warm as they are; every key can be set."""
    small = {"threads": 7, "block_size": BLOCK, "cold": "unknown"}
    return Spec.model_validate({"step": "walk", "name": "walk", **small, **keys})


def notes(outcome: Outcome) -> list[str]:
    """Return the notes, without what other programs on this machine cause."""
    foreign = ("other processes read", "the device also wrote")
    return [note for note in outcome.notes if not note.startswith(foreign)]


def number_of(outcome: Outcome, name: str) -> float:
    """Return a fact that is a number."""
    fact = outcome.facts[name]
    assert isinstance(fact, int | float)
    return fact


def cold_of(outcome: Outcome) -> Cold:
    """Return how cold a walk was."""
    return known(outcome.cold)


@pytest.fixture
def folder(server_home: Path, request: pytest.FixtureRequest) -> Path:
    """Return an empty folder on a disk; skip where the folder for temporary files is memory."""
    made = server_home / re.sub(r"\W+", "-", request.node.name)
    made.mkdir()
    mount = Host().mount_of(made)
    if mount is not None and mount.type in {"tmpfs", "ramfs"}:
        pytest.skip("the pages of a file system in memory cannot be dropped")
    return made


@pytest.fixture
def tree(folder: Path) -> Path:
    """Return 23 files of 23 blocks in several folders, the last block of each cut short."""
    for number in range(PRIME):
        below = folder / f"{number % 3}" / "deep"
        below.mkdir(parents=True, exist_ok=True)
        (below / f"file-{number}").write_bytes(os.urandom(PRIME * BLOCK - number))
    subprocess.run(["sync", *folder.rglob("file-*")], check=True)
    return folder


@pytest.fixture
def made(context: Context) -> list[Path]:
    """Build a small columnstore table unless it is there, and return the paths of its files."""
    keys = {"rows": 3_072, "segment_rows": 384, "rebuild": False}
    spec = BuildSpec.model_validate({"step": "build", "name": "build", **keys})
    performed(build, spec, context)
    folder = context.data_directory()
    assert folder is not None
    with context.database() as database:
        database.query("CHECKPOINT")
        return relations.files(database, folder)


# Folders


@pytest.mark.parametrize("mode", MODES)
def test_a_prime_number_of_blocks_is_reported_as_such(
    context: Context, tree: Path, mode: str
) -> None:
    """23 files of 23 blocks are 23 files and 529 reads in every mode, and the bytes are du's."""
    spec = spec_of(path=tree, mode=mode)
    try:
        outcome = performed(walk, spec, context)
    except Skip as skip:
        pytest.skip(str(skip))
    found = values(outcome)
    said = subprocess.run(
        ["find", tree, "-type", "f", "-exec", "du", "--apparent-size", "--bytes", "{}", "+"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    counted = sum(int(line.split()[0]) for line in said.splitlines())

    assert {one.metric: one.unit for one in outcome.measurements} == METRICS
    assert (found["walk.files"], found["walk.bytes"]) == (PRIME, counted)
    assert outcome.facts["reads"] == outcome.latency["block"].operations == PRIME * PRIME
    assert outcome.facts["directory_entries"] == PRIME + 6
    assert found["walk.iops"] == pytest.approx(PRIME * PRIME / found["walk.read.real"])
    assert found["walk.throughput"] == pytest.approx(counted / found["walk.read.real"])
    assert 0 < number_of(outcome, "first_thread_done_seconds") <= found["walk.read.real"]
    assert outcome.facts["last_thread_done_seconds"] == found["walk.read.real"]
    assert notes(outcome) == []


def test_latencies_are_those_of_the_reads(context: Context, tree: Path) -> None:
    """The histogram holds every read, none longer than the whole."""
    outcome = performed(walk, spec_of(path=tree), context)
    histogram = HdrHistogram.decode(outcome.latency["block"].payload)

    assert histogram.get_total_count() == PRIME * PRIME
    assert 0 < histogram.get_value_at_percentile(50) <= histogram.get_max_value()
    longest = histogram.get_lowest_equivalent_value(histogram.get_max_value())
    assert longest <= values(outcome)["walk.read.real"] * 1e9


@pytest.mark.parametrize("mode", ["read", "direct"])
def test_cold_comes_from_the_device(context: Context, tree: Path, mode: str) -> None:
    """Coldness is proven before by residency and after by the device's own counters."""
    size = sum(path.stat().st_size for path in tree.rglob("file-*"))
    cold = cold_of(performed(walk, spec_of(path=tree, mode=mode, cold="cold"), context))

    assert (cold.asked, cold.got, cold.why) == (Temperature.COLD, Temperature.COLD, "")
    assert (cold.resident_bytes, cold.file_bytes) == (0, size)
    if cold.device_bytes is not None:
        assert known(cold.device_bytes) >= 0.95 * size


def test_readers_are_told_from_others(context: Context, tree: Path) -> None:
    """The device's bytes count for cold as far as the walk's own processes had them."""
    cold = cold_of(performed(walk, spec_of(path=tree, cold="cold"), context))

    assert known(cold.stored_bytes) == cold.data_bytes == cold.file_bytes
    assert known(cold.own_bytes) >= 0.95 * known(cold.stored_bytes)
    assert cold.device_bytes is None or known(cold.device_bytes) >= known(cold.own_bytes)


@pytest.mark.parametrize("holes", [0, 1])
def test_the_rate_over_holes_is_not_the_disks(context: Context, tree: Path, holes: int) -> None:
    """The data of a sparse file is cold, but no device reads the holes that the rate counts."""
    if holes:
        os.truncate(tree / "0" / "deep" / "file-0", PRIME * PRIME * BLOCK)
    with context.watching(context.host.device_of(tree), tree) as sampler:
        device = sampler.device
    outcome = performed(walk, spec_of(path=tree, cold="cold"), context)

    assert cold_of(outcome).got is Temperature.COLD, cold_of(outcome).why
    assert (outcome.reads is None) == bool(holes or device is None)


@contextlib.contextmanager
def foreign_reads(folder: Path) -> Iterator[None]:
    """Read a file of another folder around the page cache, over and over, with dd."""
    other = folder / "foreign"
    other.write_bytes(os.urandom(4 << 20))
    subprocess.run(["sync", other], check=True)
    command = f"while :; do dd if={other} of=/dev/null bs=1M iflag=direct 2>/dev/null; done"
    reader = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    try:
        yield
    finally:
        os.killpg(reader.pid, signal.SIGKILL)
        reader.wait()
        other.unlink()


@pytest.fixture
def window_with_others(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Have the window of a walk begin before others have read more than the files have.

    Return the function that now reads.
    """
    real = walk_reading.read_files

    def read(
        spec: Spec, context: Context, sampler: Sampler, listing: FileListing
    ) -> WalkMeasurement:
        begin = sampler.mark()
        wait_until(lambda: _device_bytes(sampler, begin) >= 2 * listing.bytes)
        return dataclasses.replace(real(spec, context, sampler, listing), begin_ns=begin)

    monkeypatch.setattr(walk, "read_files", read)
    return read


def _device_bytes(sampler: Sampler, begin_ns: int) -> float:
    delta = sampler.device_delta(begin_ns, sampler.mark())
    assert delta is not None
    return delta.read_bytes


def test_files_that_others_warm_after_the_proof_are_not_cold(
    context: Context,
    tree: Path,
    server_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    window_with_others: Read,
) -> None:
    """Somebody reads the files after the proof, and the device is busy with as much for others."""
    read: Read = window_with_others

    def warmed(
        spec: Spec, context: Context, sampler: Sampler, listing: FileListing
    ) -> WalkMeasurement:
        with contextlib.ExitStack() as stack:
            # Held, as whoever else drops the caches of this machine would undo it.
            for path in listing.sizes:
                file = stack.enter_context(Path(path).open("rb"))
                view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                assert sum(stack.enter_context(view)[::BLOCK]) > 0
            return read(spec, context, sampler, listing)

    monkeypatch.setattr(walk, "read_files", warmed)
    with foreign_reads(server_home):
        outcome = performed(walk, spec_of(path=tree, mode="read", cold="cold"), context)
    cold = cold_of(outcome)

    assert (cold.asked, cold.got) == (Temperature.COLD, Temperature.LUKEWARM)
    assert known(cold.own_bytes) < 0.05 * known(cold.stored_bytes)
    assert "the reading processes had" in cold.why
    assert "stop whatever else reads these files" in cold.todo


def test_foreign_reads_are_named_and_do_not_disturb_the_proof(
    context: Context, tree: Path, server_home: Path, window_with_others: Read
) -> None:
    """A walk that is cold stays cold beside dd, whose bytes are told as others'."""
    with foreign_reads(server_home):
        outcome = performed(walk, spec_of(path=tree, mode="direct", cold="cold"), context)
    cold = cold_of(outcome)

    assert cold.got is Temperature.COLD
    assert (
        0.95 * known(cold.stored_bytes) <= known(cold.own_bytes) <= 1.2 * known(cold.stored_bytes)
    )
    assert known(outcome.foreign).read_bytes == known(cold.device_bytes) - known(cold.own_bytes) > 0
    assert any(note.startswith("other processes read") for note in outcome.notes)


def test_pages_that_are_locked_in_memory_are_never_called_cold(
    context: Context, tree: Path, holder: Holder
) -> None:
    """All files locked by somebody: nothing can be dropped, and nothing is claimed."""
    code = (
        "import ctypes, mmap, sys\n"
        "assert ctypes.CDLL(None).mlockall(3) == 0\n"
        "files = [open(name, 'rb') for name in sys.argv[1:]]\n"
        "views = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]\n"
        "print('locked', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    files = sorted(tree.rglob("file-*"))
    assert holder(*files, code=code).said == "locked"
    outcome = performed(walk, spec_of(path=tree, cold="cold"), context)

    assert cold_of(outcome).got not in (Temperature.COLD, Temperature.LUKEWARM)
    assert cold_of(outcome).why
    assert "locks these files" in cold_of(outcome).todo


def test_hot_is_in_memory_before_the_walk(context: Context, tree: Path) -> None:
    """What was asked to be hot is read into memory first, and proven to be there."""
    spec = spec_of(path=tree, cold="hot", mode="mmap")
    cold = repeat_until(
        lambda: cold_of(performed(walk, spec, context)), lambda cold: cold.got is Temperature.HOT
    )

    assert (cold.got, cold.resident_share) == (Temperature.HOT, 1.0)
    assert cold.method == "every file read"


@pytest.mark.parametrize(("mode", "share"), [("read", 1.0), ("mmap", 1.0), ("direct", 0.0)])
def test_modes_fill_the_page_cache_or_go_around_it(
    context: Context, tree: Path, mode: str, share: float
) -> None:
    """Each mode does to memory what it is for: every page is touched, or none is kept."""
    files = sorted(tree.rglob("file-*"))

    def share_after_a_walk() -> float | None:
        for path in files:
            page_cache.forget(path)
        try:
            performed(walk, spec_of(path=tree, mode=mode), context)
        except Skip as skip:
            pytest.skip(str(skip))
        return residency(files).share

    assert repeat_until(share_after_a_walk, lambda found: found == share) == share


def test_a_file_that_stays_in_memory_takes_the_name_cold_away(
    context: Context, tree: Path, holder: Holder
) -> None:
    """One of 23 files is mapped by somebody: the walk is lukewarm, with that share."""
    first = min(tree.rglob("file-*"))
    code = (
        "import mmap, sys\n"
        "file = open(sys.argv[1], 'rb')\n"
        "view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        "print(sum(view[::1024]) > 0, flush=True)\n"
        "sys.stdin.readline()\n"
    )
    assert holder(first, code=code).said == "True"
    cold = cold_of(performed(walk, spec_of(path=tree, cold="cold"), context))

    assert (cold.asked, cold.got) == (Temperature.COLD, Temperature.LUKEWARM)
    assert cold.resident_share == pytest.approx(1 / PRIME, rel=0.01)
    assert "4.3" in cold.why


def test_series_shows_the_bytes(context: Context, tree: Path) -> None:
    """The step's own counter becomes a rate in the same intervals as the kernel's."""
    spec = spec_of(path=tree, mode="direct", block_size=BLOCK, threads=1)
    # Where replayer itself has to wait for a processor, the walk is less than half an interval.
    outcome = repeat_until(
        lambda: performed(walk, spec, context),
        lambda outcome: any(known(outcome.series).columns["walk.bytes"]),
    )
    series = known(outcome.series)
    rates = series.columns["walk.bytes"]
    seconds = [
        end - begin for begin, end in zip((0, *series.seconds), series.seconds, strict=False)
    ]
    moved = sum(rate * took for rate, took in zip(rates, seconds, strict=True) if rate is not None)

    assert len(rates) == len(series.seconds) >= 1
    # An interval of which the walk was half has the rate of that half.
    assert 0 < moved <= 2.01 * values(outcome)["walk.bytes"]


def test_links_are_not_followed_and_empty_files_count(context: Context, folder: Path) -> None:
    """A link to a file elsewhere is a directory entry and no file of this folder."""
    (folder / "one").write_bytes(b"1")
    (folder / "empty").touch()
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "loop").symlink_to(folder)
    found = performed(walk, spec_of(path=folder, mode="mmap"), context)

    assert (values(found)["walk.files"], values(found)["walk.bytes"]) == (2, 1)
    assert found.facts["directory_entries"] == 4


def test_files_that_changed_are_named(context: Context, tree: Path) -> None:
    """What vanished, shrank or grew after it was listed is in the notes, by name."""
    spec = spec_of(path=tree)
    listing = walk_listing.list_files([str(tree)], None)
    vanished, shrunk, grown, *_ = sorted(tree.rglob("file-*"))
    vanished.unlink()
    os.truncate(shrunk, 5000)
    with grown.open("ab") as file:
        file.write(b"more")
    cold = temperature.make(Temperature.UNKNOWN, None, list(listing.sizes), context.host)
    reading = walk_reading.read_files(spec, context, context.sampler, listing)
    told = list(walk_outcome.notes_of(spec, list(listing.sizes), listing, reading, cold))

    assert [note.rpartition(": ")[2] for note in told] == list(map(str, (vanished, shrunk, grown)))
    assert "vanished" in told[0]
    assert "shrank" in told[1]
    assert "grew" in told[2]
    # What was appended lies in the last block that was listed, so it came with it.
    lost = listing.sizes[str(vanished)] + listing.sizes[str(shrunk)] - 5000
    assert reading.bytes == listing.bytes - lost + len("more")


def test_a_mapped_file_that_shrank_kills_nobody(context: Context, tree: Path) -> None:
    """Pages behind a file's end are never touched: they would end the worker with SIGBUS."""
    listing = walk_listing.list_files([str(tree)], None)
    shrunk = min(tree.rglob("file-*"))
    os.truncate(shrunk, 0)
    reading = walk_reading.read_files(
        spec_of(path=tree, mode="mmap"), context, context.sampler, listing
    )

    assert reading.bytes == listing.bytes - listing.sizes[str(shrunk)]


def test_a_read_error_names_the_file_and_the_byte(context: Context) -> None:
    """A read error of the disk is one sentence; /proc/self/mem has one to offer."""
    queue = file_reader.Queue(("/proc/self/mem",), (BLOCK,), "read", BLOCK)
    with WorkerPool(file_reader.read_all, [queue], processes=1) as pool:
        pool.open()
        with pytest.raises(ReplayerError, match="/proc/self/mem could not be read at byte 0: Inp"):
            pool.results()


def test_every_file_is_read_once_by_whoever_is_free(tree: Path) -> None:
    """The queue is shared by the threads of all processes: nothing is read twice or left out."""
    paths = sorted(map(str, tree.rglob("file-*")))
    queue = file_reader.Queue(tuple(paths), tuple(map(os.path.getsize, paths)), "read", BLOCK)
    with WorkerPool(file_reader.read_all, [queue] * 5, processes=2) as pool:
        pool.open()
        hauls = pool.results()

    assert Counter(number for haul in hauls for number, _ in haul.files) == Counter(range(PRIME))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("relative", "must begin with a slash"),
        ("/does/not/exist", "/does/not/exist cannot be read: No such file"),
        ("/etc/passwd", "/etc/passwd cannot be read: Not a directory"),
    ],
)
def test_path_must_be_a_folder(context: Context, path: str, says: str) -> None:
    """It is known before anything is done."""
    with pytest.raises(Impossible, match=says):
        walk.check(spec_of(path=path), context)


def test_an_empty_folder_is_refused(context: Context, folder: Path) -> None:
    """There is nothing to measure."""
    with pytest.raises(Impossible, match="there is no file in"):
        performed(walk, spec_of(path=folder), context)


def test_direct_needs_whole_blocks() -> None:
    """O_DIRECT reads in multiples of the device's block."""
    with pytest.raises(ValueError, match="multiple of 4096"):
        spec_of(mode="direct", block_size=5000)


def test_direct_is_skipped_where_it_cannot_be(context: Context) -> None:
    """A file system without O_DIRECT is told with the ways that remain."""
    with pytest.raises(Skip, match=r'/proc/.* cannot be read with O_DIRECT .*mode = "mmap" remain'):
        walk_listing.need_direct(["/proc/self/status"])


# The table


def test_true_cold_stops_the_server(context: Context, made: list[Path]) -> None:
    """The table's files are read while no process of the server is left; all bytes are counted."""
    sizes = [path.stat().st_size for path in made]
    outcome = performed(walk, spec_of(block_size=8192, cold="cold"), context)
    found = values(outcome)

    assert context.server.pids() == []
    assert cold_of(outcome).method.startswith("server stopped, ")
    assert (cold_of(outcome).got, cold_of(outcome).why) == (Temperature.COLD, "")
    assert (found["walk.files"], found["walk.bytes"]) == (len(made), sum(sizes))
    assert number_of(outcome, "directory_entries") >= len(made)
    assert notes(outcome) == []


def test_lukewarm_leaves_the_server_running(context: Context, made: list[Path]) -> None:
    """The page cache is cold, the server's own buffers are not."""
    before = context.server.pids()
    cold = cold_of(performed(walk, spec_of(cold="lukewarm"), context))

    assert before[0] in context.server.pids()
    assert (cold.got, cold.why) == (Temperature.LUKEWARM, "")


def test_any_table_can_be_walked(context: Context) -> None:
    """Its name may have a schema; a name that is not there is refused."""
    with context.database() as database:
        files = relations.files(
            database,
            context.data_directory(),
            VerbName("slob/files"),
            name="pg_catalog.pg_attribute",
        )
    found = values(performed(walk, spec_of(table="pg_catalog.pg_attribute"), context))

    assert found["walk.files"] == len(files) >= 2
    with pytest.raises(Impossible, match="'no_such' is not there"):
        performed(walk, spec_of(table="no_such"), context)


def test_a_walk_needs_a_table(context: Context, no_table: None) -> None:
    """Without a build before it, it says so."""
    with pytest.raises(Impossible, match="put a build step before"):
        performed(walk, spec_of(), context)


# The command


Walking = Callable[[], tuple["subprocess.Popen[str]", list[str]]]


@pytest.fixture
def walking(folder: Path, tmp_path: Path, replayer: Replayer) -> Walking:
    """Return a function that runs a walk which nobody lives to see the end of.

    It returns when the workers read, with their identities.
    """
    files = folder / "files"
    files.mkdir()
    with (files / "large").open("wb") as file:
        file.truncate(1 << 40)  # a hole, read in small blocks by one thread
    workload = folder / "slow.toml"
    workload.write_text(
        '# slow\ndescription = "slow"\n[[step]]\nstep = "walk"\nthreads = 2\nmode = "direct"\n'
        f'block_size = "4k"\ncold = "unknown"\npath = "{files}"\n'
    )

    def start() -> tuple["subprocess.Popen[str]", list[str]]:
        child = replayer.start(
            "run", workload, "--results", tmp_path, popen={"start_new_session": True}
        )
        workers: list[int] = []
        while child.poll() is None and not workers:
            workers = [pid for pid in below(child.pid) if has_read(pid)]
            time.sleep(0.01)
        return child, [identity(pid) for pid in workers]

    return start


def below(parent: int) -> list[int]:
    """Return the process ids of a process's children."""
    try:
        return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))
    except OSError:
        return []


def has_read(pid: int) -> bool:
    """Tell whether a worker process has the large file open."""
    try:
        return any(fd.readlink().name == "large" for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_every_process_and_keeps_the_result(
    walking: Walking, tmp_path: Path, number: signal.Signals
) -> None:
    """A signal to all, as a terminal sends it, leaves no worker and exits with 130."""
    child, workers = walking()
    os.killpg(child.pid, number)
    _, said = child.communicate(timeout=300)

    assert child.returncode == 130, said
    assert workers
    assert not any(map(alive, workers))
    (result,) = tmp_path.glob("*.json")
    (step,) = json.loads(result.read_text())["steps"]
    assert step["status"] == "interrupted"


@pytest.mark.slow
def test_a_killed_worker_ends_the_run_with_one_sentence(walking: Walking) -> None:
    """The out-of-memory killer takes a worker: the run fails at once and says which way it died."""
    child, workers = walking()
    os.kill(int(workers[0].split(":")[1]), signal.SIGKILL)
    _, said = child.communicate(timeout=300)

    assert child.returncode == 1
    assert "a worker process was killed with SIGKILL" in said
    assert "Traceback" not in said
    assert not any(map(alive, workers))
