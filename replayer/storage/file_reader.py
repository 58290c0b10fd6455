"""Read files, or ranges of them, from a queue that many threads share: the work of the step walk.

This module runs in new processes, so it imports little.
"""

import contextlib
import errno
import gc
import mmap
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from replayer.errors import ReplayerError
from replayer.machine import page_cache
from replayer.watch.workers import Barrier, Counter, Report

ALIGNMENT = 4096
"""Alignment of block sizes, offsets and buffers of direct reads: no current device needs more."""
_EXACT_BITS = 11
"""The leading bits of a latency that are kept, the others become 0.

So each latency becomes the lowest value of its bin in watch/histogram.py. That module is not
imported here, because it imports numpy.
"""
_REPORT_EVERY_NS = 250_000_000
_HINTS = {
    errno.EACCES: "; run as the user that owns it",
    errno.EPERM: "; run as the user that owns it",
    errno.EIO: "; see the kernel's log (dmesg)",
}

LEAST_RANGE = 4 << 20
"""The least bytes of a file that a thread reads as a range, unless they are the file's end."""

Range = tuple[int, int, int]
"""(index of a file in the queue, offset of the range's first byte, offset of its end)."""

ReadAt = Callable[[int], int]
"""A function that reads the block at a byte offset and returns its length; 0 at the file's end."""


@dataclass
class ReadResult:
    """The files and bytes that one thread of the step walk has read, and its latencies in ns."""

    files: list[tuple[int, int]] = field(default_factory=list)
    """(index of the file, bytes read) of each file or range."""
    missing: list[int] = field(default_factory=list)
    """Indexes of the files that no longer existed."""
    read_bytes: int = 0
    reads: int = 0
    latencies: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Latency in ns, rounded down to the lowest value of its bin -> number of reads."""


@dataclass(frozen=True)
class ReadProgress:
    """The bytes and files that all threads of one process have read up to a time.

    The time `clock_ns` is in ns of CLOCK_MONOTONIC. `files` counts files, or ranges of files.
    """

    pid: int
    clock_ns: int
    read_bytes: int
    files: int = 0


@dataclass
class Queue:
    """A queue of files to read, which all threads of all processes share.

    Each process has a copy of this object. All copies share one `counter`: the number of the next
    file, or range of a file, that no thread has taken yet.
    """

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    """The size of each file in bytes when it was listed.  A file is read up to this size only."""
    mode: str
    """read, mmap or direct."""
    block_size: int
    counter: Counter = field(default_factory=Counter)
    ranges: tuple[Range, ...] = ()
    """The pieces that the threads take; if there are none, they take whole files."""
    hauls: list[ReadResult] = field(default_factory=list)
    """Results of the threads of this process."""
    next_said_ns: int = 0

    def take(self) -> Range | None:
        """Return the next range to read, or the next file as a range; None if all are taken."""
        number = self.counter.take()
        if self.ranges:
            return self.ranges[number] if number < len(self.ranges) else None
        return (number, 0, self.sizes[number]) if number < len(self.paths) else None

    def said(self, clock_ns: int) -> ReadProgress:
        """Return the bytes and files that all threads of this process have read so far.

        `clock_ns` is the present time in ns of CLOCK_MONOTONIC; it is put into the result.
        """
        read_bytes = sum(haul.read_bytes for haul in self.hauls)
        return ReadProgress(
            os.getpid(), clock_ns, read_bytes, sum(len(haul.files) for haul in self.hauls)
        )


def read_all(queue: Queue, barrier: Barrier, report: Report) -> ReadResult:
    """Read files or ranges from the queue until it is empty, as one thread; return what was read.

    The reading begins when the barrier opens. `report` is called with a ReadProgress of the process
    about four times a second. A file that no longer exists is skipped and noted. Raises
    ReplayerError with the file's name if a file cannot be read.
    """
    # This code makes no cycles, and a collection would stop all threads of the process.
    gc.disable()
    way, flags = WAYS[queue.mode](queue.block_size)
    haul = ReadResult()
    queue.hauls.append(haul)
    barrier.wait()
    while taken := queue.take():
        number, begin, end = taken
        path = queue.paths[number]
        before = haul.read_bytes
        try:
            fd = os.open(path, flags)
            try:
                if begin:
                    os.lseek(fd, begin, os.SEEK_SET)
                with way(fd, end) as read_at:
                    _read(read_at, taken, haul, queue, report)
            finally:
                os.close(fd)
        except FileNotFoundError:
            haul.missing.append(number)
            continue
        except OSError as error:
            raise _failure(path, begin + haul.read_bytes - before, error) from error
        haul.files.append((number, haul.read_bytes - before))
    return haul


def deal(sizes: Sequence[int], threads: int, block_size: int) -> tuple[Range, ...]:
    """Return the ranges of files that threads read; () means that they read whole files.

    `sizes` has the bytes of each file, and `block_size` is in bytes. A thread's share is all bytes
    divided by `threads`, at least 4 MiB, rounded up to whole blocks. Files larger than that are
    divided into ranges of one share each. () is returned if there are at least as many files as
    threads, or if no file is larger than a share.
    """
    share = max(-(-sum(sizes) // threads), LEAST_RANGE)
    share = -(-share // block_size) * block_size
    if len(sizes) >= threads or max(sizes, default=0) <= share:
        return ()
    return tuple(
        (number, begin, min(begin + share, size))
        for number, size in enumerate(sizes)
        for begin in range(0, max(size, 1), share)
    )


def why_not_direct(path: str) -> str:
    """Return "" if a file can be read with O_DIRECT, else the system's error message."""
    way, flags = _direct(ALIGNMENT)
    try:
        fd = os.open(path, flags)
        try:
            with way(fd, ALIGNMENT) as read_at:
                read_at(0)
        finally:
            os.close(fd)
    except OSError as error:
        return str(error.strerror)
    return ""


