"""Watch a source (a server): read its counters and its machine's, and make a profile of them.

Nothing is written to the source and no setting is changed.  What its user may not read, or what
takes too long, is left out with a note.  A lost connection is made again, and leaves a gap.
"""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replayer.errors import Impossible, ReplayerError
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.results.profile import MOST_ROWS, Gap
from replayer.servers import remote
from replayer.sizing import discovery, machine, slow_queries, working_set
from replayer.sizing.cost import Meter
from replayer.sizing.counters import Own, SourceReading, UnsavedRows, gap, is_gauge, moved
from replayer.sizing.session import SourceSession
from replayer.sizing.slow_queries import PoolUsage, ServerCpu, StatementCounts, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replayer.engines.engine import Engine
    from replayer.model import Fact
    from replayer.results.profile import ProfileSource, ResourceProfile
    from replayer.sizing.cost import CpuCost
    from replayer.sizing.machine import Location
    from replayer.sizing.slow_queries import SlowQuery

LEAST_SECONDS = 0.1
SAVED_SECONDS = 60.0
MOST_COST = 0.005
"""Share of one core: the profiler may use so much."""
_REST = 500.0
"""After a costly reading, wait so many times its duration before the next one."""
_BACK_OFF = (1.0, 2.0, 5.0, 10.0)
"""Seconds before a lost connection is tried again."""
_LONGEST_EVERY = 60.0
_LEAST_SPAN = 0.001
_EARLY = 0.05
"""Seconds that a task may run before it is due, so that it keeps step with the rows."""


class ProfileRequest(NamedTuple):
    """The order to profile a source: for `seconds`, with a row of the profile each `every` seconds.

    If the address `url` has no password and the server requires one, `ask` is called with a
    question and returns the password.
    """

    engine: Engine
    url: str
    seconds: float
    every: float
    ask: Callable[[str], str] | None = None


def check(order: ProfileRequest) -> None:
    """Raise Impossible if the ordered profile would have no row, or more than can be read."""
    asked = f"a profile for {order.seconds:g} s, every {order.every:g} s,"
    if order.every < LEAST_SECONDS or order.seconds < order.every:
        raise Impossible(
            f"{asked} has no row: --every is {LEAST_SECONDS:g} s or more, --for as long or longer"
        )
    if order.seconds / order.every > MOST_ROWS:
        raise Impossible(
            f"{asked} has more than the {MOST_ROWS:,} rows that replayer reads: give a longer "
            f"--every"
        )


class SourceLost(Exception):
    """The connection to the source is gone; the message is the reason."""


