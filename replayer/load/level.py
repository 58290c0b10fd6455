"""One level of a load: a number of sessions, in a closed loop or at a rate, for some seconds.

    level = measure_level(
        LevelRequest(sessions=16, seconds=10, rate=500, mix=mix, tables=tables), context, database
    )

The tables must exist (dataset.provide_tables), and the server must run with the settings to be
measured.  Statements are counted over the requested seconds.  The machine's counters are read at
both ends of this window; the server's own counters are read before the first statement and after
the last answer.
"""

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.verbs import VerbName
from replayer.engines.wire_session import DriverStatement
from replayer.errors import Interrupted, ReplayerError, Skip
from replayer.load import clients, machine_usage, other_sessions
from replayer.load.arrivals import Arrivals
from replayer.load.clients import ClientJob, ClientReport, ClientResult, SessionLost
from replayer.load.dataset import INSERTED, place_for_inserts
from replayer.load.machine_usage import Activity, ClientUse, MachineUse
from replayer.load.mix import WeightedMix
from replayer.load.mix_parts import KINDS
from replayer.load.requests import Keys, StreamPart
from replayer.load.statement_counts import LoadCounts
from replayer.run.client_hosts import ClientHosts
from replayer.run.context import Context, Task
from replayer.run.event_stream.rates import Rates
from replayer.tables.pgio import TableSet
from replayer.units import show_count, show_duration
from replayer.watch import client_pools
from replayer.watch.client_pools import Clients, Pool
from replayer.watch.histogram import Latencies
from replayer.watch.ledger import OtherSessions

_SESSION = VerbName("mix/session")
_NAME = VerbName("slob/name")
_SETTLE = VerbName("mix/settle")
_WAITS = VerbName("mix/waits")
_STATEMENTS = {
    "point": VerbName("mix/point"),
    "range": VerbName("mix/range"),
    "update": VerbName("mix/update"),
    "insert": VerbName("mix/insert"),
    "scan": VerbName("mix/scan"),
    "compute": VerbName("mix/compute"),
}
_BURNING = {
    "point": VerbName("mix/burning/point"),
    "range": VerbName("mix/burning/range"),
    "update": VerbName("mix/burning/update"),
    "insert": VerbName("mix/burning/insert"),
    "scan": VerbName("mix/burning/scan"),
    "compute": VerbName("mix/burning/compute"),
}
"""The same statements with CPU burning: on each row by an index, once in a scan."""
_SORTED = {"range": VerbName("table/range")}
_OF_NO_TABLE = frozenset({"insert", "compute"})
_RATE_OF_A_PROCESS = 12_000
"""Statements a second that one client process can send without being busy all the time."""
_CORES_OF_A_PROCESS = 4
"""Processors of a machine for each client process, if clients send as fast as they can."""
_MOST_PARTS = 64
"""Limit of the parts of a stream: each draws the requests of the whole stream, and sends its own.
"""
_MOST_STATEMENTS = 512
"""Limit of the different statements of a level: every session prepares each of them."""
_EMPTY_IN_LAST = 0.25
"""A load is sustained if at some time in this last part of its window no statement waited."""
_BUSY_CLIENT = 0.9
_DRAWINGS = 1_000_003
"""Factor that keeps seeds apart: larger than the number of loads that one seed ever gets."""


@dataclass(frozen=True)
class LevelRequest:
    """A request to measure one level of a load: a number of sessions, with or without a rate."""

    sessions: int
    seconds: float
    mix: WeightedMix
    tables: TableSet
    rate: float | None = None
    """Statements a second over all sessions; None means a closed loop."""
    arrivals: Arrivals = "poisson"
    seed: int = 1
    resolution: float = 0.0
    """Seconds between two checks for due statements and answers, while sessions are free.  Measured
    times are up to twice this too long, and the clients need less CPU. 0 checks at once."""
    patience: float = 5.0
    """Lag in seconds at which a rate is given up as not attainable."""
    burn: float = 0.0
    """Units of CPU that a statement burns in the server: evaluations of a costly expression."""
    sample_seconds: float = 0.2
    """Seconds between two samples of the sessions' waits."""
    title: str = "load"
    """Title in the progress display."""
    by_sort_key: bool = False
    """True if all statements read ranges of the step build's table, by its sort key."""
    by_driver: bool = False
    """True if sessions use the driver's cursor although their wire has a cheaper way."""

    def drawn(self, number: int) -> "LevelRequest":
        """Return this request with another seed, so that other keys and starts are drawn.

        Each `number` gives another seed.  With the same keys again, all data that was read before
        would be in memory.
        """
        return replace(self, seed=self.seed * _DRAWINGS + number)


