"""Folded stacks of one measured window, from the output of `perf script`.

A folded stack is a text such as `server;user;postgres;main;read`: class, mode, thread and functions
from the root to the leaf.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from replayer.model import KERNEL_FRAME, PROFILED

SERVER, CLIENT, KERNEL_THREADS, OTHERS, REPLAYER = PROFILED
_EVENT = re.compile(r"\s*(.*?)\s+(-?\d+)/(-?\d+)\s+(\d+)\.(\d{9}):\s+(.*)")
_FORK = re.compile(r"PERF_RECORD_FORK\((-?\d+):-?\d+\):\((-?\d+):-?\d+\)")
_COMM = re.compile(r"PERF_RECORD_COMM(?: exec)?: (.*):(-?\d+)/(-?\d+)$")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\b.*?(\d+)\s*$")
_FRAME = re.compile(r"\s*([0-9a-f]+) (.*?)(?: \(([/\[].*)\))?$")
_UNKNOWN = "[unknown]"
_KERNELS_HALF = 1 << 63
"""Addresses from here on are the kernel's.

This holds on every 64-bit machine with one address space for the kernel and its programs.
"""
_KTHREADD = 2
_INTERRUPTING = re.compile(
    r"asm_|sysvec|common_interrupt|do_softirq|handle_softirqs|irq_exit|irq_enter|smp_call"
    r"|schedule_idle|el1_interrupt|gic_handle"
)
"""If such a function is in a stack of the idle task, the processor handled an interrupt."""


@dataclass(frozen=True)
class ProcessFamilies:
    """The main processes of replayer and the server; each process is classed by its ancestors."""

    main: int
    """Replayer's own main process."""
    servers: frozenset[int]
    """The ids of all main processes that the server had during the step."""
    interpreter: str
    """The file name of Python's interpreter, with which replayer's worker processes run."""


@dataclass
class FoldedStacks:
    """The folded stacks of a window, with the number of samples of each, and further counts.

    `samples` are those in `stacks`; `idle` are samples of idle processors. `outside` are samples
    before or after the window, `lost` those that perf lost. `event` is perf's name of the event
    that triggered the samples, such as `cycles`.
    """

    stacks: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    idle: int = 0
    lost: int = 0
    outside: int = 0
    event: str = ""
    first_ns: int = 0
    """perf's clock at the first sample in the window; 0 if there is none."""
    last_ns: int = 0
    """perf's clock at the last sample in the window; 0 if there is none."""
    kernel: int = 0
    """The number of samples in the kernel."""
    kernel_named: int = 0
    """The number of samples in the kernel for which perf knew the function's name."""


@dataclass(frozen=True, slots=True)
class _Sample:
    thread: str
    pid: int
    frames: tuple[str, ...]
    """The functions, from the root to the leaf."""


class _Tree:
    """Parents and names of processes, as the kernel reported them."""

    def __init__(self, families: ProcessFamilies) -> None:
        self._families = families
        self._parents: dict[int, int] = {}
        self._names: dict[int, str] = {}

    def forked(self, pid: int, parent: int) -> None:
        """Record a new process and its parent; a new thread has the same two ids and is ignored."""
        if pid != parent:
            self._parents[pid] = parent

    def named(self, pid: int, name: str) -> None:
        """Record the present name of a process."""
        self._names[pid] = name

    def whose(self, pid: int) -> str:
        """Return the class of a process: server, client, kernel threads, others or replayer."""
        families = self._families
        place, seen = pid, set[int]()
        while place not in seen:
            seen.add(place)
            if place in families.servers:
                return SERVER
            if place == families.main:
                return CLIENT if self._works(pid) else REPLAYER
            if place == _KTHREADD and self._names.get(place) == "kthreadd":
                return KERNEL_THREADS
            place = self._parents.get(place, place)
        return OTHERS

    def _works(self, pid: int) -> bool:
        name = self._names.get(pid, "")
        workers = ("python", self._families.interpreter[:15])
        return pid != self._families.main and name.startswith(workers)