class Watch:
    """One source (a server) that is profiled; each row stays in memory until `saved` is called."""

    def __init__(self, order: ProfileRequest, host: Host | None = None) -> None:
        """Connect, and find out which parts can be read; raise Impossible if there are none."""
        check(order)
        self._order = order
        self._host = host or Host()
        self._every = order.every
        self._engine, self._url = remote.identified(
            order.engine, order.url, ask=order.ask, query=order.engine.spec.profile.query
        )
        session = self._opened()
        with contextlib.ExitStack() as stack:
            stack.callback(session.close)
            self._seen = discovery.surveyed(session, self._url, self._host, order.every)
            self._tasks = slow_queries.tasks(self._seen, session)
            stack.pop_all()
        self._session: SourceSession | None = session
        self._due = dict.fromkeys(self._tasks, 0.0)
        self._rows = UnsavedRows(notes=list(self._seen.notes))
        self._own = Own(*self._engine.spec.profile.own)
        self._last: _Instant | None = None
        self._lost = ""
        self._tries = 0
        self._again = 0.0
        self._read: dict[SlowQuery, SourceReading] = {}
        self._held: dict[str, float] = {}
        self._shift = 0.0
        self._meter = Meter()
        self._meter.serves(_serving(session, self._seen.here))
        self._costs = self._meter.cost()

    @property
    def source(self) -> ProfileSource:
        """Return the facts of the source, including those that were learnt during the watch."""
        size = self._held.get("database_bytes", math.nan)
        cost = self._meter.cost()
        costs: dict[str, Fact] = {"profiler.cores": round(cost.cores, 5)}
        costs["profiler.session_seen"] = cost.session is not None
        return self._seen.source.model_copy(
            update={
                "averaged_seconds": self._every,
                "database_bytes": None if math.isnan(size) else int(size),
                "facts": {**self._seen.source.facts, **costs},
            }
        )

    def run(self) -> Iterator[None]:
        """Read the source until the time is over; yield each minute, when rows should be saved."""
        begin = saved = due = time.monotonic()
        deadline = begin + self._order.seconds
        while True:
            self._read_all()
            now = time.monotonic()
            if now >= deadline:
                return
            if now - saved >= SAVED_SECONDS - self._every / 2:
                saved = now
                self._fill_up()
                self._pace()
                yield
            due = _next(due, self._every, time.monotonic())
            time.sleep(max(0.0, min(due, deadline) - time.monotonic()))

    def finish(self) -> None:
        """Read the slow queries for a last time, and end the gap that a lost connection left open.

        Without a connection, the queries are not read.
        """
        if self._lost and self._last is not None:
            end = self._last.end + time.monotonic() - self._last.reading.clock
            self._rows.gaps.append(Gap(begin=self._last.end, end=end, reason=self._lost))
        self._fill_up(math.inf)

    def unsaved(self) -> ResourceProfile:
        """Return the unsaved rows as a part of a profile, with tables and statements so far."""
        part = self._rows.profile(self.source)
        for task in self._tasks:
            if isinstance(task, StatementCounts):
                part = replace(part, statements=task.uses())
            elif isinstance(task, PoolUsage):
                part = replace(part, working_set=task.working_set)
            elif isinstance(task, Tables):
                part = replace(
                    part,
                    tables=working_set.tables(task.relations.done()),
                    working_set=task.working_set(self._seen),
                )
        return part

    def saved(self, part: ResourceProfile) -> None:
        """Remove the rows, gaps and notes of `part`, which was saved, from memory."""
        self._rows.without(part)

    def cost(self) -> CpuCost:
        """Return the CPU cost of profiling so far."""
        return self._meter.cost()

    def close(self) -> None:
        """Close the connection to the source; closing twice is fine."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _opened(self) -> SourceSession:
        try:
            return SourceSession(self._engine, self._url)
        except ReplayerError as error:
            raise Impossible(str(error)) from error

    def _read_all(self) -> None:
        """Read the counters and each slow query that is due; if the connection is lost, note it."""
        try:
            session = self._session or self._connected()
            if session is not None:
                self._beat(session)
                now = time.monotonic()
                for task in [task for task, at in self._due.items() if now >= at]:
                    self._work(session, task)
        except SourceLost as lost:
            self._lose(str(lost))

    def _fill_up(self, every: float = slow_queries.OFTEN) -> None:
        """Read, before saving rows, slow queries that repeat every `every` seconds or sooner."""
        if self._session is None or self._last is None:
            return
        try:
            for task in [task for task in self._due if task.every <= every]:
                self._work(self._session, task)
        except SourceLost as lost:
            self._lose(str(lost))

    def _beat(self, session: SourceSession) -> None:
        """Read the counters; add a row of rates since the previous reading, or a gap."""
        try:
            reading = session.reading(self._seen.beats)
        except ReplayerError as error:
            raise SourceLost(str(error)) from error
        mine = session.counted()
        # Work of the profiler before the first reading may be in that reading's totals already.
        if self._last is not None or self._engine.spec.profile.late:
            self._own.did(mine)
        totals = self._machine()
        end = self._add(reading, totals)
        self._last = _Instant(reading, totals, end)

    def _add(self, now: SourceReading, totals: machine.Totals | None) -> float:
        """Add a row or a gap up to the reading `now`; return its end, in seconds since 1970."""
        if self._last is None:
            return now.time
        last = self._last
        seconds = now.clock - last.reading.clock
        reason = self._lost or gap(last.reading, now)
        if reason:
            # A clock that was set back would repeat earlier times: times continue from where they
            # were.
            self._shift += max(0.0, last.reading.time + seconds - now.time)
        end = max(now.time + self._shift, last.end + _LEAST_SPAN)
        if reason:
            self._rows.gaps.append(Gap(begin=last.end, end=end, reason=reason))
            self._lost = ""
            self._own.forget()
            self._read.clear()
            return end
        values = {**self._held, **self._own.taken_out(moved(last.reading, now), seconds)}
        if totals is not None and last.totals is not None:
            values |= machine.rates(last.totals, totals)
        self._rows.add(end, now.clock, seconds, values)
        return end

    def _work(self, session: SourceSession, task: SlowQuery) -> None:
        """Run a slow query and use its reading; the longer it took, the later it is repeated."""
        begin = time.monotonic()
        try:
            reading = task.read(session)
        except ReplayerError as error:
            if not session.answers():
                raise SourceLost(str(error)) from error
            self._rows.notes.append(f"{task.name} is no longer read: {error}")
            del self._due[task]
            return
        took = time.monotonic() - begin
        self._due[task] = begin - _EARLY + max(task.every, self._every, _REST * took)
        if reading is not None:
            self._fill(task, reading)

    def _fill(self, task: SlowQuery, reading: SourceReading) -> None:
        """Store a query's rates in the rows since its last reading, its gauges in later rows."""
        self._held |= {name: value for name, value in reading.values.items() if is_gauge(name)}
        before = self._read.get(task)
        if before is not None and not gap(before, reading):
            rates = self._own.taken_out(moved(before, reading), reading.clock - before.clock)
            self._rows.fill(before.clock, {k: v for k, v in rates.items() if not is_gauge(k)})
        self._read[task] = reading

    def _machine(self) -> machine.Totals | None:
        if self._seen.here is None:
            return None
        try:
            return machine.totals(self._host, self._seen.source.device)
        except OSError:
            return None

    def _lose(self, reason: str) -> None:
        """Close a lost connection, and set the time at which it is made again."""
        self._lost = self._lost or reason
        self._again = time.monotonic() + _BACK_OFF[min(self._tries, len(_BACK_OFF) - 1)]
        self._tries += 1
        self._meter.serves(0)
        self.close()

    def _connected(self) -> SourceSession | None:
        """Return a new session if it is time for one after a lost connection, else None.

        Raise SourceLost if the server refuses it.
        """
        if time.monotonic() < self._again:
            return None
        try:
            session = self._session = SourceSession(self._engine, self._url)
        except ReplayerError as error:
            raise SourceLost(str(error)) from error
        self._tries = 0
        self._find_again(session)
        return session

    def _find_again(self, session: SourceSession) -> None:
        """Find the server's processes again, for the meters of CPU: a restart may change them."""
        if self._seen.here is None:
            return
        here = discovery.location(session)
        self._meter.serves(_serving(session, here))
        for task in self._tasks:
            if isinstance(task, ServerCpu):
                task.process = here.process if here else 0

    def _pace(self) -> None:
        """Read less often from now on if profiling took more CPU than it may."""
        # That is 0.5 % of a core, or for rows below a second 0.5 % divided by their seconds.
        cost = self._meter.cost()
        cores, self._costs = cost.since(self._costs).cores, cost
        most = MOST_COST * max(1.0, 1.0 / self._order.every)
        if cores > most and self._every < _LONGEST_EVERY:
            self._every = min(_LONGEST_EVERY, self._every * math.ceil(cores / most))
            self._rows.notes.append(
                f"profiling took {100 * cores:.2f} % of a core, so from here on the source is read "
                f"every {self._every:g} s"
            )


def _serving(session: SourceSession, here: Location | None) -> int:
    """Return the process on this machine that serves this session alone; 0 if there is none.

    The number that MariaDB and MySQL announce is a thread's, and other programs may have it as the
    number of a process.
    """
    announced = session.process()
    return announced if here and announced in processes.family(here.process)[1:] else 0


class _Instant(NamedTuple):
    """The server's and the machine's totals, read one after the other."""

    reading: SourceReading
    totals: machine.Totals | None
    end: float
    """Seconds since 1970; always later than in the instant before, even if a clock was set back."""


def _next(due: float, every: float, now: float) -> float:
    """Return when to read next, `every` seconds after `due` or a multiple of it, later than `now`.

    All are in seconds of the monotonic clock, so delays do not add up.
    """
    return due + (math.floor(max(0.0, now - due) / every) + 1) * every
