"""The part of a table that is not on the disk yet: buffers of the server, pages of the kernel."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError
from replayer.machine import page_cache
from replayer.tables import buffers as owned

_FLUSH = VerbName("flush")
_DIRTY = VerbName("dirty")
_AGAIN = 2
"""Most flushes after the first one: the server's own housekeeping may write at any time.

There is no further flush on another user's server: each flush is a load for all its users.
"""
_TRIES = 40
_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Amounts of data that is not on disk yet; None if not counted, for the reasons in `why`.

    `buffers` is the number of dirty buffers of the server.  `pages_bytes` are the bytes in the
    page cache that are dirty or being written.
    """

    buffers: int | None
    pages_bytes: int | None
    why: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Return whether no unwritten data is left, as far as it could be counted."""
        return not self.buffers and not self.pages_bytes

    @property
    def proven(self) -> bool:
        """Return whether everything was counted and nothing is left."""
        return self.buffers == 0 and self.pages_bytes == 0


def sync(files: Iterable[Path] | None) -> None:
    """Write every file, and the folders of the files, to the disk with fsync; None means none.

    A file that is gone is left out.  Raises ReplayerError if one cannot be opened or written.
    """
    synced = list(files or ())
    for path in (*synced, *sorted({path.parent for path in synced})):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ReplayerError(f"{path} cannot be flushed: {error.strerror}") from error
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise ReplayerError(f"{path} cannot be flushed: {error.strerror}") from error
        finally:
            os.close(descriptor)


def settle(
    database: Database, files: list[Path] | None, why_not: str, *, may_flush: bool
) -> tuple[Unwritten, int]:
    """Wait until a table is on disk; return the data still unwritten, and the number of flushes.

    A wait ends after about 10 seconds.  As long as something is left, flush the data and wait
    again, at most twice, but only if `may_flush` is True.  `files` are the table's.  If that is
    None, their dirty pages in memory cannot be counted, for the reason `why_not`.
    """
    again, most = 0, _AGAIN if may_flush else 0
    left = _waited_for(database, files, why_not)
    while not left.clean and again < most:
        again += 1
        database.execute(_FLUSH)
        sync(files)
        left = _waited_for(database, files, why_not)
    return left, again


def _waited_for(database: Database, files: list[Path] | None, why_not: str) -> Unwritten:
    """Wait until no data is unwritten, for at most about 10 seconds; return the data that is."""
    left = _left(database, files, why_not)
    for _ in range(_TRIES):
        if left.clean:
            break
        time.sleep(_PAUSE_SECONDS)
        left = _left(database, files, why_not)
    return left


def _left(database: Database, files: list[Path] | None, why_not: str) -> Unwritten:
    buffers, why_buffers = owned.counted(database, _DIRTY, "dirty")
    pages, why_pages = (None, why_not) if files is None else _dirty_pages(files)
    return Unwritten(buffers, pages, tuple(why for why in (why_buffers, why_pages) if why))


def _dirty_pages(files: list[Path]) -> tuple[int | None, str]:
    """Return the bytes of dirty pages and of pages being written, or None and the reason."""
    pages = residency(files)
    if pages.dirty_bytes is None or pages.writeback_bytes is None:
        return None, pages.why or (
            "cachestat (Linux 6.5), which tells the pages that are dirty, does not see those of "
            "this file system"
            if page_cache.has_cachestat()
            else "this kernel does not report which pages are dirty (Linux 6.5 does)"
        )
    return pages.dirty_bytes + pages.writeback_bytes, ""
