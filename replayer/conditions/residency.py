"""Residency: how many bytes of files are in the page cache, counted by a proven instrument.

The instruments are the system calls cachestat and mincore.  cachestat counts the pages of an inode.
On overlayfs the pages belong to the inode of the lower file system, so that cachestat reports 0
although everything is in memory.  mincore reports a file as fully in memory if the caller has no
right to know.  So on each file system an instrument must first see a page that was just read, and
then not see pages that were just dropped.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from replayer.machine import page_cache
from replayer.machine.page_cache import FileExtent, Pages

_CANDIDATES = 5
_TRIES = 3
"""Attempts, because another process may drop or read the same page in between."""
_SECTOR = 512

Ask = Callable[[int, Sequence[FileExtent]], Pages]


@dataclass(frozen=True, slots=True)
class Residency:
    """Sizes of some files, and how many of their bytes are in the page cache.

    Two paths to the same file count once.  A number is None if it could not be measured.
    """

    file_bytes: int
    """The files' sizes."""
    data_bytes: int
    """Of these, the bytes of data: no holes, and no preallocated space that was never written."""
    stored_bytes: int
    """Bytes of the data on the disk; less than `data_bytes` if the file system compresses them."""
    resident_bytes: int | None
    """Of `data_bytes`, the bytes in the page cache."""
    dirty_bytes: int | None
    """Bytes in the page cache that were changed and have not been written to the disk yet."""
    writeback_bytes: int | None
    """Bytes in the page cache that are just being written to the disk."""
    method: str
    """cachestat or mincore, or both on different file systems; "" if none could be used."""
    why: str = ""
    """Reason for what could not be measured; "" if everything was measured."""
    sees: bool = True
    """True if the instrument counted a page that was just read.  Otherwise a low value does not
    prove that the data are cold."""
    misses: bool = True
    """True if the instrument did not count pages that were just dropped.  Otherwise a high value
    does not prove that the data are hot."""

    @property
    def share(self) -> float | None:
        """Return resident bytes / bytes of data; None if not known, or if there is no data."""
        if self.resident_bytes is None or not self.data_bytes:
            return None
        return self.resident_bytes / self.data_bytes


class _Instrument(NamedTuple):
    """A system call that counts pages in memory, and the result of its test on one file system.

    `sees`: it counted a page that was just read.  `misses`: it did not count pages that were just
    dropped.
    """

    name: str
    ask: Ask
    sees: bool = False
    misses: bool = False


@dataclass
class _Sum:
    """Sums of sizes and pages over the files that were measured so far."""

    file_bytes: int = 0
    data_bytes: int = 0
    stored_bytes: int = 0
    pages: list[Pages] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Path and reason of the files that could not be measured."""


_proven: dict[int, _Instrument] = {}
"""Number of a file system's device -> the instrument that works on it."""


def prove(paths: Iterable[str | Path]) -> None:
    """Find a system call that counts cached pages correctly, for each file system of these files.

    A file system that was tested before is skipped.  The test reads small files and drops them from
    the page cache: so call this function before caches are emptied.
    """
    _instruments(_inodes(paths))


def residency(paths: Iterable[str | Path]) -> Residency:
    """Return how many bytes of these files are in the page cache; a vanished file counts as 0.

    They are counted with cachestat(2) or mincore(2), whichever is proven to work on the files' file
    system.  If one file cannot be measured, the total is None: the kernel refuses (EPERM) files
    that the user neither owns nor may write.
    """
    inodes = _inodes(paths)
    first = {number: _proven.get(number) or _ways()[0] for number in inodes}
    total = _measured(inodes, first)
    # A proof writes out and drops pages, so the pages are counted before it.
    chosen = _instruments(inodes)
    if any(chosen[number].name != first[number].name for number in inodes):
        total = _measured(inodes, chosen)
    return _result(total, list(chosen.values()))


def resident_in(path: str | Path, segments: Sequence[FileExtent] | None) -> tuple[int | None, str]:
    """Return the number of bytes of a file's segments that are in the page cache, and "".

    If that cannot be measured, returns None and the reason.  `segments` is None for the whole file;
    segments may reach beyond the file's end.
    """
    instruments = list(_instruments(_inodes([path])).values())
    try:
        with _opened(path) as (fd, stored):
            end = os.fstat(fd).st_size
            asked = stored if segments is None else _within(segments, end)
            resident = instruments[0].ask(fd, asked).resident if asked else 0
    except (OSError, IndexError) as error:
        return None, getattr(error, "strerror", "") or "it is not there"
    if not instruments[0].sees:
        return None, _blind([instruments[0].name])
    return resident, ""


def _within(segments: Iterable[FileExtent], end: int) -> list[FileExtent]:
    """Return the parts of segments before the end of a file, which is at `end` bytes."""
    return [
        FileExtent(offset, min(length, end - offset)) for offset, length in segments if offset < end
    ]


def _measured(
    inodes: Mapping[int, Mapping[int, str | Path]], instruments: Mapping[int, _Instrument]
) -> _Sum:
    total = _Sum()
    for number, members in inodes.items():
        for path in members.values():
            _add(total, path, instruments[number].ask)
    return total


def _inodes(paths: Iterable[str | Path]) -> dict[int, dict[int, str | Path]]:
    """Return number of a file system -> inode number -> one path of that inode, for these files.

    Files that do not exist are left out.
    """
    inodes: defaultdict[int, dict[int, str | Path]] = defaultdict(dict)
    for path in paths:
        try:
            about = Path(path).stat()
        except FileNotFoundError:
            continue
        except OSError:
            # Opening it fails as well, and that failure is reported.
            inodes[0][-len(inodes[0]) - 1] = path
            continue
        inodes[about.st_dev][about.st_ino] = path
    return inodes


