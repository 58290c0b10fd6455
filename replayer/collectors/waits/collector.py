"""Waits of the threads that do a step's work: the server's sessions, or replayer's own threads.

Samples are taken about ten times per second or less, at uneven intervals, so that no regular event
is always met or always missed. For each sample the kernel is asked for the state of at most 64 of
the threads. Then the server is asked what its sessions wait for. Then the kernel is asked whether
each sleeping thread has slept without a break since then. If so, the server's answer is the reason
of this sleep; otherwise it only shows what the thread did soon after. If the server has no session
at work, replayer's own threads are sampled.

From these data analysis/attribution/account.py divides the sessions' time into parts that are
measured independently of each other. The kernel counts in nanoseconds (schedstat) how long each
thread ran and waited for a processor while it was observed. The time asleep comes from
short traces of the scheduler (`switches`). Without the permission to trace it comes from the
samples in which the thread was asleep.
"""

import contextlib
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from replayer.collectors import (
    CollectorContext,
    Observed,
    ThreadTimes,
    WaitSamples,
    WindowRecording,
)
from replayer.collectors.waits.switches import Switches
from replayer.errors import ReplayerError, Skip
from replayer.machine import cgroups, threads
from replayer.machine.cgroups import Throttled
from replayer.machine.threads import Look, Thread
from replayer.machine.watcher import WatcherThread

VERBS = ("watch/waits",)
_MOST_THREADS = 64
_PERIOD = 0.1
_LONGEST_PAUSE = 1.0
_SHARE = 0.004
"""The share of one processor that sampling may take; exceeded if a sample takes more than 4 ms."""
_RETRY = 1.0
"""Seconds after which a server that did not answer is asked again."""
_LOOK_AGAIN = 5.0
"""Seconds after which the lists of own threads and of the server's processes are renewed."""
_SEED = 20261122

_Word = tuple[str, str]
"""(wait, part), as in `Observed`: the name of a session's wait and its kind."""
_NOTHING = ("", "")
_TICK = os.sysconf("SC_CLK_TCK")


class _Seen(NamedTuple):
    """One thread in one sample: its state, and its session's wait.

    `still` is true if the thread slept from before the server was asked until after the answer.
    """

    look: Look
    word: _Word
    still: bool


class _Moment(NamedTuple):
    """One sample of all threads and sessions."""

    clock_ns: int
    whose: str
    """`server` or `replayer`, to which the threads belong."""
    looks: Mapping[int, _Seen]
    """Number of a thread -> its state; the number is unique, as the kernel reuses thread ids."""
    words: Mapping[_Word, int]
    """(wait, part) -> number of sessions, as the server reports, or of job threads here."""
    letters: Mapping[int, str]
    """Thread id -> the kernel's letter for its state, for the sampled threads at work."""

    @property
    def sessions(self) -> int:
        """Return the number of sessions at work, or of threads that do a job for replayer."""
        return sum(self.words.values())


