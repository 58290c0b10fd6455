"""The table persons1 as it is in the database: who made it, how far it was built, its segments."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replayer.engines.verbs import Verb, VerbName
from replayer.errors import Impossible

if TYPE_CHECKING:
    from replayer.engines.connection import Database
    from replayer.engines.engine import Engine

NAME = "persons1"
SEEDS = ("Jordan", "Kumar", "Duglas", "Johnson", "Petrov", "Hiraga")
"""The last names of the first six rows."""
FIRST_ID = 100
"""The id of the first row; the ids of the other five first rows follow it."""

_FOUND = VerbName("table/found")
_STATE = VerbName("table/state")
_SEGMENTS = VerbName("table/segments")
_BYTES = VerbName("table/bytes")
_FORGET = VerbName("table/forget")
_DROP = VerbName("table/drop")
_BEGIN = VerbName("begin")
_COMMIT = VerbName("commit")
_ROLLBACK = VerbName("rollback")
_UNPUBLISH = VerbName("{layout}/unpublish")
_REMOVE = VerbName("{layout}/remove")
_DISCARD = VerbName("{layout}/discard")
WAL = VerbName("wal")
"""A verb that returns the bytes of log written so far."""

_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """The table's layout, such as rowstore, its compression, and the number of rows of a segment.

    `compression` is "" for none.
    """

    layout: str
    compression: str
    segment_rows: int


@dataclass(frozen=True, slots=True)
class BuildState:
    """The progress of a build of the table.

    `doubling` is the last doubling (a copy of all rows) that is complete; None if there is none.
    `rows` is the number of rows so far, `rows_wanted` the number after the whole build.
    """

    shape: Shape
    rows_wanted: int
    doubling: int | None
    rows: int

    @property
    def whole(self) -> bool:
        """Return whether the build is finished."""
        return self.doubling is not None and self.rows >= self.rows_wanted


@dataclass(frozen=True, slots=True)
class RowRange:
    """One segment of the table: `rows` consecutive rows, from the row number `first_row` on.

    `number` is that of the segment; `doubling` is the doubling (copy of all rows) that made it.
    """

    number: int
    doubling: int
    first_row: int
    rows: int


def state(database: "Database") -> BuildState | None:
    """Return how far the table persons1 was built, or None if it does not exist.

    Raises Impossible for a table of that name that replayer did not make.
    """
    rows = database.execute(_FOUND)
    foreign = [row["name"] for row in rows if not row["ours"]]
    if foreign:
        raise Impossible(
            f"{foreign[0]} is there and was not made by replayer, so it is not touched: rename it, "
            f"or use another database"
        )
    if not rows:
        return None
    row = database.row(_STATE)
    shape = Shape(row["layout"], row["compression"], row["segment_rows"])
    return BuildState(shape, row["rows_wanted"], row["doubling"], row["rows"] or 0)


def needs(database: "Database") -> BuildState:
    """Return the state of the table persons1; raise Impossible if it is missing or incomplete."""
    built = state(database)
    if built is None or built.doubling is None:
        raise Impossible(f"there is no table {NAME}: put a build step before this one")
    if not built.whole:
        raise Impossible(
            f"the build of {NAME} was interrupted at {built.rows:,} of {built.rows_wanted:,} rows: "
            f"a build step continues it"
        )
    return built


def segments(database: "Database") -> list[RowRange]:
    """Return all segments (ranges of rows) of the table, in the order of their rows.

    Those of an unfinished doubling (a copy of all rows) are included.
    """
    return [
        RowRange(*(row.number(name) for name in ("segment", "doubling", "first_row", "rows")))
        for row in database.execute(_SEGMENTS)
    ]


def bytes_(database: "Database") -> int:
    """Return the bytes on disk of all segments of the table."""
    return database.number(_BYTES)


def drop(database: "Database", layout: str) -> None:
    """Remove the table persons1 with all its segments; `layout` is the table's layout.

    If the removal is interrupted, a build or another drop completes it.
    """
    database.execute(_FORGET)
    execute_if_known(database, _UNPUBLISH.of(layout=layout))
    discard(database, layout, segments(database))
    with transaction(database):
        execute_if_known(database, _REMOVE.of(layout=layout))
        database.execute(_DROP)


def discard(database: "Database", layout: str, unwanted: Sequence[RowRange]) -> None:
    """Remove the segments `unwanted` of the table, which has this layout.

    Up to 32 are removed in one transaction, because each commit waits for the disk.
    """
    for first in range(0, len(unwanted), _AT_ONCE):
        with transaction(database):
            for segment in unwanted[first : first + _AT_ONCE]:
                database.execute(_DISCARD.of(layout=layout), {"segment": segment.number})


def execute_if_known(
    database: "Database",
    verb: VerbName,
    holes: Mapping[str, str | int] | None = None,
    **parameters: Any,
) -> None:
    """Execute an operation (verb) of the engine; do nothing if the engine does not have it.

    `holes` are texts to fill into the SQL, and `parameters` are its bound parameters.
    """
    known_verb = database.engine.verb(verb)
    if known_verb is not None:
        database.execute(known_verb, holes, **parameters)


@contextlib.contextmanager
def transaction(database: "Database") -> Iterator[None]:
    """Make one transaction of the statements in the `with` block; roll back after an exception.

    For an engine without transactions, it does nothing.
    """
    begin, commit, rollback = transaction_verbs(database.engine)
    _execute_any(database, begin)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # report the first error, not one of the rollback
            _execute_any(database, rollback)
        raise
    _execute_any(database, commit)


def transaction_verbs(engine: "Engine") -> tuple[Verb | None, Verb | None, Verb | None]:
    """Return the engine's operations (verbs) that begin, commit and roll back a transaction.

    Each of them is None for an engine without transactions: its files of these verbs are empty.
    """
    return engine.optional(_BEGIN), engine.optional(_COMMIT), engine.optional(_ROLLBACK)


def _execute_any(database: "Database", verb: Verb | None) -> None:
    if verb is not None:
        database.execute(verb)
