"""Connections of the clients (replayed sessions) of one process: made, handed on, lost, closed."""

import contextlib
import select
import time
from collections import deque
from typing import TYPE_CHECKING

from replayer.engines import wires
from replayer.engines.wire_session import (
    ConnectionAttempt,
    ConnectionGone,
    Refused,
    WireConnection,
)
from replayer.steps.replay.commit_turns import CommitTurns
from replayer.steps.replay.replay_client import (
    BARRED,
    BUSY,
    CONNECTING,
    DUE,
    FIRST_PAUSE_NS,
    RETRYING,
    WANTING,
    LoopClock,
    ReplayClient,
)
from replayer.steps.replay.replay_statistics import (
    LOST_SESSIONS,
    REFUSED,
    SHARED,
    ReplayStatistics,
)
from replayer.steps.replay.timetable import SessionTimetable
from replayer.steps.replay.work import ReplayJob

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_NS = 30 * 10**9
"""Longest time of repeated refusals, in ns, since the server last answered any client.

After that, a client gives up.
"""
_CONNECT_NS = 10 * 10**9
_LONGEST_PAUSE_NS = 1_000_000_000


class ConnectionPool:
    """The connections of one process, and the poll that waits for them.

    Without a limit on connections each session has its own.  With a limit, a session hands its idle
    connection on to a session that has none and needs one.
    """

    def __init__(
        self,
        job: ReplayJob,
        clock: LoopClock,
        timetable: SessionTimetable,
        statistics: ReplayStatistics,
        turns: CommitTurns | None,
    ) -> None:
        self._begin_connecting: Callable[[str], ConnectionAttempt]
        self._begin_connecting = wires.load(job.wire).load_attempts()
        self._hashes, self._read_only = job.verify == "hash", job.read_only
        self._limit = job.connections
        self._clock = clock
        self._timetable = timetable
        self._statistics = statistics
        self._turns = turns
        self.poll = select.epoll()
        self.by_fd: dict[int, ReplayClient] = {}
        """Descriptor of a connection, or of an attempt to connect -> its client."""
        self._open = 0
        self.wanting: deque[ReplayClient] = deque()
        """Clients that wait until the limit allows a connection, the longest wait first."""
        self.refusal = ""
        """The server's reason to refuse connections, if sessions were given up for it; else ""."""

    def close(self) -> None:
        """Close all connections and attempts to connect, and the epoll descriptor."""
        for client in self._timetable.clients.values():
            if client.connection is not None:
                client.connection.close()
            if client.connecting is not None:
                client.connecting.close()
        self.poll.close()

    def connect_now(self, client: ReplayClient) -> None:
        """Connect a client before the replay begins, and wait up to 10 seconds for the connection.

        A refusal or a timeout is ignored here: the session tries again during the replay.
        """
        with contextlib.suppress(Refused):
            attempt = self._begin_connecting(client.work.conninfo)
            end = time.monotonic_ns() + _CONNECT_NS
            made = False
            while not made:
                if not is_ready(attempt, (end - time.monotonic_ns()) / 1e9):
                    attempt.close()
                    return
                made = attempt.go_on()
            client.connection = self._made(attempt)
            self._open += 1
            self._register(client, client.connection.fd)

    def _made(self, attempt: ConnectionAttempt) -> WireConnection:
        return attempt.connection(hashes=self._hashes, read_only=self._read_only)

    def _register(self, client: ReplayClient, fd: int) -> None:
        self._meet(client)
        self.by_fd[fd] = client
        self.poll.register(fd, select.EPOLLIN)

    def _meet(self, client: ReplayClient) -> None:
        if self._turns is not None:
            self._turns.meet(client)

    def serve(self, client: ReplayClient) -> bool:
        """Give a client an idle connection, start to connect it, or let it wait for a connection.

        It waits if the limit on connections is reached and none is idle.  Return True if the client
        has a connection now.
        """
        if self._limit is not None and self._open >= self._limit:
            other = self._find_idle(client)
            if other is None:
                client.state = WANTING
                self.wanting.append(client)
                return False
            if other.work.conninfo == client.work.conninfo:
                self._take_over(client, other)
                return True
            self._close(other)
        self._connect(client)
        return False

    def _find_idle(self, client: ReplayClient) -> ReplayClient | None:
        """Return a client whose connection is idle (in no transaction); None if there is none.

        If possible, it has the same conninfo (connection string) as `client`.
        """
        idle = [
            one
            for one in self.by_fd.values()
            if one.connection is not None
            # A client keeps a connection that was handed on to it until it has gone on.
            and one.state not in {BUSY, RETRYING}
            and one.connection.idle
        ]
        alike = (one for one in idle if one.work.conninfo == client.work.conninfo)
        return next(alike, idle[0] if idle else None)

    def _take_over(self, client: ReplayClient, other: ReplayClient) -> None:
        assert other.connection is not None
        client.connection, other.connection = other.connection, None
        self._meet(client)
        self._meet(other)
        self.by_fd[client.connection.fd] = client
        self._statistics.count(SHARED)

    def hand_on(self, client: ReplayClient) -> ReplayClient:
        """Give up the idle connection of a client for the client that has waited longest for one.

        Return that other client.  It takes the connection over if both have the same conninfo
        (connection string).  If not, the connection is closed, and the other client has to connect.
        """
        other = self.wanting.popleft()
        other.state = DUE
        if other.work.conninfo == client.work.conninfo:
            self._take_over(other, client)
        else:
            self._close(client)
        other.free_ns = self._clock.seen_ns
        return other

    def _connect(self, client: ReplayClient) -> None:
        """Start to connect a client; an immediate refusal is handled like a later one."""
        client.state = CONNECTING
        client.asked_ns = self._clock.seen_ns
        client.since_ns = client.since_ns or client.asked_ns
        try:
            client.connecting = self._begin_connecting(client.work.conninfo)
        except Refused as refusal:
            self._refuse(client, refusal)
            return
        self._open += 1
        fd = client.connecting.fileno()
        self.by_fd[fd] = client
        self.poll.register(fd, client.connecting.events)

    def go_on(self, client: ReplayClient) -> bool:
        """Continue an attempt to connect; return True once the connection is made."""
        attempt = client.connecting
        assert attempt is not None
        before = attempt.fileno()
        try:
            made = attempt.go_on()
        except Refused as refusal:
            self._forget(before)
            self._open -= 1
            client.connecting = None
            self._refuse(client, refusal)
            return False
        fd = attempt.fileno()
        if fd != before:
            # libpq went on to the next address, with another socket.
            self._forget(before)
            self.by_fd[fd] = client
            self.poll.register(fd, attempt.events)
        if not made:
            self.poll.modify(fd, attempt.events)
            return False
        self._forget(fd)
        client.connection, client.connecting = self._made(attempt), None
        client.since_ns, client.pause_ns = 0, FIRST_PAUSE_NS
        self._register(client, client.connection.fd)
        client.state = DUE
        client.free_ns = self._clock.seen_ns
        return True

    def _refuse(self, client: ReplayClient, refusal: Refused) -> None:
        """Handle a refused connection: try again later, or set the client's state to BARRED.

        A client is barred for good if the reason will not pass, or if it has been refused for too
        long.
        """
        now = time.monotonic_ns()
        self._statistics.count(REFUSED)
        waited = now - max(client.since_ns, self._clock.answered_ns)
        if not refusal.passing or waited >= _PATIENCE_NS:
            self.refusal = self.refusal or str(refusal)
            client.state = BARRED
        else:
            client.state = RETRYING
            self._timetable.put(client, now + client.pause_ns)
            client.pause_ns = min(2 * client.pause_ns, _LONGEST_PAUSE_NS)
        # Its place is free, and it may be that no other event wakes a client that waits for one.
        self._begin_wanting()

    def read_interrupted(self, client: ReplayClient) -> None:
        """Handle a connection that has an event while no statement is under way on it.

        Either the connection ended, or it can take more of the data of a COPY that failed.
        """
        connection = client.connection
        if connection is None:
            return
        try:
            if connection.unsent:
                connection.flush()
            if not connection.unsent:
                self.poll.modify(connection.fd, select.EPOLLIN)
            connection.receive()
        except ConnectionGone:
            self._statistics.count(LOST_SESSIONS)
            client.cut = not connection.idle
            self.let_go(client)

    def let_go(self, client: ReplayClient) -> None:
        """Close the connection of a client, and its attempt to connect, if it has one.

        If a client waits for a connection, the one that has waited longest connects now.
        """
        if self._close(client):
            self._begin_wanting()

    def _close(self, client: ReplayClient) -> bool:
        """Close what `let_go` closes, and wake no client; return True if that freed a place."""
        before = self._open
        if client.connecting is not None:
            self._forget(client.connecting.fileno())
            client.connecting.close()
            client.connecting = None
            self._open -= 1
        if client.connection is not None:
            self._forget(client.connection.fd)
            client.connection.close()
            client.connection = None
            self._meet(client)
            self._open -= 1
        return self._open < before

    def _begin_wanting(self) -> None:
        """Let the client that has waited longest for a connection, if there is one, connect now."""
        if self.wanting:
            self.wake(self.wanting.popleft())

    def wake(self, client: ReplayClient) -> None:
        """Have a client go on as soon as those that are due before it have done so."""
        client.state = RETRYING
        self._timetable.put(client, self._clock.seen_ns)

    def _forget(self, fd: int) -> None:
        if self.by_fd.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self.poll.unregister(fd)


def is_ready(attempt: ConnectionAttempt, seconds: float) -> bool:
    """Wait at most `seconds` until an attempt to connect can go on; return whether it can."""
    # select(2) supports no descriptor above 1023.
    poll = select.poll()
    poll.register(attempt.fileno(), attempt.events)
    return bool(poll.poll(max(0.0, seconds) * 1e3))