@dataclass(frozen=True, slots=True)
class Lag:
    """The lags of the statements that were due in one second of the window, in seconds.

    A lag is the time from the intended start of a statement to its actual start.  `second` is the
    number of that second, from 0, and `begun` the number of those statements.
    """

    second: int
    begun: int
    mean: float
    longest: float


@dataclass(frozen=True, eq=False)
class LevelResult:
    """The results of one level, over one window of `seconds`."""

    asked: LevelRequest
    seconds: float
    begin_ns: int
    opened_ns: int
    """Time at which the clients were started, just after `begin_ns`: monotonic clock, in ns."""
    end_ns: int
    """Begin and end (`begin_ns`, `end_ns`) are times of the monotonic clock in ns."""
    offered: float
    """Statements a second with an intended start in the window."""
    begun: float
    """Statements a second that were sent, in time or late, of those that `offered` counts."""
    completed: float
    """Answers a second that arrived within the window."""
    counts: Mapping[str, int]
    """Kind of statement -> number of answers that arrived within the window."""
    failures: int
    """Statements that the server refused for a deadlock or the like; they are in no histogram."""
    service: Latencies
    """Histogram of service times: from the actual start to the answer."""
    response: Latencies
    """Histogram of response times: from the intended start to the answer."""
    service_by_kind: Mapping[str, Latencies]
    response_by_kind: Mapping[str, Latencies]
    in_flight: float
    """Statements under way, on average over the window; never more than the sessions."""
    lag: Sequence[Lag]
    answers: Sequence[int]
    """Number of answers in each second since the window's begin, also after the window's end."""
    sustained: bool
    reason: str
    """Reason for which the rate was not sustained, "" if it was."""
    activity: Activity
    """The server's own counters, from before the first statement to after the last answer."""
    waits: Mapping[str, float]
    """Name of a wait in the server -> average number of sessions that were in it."""
    moments: Sequence[Mapping[str, float]]
    """For each sample: name of a wait in the server -> number of sessions that were in it."""
    clients: float
    """Processors that the clients can use: one for each process, at most those of their hosts."""
    use: MachineUse
    others: OtherSessions | None = None
    """The work of other sessions in the same database; None if the server does not count it."""

    @property
    def hit_ratio(self) -> float | None:
        """Return the share of blocks that were found in the server's buffers; None if not known."""
        return self.activity.hit_ratio

    @property
    def lock_waiting(self) -> float:
        """Return the average number of sessions that waited for a lock."""
        return sum(sessions for wait, sessions in self.waits.items() if wait.startswith("Lock"))

    @property
    def little(self) -> float | None:
        """Return throughput times mean service time, divided by the statements under way.

        By Little's law it is 1.  In a closed loop, as many statements are under way as there are
        sessions.  Return None if no statement was under way.
        """
        under_way = self.asked.sessions if self.asked.rate is None else self.in_flight
        return self.completed * self.service.mean_ns / 1e9 / under_way if under_way else None


def check(asked: LevelRequest, engine: Engine) -> None:
    """Raise Skip if the engine lacks the statements asked for, or there are too many to prepare."""
    if asked.by_sort_key:
        check_ranges(engine)
        return
    engine.needs(_SESSION)
    for kind in asked.mix.weights:
        engine.needs(_said(asked)[kind])
    kinds = len(asked.mix.weights)
    if kinds * asked.tables.tables > _MOST_STATEMENTS:
        raise Skip(
            f"{kinds} kinds of statements on {asked.tables.tables} tables are more than the "
            f"{_MOST_STATEMENTS} that a session prepares: use fewer tables"
        )


