"""The measured window: every session at work, and the counters at both of its ends."""

import hashlib
import math
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from replayer.engines.connection import Database, Row
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError
from replayer.load.machine_usage import block_counters
from replayer.load.server_clock import ClockReading, step_between
from replayer.run.client_hosts import ClientHosts
from replayer.run.context import Context
from replayer.steps.sessions.spec import Spec
from replayer.tables import pgio
from replayer.tables.pgio import ConnectionLost, Done, SessionJob, SessionResult, TableSet
from replayer.watch import client_pools, interference, ledger
from replayer.watch.client_pools import Pool
from replayer.watch.interference import Traffic
from replayer.watch.ledger import OtherSessions, ServerCounters

_ACCESS = {"index": VerbName("slob/access_index"), "planner": VerbName("slob/access_planner")}
_ALL_ROWS = VerbName("slob/all_rows")
_NAME = VerbName("slob/name")
_OWN_ROWS = VerbName("slob/own_rows")
_PLAN = VerbName("slob/plan")
_SEED = VerbName("slob/seed")
SETTLE = VerbName("slob/settle")
SLICE = VerbName("slob/slice")
_UPDATES = VerbName("slob/updates")
_SETTLE_SECONDS = 0.6
_SETTLE_TRIES = 20
_SHORTEST_SLICE = 0.25
_LONGEST_SLICE = 2.0
_POLL = 1.0
_GRACE = 2.0
"""Seconds after the first loss of a connection in which more sessions may report a loss."""


@dataclass
class SessionsWindow:
    """The measurements of a window: from the start of all sessions to the end of the last one.

    `before` and `after` are the server's counters at its ends.  `begin_ns` and `end_ns` are marks
    of the sampler, and `opened_ns` is the start of the sessions, on the monotonic clock.
    `cpu_seconds` is CPU time that replayer used.  `first_done` and `last_done` are the seconds
    until the first and the last session ended.  `updates` are the updated rows; None if the
    server's counters of them were reset.
    """

    before: ServerCounters
    after: ServerCounters
    begin_ns: int
    opened_ns: int
    end_ns: int = 0
    results: list[SessionResult] = field(default_factory=list)
    cpu_seconds: float = 0.0
    first_done: float = 0.0
    last_done: float = 0.0
    updates: "UpdatedRows | None" = None
    own: Traffic | None = None
    """Bytes that the server's processes read from the device and wrote; None if not known."""
    accounts: tuple[interference.AccountMark, interference.AccountMark] | None = None
    """CPU time and I/O of all processes of the host, at both ends of the window."""
    others: OtherSessions | None = None
    """Blocks or rows that other sessions read in the same database; None if not known."""
    slice_seconds: float = 0.0
    stepped: float = 0.0
    """Seconds by which the server's clock was set forward meanwhile, below 0 if it was set back.

    If it is not 0, the time from `before` to `after` is by replayer's clock.
    """

    @property
    def seconds(self) -> float:
        """Return the seconds of the window, by replayer's clock if the server's clock was set."""
        return self.after.clock - self.before.clock


def _counters(database: Database) -> ServerCounters:
    """Return the server's counters of blocks found and missed in its buffers, and its clock.

    The query itself adds a few catalogue blocks to them, while the sessions read hundreds of
    thousands.
    """
    return block_counters(database)


def _settled(database: Database) -> ServerCounters:
    """Return the server's counters of blocks found and missed in its buffers, and its clock.

    On a server that updates its counters late, wait first until they no longer change, but at most
    for about 12 seconds.
    """
    latest = _counters(database)
    if database.engine.verb(SETTLE) is None:
        return latest
    for _ in range(_SETTLE_TRIES):
        time.sleep(_SETTLE_SECONDS)
        earlier, latest = latest, _counters(database)
        if (latest.hits, latest.reads) == (earlier.hits, earlier.reads):
            break
    return latest


class _RowsRead(NamedTuple):
    """Rows read so far: `all` by every session of the database, `own` by the session that asks."""

    all: int
    own: int


def _rows_read(database: Database) -> _RowsRead | None:
    """Return the rows read so far; None if the server does not count them."""
    whole, own = (database.engine.verb(verb) for verb in (_ALL_ROWS, _OWN_ROWS))
    if whole is None or own is None:
        return None
    return _RowsRead(database.number(whole), database.number(own))


@dataclass(frozen=True)
class _Accounts:
    """The server's counters and the host's accounts, read just before the sessions start.

    `accounts` are CPU time and I/O of all processes of the host.  `counted_ns` is the time at which
    `counters` were read, and `mark_ns` that of the sampler's mark, on the monotonic clock.  `cpu`
    is the CPU time of this process in seconds.
    """

    rows: _RowsRead | None
    accounts: interference.AccountMark
    clock: ClockReading
    counters: ServerCounters
    counted_ns: int
    cpu: float
    mark_ns: int

    def moved_to(self, opened_ns: int) -> ServerCounters:
        """Return the server's counters and clock at the start of the sessions.

        `opened_ns` is that start on the monotonic clock.  The counters were read just before, and
        nothing changed them since; so only the server's clock is moved forward.
        """
        clock = _moved(self.counters.clock, self.counted_ns, opened_ns)
        return replace(self.counters, clock=clock)


