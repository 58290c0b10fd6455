"""Single threads: their states, and the time that each ran and waited for a processor.

A thread is found by its id alone, /proc/TID, whatever its process is.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from replayer.machine import interrupts

_LETTERS = {letter.encode(): letter for letter in "RSDTtZXIPW"}
_OTHER = "?"
_LINE = 1024
_LONGEST_NAME = 15

JOB = "replayer-job"
"""The name of threads that do a job for replayer."""
WATCHING = "replayer-watch"
"""The name of threads that only watch."""


class Look(NamedTuple):
    """A thread's state, and its accounts since its start."""

    letter: str
    """As in ps: R runs or is runnable, S sleeps, D sleeps uninterruptibly, for a device."""
    user: int
    """Ticks; user and system together are exact, but the split depends on when ticks occurred."""
    system: int
    ran_ns: int
    """Nanoseconds on a processor; 0 if this kernel does not count it, as the next two.

    While the thread runs, the value is up to a tick old.
    """
    queued_ns: int
    slices: int
    """The number of times that it was given a processor."""


class Thread:
    """The open files of one thread; OSError of every method means that it is gone."""

    def __init__(self, tid: int) -> None:
        """Open them; raise OSError for a thread that is gone or not visible."""
        self.tid = tid
        self._stat = os.open(f"/proc/{tid}/task/{tid}/stat", os.O_RDONLY)
        try:
            self._schedstat: int | None = os.open(f"/proc/{tid}/task/{tid}/schedstat", os.O_RDONLY)
        except OSError:
            self._schedstat = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self) -> Look:
        """Return its state now, and its accounts."""
        ran, queued, slices = self._account()
        text = os.pread(self._stat, _LINE, 0)
        fields = text[text.rindex(b")") + 2 :].split(None, 13)
        letter = _LETTERS.get(fields[0], _OTHER)
        return Look(letter, int(fields[11]), int(fields[12]), int(ran), int(queued), int(slices))

    def slices(self) -> int:
        """Return how many times it was given a processor."""
        return int(self._account()[2])

    def _account(self) -> list[bytes]:
        if self._schedstat is None:
            return [b"0", b"0", b"0"]
        return os.pread(self._schedstat, _LINE, 0).split()

    def close(self) -> None:
        """Close its files; closing twice is fine."""
        for name in ("_stat", "_schedstat"):
            descriptor = self.__dict__.pop(name, None)
            if descriptor is not None:
                os.close(descriptor)


def counts_queues() -> bool:
    """Return whether this kernel counts the time that threads run and wait for processors.

    Without CONFIG_SCHED_INFO the file is missing, or all zeros.
    """
    try:
        with Thread(os.getpid()) as main:
            return main.look().ran_ns > 0
    except (OSError, ValueError):
        return False


def of(pid: int) -> Iterator[int]:
    """Yield the ids of a process's threads; none when it is gone."""
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208


def children(pid: int) -> list[int] | None:
    """Return the children of all threads of a process; None if this kernel does not list them.

    It lists them with CONFIG_PROC_CHILDREN. A process that is gone has no children.
    """
    main = os.getpid()
    if not Path(f"/proc/{main}/task/{main}/children").exists():
        return None
    pids: list[int] = []
    for tid in of(pid):
        with contextlib.suppress(OSError):
            pids += map(int, read(f"/proc/{pid}/task/{tid}/children").split())
    return pids


def belongs(tid: int, process: int) -> bool:
    """Return whether a thread belongs to a process, or to a child of it."""
    if not process:
        return False
    if Path(f"/proc/{process}/task/{tid}").exists():
        return True
    try:
        fields = read(f"/proc/{tid}/task/{tid}/stat").rpartition(b")")[2].split(None, 2)
    except OSError:
        return False
    return int(fields[1]) == process


def hurry() -> None:
    """Make the calling thread run on time, on the processor with the fewest interrupts.

    This is done as far as it is allowed. Otherwise the thread would run more often when other
    threads go to sleep, and would see them asleep. Or it would see threads awake that were just
    woken: a virtual machine may receive the interrupts of its devices together with those of its
    timer.
    """
    with contextlib.suppress(OSError):
        quiet = interrupts.quietest(read(f"/{interrupts.FILE}"), os.sched_getaffinity(0))
        os.sched_setaffinity(0, {quiet})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def name(tid: int) -> str:
    """Return the name of a thread, "" if it is gone."""
    try:
        return read(f"/proc/{tid}/task/{tid}/comm").decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""


def call_this(name: str) -> None:
    """Give the calling thread a name that the kernel knows: its first 15 bytes."""
    with contextlib.suppress(OSError):
        Path("/proc/thread-self/comm").write_bytes(name.encode()[:_LONGEST_NAME])


def read(path: str) -> bytes:
    """Return a file of /proc, in a third of the time that Path.read_bytes takes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
