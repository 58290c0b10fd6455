"""What the server's own statistics counted in the window: differences between its two marks.

A table for each view that the server has: `statistics.io` (pg_stat_io), `statistics.wal`
(pg_stat_wal), `statistics.status` (the status variables of MariaDB and MySQL) and
`statistics.statements`, the 20 that took the most time (pg_stat_statements, or the digests of
performance_schema).  Columns and rows in which nothing moved are left out.  A view counts what all
of the server did, whoever asked for it, and PostgreSQL's backends tell it once a second what they
did, or when they end.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from replayer.collectors import Ask, CollectorContext, WindowRecording
from replayer.errors import ReplayerError, Skip
from replayer.machine import threads

VERBS = ("watch/io", "watch/wal", "watch/status", "watch/statements")
_STATEMENTS = "statements"
_UNTOLD = (
    "the server tells nothing of single statements: have it load pg_stat_statements, or set "
    "performance_schema = ON"
)
_SET_BACK = "its counters were set back in the window, by somebody or by a restart of the server"
_LIVED = "uptime_since_flush_status"
_SLACK = 2.5
"""Seconds by which a count of whole seconds, asked for a little late, may be behind."""
_MOST = 20
_END_SECONDS = 4.0

Row = Mapping[str, Any]


def begin(scene: CollectorContext) -> "Statistics":
    """Return a recording that asks at every mark; of a run without a database it sees nothing."""
    return Statistics(scene.ask)


class Statistics:
    """A thread that asks for all views at every mark, and what they said."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._due: list[int] = []
        self._said: dict[int, dict[str, Sequence[Row]]] = {}
        """Mark -> view -> rows."""
        self._missing: dict[str, str] = {}
        self._cost = 0.0
        self._wake = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def mark(self, clock_ns: int) -> None:
        """Ask soon."""
        if self._ask is None:
            return
        with self._wake:
            self._due.append(clock_ns)
            self._wake.notify()
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> float:
        """Ask what is due, and no more."""
        with self._wake:
            self._ended = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self._cost

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the differences between two marks.

        Raises ReplayerError with the reason where the server told nothing at one of them.
        """
        if self._ask is None:
            return WindowRecording()
        before, after = self._said.get(begin_ns, {}), self._said.get(end_ns, {})
        both = [view for view in after if view in before]
        if not both:
            reasons = "; ".join(dict.fromkeys(self._missing.values()))
            raise ReplayerError(reasons or "the server did not answer in time")
        seconds = (end_ns - begin_ns) / 1e9
        lost = [view for view in both if set_back(before[view], after[view], seconds)]
        missing = {view: why for view, why in self._missing.items() if view not in both}
        missing |= dict.fromkeys(lost, _SET_BACK)
        if len(lost) == len(both):
            raise ReplayerError("; ".join(dict.fromkeys(missing.values())))
        kept = [view for view in both if view not in lost]
        tables = {view: differences(before[view], after[view]) for view in kept}
        if _STATEMENTS in tables:
            tables[_STATEMENTS] = _heaviest(tables[_STATEMENTS])
        return WindowRecording(
            tables={f"statistics.{view}": rows for view, rows in tables.items() if rows},
            missing=missing,
        )

    def _run(self) -> None:
        threads.call_this(threads.WATCHING)
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._due or self._ended)
                if not self._due:
                    return
                clock_ns = self._due.pop(0)
            self._said[clock_ns] = {}
            for verb in VERBS:
                self._look(verb, clock_ns)
            self._cost = time.thread_time()

    def _look(self, verb: str, clock_ns: int) -> None:
        """Keep what one view says, or why it says nothing; an engine's lack of it is no fault."""
        assert self._ask is not None, "it is begun by a mark only"
        view = verb.rpartition("/")[2]
        try:
            rows = list(self._ask(verb))
        except Skip as skip:
            if view == _STATEMENTS:
                self._missing[view] = str(skip)
        except ReplayerError as error:
            self._missing[view] = str(error)
        else:
            if rows or view != _STATEMENTS:
                self._said[clock_ns][view] = rows
            else:
                self._missing[view] = _UNTOLD


def set_back(before: Sequence[Row], after: Sequence[Row], seconds: float) -> bool:
    """Tell whether a view's counters began anew between marks that are so many seconds apart.

    PostgreSQL dates that, also after a crash; MariaDB and MySQL count the seconds since.  A counter
    that has grown beyond what it was before would not show it.
    """
    dates = [
        {row["stats_reset"] for row in rows if "stats_reset" in row} for rows in (before, after)
    ]
    lived = [row["value"] for rows in (before, after) for row in rows if row.get("name") == _LIVED]
    return dates[0] != dates[1] or (len(lived) == 2 and lived[1] - lived[0] < seconds - _SLACK)


def differences(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return what numbers grew by, of the rows with the same texts; what is new grew from 0.

    Rows and columns without any difference are left out, and so are a view's times.  Counters that
    were set back are None.
    """
    earlier = {_key(row): row for row in before}
    rows = []
    for row in after:
        if row.get("name") == _LIVED:
            continue
        old = earlier.get(_key(row), {})
        grown = {
            name: _grown(old.get(name), value) for name, value in row.items() if _counts(value)
        }
        if any(grown.values()):
            rows.append((_texts(row), grown))
    names = dict.fromkeys(name for _, grown in rows for name in grown)
    moved = [name for name in names if any(grown.get(name) for _, grown in rows)]
    return [{**texts, **{name: grown.get(name) for name in moved}} for texts, grown in rows]


def _heaviest(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -(row.get("seconds") or 0.0))[:_MOST]


def _counts(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _texts(row: Row) -> dict[str, str]:
    return {name: value for name, value in row.items() if isinstance(value, str)}


def _key(row: Row) -> tuple[str, ...]:
    return tuple(_texts(row).values())


def _grown(before: Any, after: Any) -> float | None:
    """Return by how much a counter grew, None if it was set back; whole numbers stay such."""
    grown = float(after) - float(before or 0)
    if grown < 0:
        return None
    return int(grown) if grown.is_integer() else grown
