"""Coldness is measured, and never claimed where it was not reached or could not be measured."""

import mmap
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from replayer.conditions import residency as residencies
from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.errors import ReplayerError
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import Cold, Temperature
from tests.known import known
from tests.repeated import repeat_until

ROOT = os.geteuid() == 0
FILE_BYTES = 64 * page_cache.PAGE
STRANGER = 1234


@pytest.fixture
def folder(server_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder on a disk; skip where the folder for temporary files is memory."""
    made = server_home / tmp_path_factory.mktemp("cache").name
    made.mkdir()
    made.chmod(0o755)
    mount = Host().mount_of(made)
    if mount is not None and mount.type in {"tmpfs", "ramfs"}:
        pytest.skip("the pages of a file system in memory cannot be dropped")
    return made


@pytest.fixture
def files(folder: Path) -> list[Path]:
    """Return ten files of 64 pages, on the disk and in memory."""
    paths = [folder / f"file-{number}" for number in range(10)]
    for path in paths:
        path.write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    return paths


@pytest.fixture(params=["cachestat", "mincore"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Measure with one system call, then with the other."""
    chosen: str = request.param
    if chosen == "cachestat" and not page_cache.has_cachestat():
        pytest.skip("this kernel has no cachestat")
    monkeypatch.setattr(page_cache, "has_cachestat", lambda: chosen == "cachestat")
    monkeypatch.setattr(residencies, "_proven", {})
    return chosen


@contextmanager
def held(*paths: Path, pages: int = FILE_BYTES // page_cache.PAGE) -> Iterator[None]:
    """Keep the first pages of files in memory: another test cannot drop what is mapped."""
    with ExitStack() as stack:
        for path in paths:
            file = stack.enter_context(path.open("rb"))
            view = stack.enter_context(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
            view.madvise(mmap.MADV_RANDOM)
            assert len(view[: pages * page_cache.PAGE : 1024])
        yield


@contextmanager
def stranger(paths: list[Path]) -> Iterator[None]:
    """Be an ordinary user who owns the files."""
    for path in {*paths, *(path.parent for path in paths)}:
        os.chown(path, STRANGER, STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)


class Powerless(Host):
    """A machine on which nobody may drop caches."""

    def cannot_write(self, path: str) -> str:
        """Refuse."""
        return "Permission denied"


def test_residency_follows_what_was_read(files: list[Path], method: str) -> None:
    """All, then nothing, then exactly the pages that were read: both system calls say the same."""
    with held(*files):
        whole = residency(files)
    for path in files:
        page_cache.forget(path)
    none = residency(files)
    with held(files[0], pages=7):
        some = residency(files)

    assert (whole.file_bytes, whole.resident_bytes) == (10 * FILE_BYTES, 10 * FILE_BYTES)
    assert (none.resident_bytes, none.share) == (0, 0.0)
    assert some.resident_bytes == 7 * page_cache.PAGE
    assert {whole.method, none.method, some.method} == {method}


def test_residency_counts_no_byte_twice(folder: Path, method: str) -> None:
    """The last page of a file counts as many bytes as the file has there."""
    path = folder / "odd"
    path.write_bytes(b"x" * (2 * page_cache.PAGE + 23))
    (folder / "empty").touch()

    with held(path):
        found = residency([path, folder / "empty", folder / "vanished"])

    assert found.resident_bytes == found.file_bytes == 2 * page_cache.PAGE + 23


def test_dirty_pages_are_seen_until_they_are_written(folder: Path) -> None:
    """The proof of a flush: what was written is dirty, after fdatasync nothing is."""
    if not page_cache.has_cachestat():
        pytest.skip("mincore does not tell dirty pages")
    path = folder / "dirty"
    path.write_bytes(bytes(FILE_BYTES))
    with path.open("r+b", buffering=0) as file, held(path):

        def written() -> int:
            os.pwrite(file.fileno(), os.urandom(FILE_BYTES), 0)
            before = residency([path])
            return known(before.dirty_bytes) + known(before.writeback_bytes)

        # Another test may bring all to the disk before it is looked at.
        assert repeat_until(written, bool) > 0
        os.fdatasync(file.fileno())
        after = residency([path])

    assert (after.dirty_bytes, after.writeback_bytes) == (0, 0)
    assert after.resident_bytes == FILE_BYTES


def test_mincore_does_not_know_dirty_pages(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a method cannot tell is None, not nothing."""
    monkeypatch.setattr(page_cache, "has_cachestat", lambda: False)
    monkeypatch.setattr(residencies, "_proven", {})

    assert residency(files).dirty_bytes is None


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_files_of_others_are_not_judged(files: list[Path], method: str) -> None:
    """The kernel refuses, or says that every page is resident: neither becomes a number."""
    os.seteuid(STRANGER)
    try:
        found = residency(files)
        cold = temperature.make(Temperature.COLD, None, files, Host())
    finally:
        os.seteuid(0)

    assert found.resident_bytes is None
    assert found.method == ""
    assert "10 files" in found.why
    assert "neither ours nor writable" in found.why
    assert (cold.got, cold.proof) == (Temperature.UNKNOWN, "")
    assert cold.why == found.why


def test_cold_is_made_and_proven(files: list[Path]) -> None:
    """Files in memory become cold, and the result says how and by which proof."""
    cold = temperature.make(Temperature.COLD, None, files, Host())

    assert cold.got is Temperature.COLD
    assert (cold.resident_bytes, cold.file_bytes) == (0, 10 * FILE_BYTES)
    assert "drop" in cold.method.lower() or "DONTNEED" in cold.method
    assert cold.proof in {"cachestat", "mincore"}
    assert cold.why == ""


def test_without_the_right_each_file_is_dropped(files: list[Path]) -> None:
    """Files get as cold one by one, also dirty ones, and the result says what stays."""
    files[0].write_bytes(os.urandom(FILE_BYTES))

    cold = temperature.make(Temperature.COLD, None, files, Powerless())

    assert cold.got is Temperature.COLD
    assert "POSIX_FADV_DONTNEED of every file" in cold.method
    assert "Permission denied; directory entries and inodes stay" in cold.method


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_an_ordinary_user_gets_cold_files(files: list[Path]) -> None:
    """The real kernel's refusal leads to fadvise, and the proof works for one's own files."""
    with stranger(files):
        cold = temperature.make(Temperature.COLD, None, files, Host())

    assert cold.got is Temperature.COLD
    assert "POSIX_FADV_DONTNEED" in cold.method
    assert "Permission denied" in cold.method


def test_one_file_that_stays_makes_it_lukewarm(files: list[Path]) -> None:
    """What was asked for does not count: a tenth of the bytes is in memory, and that is said."""
    with held(files[3]):
        cold = temperature.make(Temperature.COLD, None, files, Host())

    assert (cold.asked, cold.got) == (Temperature.COLD, Temperature.LUKEWARM)
    assert cold.resident_share == pytest.approx(0.1)
    assert "10 % of the bytes" in cold.why


def test_hot_is_made_and_proven(files: list[Path]) -> None:
    """Every byte is in memory afterwards."""
    temperature.drop(files, Host())

    # Another test may drop it again before it is proven.
    hot = repeat_until(
        lambda: temperature.make(Temperature.HOT, None, files, Host()),
        lambda hot: hot.got is Temperature.HOT,
    )

    assert (hot.got, hot.resident_share, hot.why) == (Temperature.HOT, 1.0, "")


def test_hot_that_is_not_reached_has_a_remedy_of_its_own(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others read makes data no less hot: the advice is about what drops the page cache."""
    monkeypatch.setattr(temperature, "warm", lambda *_: None)
    temperature.drop(files, Host())

    assert "drops the page cache" in temperature.make(Temperature.HOT, None, files, Host()).todo


def test_left_as_found(files: list[Path]) -> None:
    """Nothing is dropped or read where nothing was asked for; what there is, is measured."""
    with held(*files):
        found = temperature.make(Temperature.UNKNOWN, None, files, Host())

        assert (found.got, found.method) == (Temperature.HOT, "left as found")
        assert residency(files).share == 1.0


def test_nothing_is_claimed_of_no_bytes() -> None:
    """No files are neither cold nor hot."""
    cold = temperature.make(Temperature.COLD, None, [], Powerless())

    assert (cold.got, cold.why) == (Temperature.UNKNOWN, "the files have no bytes")


def test_warm_names_the_file_that_cannot_be_read(folder: Path, files: list[Path]) -> None:
    """A file that has vanished is nothing, a folder in its place is an error."""
    temperature.warm([*files, folder / "vanished"])

    with pytest.raises(ReplayerError, match=f"{folder} could not be read: Is a directory"):
        temperature.warm([*files, folder])


def cold_of(**keys: object) -> Cold:
    """Return what was achieved before a read of 1,000,000 bytes."""
    plain = {"asked": "cold", "got": "cold", "method": "m", "proof": "p", "resident_bytes": 0}
    return Cold.model_validate({**plain, "file_bytes": 1_000_000, **keys})


@pytest.mark.parametrize(
    ("device", "stored", "got"),
    [
        (1_000_000, None, Temperature.COLD),
        (950_000, None, Temperature.COLD),
        (949_999, None, Temperature.LUKEWARM),
        (0, None, Temperature.LUKEWARM),
        (500_000, 500_000, Temperature.COLD),
        (400_000, 500_000, Temperature.LUKEWARM),
    ],
)
def test_cold_needs_the_bytes_from_the_device(
    device: int, stored: int | None, got: Temperature
) -> None:
    """Fewer than 95 % of what is on the disk means that another cache has served the rest."""
    done = temperature.finish(cold_of(stored_bytes=stored), device)

    assert (done.got, done.device_bytes) == (got, device)
    assert bool(done.why) == (got is Temperature.LUKEWARM)


@pytest.mark.parametrize(
    ("disks", "got"), [(960_000, Temperature.COLD), (900_000, Temperature.LUKEWARM)]
)
def test_cold_needs_the_bytes_from_the_disks_beneath_the_device(
    disks: int, got: Temperature
) -> None:
    """A loop device delivers what is in memory beneath it as well: its disks must have read it."""
    done = temperature.finish(cold_of(), 1_000_000, 1_000_000, disk_bytes=disks)

    assert done.got is got
    assert done.missing_bytes == (0 if got is Temperature.COLD else 100_000)
    assert ("beneath the device" in done.why) == (got is Temperature.LUKEWARM)


def test_what_came_from_elsewhere_is_kept() -> None:
    """A read that is cold by the rule says how much of it no device gave to those who read."""
    done = temperature.finish(cold_of(), 1_000_000, 970_000)

    assert (done.got, done.missing_bytes) == (Temperature.COLD, 30_000)


@pytest.mark.parametrize(
    ("own", "got"),
    [(None, Temperature.UNKNOWN), (1_000_000, Temperature.COLD), (500_000, Temperature.LUKEWARM)],
)
def test_a_device_that_others_read_proves_nothing_by_itself(
    own: int | None, got: Temperature
) -> None:
    """Half was in memory and others read as much: only the readers' own account tells it."""
    done = temperature.finish(cold_of(), 2_000_000, own)

    assert done.got is got
    assert bool(done.why) == (got is not Temperature.COLD)


@pytest.mark.parametrize(
    ("own", "got"), [(500_000, Temperature.COLD), (400_000, Temperature.LUKEWARM)]
)
def test_no_device_delivers_more_than_is_on_the_disk(own: int, got: Temperature) -> None:
    """A server counted reads of pages that were reserved and never written."""
    done = temperature.finish(cold_of(stored_bytes=500_000), 600_000, own, needed_bytes=700_000)

    assert done.got is got


def test_a_server_without_a_cache_reads_what_is_on_the_disk_twice() -> None:
    """What it read itself is no doubt about the reads of others."""
    done = temperature.finish(cold_of(stored_bytes=500_000), 1_000_000, needed_bytes=1_000_000)

    assert done.got is Temperature.COLD


def test_an_unknown_device_changes_nothing() -> None:
    """Where the device is not counted, residency is the proof."""
    assert temperature.finish(cold_of(), None) == cold_of()


def test_lukewarm_stays_lukewarm() -> None:
    """The device's bytes can take the name cold away, never give it."""
    before = cold_of(got="lukewarm", resident_bytes=500_000, why="because")

    done = temperature.finish(before, 2_000_000)

    assert (done.got, done.why) == (Temperature.LUKEWARM, "because")


@pytest.mark.parametrize(
    ("device", "own", "got"),
    [
        (900_000, 0, Temperature.HOT),
        (50_000, None, Temperature.HOT),
        (60_000, 60_000, Temperature.LUKEWARM),
        (60_000, None, Temperature.UNKNOWN),
        (None, None, Temperature.HOT),
    ],
)
def test_hot_needs_that_no_byte_came_from_the_device(
    device: int | None, own: int | None, got: Temperature
) -> None:
    """What is dropped after the proof, or read around the page cache, takes the name hot away."""
    before = cold_of(asked="hot", got="hot", resident_bytes=1_000_000)

    done = temperature.finish(before, device, own)

    assert done.got is got
    assert bool(done.why) == (got is not Temperature.HOT)


def test_residency_agrees_with_fincore(files: list[Path]) -> None:
    """util-linux counts the same bytes."""
    page_cache.forget(files[0])
    command: list[str | Path] = ["fincore", "--bytes", "--noheadings", "--output", "RES", *files]
    if shutil.which("fincore") is None:
        pytest.skip("fincore is not there")
    with held(*files[1:]):
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

        assert residency(files).resident_bytes == sum(map(int, said.split())) == 9 * FILE_BYTES
