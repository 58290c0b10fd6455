"""Execution of the actions of one process's clients: each is started, sent, answered and ended."""

import select
import time
from collections.abc import Sequence

from replayer.engines import wires
from replayer.engines.wire_session import LOST, ConnectionGone
from replayer.steps.replay.answer_verification import AnswerVerification
from replayer.steps.replay.commit_turns import CommitTurns
from replayer.steps.replay.connection_pool import ConnectionPool
from replayer.steps.replay.replay_client import (
    BARRED,
    BUSY,
    DUE,
    OVER,
    RETRYING,
    WAITING,
    LoopClock,
    ReplayClient,
)
from replayer.steps.replay.replay_counts import number_of
from replayer.steps.replay.replay_statistics import (
    GIVEN_UP,
    LOST_SESSIONS,
    NOT_RUN,
    ReplayStatistics,
)
from replayer.steps.replay.timetable import SessionTimetable
from replayer.steps.replay.work import (
    CONNECT,
    DISCONNECT,
    EXTENDED,
    FED,
    FORGETS,
    IN_ORDER,
    NAMED,
    Record,
    ReplayJob,
)


class SessionRunner:
    """Runs the actions of each client (replayed session) of a process until it has to wait.

    The wait is for a start time, an answer, a connection, or a turn in the order of commits.
    """

    def __init__(  # noqa: PLR0917 - the parts of a loop
        self,
        job: ReplayJob,
        clock: LoopClock,
        timetable: SessionTimetable,
        pool: ConnectionPool,
        turns: CommitTurns | None,
        statistics: ReplayStatistics,
    ) -> None:
        self._prepared, self._feeds = job.prepared, job.feeds
        self._encode = wires.load(job.wire).encode_query
        self._several = job.connections is not None
        self._clock = clock
        self._timetable = timetable
        self._timed = timetable.timed
        self._pool = pool
        self._turns = turns
        self._statistics = statistics
        self._verification = AnswerVerification(statistics, rows=job.verify != "none")
        self.ended_ns = 0
        """Time at which the last action was over, on the monotonic clock in ns."""

    def go(self, client: ReplayClient) -> None:
        """Continue a client whose time has come, for an action or another attempt to connect."""
        if client.state == RETRYING:
            client.state = DUE
            self.resume(client)
        elif client.state == DUE:
            self.advance(client)

    def advance(self, client: ReplayClient) -> None:
        """Start the actions of a client until one is under way, or waits."""
        clock = self._clock
        while (record := client.record) is not None:
            if self._timed and clock.begin_ns + record.start_ns > clock.seen_ns:
                self._timetable.await_start(client, record.start_ns)
                return
            if not self._start(client, record):
                return
        self._finish(client)

    def resume(self, client: ReplayClient) -> None:
        """Start the action for which a client had to wait, and the actions that follow it."""
        assert client.record is not None
        if self._start(client, client.record):
            self.advance(client)

    def release(self, numbers: Sequence[int]) -> None:
        """Resume those clients that still wait for their turn in the order of commits.

        `numbers` are the clients whose turn may have come.
        """
        for number in numbers:
            client = self._timetable.clients.get(number)
            # A client that gave up waiting is still in the gate's queue.
            if client is not None and client.state == WAITING and not client.forced:
                self.resume(client)

    def force(self, number: int, why: str) -> None:
        """Resume the waiting client `number` before its turn, and count that as the event `why`."""
        assert self._turns is not None
        client = self._timetable.clients[number]
        assert client.record is not None
        self._statistics.count_unordered(why, client.record)
        self._turns.force(client)
        self.resume(client)

    def _start(self, client: ReplayClient, record: Record) -> bool:
        """Start the next action of a client; return True if it is over at once.

        Return False if it is under way, or if the client has to wait before it can start.
        """
        if client.cut:
            self._skip(client, record)
            return True
        if self._turns is not None and not client.forced and self._turns.waits(client, record):
            if self._pool.wanting and client.connection is not None and client.connection.idle:
                # Its turn may come only after an action of one of those.
                self._pool.wake(self._pool.hand_on(client))
            return False
        if record.does == DISCONNECT:
            self._pool.let_go(client)
            self._end(client, record)
            return True
        if client.connection is None and not self._pool.serve(client):
            if client.state == BARRED:
                self._give_up(client)
            return False
        if record.does == CONNECT:
            self._end(client, record)
            if self._pool.wanting:
                # Not at once: it may be at its own CONNECT, and so may a thousand others after it.
                self._pool.wake(self._pool.hand_on(client))
            return True
        return self._send(client, record)

    def _send(self, client: ReplayClient, record: Record) -> bool:
        connection = client.connection
        assert connection is not None
        client.begun_ns = time.monotonic_ns()
        in_order = bool(record.flags & IN_ORDER)
        if fed := record.flags >> FED:
            connection.feed = self._feeds[fed - 1].fd
        try:
            if record.does == NAMED:
                name, text = self._name_of(client, record), self._prepared[record.named].text
                connection.execute(name, record.named, text, record.payload, in_order=in_order)
            else:
                extended, payload = bool(record.flags & EXTENDED), record.payload
                if self._several and record.named >= 0:
                    name = self._name_of(client, record)
                    if name in connection.prepared:
                        extended, payload = False, self._encode(_deallocate(name))
                connection.send(payload, extended=extended, in_order=in_order)
        except ConnectionGone as error:
            self._lose(client, record, error)
            return True
        if connection.unsent:
            self._pool.poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        client.state = BUSY
        self._statistics.at_work += 1
        return False

    def _name_of(self, client: ReplayClient, record: Record) -> bytes:
        """Return the name that the record's prepared statement has on the client's connection."""
        name = self._prepared[record.named].name
        return b"%d.%s" % (client.work.number, name) if self._several else name

    def receive(self, client: ReplayClient, mask: int) -> None:
        """Read from the connection of a client; if the answer is complete, start the next action.

        `mask` has the events of the connection, as epoll returns them.
        """
        connection, record = client.connection, client.record
        assert connection is not None
        assert record is not None
        try:
            if mask & select.EPOLLOUT:
                connection.flush()
                if not connection.unsent:
                    self._pool.poll.modify(connection.fd, select.EPOLLIN)
            # While it sent, libpq may have read the answer: nothing more may come then.
            sending = bool(connection.unsent) and not mask & ~select.EPOLLOUT
            if sending or not connection.receive():
                if connection.unsent:
                    self._pool.poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
                return
        except ConnectionGone as error:
            self._statistics.at_work -= 1
            self._lose(client, record, error)
        else:
            self._statistics.at_work -= 1
            self._verification.check(client, record, connection)
            if record.flags & FORGETS:
                if record.named < 0:
                    connection.prepared.clear()
                else:
                    connection.prepared.pop(self._name_of(client, record), None)
            self._clock.answered_ns = self._clock.seen_ns
            self._end(client, record)
            if self._pool.wanting and connection.idle:
                self.resume(self._pool.hand_on(client))
        self.advance(client)

    def connect(self, client: ReplayClient) -> None:
        """Continue an attempt to connect a client; once it is connected, start its actions."""
        if self._pool.go_on(client):
            self.resume(client)
        elif client.state == BARRED:
            self._give_up(client)

    def _give_up(self, client: ReplayClient) -> None:
        self._statistics.count(GIVEN_UP)
        while (record := client.record) is not None:
            self._skip(client, record)
        self._finish(client)

    def _skip(self, client: ReplayClient, record: Record) -> None:
        """Skip an action that can no longer run; clients that wait for its end are released."""
        if record.fingerprint >= 0:
            self._statistics.count(NOT_RUN)
        if record.ends >= 0 or record.does == DISCONNECT:
            client.cut = False
        self._end(client, record)

    def _lose(self, client: ReplayClient, record: Record, error: ConnectionGone) -> None:
        """Handle a lost connection: the rest of the client's open transaction is not run."""
        connection = client.connection
        assert connection is not None
        self._statistics.count(LOST_SESSIONS)
        state = number_of(error.sqlstate) or number_of(LOST)
        code = self._verification.judge(client, record, state)
        self._statistics.write(client, record, code, -1, 0, -1)
        open_before = not connection.idle
        self._pool.let_go(client)
        self._end(client, record)
        client.cut = open_before and record.ends < 0

    def _end(self, client: ReplayClient, record: Record) -> None:
        """Mark the current action of a client as over, and move to its next."""
        if record.ends >= 0:
            client.strayed = False
        if self._turns is not None:
            self._turns.end(record)
        self._statistics.done += 1
        client.state = DUE
        client.forced = False
        client.free_ns = self.ended_ns = self._clock.seen_ns
        client.record = next(client.records, None)

    def _finish(self, client: ReplayClient) -> None:
        """Mark a session as over, and close its connection."""
        if client.state != OVER:
            self._pool.let_go(client)
            self._timetable.end(client)


def _deallocate(name: bytes) -> str:
    quoted = name.decode("utf-8", "surrogateescape").replace('"', '""')
    return f'DEALLOCATE "{quoted}"'
