"""Collectors that watch a step: one file or folder each, of two kinds.

For a copied collector, the sampler copies files of the kernel, which are parsed after the step. The
collector has a docstring, `FILES` (paths below the host's root, such as `proc/stat`) and
`parse(samples, device) -> Columns`. `SHEET` and `PANEL` define which columns the report and the
page show. Without them the report shows all columns, and the page draws the first.

An active collector runs its own measurement during the step. It has a docstring and `begin(scene)
-> Recording`, which raises Skip with the reason if the machine does not allow the measurement.
`VERBS` are the names of the database engine's SQL files that the collector runs, by
`CollectorContext.ask`. With `BY_DEFAULT = False` the collector watches only if it is requested by
name. Events outside the measured window are never counted: a recording is cut to the window
afterwards.
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
    """One copy of a collector's files: when it was made (CLOCK_MONOTONIC, ns), and their bytes."""

    clock_ns: int
    texts: tuple[bytes, ...]


Columns = Mapping[str, Sequence[float]]
"""Name of column, such as `r/s` -> one value per interval between two samples."""


class CollectorColumns(NamedTuple):
    """A collector's line in the report: averages over the measured window."""

    title: str
    """`{device}` and `{time}` stand for the data's device and the length of the window."""
    columns: str
    """The names of the columns, separated by blanks."""


class Panel(NamedTuple):
    """A diagram over time on the page of results.

    Panels with the same title are drawn as one diagram. If several of them have the same line, the
    line of the first panel is drawn.
    """

    title: str
    lines: tuple[tuple[str, str], ...]
    """(name of the column, label) of each line of the diagram."""
    stacked: bool = False
    order: int = 9
    """The position on the page, from top to bottom."""


class Collector(Protocol):
    """The members of a collector module; a value here is the default of a missing member.

    A module has either `FILES` and `parse`, or `begin`.
    """

    FILES: tuple[str, ...] = ()
    """Paths below the host's root that the sampler copies, such as `proc/stat`."""
    SHEET: CollectorColumns | None = None
    """The collector's line in the report; None for all columns."""
    PANEL: Panel | None = None
    """The collector's diagram on the page; None for one of its first column."""
    VERBS: tuple[str, ...] = ()
    """The engine's SQL files that the collector runs (`CollectorContext.ask`)."""
    BY_DEFAULT: bool = True
    """False if the collector watches only when it is requested by name."""

    def parse(self, samples: Sequence[Sample], device: str | None) -> Columns:
        """Turn n samples into n - 1 values per column; `device` is the data's block device."""
        raise NotImplementedError

    def begin(self, scene: "CollectorContext") -> "Recording":
        """Begin to watch a step; raise Skip with the reason if the machine does not allow it."""
        raise NotImplementedError


FACE = Collector


Ask = Callable[[str], Sequence[Mapping[str, Any]]]
"""A function that runs a verb, one of the engine's SQL files, by its name and returns its rows."""


@dataclass(frozen=True)
class CollectorContext:
    """The facts of a step for one active collector; each collector has its own context."""

    host: Host
    device: str | None
    """The data's block device."""
    folder: Path
    """A private folder, in memory if possible; it is removed after the last `cut`.

    If replayer was killed, a later recovery ends the programs that have a path in this folder among
    their arguments.
    """
    server: Callable[[], Sequence[int]]
    """Return the ids of the server's processes, the main one first; [] if none is known here."""
    own: Callable[[], Sequence[int]]
    """Return the ids of this process, first, and of its descendants.

    The server's processes may be among the descendants.
    """
    ask: Ask | None = None
    """Run a verb (SQL file) of the engine over the collector's own connection; None if no database.

    The connection is made at the first use, and only one thread at a time may use it. Raises Skip
    if the engine lacks the verb, and ReplayerError if the server does not answer; the next call
    then connects again.
    """
    control: Callable[[], Collection[int]] = frozenset
    """Return the server's ids of the connections that control a step or do its work."""
    watching: Callable[[], Collection[int]] = frozenset
    """Return the server's ids of the collectors' connections, which do none of the work."""
    opening: Callable[[], int] = int
    """Return how many connections are being made whose ids `control` and `watching` still lack."""
    clock: Callable[[], int] = time.monotonic_ns
    """Return the time of CLOCK_MONOTONIC in ns."""


@dataclass(frozen=True)
class Observed:
    """The seconds in one state and with one wait, added up over all sampled threads."""

    letter: str
    """The kernel's letter for the state: S or D sleeps, R runs or waits for a processor."""
    wait: str
    """The name of the session's wait, as the server reports it, "" for none."""
    part: str
    """The kind of the wait: device, log, lock, client or other; "" without a wait."""
    still: bool
    """True if the thread slept from before the server was asked until after the server's answer."""
    seconds: float


@dataclass(frozen=True)
class ThreadTimes:
    """The kernel's times of the sampled threads, summed over these threads, in seconds.

    A thread counts only between samples that both have it. `span` is the sum of these times. `ran`
    is the time on a processor, `queued` the time of waiting for one. `user` and `system` are parts
    of the processor time, precise to a clock tick.
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
    """The number of threads whose state the kernel was asked for; 0 for a remote server."""
    observations: int = 0
    """The threads in each interval between two samples, added up over all intervals."""
    observed: tuple[Observed, ...] = ()
    times: ThreadTimes | None = None
    """The kernel's times of the sampled threads; None if no thread was sampled."""
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
    """Share of a CPU quota's periods in which the quota was used up; 0 without a quota."""
    cores: int = 0
    """The number of processors that the threads may run on; 0 if not known."""


@dataclass(frozen=True)
class WindowRecording:
    """The part of an active collector's recording that lies in one measured window."""

    columns: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    """Name of counter -> points (clock in ns, total); they become a column of rates per second."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Name of table -> rows, all with the same keys."""
    profile: StackProfile | None = None
    waits: WaitSamples | None = None
    used: Mapping[str, CpuSeconds] = field(default_factory=dict)
    """`server` or `client` -> CPU seconds that its processes used in the window."""
    notes: tuple[str, ...] = ()
    """Sentences for the report."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Name of a missing part -> the reason; reported once for a run."""


class Recording(Protocol):
    """The running recording of an active collector.

    It may have `prepare() -> None`, which is called once just before the first window begins. It is
    for slow work, so that `mark` can return at once and none of this work is in the window.
    """

    def mark(self, clock_ns: int) -> None:
        """Record that a measured window begins or ends at `clock_ns`, and return at once.

        `clock_ns` is CLOCK_MONOTONIC. The sampler calls this after its own copy of the kernel's
        files. A measurement that costs much CPU time should begin only at the first call.
        """
        ...

    def end(self) -> float:
        """Stop the recording within 5 s; return the CPU seconds that the recording cost.

        This is called once.
        """
        ...

    def cut(self, begin_ns: int, end_ns: int) -> WindowRecording:
        """Return the recording between two marks; it is called after `end`.

        `begin_ns` and `end_ns` are the instants (CLOCK_MONOTONIC) given to `mark`. Raises
        ReplayerError with the reason if nothing was recorded.
        """
        ...
