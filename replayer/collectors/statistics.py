"""The server's own statistics in a measured window: differences of readings at its begin and end.

There is one table for each view that the server has: `statistics.io` (pg_stat_io), `statistics.wal`
(pg_stat_wal), `statistics.status` (the status variables of MariaDB and MySQL) and
`statistics.statements`, the 20 statements that took the most time (pg_stat_statements, or the
digests of performance_schema). Columns and rows without any change are left out. A view counts all
work of the server, whichever client requested it. PostgreSQL's backends add their work to the view
once per second, and when they end.
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
    "the server does not count single statements: have it load pg_stat_statements, or set "
    "performance_schema = ON"
)
_SET_BACK = "its counters were set back in the window, by a user or by a restart of the server"
_LIVED = "uptime_since_flush_status"
_SLACK = 2.5
"""The largest error, in seconds, of an uptime: it has whole seconds and is read a little late."""
_MOST = 20
_END_SECONDS = 4.0

Row = Mapping[str, Any]


def begin(scene: CollectorContext) -> "Statistics":
    """Return a recording that reads the server's statistics views at every mark.

    Without a database the recording stays empty.
    """
    return Statistics(scene.ask)


class Statistics:
    """A thread that reads the server's statistics views at every mark, and the rows that it read.

    A mark is the begin or the end of a measured window. `ask` runs an SQL file of the engine; None
    if there is no database.
    """

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._due: list[int] = []
        self._said: dict[int, dict[str, Sequence[Row]]] = {}
        """Clock of a mark in ns -> view, such as `io` -> rows."""
        self._missing: dict[str, str] = {}
        self._cost = 0.0
        self._wake = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def mark(self, clock_ns: int) -> None:
        """Make the thread read all statistics views now, for the mark at `clock_ns`."""
        if self._ask is None:
            return
        with self._wake:
            self._due.append(clock_ns)
            self._wake.notify()
        if self._thread.ident is None:
            self._thread.start()

    def end(self) -> float:
        """Stop the thread when it has read for every mark; wait for that at most 4 s.

        Returns the CPU seconds that the thread has used by then.
        """
        with self._wake:
            self._ended = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self._cost

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the differences of each statistics view between two marks, as tables.

        Raises ReplayerError with the reason if no view was read at both marks, or if the counters
        of all views were reset between them.
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
        """Read one view now, and keep its rows for the mark at `clock_ns`, or the error's text.

        `verb` is the name of the engine's SQL file that reads the view, such as `watch/io`. If the
        engine has no such file, no text is kept, except for `watch/statements`.
        """
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
    """Return whether a view's counters were reset between two readings `seconds` apart.

    PostgreSQL has the date of the last reset, also after a crash; MariaDB and MySQL count the
    seconds since the last reset. The counters alone do not show a reset: they may already have
    grown beyond their old values.
    """
    dates = [
        {row["stats_reset"] for row in rows if "stats_reset" in row} for rows in (before, after)
    ]
    lived = [row["value"] for rows in (before, after) for row in rows if row.get("name") == _LIVED]
    return dates[0] != dates[1] or (len(lived) == 2 and lived[1] - lived[0] < seconds - _SLACK)


def differences(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """Return the rows of `after`, each number reduced by that of the same row in `before`.

    Rows with the same texts are the same row; a row that `before` lacks is returned unchanged. Rows
    in which no number grew are left out, and so are columns that grew in no row, and dates. A
    number that decreased is None.
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
    """Return the growth of a counter, an int if it is a whole number; None if it decreased."""
    grown = float(after) - float(before or 0)
    if grown < 0:
        return None
    return int(grown) if grown.is_integer() else grown
