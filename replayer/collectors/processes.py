"""Kernel counters of the server's processes and of the clients, second by second.

The two sides are `server` and `client`; clients are replayer's own workers. Each side has: `user`
and `system`, the average number of processors that it used; `cswch/s`, how many times its threads
were given a processor (schedstat); `minflt/s` and `majflt/s`, page faults; `read-calls/s` and
`write-calls/s`, system calls that read and write (/proc/PID/io). The recording also has the
processor time of each side in the whole window.

For the server, the counters of ended children, which the kernel adds up in their parent, are read
as well. When a worker or a thread ends, its work since the last reading is lost.
"""

import bisect
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from replayer.collectors import CollectorContext, WindowRecording
from replayer.machine import threads
from replayer.machine.processes import CpuSeconds
from replayer.machine.watcher import WatcherThread

_PERIOD = 1.0
_LONGEST_PERIOD = 5.0
_SHARE = 0.0025
"""The share of one processor that reading may take; exceeded if a reading takes more than 12 ms."""
_READINGS = 10
"""The server's counters are read at most so often until no process ended meanwhile."""
_TICK = os.sysconf("SC_CLK_TCK")
_CALLS = {b"syscr:": "read-calls/s", b"syscw:": "write-calls/s"}

_Totals = dict[str, float]
"""Column -> total since a process's start, in CPU seconds or in events."""
_Point = tuple[int, _Totals]


def begin(scene: CollectorContext) -> "Processes":
    """Return a recording that begins to read counters at the first mark."""
    return Processes(scene)


