"""Make the data cold, or hot, and prove how much of it is in the page cache."""

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from replayer import pages
from replayer.pages import Pages


@dataclass(frozen=True, slots=True)
class Residency:
    """Bytes of some files in the page cache; None is what could not be measured."""

    file_bytes: int
    resident_bytes: int | None
    dirty_bytes: int | None
    writeback_bytes: int | None
    method: str
    """cachestat or mincore; "" if neither could be used."""
    why: str = ""
    """What could not be measured, and why; "" if everything was."""

    @property
    def share(self) -> float | None:
        """Return resident bytes / file bytes, or None if that is not known."""
        if self.resident_bytes is None or not self.file_bytes:
            return None
        return self.resident_bytes / self.file_bytes


def residency(paths: Iterable[str | Path]) -> Residency:
    """Return how much of these files is in the page cache; a file that has vanished counts nothing.

    Measured with cachestat(2), else mincore(2).  If one file cannot be measured, nothing is
    claimed of all: the kernel refuses (EPERM) for files that are neither ours nor writable.
    """
    ask, method = (
        (pages.cachestat, "cachestat") if pages.has_cachestat() else (pages.mincore, "mincore")
    )
    size, refused, first = 0, 0, ""
    found: list[Pages] = []
    for path in paths:
        try:
            bytes_, seen = _one(path, ask)
        except FileNotFoundError:
            continue
        size += bytes_
        if isinstance(seen, Pages):
            found.append(seen)
        else:
            refused += 1
            first = first or f"{path}: {seen}"
    if refused:
        why = f"the page cache cannot be asked about {refused} files (the first is {first})"
        return Residency(size, None, None, None, "", why)
    return Residency(
        size,
        sum(seen.resident for seen in found),
        _sum(seen.dirty for seen in found) if method == "cachestat" else None,
        _sum(seen.writeback for seen in found) if method == "cachestat" else None,
        method,
    )


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)


def _one(path: str | Path, ask: Callable[[int, int], Pages]) -> tuple[int, Pages | str]:
    """Return a file's size and its pages, or why they are not known."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        return _size(path), str(error.strerror)
    try:
        size = os.fstat(fd).st_size
        return size, ask(fd, size)
    except OSError as error:
        if error.errno == errno.EPERM:
            return size, "it is neither ours nor writable"
        return size, str(error.strerror)
    finally:
        os.close(fd)


def _size(path: str | Path) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
