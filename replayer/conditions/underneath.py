"""Memory beneath a file system that holds data of its files, where residency cannot see it.

A file on a loop device may be in memory as a part of the file beneath that device, and a file on
zram always is.  The page cache of the file itself shows neither.
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
    """The memory beneath some files, as far as it is known; `why` is the reason for the rest."""

    stack: Stack
    resident_bytes: int = 0
    """Bytes in memory of files beneath loop devices."""
    exact: bool = True
    """True if the files' own parts of those files are known; otherwise all of those files is
    counted."""
    files: tuple[str, ...] = ()
    """Those files, each with its device, as text."""
    why: str = ""


def stack_of(files: Iterable[str | Path], host: Host) -> Stack:
    """Return the stack of devices beneath files, found by their folders, which are fewer."""
    return stack.beneath(host, sorted({Path(file).parent for file in files}))


def forget(stack_below: Stack) -> None:
    """Drop the files beneath loop devices from the page cache, as far as the user may open them."""
    for backing in stack_below.files:
        try:
            page_cache.forget(backing.path)
        except OSError:
            continue


def disk_bytes(stack_below: Stack, host: Host) -> int | None:
    """Return the bytes delivered so far by disks beneath loop devices; None if there are none.

    Without loop devices, the device that is watched is the lowest one.
    """
    return stack.read_bytes(host, stack_below.disks) if stack_below.files else None


def look(files: Sequence[str | Path], stack_below: Stack) -> Underneath:
    """Measure the memory beneath files that holds their data."""
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
    """Return device number -> the files' segments on that device; None if they are not known."""
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
    """Return the files' own segments of a file beneath a loop device, None if not known."""
    # With several devices, the device of each file is not known here.
    if backing.offset is None or len(every) > 1 or len(places) != 1:
        return None
    (segments,) = places.values()
    if segments is None:
        return None
    return _merged(FileExtent(backing.offset + place, length) for place, length in segments)


def _merged(segments: Iterable[FileExtent]) -> list[FileExtent]:
    """Return whole pages without overlaps, sorted: files may share blocks."""
    merged: list[FileExtent] = []
    for offset, length in sorted(segments):
        begin = offset - offset % _PAGE
        end = -(-(offset + length) // _PAGE) * _PAGE
        if merged and begin <= merged[-1].offset + merged[-1].length:
            last = merged.pop()
            begin, end = last.offset, max(end, last.offset + last.length)
        merged.append(FileExtent(begin, end - begin))
    return merged