class Processes:
    """A thread that reads the counters of the processes of server and clients.

    It reads them at every mark, the begin or the end of a measured window. Between marks it reads
    once in 1 to 5 s.
    """

    def __init__(self, scene: CollectorContext) -> None:
        self._clock = scene.clock
        self._sides = {
            "server": _Side(_Server(scene), reaped=True),
            "client": _Side(_Clients(scene), reaped=False),
        }
        self._points: dict[str, list[_Point]] = {name: [] for name in self._sides}
        self._watcher = WatcherThread(self._run)

    def mark(self, clock_ns: int) -> None:
        """Make the thread read the counters at once; the first mark starts the thread."""
        del clock_ns
        self._watcher.wake()

    def end(self) -> float:
        """Stop the thread; return the CPU seconds that it used."""
        return self._watcher.end()

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the counters and the CPU seconds of server and clients between two marks.

        The marks are in ns of CLOCK_MONOTONIC. A side without processes is left out.
        """
        columns: dict[str, list[tuple[int, float]]] = {}
        used = {}
        for side, points in self._points.items():
            near = list(_around(points, begin_ns, end_ns))
            for column in near[0][1] if near else ():
                columns[f"{side}.{column}"] = [
                    (clock, totals[column]) for clock, totals in near if column in totals
                ]
            spent = [
                _moved(columns.get(f"{side}.{name}", []), begin_ns, end_ns)
                for name in ("user", "system")
            ]
            if sum(spent) > 0:
                used[side] = CpuSeconds(*spent)
        return WindowRecording(columns=columns, used=used)

    def _run(self) -> None:
        watcher, began = self._watcher, time.thread_time()
        while not watcher.ended:
            for name, side in self._sides.items():
                clock_ns = self._clock()
                totals = side.read()
                if totals:
                    self._points[name].append((clock_ns, totals))
            spent = time.thread_time() - began - watcher.cost
            watcher.cost += spent
            watcher.wait(max(_PERIOD, min(spent / _SHARE, _LONGEST_PERIOD)))


def _around(points: Sequence[_Point], begin_ns: int, end_ns: int) -> Iterator[_Point]:
    """Yield the points of a window, the last point before it and the first point after it.

    A point is (clock in ns, totals of the counters).
    """
    clocks = [clock for clock, _ in points]
    first = max(0, bisect.bisect_right(clocks, begin_ns) - 1)
    yield from points[first : bisect.bisect_left(clocks, end_ns) + 1]


def _moved(points: Sequence[tuple[int, float]], begin_ns: int, end_ns: int) -> float:
    """Return the growth of a counter from `begin_ns` to `end_ns`, at least 0.

    `points` are (clock in ns, total); the total is interpolated between them.
    """
    return max(0.0, _at(points, end_ns) - _at(points, begin_ns)) if points else 0.0


def _at(points: Sequence[tuple[int, float]], clock_ns: int) -> float:
    place = bisect.bisect_right([clock for clock, _ in points], clock_ns)
    if place in {0, len(points)}:
        return points[min(place, len(points) - 1)][1]
    (first, before), (last, after) = points[place - 1], points[place]
    return before + (after - before) * (clock_ns - first) / (last - first)


class _Side:
    """The processes of the server, or those of the clients, and their counters."""

    def __init__(self, pids: Callable[[], Sequence[int]], *, reaped: bool) -> None:
        """Take the function that lists the ids of the processes.

        If `reaped` is true, the counters of a process include those of its ended children.
        """
        self._pids = pids
        self._reaped = reaped
        self._known: dict[int, _Totals] = {}
        self._slices: dict[int, int] = {}
        """Thread id -> how many times it had been given a processor at the last reading."""
        self._switches = 0
        self._begun = False

    def read(self) -> _Totals:
        """Return name of column -> total of all processes of the side, {} if there is none.

        Totals are CPU seconds since the processes' start, or numbers of events.
        """
        for _ in range(_READINGS):
            pids = self._pids()
            totals = {pid: _totals(pid, reaped=self._reaped) for pid in pids}
            # A child that is gone may have been alive when its parent was read, which is first.
            if all(totals.values()) or not self._reaped:
                break
        self._count_switches(pids)
        # A process that is gone, and in no parent's account, keeps its last totals.
        self._known = {
            **({} if self._reaped else self._known),
            **{pid: one for pid, one in totals.items() if one},
        }
        if not self._known:
            return {}
        first, *others = self._known.values()
        columns = [name for name in first if all(name in other for other in others)]
        joined = {column: sum(one[column] for one in self._known.values()) for column in columns}
        return {**joined, "cswch/s": float(self._switches)}

    def _count_switches(self, pids: Iterable[int]) -> None:
        latest = dict(_slices(pids))
        for tid, slices in latest.items():
            # A new thread had none before; but at the first reading all threads are new.
            before = self._slices.get(tid, 0 if self._begun else slices)
            self._switches += max(0, slices - before)
        self._slices, self._begun = latest, True


def _slices(pids: Iterable[int]) -> Iterator[tuple[int, int]]:
    for pid in pids:
        for tid in threads.of(pid):
            with contextlib.suppress(OSError, IndexError, ValueError):
                yield tid, int(threads.read(f"/proc/{pid}/task/{tid}/schedstat").split()[2])


def _totals(pid: int, *, reaped: bool) -> _Totals:
    """Return column -> total of a process since its start; {} if the process is gone.

    If `reaped` is true, its ended children are included, except in `read-calls/s` and
    `write-calls/s`, which always include them.
    """
    try:
        fields = threads.read(f"/proc/{pid}/stat").rpartition(b")")[2].split(None, 15)
    except OSError:
        return {}
    step = 1 if reaped else 0
    totals: _Totals = {
        "user": (int(fields[11]) + step * int(fields[13])) / _TICK,
        "system": (int(fields[12]) + step * int(fields[14])) / _TICK,
        "minflt/s": float(int(fields[7]) + step * int(fields[8])),
        "majflt/s": float(int(fields[9]) + step * int(fields[10])),
    }
    with contextlib.suppress(OSError):
        # Without the permission to read it there are no such columns.
        words = threads.read(f"/proc/{pid}/io").split()
        totals |= {_CALLS[word]: float(value) for word, value in pairwise(words) if word in _CALLS}
    return totals


class _Server:
    """A function that lists the server's processes, mostly without a scan of all processes."""

    def __init__(self, scene: CollectorContext) -> None:
        self._scene = scene
        self._main = 0

    def __call__(self) -> list[int]:
        """Return the ids of the server's processes, the main one first."""
        children = threads.children(self._main) if self._main else None
        if not children:
            # Perhaps it has no children, as it uses threads; perhaps it is gone.
            pids = list(self._scene.server())
            self._main = pids[0] if len(pids) > 1 else 0
            return pids
        return [self._main, *children]


class _Clients:
    """A function that lists replayer's processes that do a job or have done one."""

    def __init__(self, scene: CollectorContext) -> None:
        self._scene = scene
        self._workers: dict[int, None] = {}

    def __call__(self) -> list[int]:
        """Return the ids of the processes of this replayer that do a job or have done one.

        Some of these processes may have ended.
        """
        children = threads.children(os.getpid())
        pids = self._scene.own()[1:] if children is None else children
        for pid in pids:
            if any(threads.name(tid) == threads.JOB for tid in threads.of(pid)):
                self._workers[pid] = None
        return list(self._workers)
