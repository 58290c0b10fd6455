"""Flush the table to disk, and prove that nothing of it is left to write.

Rows are frozen first: their visibility is marked as final.  Without that, the first reader would
write such marks.  Then follow a checkpoint and an fsync of every file and folder.  After that, no
buffer of the server and no page of the kernel may be dirty.
"""

import os
import time
from pathlib import Path

from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.model import Better, StepSpec
from replayer.run.context import Context
from replayer.tables import parallel, persons, relations, unwritten
from replayer.tables.persons import BuildState
from replayer.tables.unwritten import Unwritten
from replayer.units import show_with_noun
from replayer.watch import interference

HAS_WINDOW = False
"""A flush does not count operations, so it has no measured window."""
_VACUUM = VerbName("{layout}/vacuum")
_VACUUM_ALL = VerbName("{layout}/vacuum_all")
_VACUUM_TABLE = VerbName("table/vacuum")
_FLUSH = VerbName("flush")


class Spec(StepSpec):
    """The keys of the step `flush` in a workload file: only those that every step has."""


def run(_spec: Spec, context: Context) -> None:
    """Flush the table, record the time, and prove that nothing of it is left to write."""
    findings = context.findings
    findings.writes = True
    with context.database() as database:
        state = persons.needs(database)
        before = _wal(database)
        first = context.account()
        begun = time.monotonic_ns()
        _vacuum(state, context, database)
        with context.progress.task("flush"):
            persons.execute_if_known(database, _VACUUM_ALL.of(layout=state.shape.layout))
            persons.execute_if_known(database, _VACUUM_TABLE)
            database.execute(_FLUSH)
            files, why_not = _files(context, database)
            unwritten.sync(files)
        elapsed = (time.monotonic_ns() - begun) / 1e9
        findings.foreign = interference.judged(first, context.account())
        after = _wal(database)
        left, again = unwritten.settle(database, files, why_not, may_flush=context.server.can_stop)
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
    """Freeze the rows of each segment of the table, segments in parallel.

    A segment is a part of the table.  Nothing is done if the layout has no SQL file for that.
    """
    layout = state.shape.layout
    verb = database.engine.verb(_VACUUM.of(layout=layout))
    if verb is not None:
        segments = persons.segments(database)
        work = [verb.statements(segment=segment.number) for segment in segments]
        with context.progress.task("vacuum", total=len(work)) as task:
            for done in parallel.execute(database, work, len(os.sched_getaffinity(0))):
                task.advance(done)


def _files(context: Context, database: Database) -> tuple[list[Path] | None, str]:
    """Return (the table's files, ""), or (None, the reason why they cannot be reached)."""
    folder = context.server.data_directory()
    if folder is None:
        return None, context.server.explain_missing_files().why
    return relations.files(database, folder), ""


def _notes(left: Unwritten) -> list[str]:
    if left.proven:
        return []
    notes = [f"not proven to be on disk: {why}" for why in left.why]
    if left.buffers:
        buffers = show_with_noun(left.buffers, "buffer")
        notes.append(f"{buffers} {'is' if left.buffers == 1 else 'are'} still dirty in the server")
    if left.pages_bytes:
        notes.append(f"{left.pages_bytes:,} bytes of the table are still dirty in the page cache")
    return notes