@dataclass
class _Sum:
    """The times of states and waits, added up over the intervals between samples.

    There is one such sum for all intervals from one mark to the next.
    """

    moments: int = 0
    seconds: float = 0.0
    sessions: float = 0.0
    """Number of sessions times seconds; so is each value of `asked`.

    Each sample stands for half of the interval before it and half of the interval after it.
    """
    asked: dict[_Word, float] = field(default_factory=lambda: defaultdict(float))
    observations: int = 0
    threads: set[int] = field(default_factory=set)
    states: dict[tuple[str, _Word, bool], float] = field(default_factory=lambda: defaultdict(float))
    span: float = 0.0
    ran_ns: int = 0
    queued_ns: int = 0
    user: int = 0
    system: int = 0
    """User and system time are in ticks of the kernel."""

    def add(self, before: _Moment, after: _Moment) -> None:
        """Add the times of the interval between two samples."""
        seconds = (after.clock_ns - before.clock_ns) / 1e9
        self.moments += 1
        self.seconds += seconds
        self.sessions += seconds * (before.sessions + after.sessions) / 2
        for moment in (before, after):
            for word, many in moment.words.items():
                self.asked[word] += many * seconds / 2
        both = before.looks.keys() & after.looks.keys()
        self.threads |= both
        self.observations += len(both)
        self.span += seconds * len(both)
        for moment in (before, after):
            states = Counter((one.look.letter, one.word, one.still) for one in _of(moment, both))
            for state, many in states.items():
                self.states[state] += many * seconds / 2
        for number in both:
            first, last = before.looks[number].look, after.looks[number].look
            self.ran_ns += last.ran_ns - first.ran_ns
            self.queued_ns += last.queued_ns - first.queued_ns
            self.user += last.user - first.user
            self.system += last.system - first.system

    def letters(self) -> dict[str, float]:
        """Return the kernel's letter of a state -> share of the observed threads' time."""
        sums: dict[str, float] = defaultdict(float)
        for (letter, _, _), seconds in self.states.items():
            sums[letter] += seconds / self.span
        return dict(sums)

    def join(self, other: "_Sum") -> None:
        """Add the times of another sum."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, set):
                mine |= value
            elif isinstance(mine, dict):
                for key, amount in value.items():
                    mine[key] += amount
            else:
                setattr(self, name, mine + value)


def _of(moment: _Moment, numbers: Iterable[int]) -> list[_Seen]:
    return [moment.looks[number] for number in numbers]


def begin(scene: CollectorContext) -> "Waits":
    """Return a recording that begins to sample waits at the first mark."""
    return Waits(scene)


class Waits:
    """The recording: a thread that samples waits, and the sums of its samples between two marks."""

    def __init__(self, scene: CollectorContext) -> None:
        self._clock = scene.clock
        self._server = _Server(scene)
        self._crew = _Crew()
        self._own = _OwnThreads(scene)
        self._marks: list[int] = []
        self._scene = scene
        self._quotas: list[Mapping[str, Throttled | None]] = []
        """One item per mark: server or replayer -> how often its CPU quota was used up so far."""
        self._sums: dict[tuple[int, str], _Sum] = {}
        """(number of marks before, server or replayer) -> the sum of the samples."""
        self._draw = random.Random(_SEED)  # noqa: S311 - it only draws the times of samples
        self._failure: Exception | None = None
        self._watcher = WatcherThread(self._run)
        self._untraced = ""
        self._switches: Switches | None = None
        try:
            self._switches = Switches(scene)
        except ReplayerError as error:
            self._untraced = str(error)

    def mark(self, clock_ns: int) -> None:
        """Make the thread take a sample at once, without waiting for it; the first mark starts it.

        `clock_ns` is the time of the begin or end of a measured window, in ns of CLOCK_MONOTONIC.
        """
        self._marks.append(clock_ns)
        self._quotas.append({whose: self._quota(whose) for whose in ("server", "replayer")})
        self._own.look_again()
        self._server.look_again()
        self._watcher.wake()

    def end(self) -> float:
        """Stop sampling; return the CPU seconds that sampling and traces used."""
        cost = self._watcher.end()
        return cost + (self._switches.end() if self._switches is not None else 0.0)

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the samples between two marks; an empty recording if no thread was at work.

        Raises the error with which sampling failed, or ReplayerError with the reason why the server
        did not report its sessions.
        """
        if self._failure is not None:
            raise self._failure
        first, last = self._marked(begin_ns), self._marked(end_ns)
        joined = {"server": _Sum(), "replayer": _Sum()}
        for (place, whose), one in self._sums.items():
            if first <= place < last:
                joined[whose].join(one)
        whose, most = max(joined.items(), key=lambda item: item[1].sessions)
        if not most.sessions and self._server.missing:
            raise ReplayerError(self._server.missing)
        if not most.sessions:
            return WindowRecording()
        traced = None
        if self._switches is not None and most.span:
            try:
                traced = self._switches.shares(begin_ns, end_ns, whose, most.letters())
            except ReplayerError as error:
                self._untraced = str(error)
        samples = self._samples(whose, most)
        return WindowRecording(
            waits=replace(
                samples,
                traced=traced,
                untraced=self._untraced,
                throttled=self._throttled(whose, first - 1, last - 1),
                cores=self._cores(whose),
            )
        )

    def _process(self, whose: str) -> int | None:
        """Return the id of the server's main process if `whose` is `server`, else of this process.

        None if the server's main process is not known.
        """
        return next(iter(self._scene.server()), None) if whose == "server" else os.getpid()

    def _quota(self, whose: str) -> Throttled | None:
        process = self._process(whose)
        return None if process is None else cgroups.throttled(self._scene.host, process)

    def _throttled(self, whose: str, first: int, last: int) -> float:
        """Return the share of a CPU quota's periods in which the quota was used up.

        `whose` is `server` or `replayer`, to which the quota applies. `first` and `last` are the
        indexes of two marks, and only the periods between these count. The result is 0 without a
        quota.
        """
        before, after = self._quotas[first][whose], self._quotas[last][whose]
        return cgroups.throttled_share(before, after) or 0.0

    def _cores(self, whose: str) -> int:
        process = self._process(whose)
        try:
            return len(os.sched_getaffinity(process)) if process is not None else 0
        except OSError:
            return 0

    def _samples(self, whose: str, one: _Sum) -> WaitSamples:
        times = ThreadTimes(
            span=one.span,
            ran=one.ran_ns / 1e9,
            queued=one.queued_ns / 1e9,
            user=one.user / _TICK,
            system=one.system / _TICK,
        )
        return WaitSamples(
            whose="server" if whose == "server" else "replayer",
            moments=one.moments,
            sessions=one.sessions / one.seconds,
            asked={word: many / one.seconds for word, many in one.asked.items()},
            threads=len(one.threads),
            observations=one.observations,
            observed=tuple(
                Observed(letter, *word, still=still, seconds=seconds)
                for (letter, word, still), seconds in one.states.items()
            ),
            times=times if one.span else None,
            counted=self._crew.counted,
            missing=self._server.missing if whose == "server" else "",
        )

    def _run(self) -> None:
        threads.hurry()
        try:
            self._look_until_the_end()
        except Exception as error:  # noqa: BLE001 - `cut` raises it, whatever it is
            self._failure = error
        finally:
            self._crew.close()
            self._server.close()

    def _look_until_the_end(self) -> None:
        watcher = self._watcher
        before = self._moment()
        # The first sample made a connection, so its cost is not typical.
        watcher.cost, spent = self._spent(), 0.0
        # The last sample comes after the last mark, so that it notices a server that is gone by
        # then.
        while not watcher.ended or before.clock_ns < self._marks[-1]:
            pause = min(spent / _SHARE, _LONGEST_PAUSE)
            watcher.wait(max(_PERIOD * self._draw.uniform(0.5, 1.5), pause))
            moment = self._moment()
            self._keep(before, moment)
            before = moment
            if self._switches is not None and not watcher.ended:
                self._switches.trace(moment.letters, moment.whose)
            spent = self._spent() - watcher.cost
            watcher.cost += spent

    def _spent(self) -> float:
        """Return the CPU seconds so far of this thread and of the server's thread that answers."""
        return time.thread_time() + self._server.spent()

    def _keep(self, before: _Moment, moment: _Moment) -> None:
        """Add the interval between two samples to the sum between two marks.

        An interval in which a mark lies is left out.
        """
        if before.whose != moment.whose:
            return
        place = self._marked(before.clock_ns)
        if place == self._marked(moment.clock_ns):
            self._sums.setdefault((place, moment.whose), _Sum()).add(before, moment)

    def _marked(self, clock_ns: int) -> int:
        """Return the number of marks at or before `clock_ns`."""
        return sum(mark <= clock_ns for mark in self._marks)

    def _moment(self) -> _Moment:
        """Return one sample: the threads' states and waits, and the number of sessions per wait."""
        clock_ns = self._clock()
        seen = self._crew.look()
        words = self._server.sessions()
        whose, working = "server", self._server.here(words)
        if not words:
            words = dict.fromkeys(self._own.ids(), _NOTHING)
            whose, working = "replayer", words
        looks = self._crew.combine(seen, working)
        looks |= self._crew.take(working)
        letters = {tid: look.letter for tid, look in seen.items() if tid in working}
        return _Moment(clock_ns, whose, looks, Counter(words.values()), letters)