def check_ranges(engine: Engine) -> None:
    """Raise Skip if the engine has no statement that reads ranges of the table of the step build.

    Such a statement finds a range of rows by the sort key of the table.
    """
    engine.needs(_SORTED["range"])


def measure_level(asked: LevelRequest, context: Context, database: Database) -> LevelResult:
    """Run one level of load on the database and return its results.

    Raises Skip for an engine that lacks the statements, ReplayerError if the server is lost.
    """
    check(asked, context.engine)
    with contextlib.ExitStack() as made:
        if "insert" in asked.mix.weights:
            made.enter_context(place_for_inserts(database))
        jobs = list(_jobs(asked, database, context.clients))
        pool, hosts = made.enter_context(
            context.pool(
                clients.work,
                jobs,
                processes=len(jobs),
                window=asked.title,
                awaited=database.waiting(),
            )
        )
        with context.progress.task(f"connect {asked.sessions} sessions"):
            pool.ready(timeout=60 + asked.sessions)
        return _Window(asked, context, database, pool, hosts).measure()


class _Window:
    """The measurement of a level while its clients run."""

    def __init__(
        self,
        asked: LevelRequest,
        context: Context,
        database: Database,
        pool: Pool,
        hosts: ClientHosts,
    ) -> None:
        self._asked = asked
        self._context = context
        self._database = database
        self._pool = pool
        self._hosts = hosts
        self._waits: list[Mapping[str, float]] = []
        self._points: dict[int, ClientReport] = {}
        self._rates = Rates(context.progress)

    def measure(self) -> LevelResult:
        """Start the clients, watch until the window's end, and read the counters at both ends."""
        context, database, pool = self._context, self._database, self._pool
        others = other_sessions.look(database)
        (counted, before), opened_ns = client_pools.opened(
            pool,
            context.clients,
            lambda: (machine_usage.counted(database), machine_usage.moment(context)),
        )
        with context.progress.task(self._asked.title, self._asked.seconds) as task:
            self._watch(opened_ns + round(self._asked.seconds * 1e9), task)
        after = machine_usage.moment(context)
        results = self._kept(pool.results())
        last = machine_usage.counted(database)
        moved = other_sessions.work_between(others, other_sessions.look(database))
        activity = machine_usage.activity(counted, last, opened_ns, pool.last_done_ns)
        lasted = max([1e-9, *(result.ended for result in results)])
        user, system = (sum(times) for times in zip(*(one.cpu for one in results), strict=True))
        hosts = context.clients
        processors = float(min(len(results), hosts.cores or len(results)))
        spent = ClientUse(user, system, lasted, processors, here=not hosts.names)
        used = machine_usage.use(context, before, after, opened_ns, spent)
        for number, result in enumerate(results):
            self._hosts.heard(number, sum(result.tally.completed.values()))
        self._hosts.record(context.findings, pool.shares, self._asked.seconds)
        marks = (before.mark_ns, opened_ns, after.mark_ns)
        level = _level(self._asked, results, marks, activity, self._waits, used)
        return replace(level, others=moved)

    def _watch(self, end_ns: int, task: Task) -> None:
        """Receive the clients' reports and sample the sessions' waits until the window's end.

        `end_ns` is that end by the monotonic clock; `task` shows the progress.
        """
        sampled, pause = time.monotonic(), self._asked.sample_seconds
        while (left := (end_ns - time.monotonic_ns()) / 1e9) > 0:
            reports = self._pool.reports(timeout=min(left, pause))
            try:
                report = next(reports)
            except StopIteration:
                return
            if isinstance(report, SessionLost):
                self._lose(report)
            if isinstance(report, ClientReport):
                self._hosts.heard(report.number, report.completed)
                task.update(done=report.seconds, note=self._note(report))
                self._tell(report)
            if time.monotonic() - sampled >= pause and left > 2 * pause:
                self._sample()
                sampled = time.monotonic()

    def _tell(self, point: ClientReport) -> None:
        """Show live figures of all processes: answers so far, and the longest delay.

        `point` is the new report of one process.
        """
        self._points[point.number] = point
        done = sum(one.completed for one in self._points.values())
        behind = max(one.waiting_since for one in self._points.values())
        self._rates.count({"statements": done}, behind=behind)

    def _note(self, point: ClientReport) -> str:
        each = self._hosts.note(point.seconds)
        done = each or f"{point.completed / point.seconds:,.0f}/s"
        behind = point.waiting_since
        return f"{done}, {behind:.1f} s behind" if behind > 0.1 else done

    def _sample(self) -> None:
        verb = self._database.engine.verb(_WAITS)
        if verb is None:
            return
        try:
            rows = self._database.execute(verb)
        except Interrupted:
            raise
        except ReplayerError:
            # The client processes report a lost server.
            return
        self._waits.append({str(row["wait"]): row.real("sessions") for row in rows})

    def _kept(self, results: Sequence[ClientResult | SessionLost]) -> list[ClientResult]:
        for result in results:
            if isinstance(result, SessionLost):
                self._lose(result)
        return [result for result in results if isinstance(result, ClientResult)]

    def _lose(self, lost: SessionLost) -> NoReturn:
        if lost.refused:
            raise ReplayerError(f"the server refused a statement of the load ({lost.why})")
        last_words = self._context.server.read_last_words()
        ending = f"; the server's log says: {last_words}" if last_words else ""
        raise ReplayerError(f"the load lost the server ({lost.why}){ending}")