def _read(read_at: ReadAt, piece: Range, haul: ReadResult, queue: Queue, report: Report) -> None:
    """Read one range of an open file to its end, and add its bytes and latencies to `haul`.

    `read_at` reads one block. `piece` has the offsets in bytes at which the range begins and ends.
    At most four times a second, `report` is called with the progress of the process.
    """
    clock, latencies = time.monotonic_ns, haul.latencies
    _, offset, end = piece
    reads = 0
    while offset < end:
        before = clock()
        length = read_at(offset)
        after = clock()
        if not length:
            break
        offset += length
        reads += 1
        haul.read_bytes += length
        took = after - before
        surplus = took.bit_length() - _EXACT_BITS
        latencies[took >> surplus << surplus if surplus > 0 else took] += 1
        if after >= queue.next_said_ns:
            queue.next_said_ns = after + _REPORT_EVERY_NS
            report(queue.said(after))
    haul.reads += reads


Way = Callable[[int, int], contextlib.AbstractContextManager[ReadAt]]


def _buffered(block_size: int) -> tuple[Way, int]:
    """Return a function that makes a reader by readv(2), and the flags for open(2).

    The reads go through the page cache, in blocks of `block_size` bytes. The function takes a file
    descriptor and the offset in bytes at which the range to read ends. It returns a context manager
    that yields the reader: a function that reads the block at an offset.
    """
    buffers = [bytearray(block_size)]

    @contextlib.contextmanager
    def way(fd: int, _size: int) -> Iterator[ReadAt]:
        yield lambda _offset: os.readv(fd, buffers)

    return way, os.O_RDONLY | os.O_CLOEXEC


def _direct(block_size: int) -> tuple[Way, int]:
    """Return a function that makes a reader by preadv(2), and the flags for open(2): O_DIRECT.

    The reads are in blocks of `block_size` bytes; the last block of a file may be shorter. The
    function takes a file descriptor and the offset in bytes at which the range to read ends. It
    returns a context manager that yields the reader: a function that reads the block at an offset.
    """
    # An anonymous mapping is page aligned.
    buffers = [mmap.mmap(-1, block_size)]

    @contextlib.contextmanager
    def way(fd: int, _size: int) -> Iterator[ReadAt]:
        yield lambda offset: os.preadv(fd, buffers, offset)

    return way, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT


def _mapped(block_size: int) -> tuple[Way, int]:
    """Return a function that makes a reader by mmap(2), and the flags for open(2).

    numpy reads every byte of the mapping, in blocks of `block_size` bytes, without holding the
    interpreter's lock. The function takes a file descriptor and the offset in bytes at which the
    range to read ends. It returns a context manager that yields the reader: a function that reads
    the block at an offset.
    """
    # Only this way needs numpy, and each of many processes would load it.
    import numpy as np  # noqa: PLC0415

    @contextlib.contextmanager
    def way(fd: int, size: int) -> Iterator[ReadAt]:
        # If a file shrank, an access to the mapping behind its end would be a SIGBUS.
        size = min(size, os.fstat(fd).st_size)
        with page_cache.mapped(fd, size) as view:
            data = np.frombuffer(memoryview(view), dtype=np.uint8)

            def read_at(offset: int) -> int:
                block = data[offset : offset + block_size]
                if block.size:
                    np.maximum.reduce(block)
                return int(block.size)

            yield read_at

    return way, os.O_RDONLY | os.O_CLOEXEC


WAYS = {"read": _buffered, "mmap": _mapped, "direct": _direct}


def _failure(path: str, offset: int, error: OSError) -> ReplayerError:
    hint = _HINTS.get(error.errno or 0, "")
    return ReplayerError(f"{path} could not be read at byte {offset}: {error.strerror}{hint}")