class _Crew:
    """The sampled threads: at most 64 of all threads at work, drawn at random."""

    def __init__(self) -> None:
        self.counted = threads.counts_queues()
        self._members: dict[int, tuple[int, Thread]] = {}
        """Thread id -> (unique number of the thread, its open files)."""
        self._number = 0
        self._draw = random.Random(_SEED)  # noqa: S311 - which sessions are looked at

    def look(self) -> dict[int, Look]:
        """Return thread id -> state and CPU times, for each sampled thread.

        Threads that are gone are left out and forgotten.
        """
        looks = {}
        for tid, (_, thread) in list(self._members.items()):
            try:
                looks[tid] = thread.look()
            except (OSError, ValueError):
                self._forget(tid)
        return looks

    def combine(self, looks: Mapping[int, Look], words: Mapping[int, _Word]) -> dict[int, _Seen]:
        """Return number of thread -> its state and wait, for the sampled threads still at work.

        A thread gets its number when it is drawn. `looks` are the threads' states before the server
        was asked. `words` is the server's answer: thread id -> wait. A thread that slept before,
        and was not given a processor since, counts as still asleep.
        """
        seen = {}
        for tid, look in looks.items():
            word = words.get(tid)
            if word is not None:
                number, thread = self._members[tid]
                still = look.letter != "R" and self.counted and _slices(thread) == look.slices
                seen[number] = _Seen(look, word, still)
        return seen

    def take(self, words: Mapping[int, _Word]) -> dict[int, _Seen]:
        """Drop the threads that are no longer at work, and draw other threads in their places.

        `words` is thread id -> wait of all threads at work. Returns number of thread -> state and
        wait, for the new threads.
        """
        for tid in self._members.keys() - words.keys():
            self._forget(tid)
        fresh = sorted(words.keys() - self._members.keys())
        room = _MOST_THREADS - len(self._members)
        seen = {}
        for tid in self._draw.sample(fresh, min(room, len(fresh))):
            with contextlib.suppress(OSError, ValueError):
                thread = Thread(tid)
                self._number += 1
                self._members[tid] = (self._number, thread)
                seen[self._number] = _Seen(thread.look(), words[tid], still=False)
        return seen

    def close(self) -> None:
        """Close the open files of all sampled threads, and forget these threads."""
        self.take({})

    def _forget(self, tid: int) -> None:
        self._members.pop(tid)[1].close()


