"""Memory beneath a file system, which may hold the data of its files unseen by `residency`.

A loop device stores its data in another file, which may be in the page cache.  A zram device stores
its data in memory.  The page cache of a file on such a device shows neither.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replayer.conditions.residency import resident_in
from replayer.machine import extents, page_cache, stack
from replayer.machine.host import Host
from replayer.machine.page_cache import FileExtent
from replayer.machine.stack import BackingFile, Stack

_PAGE = page_cache.PAGE


@dataclass(frozen=True, slots=True)
class Underneath:
    """The amount of some files' data in the page cache beneath their file system.

    `why` is the reason if the amount is not known, else "".
    """

    stack: Stack
    resident_bytes: int = 0
    """Bytes in the page cache of the backing files, which store the data of loop devices."""
    exact: bool = True
    """True if only those parts of the backing files are counted that store the files' data.
    Otherwise at least one backing file is counted as a whole."""
    files: tuple[str, ...] = ()
    """The backing files, each with its loop device, as text."""
    why: str = ""


def stack_of(files: Iterable[str | Path], host: Host) -> Stack:
    """Return the stack of devices beneath files.

    Only the folders of the files are looked up, not each file.
    """
    return stack.beneath(host, sorted({Path(file).parent for file in files}))


def forget(stack_below: Stack) -> None:
    """Drop the files beneath loop devices from the page cache; skip those that cannot be opened."""
    for backing in stack_below.files:
        try:
            page_cache.forget(backing.path)
        except OSError:
            continue


def disk_bytes(stack_below: Stack, host: Host) -> int | None:
    """Return the bytes read since boot from the disks on which loop devices store their data.

    Returns None if they are not counted, and if there are no loop devices.
    """
    return stack.read_bytes(host, stack_below.disks) if stack_below.files else None


def look(files: Sequence[str | Path], stack_below: Stack) -> Underneath:
    """Return how much of the files' data is in the page cache of files beneath loop devices.

    `stack_below` is the stack of devices beneath the files.
    """
    if not stack_below.files:
        return Underneath(stack_below)
    places = _places(files)
    resident, exact, words = 0, True, []
    for backing in stack_below.files:
        ranges = _ranges(backing, stack_below.files, places)
        within, why = resident_in(backing.path, ranges)
        if within is None:
            return Underneath(
                stack_below,
                why=f"the files are on {backing.device} over {backing.path}, and how much of that "
                f"is in memory is not known ({why})",
            )
        resident, exact = resident + within, exact and ranges is not None
        words.append(f"{backing.path} beneath {backing.device}")
    return Underneath(stack_below, resident, exact, tuple(words))


def _places(files: Iterable[str | Path]) -> Mapping[int, list[FileExtent] | None]:
    """Return number of a device -> the segments of that device in which the files have their data.

    The segments are None if they are not known.  Files that cannot be opened are left out.
    """
    places: defaultdict[int, list[FileExtent] | None] = defaultdict(list)
    for path in files:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            number = os.fstat(fd).st_dev
            known, more = places[number], extents.on_device(fd)
            places[number] = None if known is None or more is None else known + more
        finally:
            os.close(fd)
    return places


def _ranges(
    backing: BackingFile,
    every: Sequence[BackingFile],
    places: Mapping[int, list[FileExtent] | None],
) -> list[FileExtent] | None:
    """Return the segments of a backing file in which a loop device stores the files' data.

    A backing file is an ordinary file that a loop device presents as a disk.  `every` are all
    backing files beneath the files.  `places` is number of a device -> the segments of that device
    in which the files have their data.  Returns None if the segments are not known.
    """
    # With several devices, the device of each file is not known here.
    if backing.offset is None or len(every) > 1 or len(places) != 1:
        return None
    (segments,) = places.values()
    if segments is None:
        return None
    return _merged(FileExtent(backing.offset + place, length) for place, length in segments)


def _merged(segments: Iterable[FileExtent]) -> list[FileExtent]:
    """Return the segments extended to whole pages, sorted and without overlaps.

    Files may share blocks, so that the same segment may occur twice.
    """
    merged: list[FileExtent] = []
    for offset, length in sorted(segments):
        begin = offset - offset % _PAGE
        end = -(-(offset + length) // _PAGE) * _PAGE
        if merged and begin <= merged[-1].offset + merged[-1].length:
            last = merged.pop()
            begin, end = last.offset, max(end, last.offset + last.length)
        merged.append(FileExtent(begin, end - begin))
    return merged
