"""The sessions of a worker process in time: those under way, and those that are due next."""

import heapq

from replayer.load.timer import TimerFd
from replayer.steps.replay.replay_client import DUE, OVER, LoopClock, ReplayClient
from replayer.steps.replay.spool import records
from replayer.steps.replay.work import ReplayJob


class SessionTimetable:
    """The sessions of one worker process, and a heap of the times at which each is due next.

    At a speed above 0 a session begins at its intended start.  At speed 0 the next one begins when
    another one is over.
    """

    def __init__(self, job: ReplayJob, clock: LoopClock) -> None:
        self._sessions = job.sessions
        self._conninfos = list(job.sessions.conninfos)
        self._spool = job.spool
        self._slots = min(job.slots, len(job.sessions))
        self._clock = clock
        self._next = 0
        """Place of the session that begins next."""
        self.timed = job.speed > 0
        self.live = len(job.sessions)
        """Sessions that are not over."""
        self.clients: dict[int, ReplayClient] = {}
        """The clients under way, by their places among the sessions."""
        self.due: list[tuple[int, int]] = []
        """Heap of the clients that are due: time (monotonic clock, in ns), place of the client."""
        self._alarm = TimerFd()
        self.alarm = self._alarm.fd
        """A descriptor that becomes readable when the first client is due."""

    def close(self) -> None:
        """Close the timer descriptor `alarm`."""
        self._alarm.close()

    def first(self, connections: int | None) -> list[int]:
        """Return the places of the sessions to connect before the clock starts.

        At a speed above 0 these are the sessions that were open when the log began.  At speed 0
        they are the first ones.  A place is an index in the list of sessions.  At most
        `connections` are returned; None is no limit.
        """
        room = connections or len(self._sessions)
        if self.timed:
            return [place for place, before in enumerate(self._sessions.before) if before][:room]
        return list(range(min(room, self._slots)))

    def enter(self, place: int) -> ReplayClient:
        """Return the client of the session with the index `place`; create it if it is missing."""
        client = self.clients.get(place)
        if client is None:
            work = self._sessions.work(place, self._conninfos)
            client = ReplayClient(place, work, records(self._spool.fd, work.first))
            self.clients[place] = client
        return client

    def begin(self) -> None:
        """Schedule the first sessions, when the replay begins.

        At a speed above 0 this is the first one, which schedules the next.  At speed 0 these are as
        many as may run at the same time.
        """
        if self.timed:
            self._await_next()
            return
        for _ in range(self._slots):
            self._begin_next()

    def _await_next(self) -> None:
        """Schedule the session that begins next; when it begins, it schedules the one after it."""
        if self._next < len(self._sessions):
            begins = self._clock.begin_ns + self._sessions.begins[self._next]
            heapq.heappush(self.due, (begins, self._next))

    def _begin_next(self) -> None:
        """Start the next session at speed 0, if there is one left."""
        if self._next < len(self._sessions):
            self.enter(self._next)
            heapq.heappush(self.due, (self._clock.seen_ns, self._next))
            self._next += 1

    def take(self) -> ReplayClient | None:
        """Remove the client that is due first from the heap `due`, and return it.

        Return None if its session is over.
        """
        place = heapq.heappop(self.due)[1]
        if self.timed and place == self._next:
            self._next += 1
            self._await_next()
            return self.enter(place)
        return self.clients.get(place)

    def put(self, client: ReplayClient, at_ns: int) -> None:
        """Schedule a client for the time `at_ns`, in ns of the monotonic clock."""
        heapq.heappush(self.due, (at_ns, client.number))

    def await_start(self, client: ReplayClient, start_ns: int) -> None:
        """Schedule a client for the intended start of its next action, in ns since the begin."""
        client.state = DUE
        heapq.heappush(self.due, (self._clock.begin_ns + start_ns, client.number))

    def end(self, client: ReplayClient) -> None:
        """Mark a session as over; at speed 0, start the next one."""
        client.state = OVER
        self.clients.pop(client.number, None)
        self.live -= 1
        if not self.timed:
            self._begin_next()

    def sleep(self, longest: float) -> float:
        """Return the seconds that the loop may sleep, at most `longest`.

        The alarm becomes readable when the next client is due, so that it ends the sleep.
        """
        if self.due:
            first = self.due[0][0]
            if first <= self._clock.seen_ns:
                return 0
            self._alarm.set(first)
        return longest

    @property
    def behind(self) -> float:
        """Return the seconds by which the client that is due first is late; 0 if it is not late."""
        return max(0, self._clock.seen_ns - self.due[0][0]) / 1e9 if self.due else 0.0