def _moved(clock: float, from_ns: int, to_ns: int) -> float:
    """Return the time of the server's clock at `to_ns`, in seconds, if it was `clock` at `from_ns`.

    `from_ns` and `to_ns` are times by replayer's clock, in ns.  The server's clock is taken as not
    set in between.
    """
    return clock + (to_ns - from_ns) / 1e9


def _accounts(context: Context, database: Database) -> _Accounts:
    return _Accounts(
        _rows_read(database),
        context.account(),
        ClockReading.of(database),
        _counters(database),
        time.monotonic_ns(),
        _own_cpu(),
        context.sampler.mark(),
    )


def measure_window(
    spec: Spec, wanted: TableSet, context: Context, database: Database
) -> SessionsWindow:
    """Connect all sessions, start them together; return the measurements when all are done.

    Raises ReplayerError if sessions lost the server, or if it refused a statement.
    """
    slice_seconds = min(_LONGEST_SLICE, max(_SHORTEST_SLICE, spec.sessions / 32))
    jobs = list(_jobs(spec, wanted, database, slice_seconds, tells=bool(context.clients.names)))
    with context.pool(
        pgio.session,
        jobs,
        processes=math.ceil(len(jobs) / pgio.SESSIONS_PER_PROCESS),
        window="sessions",
        awaited=database.waiting(),
    ) as (pool, hosts):
        with context.progress.task(f"connect {len(jobs)} sessions"):
            pool.ready(timeout=60 + len(jobs))
        updates = database.row(_UPDATES)
        if database.engine.verb(SETTLE) is not None:
            _settled(database)
        first, opened_ns = client_pools.opened(
            pool, context.clients, lambda: _accounts(context, database)
        )
        before = first.moved_to(opened_ns)
        window = SessionsWindow(
            before, before, first.mark_ns, opened_ns, slice_seconds=slice_seconds
        )
        _watch(pool, spec, context, database, window=window, hosts=hosts)
        window.end_ns = context.sampler.mark()
        results = pool.results()
        window.after = _settled(database)
        after_ns = time.monotonic_ns()
        window.stepped = step_between(first.clock, ClockReading.of(database))
        if window.stepped:
            window.after = replace(window.after, clock=_moved(before.clock, opened_ns, after_ns))
        last = context.account()
        window.accounts = (first.accounts, last)
        window.own = interference.server_moved(*window.accounts)
        window.cpu_seconds = sum(pool.usage) + _own_cpu() - first.cpu
        last_done_ns = pool.last_done_ns or opened_ns
        window.first_done = ((pool.first_done_ns or opened_ns) - opened_ns) / 1e9
        window.last_done = (last_done_ns - opened_ns) / 1e9
        window.results = [result for result in results if isinstance(result, SessionResult)]
        lost = [result for result in results if isinstance(result, ConnectionLost)]
        _refuse_lost(lost, len(jobs), context)
        for result in window.results:
            hosts.heard(result.number - 1, result.operations)
        hosts.record(context.findings, pool.shares, window.seconds)
    if first.rows is not None or database.engine.verb(SETTLE) is not None or context.clients.names:
        # The counters were read later, and have counted all: the last slice ends the window.
        ended = max(result.ended for result in window.results)
        if window.stepped:
            ended = _moved(before.clock, opened_ns, last_done_ns)
        window.after = replace(window.after, clock=ended)
    _tell_apart(window, first.rows, _rows_read(database))
    window.updates = _updates_between(updates, database.row(_UPDATES))
    return window


class UpdatedRows(NamedTuple):
    """The rows that were updated in a window, and those of them that stayed in their block."""

    all: int
    hot: int


def _updates_between(before: Row, after: Row) -> UpdatedRows | None:
    """Return the rows that were updated between two readings; None if a counter was reset."""
    every, hot = (after.number(name) - before.number(name) for name in ("updated", "hot"))
    return UpdatedRows(every, hot) if 0 <= hot <= every else None


