"""The parts of a replay's loop, each by itself and without a server."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replayer.engines.wire_session import ConnectionGone, Refused
from replayer.steps.replay.answer_verification import AnswerVerification
from replayer.steps.replay.commit_order import WHOLE_TABLE, Gate, RowChange, Sequenced
from replayer.steps.replay.commit_turns import CommitTurns
from replayer.steps.replay.connection_pool import ConnectionPool
from replayer.steps.replay.count_reporter import CountReporter
from replayer.steps.replay.replay_client import (
    BARRED,
    BUSY,
    CONNECTING,
    OVER,
    RETRYING,
    WAITING,
    WANTING,
    LoopClock,
    ReplayClient,
)
from replayer.steps.replay.replay_counts import number_of
from replayer.steps.replay.replay_statistics import (
    GIVEN_UP,
    REFUSED,
    SHARED,
    ReplayProgress,
    ReplayStatistics,
)
from replayer.steps.replay.session_runner import SessionRunner
from replayer.steps.replay.spool import Spool
from replayer.steps.replay.timetable import SessionTimetable
from replayer.steps.replay.work import CONNECT, WHOLE, Record, ReplayJob, SessionColumns
from replayer.watch.workers import Descriptor
from tests.known import known

SECOND = 10**9


def record(start_s: float = 0, **more: Any) -> Record:
    """Return a statement that is due at a second."""
    plain = Record(WHOLE, 0, b"Q", round(start_s * SECOND), -1, -1, -1, -1, 0, -1, 0, -1, 0)
    return plain._replace(**more)


class Answering:
    """A connection on a pair of sockets: `answer` is what the server does."""

    def __init__(self, session: int = 1) -> None:
        self._own, self.server = socket.socketpair()
        self.fd, self.session, self.idle = self._own.fileno(), session, True
        self.prepared: dict[bytes, int] = {}
        self.feed, self.unsent, self.sqlstate = -1, b"", ""
        self.rows, self.matched, self.hash = 1, -1, 0
        self.events, self.refusals = select.EPOLLIN, 0
        self.sent: list[bytes] = []

    def answer(self, **more: Any) -> None:
        """Answer what was sent."""
        vars(self).update(more)
        self.server.send(b"Z")

    def send(self, whole: bytes, *, extended: bool, in_order: bool) -> None:
        """Take a message."""
        self.sent.append(whole)

    def receive(self) -> bool:
        """Read an answer."""
        if not self._own.recv(1):
            raise ConnectionGone("it ended")
        return True

    def fileno(self) -> int:
        """Return the descriptor, as of an attempt to connect."""
        return self.fd

    def go_on(self) -> bool:
        """Be connected, after some refusals."""
        return True

    def connection(self, *, hashes: bool, read_only: bool) -> "Answering":
        """Return itself: it is an attempt, too."""
        return self

    def close(self) -> None:
        """Close both ends."""
        self._own.close()
        self.server.close()


class Parts:
    """All parts over some sessions."""

    def __init__(self, folder: Path, opened: ExitStack, *plans: list[Record], **keys: Any) -> None:
        spool = Spool(folder)
        opened.callback(spool.close)
        sessions = SessionColumns()
        for number, plan in enumerate(plans):
            place = sessions.add(number, "", before=True)
            sessions.begin(place, plan[0].start_ns)
            sessions.set_first(place, spool.write(plan))
        settings: dict[str, Any] = {
            "process": 0, "wire": "postgres", "spool": Descriptor(spool.fd), "sessions": sessions,
            "prepared": (), "order": None, "blocked": None, "order_timeout": 1.0, "speed": 0.0,
            "verify": "rows", "slots": len(plans), "connections": None,
        }  # fmt: skip
        job = ReplayJob(**{**settings, **keys})
        self.clock = LoopClock(time.monotonic_ns())
        self.statistics = ReplayStatistics(0, self.clock, timed=job.speed > 0, hashes=False)
        self.timetable = SessionTimetable(job, self.clock)
        opened.callback(self.timetable.close)
        self.turns = CommitTurns.of(job, self.clock)
        if self.turns is not None:
            opened.callback(self.turns.close)
        parts = job, self.clock, self.timetable
        self.pool = ConnectionPool(*parts, self.statistics, self.turns)
        opened.callback(self.pool.close)
        self.made: list[Answering] = []
        self.pool._begin_connecting = self.connect
        self.runner = SessionRunner(*parts, self.pool, self.turns, self.statistics)
        self.timetable.begin()

    def connect(self, conninfo: str) -> Any:
        """Make one more connection."""
        self.made.append(Answering(len(self.made) + 1))
        return self.made[-1]

    def go(self) -> list[ReplayClient]:
        """Let all that are due go on, and connect; return them."""
        gone = []
        while self.timetable.due and self.timetable.due[0][0] <= self.clock.seen_ns:
            if (client := self.timetable.take()) is not None:
                gone.append(client)
                self.runner.go(client)
                if client.state == CONNECTING:
                    self.runner.connect(client)
        return gone

    @property
    def happened(self) -> dict[str, int]:
        """Return the events so far."""
        taken = self.statistics.take(0)
        return {} if taken is None else dict(taken.progress.tally.happened)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Callable[..., Parts]]:
    """Return a function that makes the parts of a loop over sessions, each a list of records."""
    with ExitStack() as opened:
        yield partial(Parts, tmp_path, opened)


def test_a_session_sends_its_next_action_when_it_has_an_answer(parts: Callable[..., Parts]) -> None:
    """At speed 0; the session is over at its last answer, and its connection closed."""
    loop = parts([record(payload=b"one"), record(payload=b"two")])
    (client,) = loop.go()
    (connection,) = loop.made
    assert (client.state, connection.sent) == (BUSY, [b"one"])
    for _ in range(2):
        connection.answer()
        loop.runner.receive(client, select.EPOLLIN)

    assert connection.sent == [b"one", b"two"]
    assert (loop.timetable.live, loop.statistics.done, loop.pool.by_fd) == (0, 2, {})


def test_an_action_waits_for_its_time(parts: Callable[..., Parts]) -> None:
    """At a speed above 0; a late one shows as behind."""
    loop = parts([record(1)], [record(3)], speed=1.0)
    assert loop.go() == []
    assert loop.timetable.sleep(0.5) == 0.5
    loop.clock.seen_ns += 2 * SECOND
    assert loop.timetable.behind == pytest.approx(1)
    assert [client.number for client in loop.go()] == [0]
    assert loop.timetable.behind == 0


def test_sessions_share_connections_where_they_are_few(parts: Callable[..., Parts]) -> None:
    """An idle one is handed on to the session that has wanted one for longest."""
    loop = parts([record(), record()], [record(), record()], connections=1)
    first, second = loop.go()
    assert (first.state, second.state) == (BUSY, WANTING)
    loop.made[0].answer()
    loop.runner.receive(first, select.EPOLLIN)
    assert (first.state, second.state) == (WANTING, BUSY)
    assert (loop.made[1:], loop.pool.by_fd[loop.made[0].fd]) == ([], second)
    assert loop.happened[SHARED] == 1


def connect() -> Record:
    """Return the begin of a session."""
    return record(does=CONNECT, fingerprint=-1, payload=b"")


def test_a_connection_goes_through_a_thousand_sessions(parts: Callable[..., Parts]) -> None:
    """Each connects, and hands it on at once; no depth of calls grows with their number."""
    many = 1000
    loop = parts(*[[connect(), record()] for _ in range(many)], connections=1)
    loop.go()
    (connection,) = loop.made
    while loop.timetable.live:
        connection.answer()
        loop.runner.receive(loop.pool.by_fd[connection.fd], select.EPOLLIN)
        loop.go()

    assert (len(connection.sent), loop.made) == (many, [connection])


@pytest.mark.parametrize("at_once", [True, False])
def test_who_waits_for_the_place_of_a_refused_session_goes_on(
    parts: Callable[..., Parts], *, at_once: bool
) -> None:
    """Else it would wait forever, as no connection ends any more."""
    loop = parts([record()], [record()], [record()], connections=1)

    def refused(*_: object) -> Any:
        for attempt in loop.made:
            attempt.close()  # as a refused attempt closes itself
        raise Refused("no", passing=False)

    if at_once:
        loop.pool._begin_connecting = refused
        loop.go()
    else:
        first, second, third = (known(loop.timetable.take()) for _ in range(3))
        for client in (first, second, third):
            loop.runner.go(client)
        assert (first.state, second.state, third.state) == (CONNECTING, WANTING, WANTING)
        loop.made[0].go_on = refused  # type: ignore[method-assign]
        loop.runner.connect(first)
        assert (first.state, second.state) == (OVER, RETRYING)
        loop.go()
        assert (second.state, third.state) == (BUSY, WANTING)
        loop.made[1].answer()
        loop.runner.receive(second, select.EPOLLIN)
        assert third.state == BUSY
        loop.made[1].answer()
        loop.runner.receive(third, select.EPOLLIN)

    assert loop.timetable.live == 0
    assert loop.happened[GIVEN_UP] == (3 if at_once else 1)


def test_a_place_that_is_handed_on_wakes_no_other(parts: Callable[..., Parts]) -> None:
    """Where the connection cannot be the same, the one that waited longest makes its own."""
    loop = parts([record(), record()], [record()], [record()], connections=1)
    first, second, third = (known(loop.timetable.take()) for _ in range(3))
    second.work = second.work._replace(conninfo="another")
    loop.runner.go(first)
    loop.runner.connect(first)
    for client in (second, third):
        loop.runner.go(client)
    loop.made[0].answer()
    loop.runner.receive(first, select.EPOLLIN)

    assert (second.state, third.state) == (CONNECTING, WANTING)
    assert list(loop.pool.wanting) == [third, first]


@pytest.mark.parametrize(("passing", "state"), [(True, RETRYING), (False, BARRED)])
def test_a_refused_session_tries_again_or_is_given_up(
    parts: Callable[..., Parts], *, passing: bool, state: int
) -> None:
    """A refusal that may pass is tried again later; at the other kind all its actions are over."""
    loop = parts([record(), record()])

    def refuse(conninfo: str) -> Any:
        raise Refused("no", passing=passing)

    loop.pool._begin_connecting = refuse
    (client,) = loop.go()
    events = loop.happened
    assert events[REFUSED] == 1
    assert (loop.timetable.live, events.get(GIVEN_UP, 0)) == ((1, 0) if passing else (0, 1))
    assert loop.pool.refusal == ("" if passing else "no")
    assert (client.state == RETRYING) == (state == RETRYING)


def test_errors_and_rows_are_compared_with_the_log(parts: Callable[..., Parts]) -> None:
    """The first difference of each kind is noted with its session; what follows is not."""
    loop = parts([record()])
    (client,) = loop.go()
    answer: Any = loop.made[0]
    verification = AnswerVerification(loop.statistics, rows=True)
    for logged, sqlstate, rows in (
        ("", "", 5), ("", "", 4), ("40P01", "", 5), ("", "23505", -1), ("", "25P02", -1),
    ):  # fmt: skip
        answer.sqlstate, answer.rows = sqlstate, rows
        verification.check(client, record(rows=5, logged=number_of(logged)), answer)
    taken = loop.statistics.take(0)
    assert taken is not None
    first = taken.progress.tally.first
    assert {code for _, code in first} == {0, -number_of("40P01"), number_of("23505")}
    reports: list[Any] = []
    reporter = CountReporter(reports.append, timed=False)
    reporter.put(taken)
    reporter.finish()
    (report,) = reports
    assert isinstance(report, ReplayProgress)
    assert dict(report.tally.executions.items()) == {0: 5}
    assert dict(report.tally.otherwise.items()) == {0: 1}
    assert loop.statistics.take(0) is None


def test_what_waits_for_its_turn_goes_when_it_comes_or_when_it_is_late(
    parts: Callable[..., Parts],
) -> None:
    """By the turn before it, or by the timeout."""
    order = Sequenced()
    for turn in range(2):
        order.takes(1, turn)
    with order.shared(1, 2) as shared:
        loop = parts([record(chain=1, turn=0)], [record(chain=1, turn=1)], order=shared)
        first, second = loop.go()
        turns = loop.turns
        assert turns is not None
        assert (first.state, second.state, turns.late()) == (BUSY, WAITING, [])
        loop.clock.seen_ns += SECOND
        assert turns.late() == [1]
        loop.made[0].answer()
        loop.runner.receive(first, select.EPOLLIN)
        loop.runner.release(turns.released())
        assert second.state == CONNECTING
        assert turns.late() == []
        assert not second.forced


def test_nobody_is_late_while_actions_end(parts: Callable[..., Parts]) -> None:
    """A replay that is behind keeps its order; one in which nothing ends does not."""
    order = Sequenced()
    for turn in range(2):
        order.takes(1, turn)
    with order.shared(1, 2) as shared:
        loop = parts([record(), record()], [record(chain=1, turn=1)], order=shared)
        loop.go()
        loop.clock.seen_ns += 5 * SECOND
        loop.made[0].answer()
        loop.runner.receive(loop.timetable.clients[0], select.EPOLLIN)
        assert loop.turns is not None
        assert loop.turns.late() == []
        loop.clock.seen_ns += SECOND
        assert loop.turns.late() == [1]


def change(row: int, begun: float, ended: float, kind: int = 2) -> RowChange:
    """Return a change of a row between two seconds."""
    return RowChange(kind, row, round(begun * SECOND), round(ended * SECOND))


CHANGES = [
    change(1, 0, 1), change(2, 0, 2), change(1, 0, 3), change(0, 0, 4, WHOLE_TABLE),
    change(1, 0, 5), change(2, 0, 6), change(3, 5.5, 7), change(4, 0, 8, 3), change(5, 0, 9),
]  # fmt: skip
BEFORE: list[set[int]] = [set(), set(), {0}, {0, 1, 2}, {3}, {3}, {4}, {6}, {7}]
"""For each change, those whose end lets it begin: of its row, of the table, long before it."""


@pytest.mark.parametrize("processes", [1, 2])
def test_changes_of_different_rows_that_met_at_the_source_need_no_order(processes: int) -> None:
    """Same row, whole table, other columns, and what had ended before: these are kept."""
    order = Sequenced()
    assert order.kind(("id",)) == 2
    assert order.kind(("code",)) == 3
    for turn, one in enumerate(CHANGES):
        order.takes(1, turn, turn, one)
    with order.shared(processes, len(CHANGES)) as shared, ExitStack() as opened:
        gates = [opened.enter_context(closing(Gate(shared, n))) for n in range(processes)]
        waiting = set(range(len(CHANGES)))
        ended: set[int] = set()
        begun: list[int] = []
        for turn in range(len(CHANGES)):
            if not gates[turn % processes].waits(turn, -1, 1, turn):
                waiting.discard(turn)
                begun.append(turn)
        while begun:
            turn = begun.pop()
            assert ended >= BEFORE[turn]
            ended.add(turn)
            gates[turn % processes].end(-1, 1, turn)
            for gate in gates:
                gate.ring()
                for who in gate.released():
                    if not gate.waits(who, -1, 1, who):
                        waiting.discard(who)
                        begun.append(who)
        assert waiting == set()
        assert not any(gate.sleep() for gate in gates)


def test_changes_of_different_rows_begin_together() -> None:
    """Two of them, where a third of the first one's row waits for that one alone."""
    order = Sequenced()
    order.kind(("id",))
    for turn, one in enumerate(CHANGES[:3]):
        order.takes(1, turn, turn, one)
    with order.shared(1, 3) as shared, closing(Gate(shared, 0)) as gate:
        assert [gate.waits(turn, -1, 1, turn) for turn in range(3)] == [False, False, True]
        gate.meet(0, 100)
        gate.meet(2, 102)
        assert gate.deadlocked([(100, 102)], time.monotonic_ns()) == [2]
        gate.end(-1, 1, 1)
        assert gate.released() == []
        gate.end(-1, 1, 0)
        assert gate.released() == [2]