def _add(total: _Sum, path: str | Path, ask: Ask) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        total.refused.append(f"{path}: {error.strerror}")
        return
    try:
        about = os.fstat(fd)
        total.file_bytes += about.st_size
        segments = page_cache.stored(fd, about.st_size)
        data_bytes = sum(segment.length for segment in segments)
        total.data_bytes += data_bytes
        total.stored_bytes += min(data_bytes, about.st_blocks * _SECTOR)
        total.pages.append(ask(fd, segments))
    except PermissionError:
        total.refused.append(f"{path}: it is neither ours nor writable")
    except OSError as error:
        total.refused.append(f"{path}: {error.strerror}")
    finally:
        os.close(fd)


def _result(total: _Sum, used: Sequence[_Instrument]) -> Residency:
    sizes = (total.file_bytes, total.data_bytes, total.stored_bytes)
    if total.refused:
        why = (
            f"the page cache cannot be asked about {len(total.refused)} files "
            f"(the first is {total.refused[0]})"
        )
        return Residency(*sizes, None, None, None, "", why)
    names = sorted({instrument.name for instrument in used})
    sees = all(one.sees for one in used)
    tells_dirty = names == ["cachestat"] and sees
    resident = sum(pages.resident for pages in total.pages)
    return Residency(
        *sizes,
        resident,
        _sum(pages.dirty for pages in total.pages) if tells_dirty else None,
        _sum(pages.writeback for pages in total.pages) if tells_dirty else None,
        " and ".join(names),
        why="" if sees else _blind(names),
        sees=sees,
        # A file with some absent pages proves it as well.
        misses=0 < resident < total.data_bytes or all(one.misses for one in used),
    )


def _blind(names: Sequence[str]) -> str:
    ways = " nor ".join(names) if len(names) > 1 else "cachestat nor mincore"
    return (
        f"neither {ways} sees a page of these files that was just read, so that nothing they say "
        f"of this file system is a proof"
    )


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)


# The proof


def _instruments(inodes: dict[int, dict[int, str | Path]]) -> dict[int, _Instrument]:
    """Return number of a file system -> the instrument (system call) that counts its cached pages.

    `inodes` is number of a file system -> inode number -> a path of that inode.  A file system
    without a proven instrument is tested now.
    """
    return {
        number: _proven.get(number) or _chosen(number, list(members.values()))
        for number, members in inodes.items()
    }


def _chosen(number: int, paths: Sequence[str | Path]) -> _Instrument:
    """Return the best instrument (system call that counts pages in memory) for a file system.

    It is the first one that counts pages that were just read, and does not count pages that were
    just dropped.  If none does both, it is one that passes the first test, else one that passes the
    second.  `number` is the number of the file system, `paths` are files on it.
    """
    tried = []
    for name, ask, _, _ in _ways():
        sees, misses = _seen(ask, _smallest(paths))
        tried.append(_Instrument(name, ask, sees, misses))
        if sees and misses:
            _proven[number] = tried[-1]
            break
    return max(tried, key=lambda one: (one.sees, one.misses))


def _ways() -> list[_Instrument]:
    """Return the system calls of this kernel that count pages in memory, as untested instruments.

    cachestat, which reports more, comes before mincore.
    """
    ways = [_Instrument("mincore", page_cache.mincore)]
    if page_cache.has_cachestat():
        ways.insert(0, _Instrument("cachestat", page_cache.cachestat))
    return ways


def _smallest(paths: Sequence[str | Path]) -> list[str | Path]:
    """Return the smallest of these files that have data, as files for the test of an instrument.

    The test reads them and drops them from the page cache.
    """
    sizes = []
    for path in paths:
        try:
            about = Path(path).stat()
        except OSError:
            continue
        if S_ISREG(about.st_mode) and about.st_size and about.st_blocks:
            sizes.append((about.st_size, str(path), path))
    return [path for _, _, path in sorted(sizes, key=lambda one: one[:2])[:_CANDIDATES]]


def _seen(ask: Ask, paths: Sequence[str | Path]) -> tuple[bool, bool]:
    """Test `ask`, a system call that counts pages in memory, on some files.

    Returns whether it counted a page that was just read, and whether it did not count pages that
    were just dropped.  Each file is tried a few times, until both were true once.
    """
    sees = misses = False
    for path in paths:
        for _ in range(_TRIES):
            try:
                with _opened(path) as (fd, segments):
                    sees_, misses_ = _read_and_dropped(ask, fd, segments)
            except OSError:
                break
            sees, misses = sees or sees_, misses or misses_
            if sees and misses:
                return sees, misses
    return sees, misses


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[int, list[FileExtent]]]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd, page_cache.stored(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def _read_and_dropped(ask: Ask, fd: int, segments: Sequence[FileExtent]) -> tuple[bool, bool]:
    """Read a page of a file, then drop the file from the page cache, and count its pages each time.

    `ask` counts the pages.  Returns whether it counted the page that was read, and whether it no
    longer counted all pages after the drop.  If the whole file was in memory before, it is read
    again at the end.
    """
    if not segments:
        return False, False
    data_bytes = sum(segment.length for segment in segments)
    first = FileExtent(segments[0].offset, min(segments[0].length, page_cache.PAGE))
    before = ask(fd, segments).resident
    os.pread(fd, 1, first.offset)
    sees = ask(fd, [first]).resident > 0
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    misses = ask(fd, segments).resident < data_bytes
    if before == data_bytes:
        for offset, length in segments:
            _fill(fd, offset, length)
    return sees, misses


def _fill(fd: int, offset: int, length: int) -> None:
    """Read a segment into the page cache."""
    end = offset + length
    while offset < end:
        read = len(os.pread(fd, min(1 << 20, end - offset), offset))
        if not read:
            return
        offset += read
