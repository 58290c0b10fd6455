"""Watchers of a step: one file or folder each, of two kinds.

A copied collector reads the kernel's files: it has a docstring, `FILES` (paths below the host's
root, such as `proc/stat`) and `parse(samples, device) -> Columns`.  What it saw is in the report
and on the page as `SHEET` and `PANEL` say; without them all of its columns are, and the first of
them drawn.

An active collector does something beside the step: it has a docstring and
`begin(scene) -> Recording`, which raises Skip with the reason where the machine does not allow it.
`VERBS` are those that it asks the engine for (`Scene.ask`), `BY_DEFAULT = False` leaves it out
unless it is asked for by name.  What lies outside the measured
window is never counted: a recording is cut to it afterwards.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from replayer.machine.host import Host
from replayer.machine.processes import CpuSeconds
from replayer.model import StackProfile


class Sample(NamedTuple):
    """One copy of a collector's files: the clock in nanoseconds (monotonic) and their bytes."""

    clock_ns: int
    texts: tuple[bytes, ...]


Columns = Mapping[str, Sequence[float]]
"""sysstat's own column name -> one value per interval between two samples."""


class CollectorColumns(NamedTuple):
    """The line of a report: averages over the measured window."""

    title: str
    """`{device}` and `{time}` stand for the data's device and the length of the window."""
    columns: str
    """Separated by blanks."""


class Panel(NamedTuple):
    """What the page draws over time; panels of one title are one, the first with a line has it."""

    title: str
    lines: tuple[tuple[str, str], ...]
    """(column, what it is called)."""
    stacked: bool = False
    order: int = 9
    """From top to bottom."""


class Collector(Protocol):
    """A collector module with a default for each member that it leaves out.

    It has `FILES` and `parse`, or it has `begin`.
    """

    FILES: tuple[str, ...] = ()
    """Paths below the host's root that the sampler copies, such as `proc/stat`."""
    SHEET: CollectorColumns | None = None
    """The line of a report; None for all columns."""
    PANEL: Panel | None = None
    """The panel on the page; None for the first column."""
    VERBS: tuple[str, ...] = ()
    """The verbs of the engine that it asks for (`CollectorContext.ask`)."""
    BY_DEFAULT: bool = True
    """False if it watches only where it is asked for by name."""

    def parse(self, samples: Sequence[Sample], device: str | None) -> Columns:
        """Turn n samples into n - 1 values per column; `device` is the data's block device."""
        raise NotImplementedError

    def begin(self, scene: "CollectorContext") -> "Recording":
        """Begin to watch a step; raise Skip with the reason where the machine refuses."""
        raise NotImplementedError


FACE = Collector


Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""Runs a verb of the engine by its name and returns its rows."""


@dataclass(frozen=True)
class CollectorContext:
    """What an active collector may know of a step; each of them has one of its own."""

    host: Host
    device: str | None
    """The data's block device."""
    folder: Path
    """Nobody else's, and in memory where the machine has a tmpfs; removed after `cut`.  A program
    that has its path among its arguments is ended when replayer was killed."""
    server: Callable[[], Sequence[int]]
    """The living processes of the server, the main one first; [] if none is known here."""
    own: Callable[[], Sequence[int]]
    """Replayer's own processes: this one and its descendants, the server's among them."""
    ask: Ask | None = None
    """Over a connection of this collector's own, made when it is first used, by one thread at a
    time; None without a database.  Raises Skip for a verb that the engine lacks and ReplayerError
    for a server that does not answer; asked again, it connects again."""
    control: Callable[[], Collection[int]] = frozenset
    """The server's ids of replayer's own connections that control a step, or do its work."""
    watching: Callable[[], Collection[int]] = frozenset
    """The server's ids of the collectors' connections, which do none of it."""
    opening: Callable[[], int] = int
    """How many connections are being made of which those two do not tell yet."""
    clock: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True)
class Observed:
    """Seconds for which threads were seen in one state."""

    letter: str
    """The kernel's: S or D sleeps, R runs or waits for a processor."""
    wait: str
    """What the server said that the session waits for, "" for nothing."""
    part: str
    """Of what kind the server's word is: device, log, lock, client, other; "" for none of them."""
    still: bool
    """Whether the thread was asleep from before the server was asked until after its answer."""
    seconds: float


@dataclass(frozen=True)
class ThreadTimes:
    """What the kernel counted for threads over the spans in which each was observed, in seconds.

    The user and system time are as its ticks split what they ran.
    """

    span: float
    ran: float
    queued: float
    user: float
    system: float


@dataclass(frozen=True)
class WaitSamples:
    """What those who did the work of a window were seen at: a server's sessions, or threads."""

    whose: Literal["server", "replayer"]
    moments: int
    """How many times was looked."""
    sessions: float
    """On average over the window."""
    asked: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(wait, part) -> how many of all sessions the server said were at it, on average."""
    threads: int = 0
    """How many of them the kernel was asked about, too; 0 of a server elsewhere."""
    observations: int = 0
    observed: tuple[Observed, ...] = ()
    times: ThreadTimes | None = None
    """None without observations."""
    counted: bool = True
    """Whether this kernel counts what each thread runs and waits for a processor."""
    missing: str = ""
    """Why something could not be seen, as part of a sentence; "" if all was."""
    traced: Mapping[str, float] | None = None
    """State -> share of the threads' time, as traces of the scheduler had it; R is to run or to
    wait for a processor.  None where there are none."""
    untraced: str = ""
    """Why there are none, as part of a sentence."""
    throttled: float = 0.0
    """Share of the periods of a CPU quota in which it was used up; 0 without a quota."""
    cores: int = 0
    """That the threads may run on; 0 where that is not known."""


@dataclass(frozen=True)
class WindowRecording:
    """What a recording saw in one window."""

    columns: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    """Counters as points of (clock in ns, total): they become columns of rates per second."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Name -> rows, all with the same keys."""
    profile: StackProfile | None = None
    waits: WaitSamples | None = None
    used: Mapping[str, CpuSeconds] = field(default_factory=dict)
    """`server`, `client` -> CPU seconds in the window."""
    notes: tuple[str, ...] = ()
    """Sentences for the report."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What of it was not watched, by name -> why; said once for a run."""


class Recording(Protocol):
    """What an active collector has begun.

    It may have `prepare() -> None`, called once just before the first edge of a window, for what
    takes longer than a mark may: nothing of that is in the window.
    """

    def mark(self, clock_ns: int) -> None:
        """Take note of an edge of a window, and return at once.

        It is called after the sampler's own copy; the first one is the moment to begin expensive
        work.
        """
        ...

    def end(self) -> float:
        """Stop everything, within 5 s; always called, once.  Return the CPU seconds it cost."""
        ...

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return what lies between two marks, after `end`; raise ReplayerError if it cannot."""
        ...