def _slices(thread: Thread) -> int:
    try:
        return thread.slices()
    except (OSError, ValueError):
        return -1


class _Server:
    """The server, which is asked what its sessions wait for."""

    def __init__(self, scene: CollectorContext) -> None:
        self.missing = ""
        """The reason why the server's threads or its answers are missing; "" if none is."""
        self._scene = scene
        self._never = scene.ask is None
        self._silent_until = self._unknown_until = 0.0
        self._main = 0
        self._listed_before: set[str] = set()
        self._asking: Thread | None = None
        self._asked_ns = self._spent_ns = 0

    def sessions(self) -> dict[int, _Word]:
        """Return thread id -> the wait of its session; {} if no session is at work.

        Replayer's connections that control a step are left out while they wait for replayer.
        Replayer's connections that only watch are always left out.
        """
        if self._never or time.monotonic() < self._silent_until:
            return {}
        assert self._scene.ask is not None
        unknown = self._scene.opening()
        try:
            rows = self._scene.ask(VERBS[0])
        except Skip as skip:
            self._never, self.missing = True, str(skip)
            return {}
        except ReplayerError as error:
            self._silent_until = time.monotonic() + _RETRY
            self.missing = str(error)
            return {}
        unknown += self._scene.opening()
        self.missing = ""
        named = any(row["named"] for row in rows)
        listed = dict(
            self._listed(row for row in rows if row["named"] or row["part"] == "own" or not named)
        )
        if unknown and not named:
            # One of the new sessions may be an own connection whose id is not known yet.
            listed = {number: listed[number] for number in listed.keys() & self._listed_before}
        else:
            self._listed_before = set(listed)
        return dict(listed.values())

    def _listed(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[int, _Word]]]:
        """Yield (the server's id of a session, (thread id, wait)) of each session at work."""
        control = set(map(str, self._scene.control()))
        watching = set(map(str, self._scene.watching()))
        for row in rows:
            word = (str(row["wait"]), str(row["part"]))
            for session in str(row["sessions"]).split():
                number, _, thread = session.partition(":")
                if word[1] == "own":
                    self._asks(int(thread or number))
                elif number not in watching and (word[1] != "client" or number not in control):
                    yield number, (int(thread or number), word)

    def _asks(self, tid: int) -> None:
        """Note the server's thread that answers, `tid`: its CPU time is a part of the cost."""
        if self._asking is not None and self._asking.tid == tid:
            return
        self.close()
        if self._is_here(tid):
            with contextlib.suppress(OSError, ValueError):
                self._asking = Thread(tid)
                self._asked_ns = self._asking.look().ran_ns

    def spent(self) -> float:
        """Return the CPU seconds of the server's thread for this connection; 0 if not known."""
        if self._asking is not None:
            with contextlib.suppress(OSError, ValueError):
                ran_ns = self._asking.look().ran_ns
                self._spent_ns += ran_ns - self._asked_ns
                self._asked_ns = ran_ns
        return self._spent_ns / 1e9

    def close(self) -> None:
        """Close the files of the server's thread that answers, if there are any."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def here(self, sessions: Mapping[int, _Word]) -> Mapping[int, _Word]:
        """Return `sessions` (thread id -> wait) if these threads can be sampled on this host.

        If they cannot, as for a remote server, returns {} and sets `missing` to the reason.
        """
        if not sessions:
            return {}
        if self._is_here(next(iter(sessions))):
            return sessions
        self.missing = (
            "the server's threads have other numbers here than for itself"
            if self._main
            else "the server's processes are not known on this host"
        )
        return {}

    def look_again(self) -> None:
        """Make the next sample look up the server's main process again, if necessary."""
        self._unknown_until = 0.0

    def _is_here(self, tid: int) -> bool:
        """Return whether the thread with this id on this host belongs to the server.

        It may be another program's thread, as for a remote server.
        """
        if threads.belongs(tid, self._main):
            return True
        if time.monotonic() < self._unknown_until:
            return False
        self._unknown_until = time.monotonic() + _LOOK_AGAIN
        mains = self._scene.server()
        self._main = mains[0] if mains else 0
        return threads.belongs(tid, self._main)


class _OwnThreads:
    """The threads that do a job, in the worker processes of this replayer."""

    def __init__(self, scene: CollectorContext) -> None:
        self._scene = scene
        self._ids: list[int] = []
        self._until = 0.0

    def look_again(self) -> None:
        """Make the next sample look up replayer's working threads again."""
        self._until = 0.0

    def ids(self) -> list[int]:
        """Return the ids of the threads in which replayer does its jobs; at most 5 s old."""
        if time.monotonic() >= self._until:
            self._until = time.monotonic() + _LOOK_AGAIN
            self._ids = [
                tid
                for pid in self._scene.own()[1:]
                for tid in threads.of(pid)
                if threads.name(tid) == threads.JOB
            ]
        return self._ids
