"""Queries on a profiled server that cost more than its counters, and are executed less often."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from replayer.engines.verbs import VerbName
from replayer.machine import processes
from replayer.results.profile import SELDOM_SECONDS, StatementUse, WorkingSet
from replayer.sizing import working_set
from replayer.sizing.counters import SourceReading
from replayer.sizing.discovery import CALLS
from replayer.sizing.working_set import Relation, Relations

if TYPE_CHECKING:
    from replayer.engines.connection import Row
    from replayer.sizing.discovery import Survey
    from replayer.sizing.session import SourceSession

_SIZES = VerbName("profile/sizes")
_RELATIONS = VerbName("profile/relations")
_STATEMENTS = VerbName("profile/statements")
_WORKING_SET = VerbName("profile/working_set")

OFTEN = SELDOM_SECONDS
"""Seconds between two readings; the rate between them goes into all profile rows in between."""
_EACH_MINUTE = 60.0
_SELDOM = 300.0


class SlowQuery(ABC):
    """One query on the profiled server that is repeated at long intervals of `every` seconds."""

    name: str
    """The query's subject in words, for the note that the server refused it."""
    every: float

    @abstractmethod
    def read(self, session: SourceSession) -> SourceReading | None:
        """Execute the query; return totals, and gauges (values of this instant), for the profile.

        Return None if the query keeps its result in this object instead.
        """


class ServerCpu(SlowQuery):
    """The query for the CPU time of the server's processes, including those that ended."""

    name = "what the server's processes use"
    every = OFTEN

    def __init__(self, process: int) -> None:
        self.process = process

    def read(self, session: SourceSession) -> SourceReading:
        """Return a reading with the CPU seconds of the server's processes since the server's start.

        They are NaN where they are not known.
        """
        del session
        used = processes.cpu_seconds(processes.family(self.process, ended=True))
        now = datetime.now(UTC).timestamp()
        return SourceReading(time.monotonic(), now, {"server_cpu_cores": sum(used) or math.nan})


class Calls(SlowQuery):
    """The query for the total number of executed statements."""

    name = "calls of statements"
    every = OFTEN

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def read(self, session: SourceSession) -> SourceReading:
        """Return a reading with the total number of calls of statements in pg_stat_statements."""
        return session.reading([CALLS], schema=self._schema)


class Sizes(SlowQuery):
    """The query for the size of the databases."""

    name = "the size of the databases"
    every = _SELDOM

    def read(self, session: SourceSession) -> SourceReading:
        """Return a reading with the size of all databases together, in bytes."""
        return session.reading([_SIZES])


class Tables(SlowQuery):
    """The query for the reads and writes of each table and index, repeated each minute.

    The differences are added up in `relations`, from which the working set is estimated.
    """

    name = "what is read of each table"
    every = _EACH_MINUTE

    def __init__(self) -> None:
        self.relations = Relations()
        self._began = self._ended = 0.0

    def read(self, session: SourceSession) -> None:
        """Add the reads and writes of each table and index since the previous reading."""
        rows = session.rows(_RELATIONS)
        self._began = self._began or time.monotonic()
        self._ended = time.monotonic()
        self.relations.read({str(row["relation"]): _relation(row) for row in rows})

    def working_set(self, survey: Survey) -> WorkingSet | None:
        """Return an estimate of the data in use since the first reading; None if nothing was.

        `survey` has the sizes of the server's blocks and buffers.
        """
        done = self.relations.done()
        if not done:
            return None
        seconds = self._ended - self._began
        block = survey.source.block_bytes or 1
        return working_set.estimated(done, block, survey.cache_bytes, seconds)


class PoolUsage(SlowQuery):
    """The query for the amount of data in use, as the server itself estimates it, in bytes."""

    name = "how much of the data is in use"
    every = _EACH_MINUTE

    def __init__(self) -> None:
        self.working_set: WorkingSet | None = None

    def read(self, session: SourceSession) -> None:
        """Store the server's own estimate of the amount of data in use as `working_set`."""
        (row,) = session.rows(_WORKING_SET)
        known = None if row["bytes"] is None else row.number("bytes")
        self.working_set = WorkingSet(bytes=known, method=str(row["method"]))


class StatementCounts(SlowQuery):
    """The query for the number of executed statements of each kind, such as select."""

    name = "the mix of statements"
    every = _SELDOM

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._before: dict[str, Row] = {}
        self._done: dict[str, dict[str, float]] = {}

    def read(self, session: SourceSession) -> None:
        """Add the statements executed since the previous reading, unless the totals were reset."""
        rows = session.rows(_STATEMENTS, schema=self._schema)
        now = {str(row["kind"]): row for row in rows}
        for kind, row in now.items() if self._before else ():
            more = _difference(row, self._before.get(kind))
            done = self._done.setdefault(kind, dict.fromkeys(more, 0.0))
            if min(more.values()) >= 0:
                self._done[kind] = {name: done[name] + value for name, value in more.items()}
        self._before = now

    def uses(self) -> tuple[StatementUse, ...]:
        """Return what each kind of statement did during the watch, the most frequent first."""
        calls = sum(done["calls"] for done in self._done.values())
        return tuple(
            StatementUse(kind=kind, share=done["calls"] / calls, **done)
            for kind, done in sorted(self._done.items(), key=lambda item: -item[1]["calls"])
            if done["calls"]
        )


def tasks(survey: Survey, session: SourceSession) -> list[SlowQuery]:
    """Return the slow queries that the profiled server can answer."""
    engine = session.engine
    every: list[SlowQuery] = []
    if survey.here is not None:
        every.append(ServerCpu(survey.here.process))
    if survey.schema:
        every.append(Calls(survey.schema))
    if engine.verb(_STATEMENTS) is not None and (survey.schema or engine.verb(CALLS) is None):
        every.append(StatementCounts(survey.schema))
    if engine.verb(_SIZES) is not None:
        every.append(Sizes())
    if engine.verb(_RELATIONS) is not None:
        every.append(Tables())
    if engine.verb(_WORKING_SET) is not None:
        every.append(PoolUsage())
    return every


def _difference(row: Row, before: Row | None) -> dict[str, float]:
    return {
        name: value - (before.real(name) if before and before.get(name) else 0.0)
        for name, value in row.reals(but=("kind",)).items()
    }


def _relation(row: Row) -> Relation:
    numbers = ("bytes", "tuples", "blocks_hit", "blocks_read", "tuples_scanned", "tuples_read")
    return Relation(
        table=str(row["name"]),
        heap=bool(row["heap"]),
        tuples_written=row.real("tuples_written"),
        **{name: row.real(name) for name in numbers},
    )
