"""Collectors that watch a step: one file or folder each, of two kinds.

A copied collector reads the kernel's files. It has a docstring, `FILES` (paths below the host's
root, such as `proc/stat`) and `parse(samples, device) -> Columns`. `SHEET` and `PANEL` define which
columns the report and the page show. Without them the report shows all columns, and the page draws
the first.

An active collector runs its own measurement during the step. It has a docstring and `begin(scene)
-> Recording`, which raises Skip with the reason if the machine does not allow it. `VERBS` are the
verbs that it runs on the engine (`CollectorContext.ask`). `BY_DEFAULT = False` leaves it out unless
it is requested by name. Events outside the measured window are never counted: a recording is cut to
the window afterwards.
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
    """The names of the columns, separated by blanks."""


class Panel(NamedTuple):
    """A diagram over time on the page.

    Panels with the same title are drawn as one; a line that several have is taken from the first.
    """

    title: str
    lines: tuple[tuple[str, str], ...]
    """(column, its label)."""
    stacked: bool = False
    order: int = 9
    """The position on the page, from top to bottom."""


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
    """The verbs that it runs on the engine (`CollectorContext.ask`)."""
    BY_DEFAULT: bool = True
    """False if it watches only when it is requested by name."""

    def parse(self, samples: Sequence[Sample], device: str | None) -> Columns:
        """Turn n samples into n - 1 values per column; `device` is the data's block device."""
        raise NotImplementedError

    def begin(self, scene: "CollectorContext") -> "Recording":
        """Begin to watch a step; raise Skip with the reason if the machine does not allow it."""
        raise NotImplementedError


FACE = Collector


Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""A function that runs a verb of the engine by its name and returns its rows."""


@dataclass(frozen=True)
class CollectorContext:
    """The facts of a step for one active collector; each collector has its own context."""

    host: Host
    device: str | None
    """The data's block device."""
    folder: Path
    """A private folder, in memory if the machine has a tmpfs; removed after `cut`.

    If replayer was killed, a later recovery ends the programs that have this path in their
    arguments.
    """
    server: Callable[[], Sequence[int]]
    """Return the living processes of the server, the main one first; [] if none is known here."""
    own: Callable[[], Sequence[int]]
    """Return replayer's processes: this one and its descendants, including the server's."""
    ask: Ask | None = None
    """Run a verb of the engine over this collector's own connection; None without a database.

    The connection is made at the first use, and only one thread at a time may use it. Raises Skip
    for a verb that the engine lacks and ReplayerError for a server that does not answer; the next
    call connects again.
    """
    control: Callable[[], Collection[int]] = frozenset
    """Return the server's ids of those own connections that control a step, or do its work."""
    watching: Callable[[], Collection[int]] = frozenset
    """Return the server's ids of the collectors' connections, which do none of the work."""
    opening: Callable[[], int] = int
    """Return how many connections are being made that are in neither of these two yet."""
    clock: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True)
class Observed:
    """Seconds for which threads were seen in one state."""

    letter: str
    """The kernel's letter: S or D sleeps, R runs or waits for a processor."""
    wait: str
    """The name of the session's wait, as the server reports it, "" for none."""
    part: str
    """The kind of this wait: device, log, lock, client, other; "" for none of them."""
    still: bool
    """True if the thread slept from before the server was asked until after its answer."""
    seconds: float


@dataclass(frozen=True)
class ThreadTimes:
    """The kernel's counts for threads over the spans in which each was observed, in seconds.

    User and system time divide the running time in proportion to the kernel's ticks.
    """

    span: float
    ran: float
    queued: float
    user: float
    system: float


@dataclass(frozen=True)
class WaitSamples:
    """The samples of one window: states and waits of sessions or of the threads of replayer."""

    whose: Literal["server", "replayer"]
    moments: int
    """The number of samples."""
    sessions: float
    """The number of sessions, on average over the window."""
    asked: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(wait, part) -> the average number of sessions with this wait, as the server reports it."""
    threads: int = 0
    """The number of threads that the kernel was asked about, too; 0 for a remote server."""
    observations: int = 0
    observed: tuple[Observed, ...] = ()
    times: ThreadTimes | None = None
    """None without observations."""
    counted: bool = True
    """True if this kernel counts how long each thread runs and waits for a processor."""
    missing: str = ""
    """The reason why some data is missing, as part of a sentence; "" if all is there."""
    traced: Mapping[str, float] | None = None
    """State -> share of the threads' time, from traces of the scheduler; None without traces.

    R means that the thread runs or waits for a processor.
    """
    untraced: str = ""
    """The reason why there are no traces, as part of a sentence."""
    throttled: float = 0.0
    """Share of the periods of a CPU quota in which it was used up; 0 without a quota."""
    cores: int = 0
    """The number of processors that the threads may run on; 0 if not known."""


@dataclass(frozen=True)
class WindowRecording:
    """The part of a recording that lies in one window."""

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
    """Name of a missing part -> the reason; reported once for a run."""


class Recording(Protocol):
    """The running recording of an active collector.

    It may have `prepare() -> None`, called once just before the first edge of a window, for work
    that takes longer than a mark may: none of this work is in the window.
    """

    def mark(self, clock_ns: int) -> None:
        """Record an edge of a window, and return at once.

        It is called after the sampler's own copy. The first call is the moment to begin expensive
        work.
        """
        ...

    def end(self) -> float:
        """Stop everything, within 5 s; always called, once. Return the CPU seconds it cost."""
        ...

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the part between two marks, after `end`; raise ReplayerError if there is none."""
        ...