def folded(
    lines: Iterable[str], begin_ns: int, end_ns: int, families: ProcessFamilies
) -> FoldedStacks:
    """Return folded stacks from the output of `perf script -F comm,pid,tid,time,event,ip,sym,dso`.

    The window is from `begin_ns` to `end_ns`, both included, by the clock that perf recorded with.
    `families` decides to which class each process belongs. Successive functions of a library whose
    names perf does not know become one frame, `[library]` or `[unknown]`.
    """
    whole = FoldedStacks()
    tree = _Tree(families)
    frames_of: dict[str, str] = {}
    counted: Counter[_Sample] = Counter()
    header: re.Match[str] | None = None
    chain: list[str] = []
    for line in lines:
        text = line.rstrip("\n")
        if header is not None and text:
            frame = frames_of.get(text)
            if frame is None:
                frame = frames_of[text] = _frame(text)
            if not chain or chain[-1] != frame or not frame.startswith("["):
                chain.append(frame)
            continue
        if header is not None:
            _count(whole, counted, header, chain, begin_ns, end_ns)
            header, chain = None, []
            continue
        event = _EVENT.match(text)
        if event is not None and not _noted(tree, whole, event):
            header = event
    if header is not None:
        _count(whole, counted, header, chain, begin_ns, end_ns)
    for sample, many in counted.items():
        _fold(whole, tree.whose(sample.pid), sample, many)
    return whole


def _noted(tree: _Tree, whole: FoldedStacks, event: re.Match[str]) -> bool:
    """Record a new process or a name in `tree`, and lost samples in `whole`.

    Returns False if the event is a sample, which is not recorded here.
    """
    text = event[6]
    if not text.startswith("PERF_RECORD_"):
        return False
    fork, comm, lost = _FORK.match(text), _COMM.match(text), _LOST.match(text)
    if fork is not None:
        tree.forked(int(fork[1]), int(fork[2]))
    elif comm is not None and comm[2] == comm[3]:
        tree.named(int(comm[2]), comm[1])
    elif lost is not None:
        whole.lost += int(lost[1])
    return True


def _count(  # noqa: PLR0917 - a sample and where it goes
    whole: FoldedStacks,
    counted: Counter[_Sample],
    header: re.Match[str],
    chain: list[str],
    begin_ns: int,
    end_ns: int,
) -> None:
    clock_ns = int(header[4]) * 10**9 + int(header[5])
    if not begin_ns <= clock_ns <= end_ns:
        whole.outside += 1
        return
    whole.event = whole.event or header[6].partition(":")[0].strip()
    whole.first_ns = min(whole.first_ns or clock_ns, clock_ns)
    whole.last_ns = max(whole.last_ns, clock_ns)
    frames = tuple(reversed(chain)) or (_UNKNOWN,)
    counted[_Sample(header[1], int(header[2]), frames)] += 1


def _fold(whole: FoldedStacks, whose: str, sample: _Sample, many: int) -> None:
    frames = sample.frames
    if sample.pid == 0 and not any(map(_INTERRUPTING.search, frames)):
        whole.idle += many
        return
    kernel = frames[-1].endswith(KERNEL_FRAME)
    whole.samples += many
    if kernel:
        whole.kernel += many
        whole.kernel_named += many * (not frames[-1].startswith("["))
    thread = sample.thread
    if sample.pid == 0:
        whose, thread = KERNEL_THREADS, "interrupts while idle"
    elif whose == KERNEL_THREADS:
        # Each processor and work queue has a thread; all of them become one.
        thread = thread.partition("/")[0]
    mode = "kernel" if kernel else "user"
    stack = ";".join([whose, mode, thread.replace(";", ":"), *frames])
    whole.stacks[stack] += many


def _frame(line: str) -> str:
    """Return a line of a call chain as a frame: the function's name, or `[library]`."""
    parts = _FRAME.match(line)
    if parts is None:
        return _UNKNOWN
    address, name, library = int(parts[1], 16), parts[2], parts[3] or ""
    if name == _UNKNOWN or not name:
        file = library.removesuffix(" (deleted)").rpartition("/")[2]
        name = f"[{file.strip('[]')}]" if file else _UNKNOWN
    ending = KERNEL_FRAME if address >= _KERNELS_HALF else ""
    return name.replace(";", ":").replace("\t", " ") + ending
