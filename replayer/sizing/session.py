"""The profiler's session on the source, the server to profile: read-only, with time limits."""

from __future__ import annotations

import contextlib
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from replayer.engines import credentials, watchdog
from replayer.engines.connection import Database, Row
from replayer.errors import Impossible, nearest
from replayer.results.profile import KNOWN
from replayer.sizing.counters import SourceReading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.engines.verbs import VerbName

_ERA = ("started", "resets")
_PATIENCE = 5.0
_AT_FIRST = 4
"""Statements that SQLAlchemy executes on a new connection."""


class SourceSession:
    """One connection to the source, the server to profile; each statement is a transaction."""

    def __init__(self, engine: Engine, url: URL) -> None:
        """Connect; raise ReplayerError in one sentence if the server refuses or does not answer."""
        self.engine = engine
        self._statements = 0
        self._texts: dict[tuple[str, str], tuple[str, ...]] = {}
        where = watchdog.address(url)
        title = f"{engine.title} at {credentials.show(url)}"
        with contextlib.ExitStack() as stack:
            stack.enter_context(watchdog.watching(where, title))
            first = engine.spec.profile.statements
            self._database = stack.enter_context(
                contextlib.closing(Database(engine, url, first=first))
            )
            self._statements = len(first) + _AT_FIRST
            self._open = stack.pop_all()

    def close(self) -> None:
        """Close the connection; it may be lost already."""
        self._open.close()

    def rows(self, verb: VerbName, schema: str = "") -> list[Row]:
        """Return the rows of the engine's query for `verb`, which must be a single statement.

        `schema` replaces the placeholder of a schema in the statement.  Raise ReplayerError if the
        statement fails, and Skip if the engine does not have this query.
        """
        key = (verb, schema)
        if key not in self._texts:
            self._texts[key] = self.engine.needs(verb).statements(schema=schema)
        (statement,) = self._texts[key]
        self._statements += 1
        return self._database.fetch(statement, verb=verb)

    def reading(self, verbs: Iterable[VerbName], schema: str = "") -> SourceReading:
        """Return the totals and gauges of several queries, one for each verb, as one reading.

        `schema` replaces the placeholder of a schema in the queries.  The time of the reading is
        halfway between its begin and its end.  Raise ReplayerError if a query fails.
        """
        begin = time.monotonic()
        values: dict[str, float] = {}
        started, resets = "", []
        for verb in verbs:
            for row in self.rows(verb, schema):
                started += str(row.get("started", ""))
                resets.append(str(row.get("resets", "")))
                values |= _values(verb, row)
        end = time.monotonic()
        middle = (end - begin) / 2
        now = datetime.now(UTC).timestamp()
        return SourceReading(end - middle, now - middle, values, started, tuple(resets))

    def counted(self) -> int:
        """Return the number of statements executed since the previous call."""
        statements, self._statements = self._statements, 0
        return statements

    def answers(self) -> bool:
        """Return whether the server still answers within 5 seconds.

        If so, an error before concerned only the last statement, and not the connection.
        """
        return self._database.answers(_PATIENCE)

    def process(self) -> int:
        """Return the server's id of this session; PostgreSQL's is the number of a process."""
        return self._database.announced_process()

    def listener(self) -> int:
        """Return the number of the process that listens on the Unix socket; 0 if not known."""
        return self._database.listener()


def _values(verb: VerbName, row: Row) -> dict[str, float]:
    """Return column -> number in a row of a query; NaN where the row has NULL.

    Raise Impossible, with the name `verb` of the query, for a column that no profile has.
    """
    names = [name for name in row if name not in _ERA]
    for name in names:
        if name not in KNOWN:
            raise Impossible(f"{verb}.sql: there is no column {name!r}{nearest(name, KNOWN)}")
    return {name: math.nan if row[name] is None else row.real(name) for name in names}
