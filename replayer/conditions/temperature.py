"""Make the data cold, or hot, and prove how much of it is in the page cache."""

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from replayer.errors import ReplayerError, Skip
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.machine.page_cache import Pages
from replayer.model import Cold, Temperature
from replayer.servers.protocol import Server
from replayer.units import show_size

COLD_SHARE = 0.001
"""At most this share of the bytes is in memory where data is called cold: a page or two of a large
table, which a stopping server or the proof itself has touched, do not make it lukewarm."""
HOT_SHARE = 0.999
"""At least this share of the bytes is in memory where data is called hot."""
DEVICE_SHARE = 0.95
"""At least this share of the bytes must have come from the device where a read is called cold."""
_TRIES = 3
_WARMERS = 4
_DROP_CACHES = "proc/sys/vm/drop_caches"
_EVERYTHING = "3"


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
        (page_cache.cachestat, "cachestat")
        if page_cache.has_cachestat()
        else (page_cache.mincore, "mincore")
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


def make(
    asked: Temperature, server: Server | None, files: Sequence[str | Path], host: Host
) -> Cold:
    """Bring files to a temperature and return the one they got, measured, in ClickBench's words.

    cold: server stopped, or its buffers emptied where it is not replayer's; everything written out,
    caches dropped.  lukewarm: the same with the server running and its buffers as they are.
    hot: every file read into memory.  unknown: nothing is done.  Where a right is missing, what
    remains is done, and `method` and `why` tell what could not be.  `server` is None for files that
    belong to no server.
    """
    if asked is Temperature.HOT:
        warm(files)
        return _judge(asked, ("every file read",), residency(files), others=True)
    if asked is Temperature.UNKNOWN:
        return _judge(asked, ("left as found",), residency(files), others=True)
    steps, others = [], server is not None
    if server is not None and asked is Temperature.COLD:
        try:
            server.stop()
            steps.append("server stopped")
            others = False
        except Skip as skip:
            steps.append(f"server not stopped ({skip})")
            try:
                steps.append(server.evict())
                others = False
            except Skip as no_way:
                steps.append(f"its buffers not emptied ({no_way})")
    for _ in range(_TRIES):
        dropped = drop(files, host)
        found = residency(files)
        if found.share is None or found.share <= COLD_SHARE:
            break
    if _drop_all(host) == "":
        # The proof has opened every file: directory entries and inodes are in memory again.
        dropped += ", proven, dropped again"
    return _judge(asked, (*steps, dropped), found, others=others)


def drop(files: Iterable[str | Path], host: Host) -> str:
    """Write dirty pages out and drop what is cached; return in words what was done.

    With the right to do it the whole machine's caches are dropped, else those of the files.
    """
    refused = _drop_all(host)
    if not refused:
        return "sync, drop_caches"
    unread = 0
    for path in files:
        try:
            page_cache.forget(path)
        except FileNotFoundError:
            continue
        except OSError:
            unread += 1
    left = f", but {unread} of them could not be opened" if unread else ""
    return (
        f"fdatasync and POSIX_FADV_DONTNEED of every file{left} (drop_caches: {refused}; "
        f"directory entries and inodes stay in memory)"
    )


def warm(files: Iterable[str | Path]) -> None:
    """Read all files into the page cache; one that has vanished is passed over.

    Raises ReplayerError with the name of a file that cannot be read.
    """
    with ThreadPoolExecutor(_WARMERS) as pool:
        # Not lazily: the first failure must come out here.
        list(pool.map(_load, files))


def finish(cold: Cold, device_bytes: float | None, stored_bytes: int | None = None) -> Cold:
    """Return the coldness after the read: a cold one needs that the device delivered the bytes.

    `device_bytes` were read from the device in the window, None if that was not counted.
    `stored_bytes` is what the files take on the disk, if that is less than their size.
    """
    if device_bytes is None:
        return cold
    known = cold.model_copy(update={"device_bytes": int(device_bytes)})
    expected = cold.file_bytes or 0 if stored_bytes is None else stored_bytes
    if cold.got is not Temperature.COLD or device_bytes >= DEVICE_SHARE * expected:
        return known
    why = (
        f"the device delivered {show_size(device_bytes)} of {show_size(expected)}: the rest came "
        f"from a cache that is not the page cache, or is stored compressed"
    )
    return known.model_copy(update={"got": Temperature.LUKEWARM, "why": why})


def _judge(asked: Temperature, steps: Sequence[str], found: Residency, *, others: bool) -> Cold:
    """Return what residency says; with `others`, a running server may hold the data as well."""
    got, why = _temperature(found, others=others)
    if got is asked:
        why = ""
    elif found.share is not None and not why:
        why = f"{100 * found.share:.3g} % of the bytes were in the page cache"
    return Cold(
        asked=asked,
        got=got,
        method=", ".join(steps),
        proof=found.method,
        resident_bytes=found.resident_bytes,
        file_bytes=found.file_bytes,
        why=why,
    )


def _temperature(found: Residency, *, others: bool) -> tuple[Temperature, str]:
    if found.resident_bytes is None:
        return Temperature.UNKNOWN, found.why
    if found.share is None:
        return Temperature.UNKNOWN, "the files have no bytes"
    if found.share >= HOT_SHARE:
        return Temperature.HOT, ""
    if found.share > COLD_SHARE:
        return Temperature.LUKEWARM, ""
    if others:
        return Temperature.LUKEWARM, "the server was not stopped, and has a cache of its own"
    return Temperature.COLD, ""


def _drop_all(host: Host) -> str:
    """Drop the machine's caches; return "" or what the system says to it."""
    refused = host.cannot_write(_DROP_CACHES)
    if refused:
        return refused
    os.sync()
    try:
        host.write(_DROP_CACHES, _EVERYTHING)
    except OSError as error:
        return str(error.strerror)
    return ""


def _load(path: str | Path) -> None:
    try:
        page_cache.load(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ReplayerError(f"{path} could not be read: {error.strerror}") from error
