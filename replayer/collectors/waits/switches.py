"""The threads' time asleep, from short traces of all scheduler events.

A sample of a thread's state alone is not enough, because the sampling thread needs a processor
itself. An idle virtual machine gives it one only when the disk's interrupts arrive, and these also
wake up the sessions. So the sample finds sessions awake that slept until just then. In one
measurement three sessions slept for most of their time, but samples hardly ever found one asleep.
So after a sample `perf` records every switch and every wake-up for 4 ms, which is long compared
with the wait for a processor. The trace shows, to the nanosecond, when each thread ran, waited for
a processor, or slept, and in which state.

The kernel's own sum of such waits, delay accounting, is not used. Since Linux 6.12 a thread that
goes to sleep may be taken off its queue later, together with another thread, and the begin of the
sleep is then recorded for that other thread. For eight threads on two processors, delay accounting
reported up to 1.9 times the possible time, and for one of them 16 hours in 3 s.
"""

import bisect
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from replayer.collectors import CollectorContext
from replayer.errors import ReplayerError
from replayer.machine import perf

RUNS = "R"
_WAKES = "wakes"
_FOLDER = "switches"
_FIELDS = "time,event,trace"
_SETTLED = 0.001
"""Seconds at a trace's begin that are not used: the command to begin also wakes up threads."""
_TRACED = 0.004
_ANSWER_SECONDS = 0.1
_SHARE = 0.0025
"""The share of one processor that perf may take."""
_BYTES_PER_SECOND = 1 << 19
_PART = 0.01
"""The least pause between two traces, as a share of the time since the first trace.

So the traces of an hour are enough, but not too many.
"""
_DEAD = frozenset("XZ")
_FEW = 8
"""With fewer traces it is not calculated how well a sample predicts the trace after it."""
_LINE = re.compile(r"\s*(\d+)\.(\d{9}): +sched:(\w+): (.*)")
_SWITCH = re.compile(
    r"prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\w)\S* ==> .* next_pid=(\d+) next_prio=|"
    r":(\d+) \[-?\d+\] (\w)\S* ==> .*:(\d+) \[-?\d+\]"
)
"""A switch as the kernel prints it, and as perf prints it with libtraceevent's plug-in."""
_WAKE = re.compile(r"pid=(\d+) prio=-?\d+|:(\d+) \[-?\d+\]")


Shares = npt.NDArray[np.float64]


class ThreadSwitch(NamedTuple):
    """A change of a thread's state, from a trace of the scheduler."""

    clock_ns: int
    tid: int
    state: str
    """The state from `clock_ns` on: a letter of sleep, or R on a processor or in its queue."""
    woken: bool
    """True if the thread slept before this change; if not, its state was R."""


@dataclass(frozen=True)
class ThreadTrace:
    """One trace of the scheduler's events, a few milliseconds long."""

    asked_ns: int
    """The instant of the command to begin, before perf had begun; `begin_ns` is after that."""
    begin_ns: int
    end_ns: int
    letters: Mapping[int, str]
    """Thread id -> the kernel's letter for its state in the sample just before the trace."""
    watcher: int
    """The id of the thread that takes the samples and asks for the traces."""
    whose: str
    """`server` or `replayer`, to which the threads belong."""