def _jobs(asked: LevelRequest, database: Database, hosts: Clients) -> Iterator[ClientJob]:
    """Yield the job of each client process.

    The statements are in streams, each with sessions and random numbers for itself.  A stream is
    sent by one process, or in parts by several.  The parts of a stream together send all of it, so
    that the load is the same on any hosts.
    """
    streams = _streams(asked)
    processes = streams * _parts(asked, streams, hosts)
    statements = tuple(_statements(asked, database))
    first, settle = _texts(database, _SESSION), _texts(database, _SETTLE)
    numbers = range(1, asked.sessions + 1)
    for process in range(processes):
        stream, own = process % streams, numbers[process::processes]
        in_stream = len(numbers[stream::streams])
        yield ClientJob(
            number=process,
            stream=stream,
            part=StreamPart(process // streams, processes // streams, in_stream),
            connector=replace(database.connector(), by_driver=asked.by_driver),
            first=first,
            names=tuple(_texts(database, _NAME, number=number) for number in own),
            statements=statements,
            settle=settle,
            keys=Keys(asked.tables.rows, asked.mix.hot_share),
            seconds=asked.seconds,
            rate=None if asked.rate is None else asked.rate * in_stream / asked.sessions,
            arrivals=asked.arrivals,
            resolution=asked.resolution,
            patience=asked.patience,
            seed=asked.seed,
        )


def _streams(asked: LevelRequest) -> int:
    """Return the number of streams: independent random sequences of statements.

    Each stream has at least one client process.  A higher rate needs more of them; without a rate,
    the processors of this machine decide.
    """
    if asked.rate is not None:
        wanted = math.ceil(asked.rate / _RATE_OF_A_PROCESS)
    else:
        wanted = (os.cpu_count() or 1) // _CORES_OF_A_PROCESS
    return max(1, min(wanted, asked.sessions))


def _parts(asked: LevelRequest, streams: int, hosts: Clients) -> int:
    """Return the number of parts of each stream: 1 if the clients run on this host.

    With client hosts there are enough parts to give every host equally many processes.  In a closed
    loop, the number also grows with the processors of the hosts.
    """
    if not hosts.names:
        return 1
    even = math.lcm(streams, len(hosts.names)) // streams
    wanted = 0 if asked.rate is not None else hosts.cores // _CORES_OF_A_PROCESS // streams
    parts = max(even, min(wanted, _MOST_PARTS) // even * even)
    return max(1, min(parts, asked.sessions // streams))


def _said(asked: LevelRequest) -> Mapping[str, VerbName]:
    if asked.by_sort_key:
        return _SORTED
    return _BURNING if asked.burn else _STATEMENTS


def _statements(asked: LevelRequest, database: Database) -> Iterator[DriverStatement]:
    mix = asked.mix
    spans = {"range": mix.work_unit, "update": mix.update_rows, "insert": mix.insert_bytes}
    rows = {"range": mix.work_unit, "update": mix.update_rows}
    for kind, weight in mix.weights.items():
        tables = [INSERTED] if kind in _OF_NO_TABLE else asked.tables.names
        for table in tables:
            (text,) = database.engine.needs(_said(asked)[kind]).statements(table=table)
            numbered, names = database.numbered(text, by_driver=asked.by_driver)
            yield DriverStatement(
                kind=kind,
                text=numbered,
                names=names,
                weight=weight / len(tables),
                span=spans.get(kind, 1),
                burn=asked.burn / rows.get(kind, 1),
            )


def _texts(database: Database, verb: VerbName, **holes: str | int) -> tuple[str, ...]:
    known = database.engine.verb(verb)
    return known.statements(**holes) if known is not None else ()


def _level(  # noqa: PLR0917 - the parts of a level's result
    asked: LevelRequest,
    results: Sequence[ClientResult],
    marks: tuple[int, int, int],
    activity: Activity,
    waits: Sequence[Mapping[str, float]],
    used: MachineUse,
) -> LevelResult:
    tally = LoadCounts.of([result.tally for result in results])
    offered = sum(result.offered for result in results)
    given_up = sum(result.given_up for result in results)
    reason = _unsustained(asked, results, tally, offered)
    names = sorted({name for sample in waits for name in sample})
    return LevelResult(
        asked=asked,
        seconds=asked.seconds,
        begin_ns=marks[0],
        opened_ns=marks[1],
        end_ns=marks[2],
        offered=offered / asked.seconds,
        begun=(offered - given_up) / asked.seconds,
        completed=sum(tally.completed.values()) / asked.seconds,
        counts={kind: tally.completed.get(kind, 0) for kind in KINDS if kind in asked.mix.weights},
        failures=tally.failed,
        service=Latencies.of(tally.service.values()),
        response=Latencies.of(tally.response.values()),
        service_by_kind=tally.service,
        response_by_kind=tally.response,
        in_flight=tally.busy_ns / 1e9 / asked.seconds,
        lag=tuple(_lags(tally)),
        answers=tuple(tally.answers.tolist()),
        sustained=not reason,
        reason=reason,
        activity=activity,
        waits={name: sum(one.get(name, 0.0) for one in waits) / len(waits) for name in names},
        moments=waits,
        clients=used.client_processors,
        use=used,
    )


def _unsustained(
    asked: LevelRequest, results: Sequence[ClientResult], tally: LoadCounts, offered: int
) -> str:
    """Return why a rate was not sustained, "" if it was.

    Its backlog was never worked off, or no statement was due.
    """
    if asked.rate is None:
        return ""
    if not offered:
        rate, seconds = show_count(asked.rate), show_duration(asked.seconds)
        return f"no statement was drawn: {rate}/s for {seconds} are none, let it take longer"
    last = min(result.last_empty for result in results)
    given_up = sum(result.given_up for result in results)
    if not given_up and last >= (1 - _EMPTY_IN_LAST) * asked.seconds:
        return ""
    behind = float(tally.longest_lag_ns.max(initial=0)) / 1e9
    ending = f", and {given_up:,} of {offered:,} statements were given up" if given_up else ""
    busiest = max(sum(result.cpu) / max(1e-9, result.ended) for result in results)
    clients_fault = (
        ": the clients' own processes had no time left" if busiest >= _BUSY_CLIENT else ""
    )
    return (
        f"the backlog only grew from second {last:.1f} on, to {behind:.2f} s{ending}{clients_fault}"
    )


def _lags(tally: LoadCounts) -> Iterator[Lag]:
    for second, begun in enumerate(tally.begun.tolist()):
        if begun:
            mean = int(tally.lag_ns[second]) / begun / 1e9
            yield Lag(second, begun, mean, int(tally.longest_lag_ns[second]) / 1e9)
