"""Single threads: their states, and the time that each ran and waited for a processor.

A thread is found by its id alone, in /proc/TID; the id of its process is not needed.
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
"""The name of threads with which replayer only watches a step."""


class Look(NamedTuple):
    """A thread's state now, and its CPU times since its start."""

    letter: str
    """As in ps: R runs or is runnable, S sleeps, D sleeps uninterruptibly, for a device."""
    user: int
    """Clock ticks in user mode; the sum of user and system is exact, each of them is estimated."""
    system: int
    """Clock ticks in the kernel."""
    ran_ns: int
    """Nanoseconds on a processor; this and the next two are 0 if this kernel does not count them.

    While the thread runs, the value is up to a tick old.
    """
    queued_ns: int
    """Nanoseconds of waiting for a processor."""
    slices: int
    """The number of times that the thread was given a processor."""


class Thread:
    """A thread's files of /proc, kept open; if the thread is gone, the methods raise OSError."""

    def __init__(self, tid: int) -> None:
        """Open the files of thread `tid`; raise OSError if it is gone or not visible."""
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
        """Return the thread's state now, and its CPU times so far."""
        ran, queued, slices = self._account()
        text = os.pread(self._stat, _LINE, 0)
        fields = text[text.rindex(b")") + 2 :].split(None, 13)
        letter = _LETTERS.get(fields[0], _OTHER)
        return Look(letter, int(fields[11]), int(fields[12]), int(ran), int(queued), int(slices))

    def slices(self) -> int:
        """Return how many times the thread was given a processor; 0 if that is not counted."""
        return int(self._account()[2])

    def _account(self) -> list[bytes]:
        if self._schedstat is None:
            return [b"0", b"0", b"0"]
        return os.pread(self._schedstat, _LINE, 0).split()

    def close(self) -> None:
        """Close the thread's files; a second call does nothing."""
        for name in ("_stat", "_schedstat"):
            descriptor = self.__dict__.pop(name, None)
            if descriptor is not None:
                os.close(descriptor)


def counts_queues() -> bool:
    """Return whether this kernel counts the time that threads run and wait for processors.

    Without CONFIG_SCHED_INFO the file /proc/PID/schedstat is missing, or has only zeros.
    """
    try:
        with Thread(os.getpid()) as main:
            return main.look().ran_ns > 0
    except (OSError, ValueError):
        return False


def of(pid: int) -> Iterator[int]:
    """Yield the ids of all threads of a process; none if the process is gone."""
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208


def children(pid: int) -> list[int] | None:
    """Return the ids of a process's children; [] if the process is gone.

    None if this kernel does not list children: it was built without CONFIG_PROC_CHILDREN.
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
    """Return whether a thread belongs to a process or to one of its children.

    `process` is the process's id; 0 means that it is not known, and False is returned.
    """
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
    """Give the calling thread real-time priority on the processor with the fewest interrupts.

    This is for a thread that samples the states of other threads; it does nothing if it is not
    allowed. Without the priority, the sampling thread would often run just when other threads go to
    sleep, and so would see them asleep too often. On a processor with interrupts of devices it
    would see threads awake too often that were just woken, because a virtual machine may receive
    these interrupts together with those of its timer.
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
    """Give the calling thread a name in the kernel: the first 15 bytes of `name`."""
    with contextlib.suppress(OSError):
        Path("/proc/thread-self/comm").write_bytes(name.encode()[:_LONGEST_NAME])


def read(path: str) -> bytes:
    """Return the contents of a file of /proc; this takes a third of the time of Path.read_bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