class Switches:
    """A process of perf that records short traces, and the list of these traces."""

    def __init__(self, scene: CollectorContext) -> None:
        """Start perf; raise Skip or Impossible with the reason if it cannot record."""
        folder = scene.folder / _FOLDER
        folder.mkdir(mode=0o700)
        self._perf = perf.of_scheduler(scene.host, folder)
        self._traces: list[ThreadTrace] = []
        self._first = self._due = 0.0
        self._bytes = 0
        self._spent = 0.0

    def trace(self, letters: Mapping[int, str], whose: str) -> None:
        """Trace the threads for some milliseconds, unless the last trace is too recent.

        `letters` is thread id -> the kernel's letter for its state in the sample just before.
        `whose` is `server` or `replayer`, to which the threads belong.
        """
        now = time.monotonic()
        if now < self._due or not letters or self._perf.background.status is not None:
            return
        self._first = self._first or now
        self._perf.background.charge()
        asked_ns = time.monotonic_ns()
        if self._perf.tell("enable", _ANSWER_SECONDS):
            time.sleep(_SETTLED)
            begin_ns = time.monotonic_ns()
            time.sleep(_TRACED)
            end_ns = time.monotonic_ns()
            watcher = threading.get_native_id()
            self._traces.append(ThreadTrace(asked_ns, begin_ns, end_ns, letters, watcher, whose))
        self._perf.tell("disable", _ANSWER_SECONDS)
        self._due = now + self._pause(time.monotonic() - self._first)

    def end(self) -> float:
        """Stop perf; return the CPU seconds that it used since the first trace."""
        return self._perf.end()

    def shares(
        self, begin_ns: int, end_ns: int, whose: str, looked: Mapping[str, float]
    ) -> dict[str, float] | None:
        """Return state -> share of the threads' time in a window, from the traces in this window.

        `whose` is `server` or `replayer`, to which the threads belong. `looked` is state -> share
        in all samples of the window. Returns None if the window has no usable trace; a short window
        may have none. Raises ReplayerError with the reason if perf recorded nothing usable.
        """
        inside = [
            one
            for one in self._traces
            if begin_ns <= one.begin_ns and one.end_ns <= end_ns and one.whose == whose
        ]
        if not inside:
            return None
        tids = {tid for one in inside for tid in (*one.letters, one.watcher)}
        steps: list[ThreadSwitch] = []
        try:
            with self._perf.script(_FIELDS) as lines:
                steps.extend(parsed(lines, tids))
        except ReplayerError as error:
            # The part of a cut file that could be read is correct.
            if not steps:
                raise ReplayerError(self._perf.ended_badly or str(error)) from error
        return joined(inside, sorted(steps), looked)

    def _pause(self, elapsed: float) -> float:
        size = self._perf.data.stat().st_size if self._perf.data.exists() else 0
        cost = self._perf.background.cost()
        written, spent = size - self._bytes, cost - self._spent
        self._bytes, self._spent = size, cost
        return max(elapsed * _PART, written / _BYTES_PER_SECOND, spent / _SHARE)


def parsed(lines: Iterable[str], tids: set[int]) -> Iterator[ThreadSwitch]:
    """Yield the changes of state of the threads `tids`, from the output of `perf script`."""
    for line in lines:
        event = _LINE.match(line)
        if event is None:
            continue
        clock_ns = int(event[1]) * 10**9 + int(event[2])
        if event[3] == "sched_switch" and (switch := _SWITCH.search(event[4])):
            left, letter, came = (part for part in switch.groups() if part is not None)
            if int(left) in tids:
                yield ThreadSwitch(clock_ns, int(left), letter, woken=False)
            if int(came) in tids:
                yield ThreadSwitch(clock_ns, int(came), RUNS, woken=False)
        elif event[3] == "sched_wakeup" and (wake := _WAKE.search(event[4])):
            woken = int(wake[1] or wake[2])
            if woken in tids:
                yield ThreadSwitch(clock_ns, woken, RUNS, woken=True)


def joined(
    traces: Sequence[ThreadTrace], steps: Iterable[ThreadSwitch], looked: Mapping[str, float]
) -> dict[str, float] | None:
    """Return state -> share of the threads' time, the mean of all traces; None if none is usable.

    `steps` are the threads' changes of state in the order of time. Each trace is weighted by the
    time that it stands for. A trace is not usable if it has no event of the sampling thread, which
    slept and woke up in every trace. `looked` is state -> share in all samples of the window. A
    sample was taken just before each trace. If the shares in these samples predict the shares in
    the traces, as with long waits, the mean is adjusted by the difference between `looked` and
    these samples. This method is known as a control variate.
    """
    by_thread: dict[int, list[ThreadSwitch]] = defaultdict(list)
    for step in steps:
        by_thread[step.tid].append(step)
    true = [one for one in traces if _of(by_thread[one.watcher], one)]
    held = [_held(by_thread, one) for one in true]
    if not held:
        return None
    seen = [_normal(Counter(one.letters.values())) for one in true]
    weights = np.array(_weights(true))
    return {
        state: _adjusted(
            np.array([one.get(state, 0.0) for one in held]),
            np.array([one.get(state, 0.0) for one in seen]),
            weights,
            looked.get(state, 0.0),
        )
        for state in sorted({state for one in held for state in one} | looked.keys())
    }