def _tell_apart(window: SessionsWindow, first: _RowsRead | None, last: _RowsRead | None) -> None:
    """Separate the blocks read by replayer's sessions from those of other sessions in the database.

    If the server counts blocks for each session, the window then counts only the blocks that
    replayer's sessions have read.  If it counts only rows, the window gets the rows that other
    sessions have read.  `first` and `last` are the rows read at its ends, None if not counted.
    """
    before, after = window.before, window.after
    if all(result.counts_blocks for result in window.results):
        slices = [one for result in window.results for one in result.slices]
        hits, reads = round(sum(s.hits for s in slices)), round(sum(s.reads for s in slices))
        window.after = replace(after, hits=before.hits + hits, reads=before.reads + reads)
        window.others = OtherSessions(
            hits=max(0, after.hits - window.after.hits),
            reads=max(0, after.reads - window.after.reads),
        )
        return
    own = [result.rows_read for result in window.results if result.rows_read is not None]
    if first is not None and last is not None and len(own) == len(window.results):
        mine = sum(own) + last.own - first.own
        window.others = OtherSessions(rows=max(0, last.all - first.all - mine), own_rows=sum(own))


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _watch(
    pool: Pool,
    spec: Spec,
    context: Context,
    database: Database,
    *,
    window: SessionsWindow,
    hosts: ClientHosts,
) -> None:
    """Wait until all sessions are done; once a second, show the rates by the server's counters.

    Raises ReplayerError if sessions lost the server, or if it refused a statement.
    """
    lost: list[ConnectionLost] = []
    patience = math.inf
    last, polled = window.before, time.monotonic()
    total = spec.run_time if spec.operations is None else None
    with context.progress.task(spec.name, total) as task:
        for report in pool.reports(timeout=_POLL):
            if isinstance(report, ConnectionLost):
                lost.append(report)
                patience = min(patience, time.monotonic() + _GRACE)
            elif isinstance(report, Done):
                hosts.heard(report.number - 1, report.operations)
            if not lost and _due(report, polled):
                point, polled = _counters(database), time.monotonic()
                now = ledger.riops(last, point)
                done = point.clock - window.before.clock
                each = f" ({hosts.note(done)})" if hosts else ""
                task.update(done=done, note=f"{now:,.0f} RIOPS{each}")
                context.figures(riops=now, hits=ledger.cache_hits(last, point))
                last = point
            if time.monotonic() > patience:
                break
    _refuse_lost(lost, spec.sessions, context)


def _due(report: object, polled: float) -> bool:
    """Return whether to poll the server's counters now.

    That is so if no report came before the timeout (`report` is None), or a second after the last
    poll, which was at `polled` (seconds of the monotonic clock): while sessions report their work,
    no timeout occurs.
    """
    return report is None or time.monotonic() - polled >= _POLL


def _refuse_lost(lost: Sequence[ConnectionLost], sessions: int, context: Context) -> None:
    gone = [one for one in lost if not one.refused]
    if lost and not gone:
        raise ReplayerError(
            f"the server refused a statement of {len(lost)} of {sessions} sessions ({lost[0].why})"
        )
    if gone:
        last_words = context.server.read_last_words()
        ending = f"; the server's log says: {last_words}" if last_words else ""
        raise ReplayerError(
            f"{len(gone)} of {sessions} sessions lost the server ({gone[0].why}){ending}"
        )


def _jobs(
    spec: Spec, wanted: TableSet, database: Database, slice_seconds: float, *, tells: bool = False
) -> Iterator[SessionJob]:
    connector = database.connector()
    number = 0
    for thread in range(spec.num_threads):
        for table in wanted.names:
            number += 1
            share = (number - 0.5) / spec.sessions
            yield SessionJob(
                number=number,
                table=table,
                connector=connector,
                first=_told(database, _ACCESS[spec.access]) + _told(database, _NAME, number=number),
                slice=_told(database, SLICE, table=table)[0],
                seed=_told(database, _SEED)[0],
                settle=_told(database, SETTLE),
                own_rows=_told(database, _OWN_ROWS),
                plan=(
                    _told(database, _PLAN, table=table, work_unit=spec.work_unit)
                    if thread == 0 and table == wanted.names[0]
                    else ()
                ),
                numbers={
                    "work_unit": spec.work_unit,
                    "update_work_unit": spec.update_work_unit,
                    "rows": wanted.rows,
                    "update_pct": spec.update_pct,
                },
                random_seed=_random_seed(spec.seed, number),
                run_time=None if spec.operations else spec.run_time,
                operations=spec.operations,
                slice_seconds=slice_seconds,
                first_slice_seconds=slice_seconds * share,
                tells=tells,
            )


def _told(database: Database, verb: VerbName, **holes: str | int) -> tuple[str, ...]:
    asked = database.engine.verb(verb)
    if asked is None:
        return ()
    return tuple(database.render(statement) for statement in asked.statements(**holes))


def _random_seed(seed: int, number: int) -> float:
    """Return the random seed of a session, from -1 to 1: it is the same in every run.

    `number` is the number of the session; each session has another seed.
    """
    drawn = hashlib.blake2b(f"{seed} session {number}".encode(), digest_size=6).digest()
    return int.from_bytes(drawn, "little") / (1 << 47) - 1
