"""Flush the table to disk, and prove that nothing of it is left to write.

Rows are frozen first: otherwise the first reader would write their hint bits.  Then follow a
checkpoint and an fsync of every file and folder.  After that, no buffer of the server and no page
of the kernel may be dirty.
"""

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
from replayer.model import Better, StepSpec
from replayer.run.context import Context
from replayer.tables import buffers as owned
from replayer.tables import parallel, persons, relations
from replayer.tables.persons import BuildState

HAS_WINDOW = False
"""A flush does not count operations."""
_VACUUM = VerbName("{layout}/vacuum")
_VACUUM_ALL = VerbName("{layout}/vacuum_all")
_VACUUM_TABLE = VerbName("table/vacuum")
_FLUSH = VerbName("flush")
_DIRTY = VerbName("dirty")
_AGAIN = 2
"""Flushes after the first: a server's own housekeeping writes to its dictionary at any time.

On another user's server there are none: each flush is a load for all its users.
"""
_TRIES = 40
_PAUSE_SECONDS = 0.25


class Spec(StepSpec):
    """The keys of a flush step: none except those of every step."""


@dataclass(frozen=True, slots=True)
class _Left:
    """Data that is not on disk yet; None where it could not be counted (`why` has the reasons)."""

    buffers: int | None
    pages_bytes: int | None
    why: tuple[str, ...]

    @property
    def clean(self) -> bool:
        """Return whether nothing is left of what could be counted."""
        return not self.buffers and not self.pages_bytes

    @property
    def proven(self) -> bool:
        """Return whether everything was counted and nothing is left."""
        return self.buffers == 0 and self.pages_bytes == 0


def run(_spec: Spec, context: Context) -> None:
    """Flush, and prove it."""
    findings = context.findings
    findings.writes = True
    with context.database() as database:
        state = persons.needs(database)
        before = _wal(database)
        begun = time.monotonic_ns()
        _vacuum(state, context, database)
        database.execute(_FLUSH)
        files, why_not = _files(context, database)
        _sync(files)
        elapsed = (time.monotonic_ns() - begun) / 1e9
        after = _wal(database)
        most = _AGAIN if context.server.can_stop else 0
        left, again = _settled(database, files, why_not, most)
    findings.facts |= {
        "proven": left.proven,
        "buffers.dirty": left.buffers,
        "pages.dirty_bytes": left.pages_bytes,
        "files": len(files) if files is not None else None,
    }
    if before is not None and after is not None:
        findings.facts["wal_bytes"] = after - before
    findings.measure("flush.elapsed", elapsed, "s", Better.LESS)
    findings.notes += _notes(left)
    if again:
        more = "once more" if again == 1 else f"{again} times more"
        findings.notes.append(
            f"flushed {more}, as something was dirty after it; the time is of the first"
        )


def _wal(database: Database) -> int | None:
    verb = database.engine.verb(persons.WAL)
    return database.number(verb) if verb is not None else None


def _vacuum(state: BuildState, context: Context, database: Database) -> None:
    """Freeze every segment, and gather the statistics that the planner needs."""
    layout = state.shape.layout
    verb = database.engine.verb(_VACUUM.of(layout=layout))
    if verb is not None:
        segments = persons.segments(database)
        work = [verb.statements(segment=segment.number) for segment in segments]
        with context.progress.task("vacuum", total=len(work)) as task:
            for done in parallel.execute(database, work, len(os.sched_getaffinity(0))):
                task.advance(done)
    persons.told(database, _VACUUM_ALL.of(layout=layout))
    persons.told(database, _VACUUM_TABLE)


def _files(context: Context, database: Database) -> tuple[list[Path] | None, str]:
    """Return the table's files, or why they cannot be reached."""
    folder = context.server.data_directory()
    if folder is None:
        return None, context.server.explain_missing_files().why
    return relations.files(database, folder), ""


def _sync(files: Iterable[Path] | None) -> None:
    """Write every file, and the folders of the files, to the disk with fsync."""
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


def _settled(
    database: Database, files: list[Path] | None, why_not: str, most: int
) -> tuple[_Left, int]:
    """Return what is left after up to `most` more flushes, and how many of these were needed."""
    again = 0
    left = _waited_for(database, files, why_not)
    while not left.clean and again < most:
        again += 1
        database.execute(_FLUSH)
        _sync(files)
        left = _waited_for(database, files, why_not)
    return left, again


def _waited_for(database: Database, files: list[Path] | None, why_not: str) -> _Left:
    """Return what is left once the writes in progress are over."""
    left = _left(database, files, why_not)
    for _ in range(_TRIES):
        if left.clean:
            break
        time.sleep(_PAUSE_SECONDS)
        left = _left(database, files, why_not)
    return left


def _left(database: Database, files: list[Path] | None, why_not: str) -> _Left:
    buffers, why_buffers = owned.counted(database, _DIRTY, "dirty")
    pages, why_pages = (None, why_not) if files is None else _dirty_pages(files)
    return _Left(buffers, pages, tuple(why for why in (why_buffers, why_pages) if why))


def _dirty_pages(files: list[Path]) -> tuple[int | None, str]:
    """Return the bytes of dirty pages and of pages being written, or None and the reason."""
    pages = residency(files)
    if pages.dirty_bytes is None or pages.writeback_bytes is None:
        return None, pages.why or (
            "cachestat (Linux 6.5), which tells the pages that are dirty, does not see those of "
            "this file system"
            if page_cache.has_cachestat()
            else "this kernel does not tell which pages are dirty (Linux 6.5 does)"
        )
    return pages.dirty_bytes + pages.writeback_bytes, ""


def _notes(left: _Left) -> list[str]:
    if left.proven:
        return []
    notes = [f"not proven to be on disk: {why}" for why in left.why]
    if left.buffers:
        notes.append(f"{left.buffers:,} buffers are still dirty in the server")
    if left.pages_bytes:
        notes.append(f"{left.pages_bytes:,} bytes of the table are still dirty in the page cache")
    return notes