def _held(by_thread: Mapping[int, list[ThreadSwitch]], trace: ThreadTrace) -> dict[str, float]:
    """Return state -> share of the threads' time in a trace.

    `by_thread` is thread id -> its changes of state in the order of time.
    """
    sums: dict[str, float] = defaultdict(float)
    for tid, letter in trace.letters.items():
        for state, nanoseconds in _spans(_of(by_thread.get(tid, []), trace), trace, letter):
            sums[state] += nanoseconds
    return _normal(sums)


def _normal(sums: Mapping[str, float]) -> dict[str, float]:
    whole = sum(amount for state, amount in sums.items() if state not in _DEAD)
    return {state: amount / whole for state, amount in sums.items() if state not in _DEAD}


def _adjusted(held: Shares, seen: Shares, weights: Shares, looked: float) -> float:
    """Return the mean share of one state in all traces, adjusted by samples (see `joined`).

    The three arrays have one value for each trace: `held` is the state's share in the trace, `seen`
    that in the sample just before it, and `weights` the seconds that the trace stands for. `looked`
    is the state's share in all samples.
    """
    mean, met = np.average(held, weights=weights), np.average(seen, weights=weights)
    spread = np.average((seen - met) ** 2, weights=weights)
    if len(held) < _FEW or spread <= 0:
        slope = 1.0
    else:
        slope = np.average((seen - met) * (held - mean), weights=weights) / spread
    return float(np.clip(mean + np.clip(slope, 0.0, 1.0) * (looked - met), 0.0, 1.0))


def _of(steps: list[ThreadSwitch], trace: ThreadTrace) -> list[ThreadSwitch]:
    """Return the changes of a thread's state during a trace, and while perf began the trace.

    `steps` are all changes of this thread in the order of time.
    """
    first = bisect.bisect_left(steps, trace.asked_ns, key=lambda step: step.clock_ns)
    last = bisect.bisect_right(steps, trace.end_ns, key=lambda step: step.clock_ns)
    return steps[first:last]


def _spans(
    steps: list[ThreadSwitch], trace: ThreadTrace, letter: str
) -> Iterator[tuple[str, float]]:
    """Yield (state, nanoseconds in it) for a thread in a trace, in the order of time.

    `steps` are the thread's changes of state. `letter` is its state in the sample just before the
    trace.
    """
    state, begin_ns = _first(steps, letter), trace.begin_ns
    for step in steps:
        if step.clock_ns > begin_ns:
            yield state, step.clock_ns - begin_ns
            begin_ns = step.clock_ns
        state = step.state
    yield state, trace.end_ns - begin_ns


def _first(steps: list[ThreadSwitch], letter: str) -> str:
    """Return a thread's state before its first change; `letter` if the changes do not show it."""
    if not steps:
        return letter
    if not steps[0].woken:
        return RUNS
    slept = [step.state for step in steps if step.state != RUNS]
    return slept[0] if slept else letter


def _weights(traces: list[ThreadTrace]) -> list[float]:
    """Return the seconds that each trace stands for: half of the gap before and after it."""
    middles = [(one.begin_ns + one.end_ns) / 2e9 for one in traces]
    gaps = [after - before for before, after in pairwise(middles)]
    if not gaps:
        return [1.0] * len(traces)
    around = zip([gaps[0], *gaps], [*gaps, gaps[-1]], strict=True)
    return [(before + after) / 2 for before, after in around]
