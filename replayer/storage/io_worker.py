"""One thread's part of an I/O job: the loops of reads and writes, whose latencies are measured.

A chunk is some thousand operations, whose offsets, functions and buffers are prepared before it.
While a chunk runs, each operation is one system call, one reading of the clock and one store.
Latencies are binned between chunks, and no latency includes that time.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import mmap
import os
import threading
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replayer.errors import ReplayerError
from replayer.machine.page_cache import PAGE
from replayer.storage import compiled_loop
from replayer.storage.compiled_loop import SHORT, STAMPED, UNLIKE, WORDS_A_STAMP, CompiledLoop
from replayer.storage.io_job import MIB, BlockOrder, IoThread, Sync, ThreadResult
from replayer.watch.histogram import Recorder
from replayer.watch.workers import distributable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replayer.storage.compiled_loop import Operations
    from replayer.watch.workers import Barrier, Counter, Report

_CHUNK = 8192
_CHUNK_OF_CRUMBS = 65536
_CRUMB_BYTES = 512
_CHUNK_BYTES = 64 * MIB
_WHOLE_BYTES = 16 * MIB
_LARGE_BYTES = 256 << 10
"""Blocks that are larger, in bytes, are written from one buffer, not from several in turn."""
_TURN_BYTES = 64 << 10
_FEWEST_TURNS = 4
_MOST_TURNS = 16
_REPORT_NS = 500_000_000
_NEVER = 1 << 62
_HUGE_PAGE = 2 * MIB
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

_SYNCS = {Sync.FSYNC: os.fsync, Sync.FDATASYNC: os.fdatasync}

_Operation = tuple["Callable[[int, Any, int], int]", int, Any, int]


@distributable
def work(thread: IoThread, barrier: Barrier, report: Report) -> ThreadResult:
    """Open the files of a thread, wait for the start, read and write, and return the result.

    `report` is called after a chunk, at most twice a second, with the number of operations since
    its last call.  Raises ReplayerError, with one sentence, for any error of the storage.
    """
    worker = _IoWorker(thread)
    try:
        worker.open()
        return worker.run(barrier.wait(), report)
    except OSError as error:
        raise ReplayerError(trouble(error, thread)) from error
    finally:
        worker.close()


def trouble(error: OSError, thread: IoThread) -> str:
    """Return a sentence for the user about an error of the storage in a thread's work.

    It names the job and the file.  For a full disk, a missing file or an error of the device, it
    also has a cause or a remedy.
    """
    job, where = thread.job, thread.target.paths[0]
    doing = {1.0: "reading", 0.0: "writing"}.get(job.read_share, "reading and writing")
    what = f"{job.name}: {doing} blocks of {job.block_size} bytes of {where}"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{what} stopped: {os.strerror(error.errno)}; free some space or ask for less"
    if error.errno == errno.EIO:
        return f"{what} failed: {os.strerror(error.errno)}; see dmesg for the device's messages"
    if error.errno == errno.ENOENT and thread.apart:
        return (
            f"{what} stopped: there is no such file; the hosts of --clients have to share the "
            f"folder of --data-dir, which has the same path on each of them"
        )
    if error.errno == errno.ENOENT:
        return f"{what} stopped: the file was deleted by another program while it was in use"
    if error.errno == errno.ENODATA:
        return f"{what} failed: {error.strerror}"
    return f"{what} failed: {error.strerror or error}"


def _rewrite(fd: int, buffers: list[Any], offset: int) -> int:
    """Read the block at `offset`, change its first byte and write it back.

    `buffers` holds one buffer, of the block's length.  Returns the number of bytes written, 0 if
    less than a block could be read.
    """
    if os.preadv(fd, buffers, offset) != len(buffers[0]):
        return 0
    buffers[0][0] ^= 0xFF
    return os.pwritev(fd, buffers, offset)


def _buffer(size: int, *, huge: bool) -> memoryview:
    """Return `size` bytes of private memory that start at a page boundary.

    With `huge`, they are on huge pages if the kernel grants them.  A device moves a block in one
    piece for each contiguous part of its memory, and each piece takes time.  So a block in
    contiguous pages is up to twice as fast as one in scattered pages.  Whether small pages are
    contiguous is chance, and differs from process to process.
    """
    if huge:
        return _HUGE.take(size)
    return memoryview(mmap.mmap(-1, size, flags=_PRIVATE))


class _HugePages:
    """Memory on huge pages, from which all threads of this process take their I/O buffers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = memoryview(b"")

    def take(self, size: int) -> memoryview:
        """Return `size` unused bytes, which start at a page boundary.

        They are on huge pages if the kernel grants them.  More memory is mapped if not enough is
        left.  It is never given back.
        """
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            if whole > len(self._left):
                self._left = _whole(whole)
            piece, self._left = self._left[:size], self._left[whole:]
        return piece


_HUGE = _HugePages()


def _whole(size: int) -> memoryview:
    """Return new memory of at least `size` bytes, a multiple of 2 MiB, on huge pages if possible.

    Without huge pages in the kernel, it is on small pages.
    """
    whole = -(-size // _HUGE_PAGE) * _HUGE_PAGE
    memory = mmap.mmap(-1, whole + _HUGE_PAGE, flags=_PRIVATE)
    with contextlib.suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    first = -np.frombuffer(memory, dtype=np.uint8).ctypes.data % _HUGE_PAGE
    return memoryview(memory)[first : first + whole]


class _IoWorker:
    """The work of one thread of an I/O job: its files, buffers, operations and results."""

    def __init__(self, thread: IoThread) -> None:
        self._thread = thread
        self._job = thread.job
        self._fds: list[int] = []
        self._seen = (Recorder(), Recorder())
        self._issued = [0, 0]
        self._per_second: dict[int, int] = {}
        self._unsynced = 0
        self._compiled: CompiledLoop | None = None
        self._refusal = ""

    def open(self) -> None:
        """Open the files, fill the buffers, and prepare the first chunk of operations."""
        job, target = self._job, self._thread.target
        self._blocks = job.blocks(target)
        seeds = [job.seed, self._thread.client, self._thread.number]
        self._random = np.random.default_rng(seeds)
        # Not _random: the same seed visits the same blocks, however many buffers are filled.
        self._filling = np.random.default_rng([*seeds, 1])
        for path in target.paths:
            self._fds.append(os.open(path, self._flags()))
        if job.drop:
            for fd in self._fds:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        compiled = self._compiles()
        self._buffers = self._make_buffers(1 if compiled else _FEWEST_TURNS)
        if compiled:
            self._compiled = CompiledLoop(self._fds, [buffers[0] for buffers in self._buffers])
        self._next = 0
        most = _CHUNK if job.block_size >= _CRUMB_BYTES else _CHUNK_OF_CRUMBS
        self._size = max(1, min(most, _CHUNK_BYTES // job.block_size))
        if self._job.paced:
            self._size = min(self._size, 256)
        self._begins = array("q", bytes(8 * self._size))
        self._ends = array("q", bytes(8 * self._size))
        self._quota = self._own_operations()
        self._popular = _Zipf(self._blocks, job.theta) if job.access is BlockOrder.ZIPF else None
        self._ready = self._chunk()

    def close(self) -> None:
        """Close the descriptors of the files that `open` opened."""
        while self._fds:
            os.close(self._fds.pop())

    def run(self, opened_ns: int, report: Report) -> ThreadResult:
        """Do the thread's reads and writes, and return the result.

        `opened_ns` is the common start of all threads, in ns of CLOCK_MONOTONIC.  `report` is
        called after a chunk, at most twice a second, with the number of operations since its last
        call.
        """
        job = self._job
        begin = opened_ns + int(job.warmup * 1e9)
        deadline = _NEVER if job.seconds is None else begin + int(job.seconds * 1e9)
        lap: Callable[[Any, int], int] = self._stroll if job.paced else self._dash
        if self._compiled is not None:
            lap = self._rush
        reported_ns, unsaid, last, self._due = opened_ns, 0, begin, opened_ns
        done = 0
        while True:
            kinds, operations, many = self._ready
            did = lap(operations, deadline)
            last = self._ends[did - 1] if did else last
            self._fold(kinds, did, done, begin, deadline)
            done += did
            unsaid += did
            if did < many or done >= self._quota or last >= deadline:
                break
            if last - reported_ns > _REPORT_NS:
                report(unsaid)
                reported_ns, unsaid = last, 0
            self._ready = self._chunk(done)
        if job.finish in _SYNCS:
            for fd in self._fds:
                _SYNCS[job.finish](fd)
            last = time.monotonic_ns()
        self._still_there()
        return self._share(begin, last, cut=done < self._quota)

    def _compiles(self) -> bool:
        """Compile the loop if that was asked for and the job allows it; return whether it is."""
        if not (self._thread.compiled and self._job.compilable):
            return False
        self._refusal = compiled_loop.refusal()
        return not self._refusal

    def _flags(self) -> int:
        job = self._job
        mode = {1.0: os.O_RDONLY, 0.0: os.O_WRONLY}.get(job.read_share, os.O_RDWR)
        mode = os.O_RDWR if job.rewrite else mode
        direct = os.O_DIRECT if job.direct and self._thread.target.direct else 0
        return mode | direct | (os.O_DSYNC if job.dsync else 0) | os.O_CLOEXEC

    def _own_operations(self) -> int:
        """Return the number of operations of this thread, those that are not counted included.

        It is 2**62, that is unlimited, if the job has no number of operations.
        """
        job = self._job
        if job.operations is None:
            return _NEVER
        even, rest = divmod(job.operations, job.threads)
        return even + (self._thread.number < rest) + job.skip

    def _make_buffers(self, fewest: int) -> list[list[memoryview]]:
        """Return page-aligned buffers of one block each, filled with incompressible data.

        Each one is in a list, as os.preadv and os.pwritev take it.  Jobs that write small blocks
        get several, at least `fewest`.
        """
        size = self._job.block_size
        # Buffers used in turn: enough that the storage does not soon see the same data, few enough
        # to fit into the cache.
        several = self._job.writes and size <= _LARGE_BYTES
        many = max(fewest, min(_MOST_TURNS, _TURN_BYTES // size)) if several else 1
        buffers = [_buffer(size, huge=self._job.huge) for _ in range(many)]
        for buffer in buffers:
            for at in range(0, size, _WHOLE_BYTES):
                piece = min(_WHOLE_BYTES, size - at)
                buffer[at : at + piece] = self._filling.bytes(piece)
        return [[buffer] for buffer in buffers]

    def _restamp(self, buffers: list[memoryview]) -> list[memoryview]:
        """Change one word in each 4 KiB of a write buffer, and return the buffer.

        So the next write from this buffer differs from the last one.  A buffer smaller than that is
        not changed.
        """
        if self._job.block_size >= STAMPED:
            words = np.frombuffer(buffers[0], dtype=np.uint64, count=len(buffers[0]) // 8)
            words[::WORDS_A_STAMP] += UNLIKE
        return buffers

    def _chunk(self, done: int = 0) -> tuple[Any, Iterator[_Operation] | Operations, int]:
        """Return the next chunk of operations as (kinds, operations, number of operations).

        An operation is (function, descriptor, buffers, offset in bytes).  `done` is the number of
        operations before this chunk.  The kinds are an array that is True for writes, or None if
        all operations are alike.
        """
        job, target = self._job, self._thread.target
        many = min(self._size, self._quota - done)
        kinds, calls = self._calls(many)
        if self._thread.turn is not None:
            walk = self._shared_walk(self._thread.turn, calls, self._turns(done))
            return kinds, itertools.islice(walk, many), many
        blocks = self._positions(many)
        per_file = target.file_bytes // job.block_size
        files, inside = blocks // per_file, blocks % per_file
        bytes_inside = inside * job.block_size + target.first_byte
        if self._compiled is not None:
            writes = np.full(many, job.writes) if kinds is None else kinds
            return kinds, self._compiled.prepare(files, writes, bytes_inside), many
        offsets = array("q", bytes_inside.tobytes())
        fds: Any = itertools.repeat(self._fds[0])
        if len(self._fds) > 1:
            fds = map(self._fds.__getitem__, files.tolist())
        return kinds, zip(calls, fds, self._turns(done), offsets, strict=False), many

    def _calls(self, many: int) -> tuple[Any, Iterator[Callable[..., int]]]:
        """Return (kinds, functions) of the next `many` operations, drawn by the job's read share.

        The functions, such as os.preadv, are to be called for the operations.  The kinds are an
        array that is True for writes, or None if all operations are alike.
        """
        job = self._job
        write = _rewrite if job.rewrite else os.pwritev
        if job.read_share in {0.0, 1.0}:
            return None, itertools.repeat(os.preadv if job.read_share else write)
        kinds = self._random.random(many) >= job.read_share
        return kinds, map((os.preadv, write).__getitem__, kinds.astype("int8").tolist())

    def _turns(self, done: int) -> Iterator[list[memoryview]]:
        """Return an endless iterator over the buffers for operations, one after another.

        The data of buffers for writes changes.  `done` is the number of operations that this thread
        has already done.
        """
        if self._job.writes and len(self._buffers) > 1:
            if done:
                self._buffers = [self._restamp(buffers) for buffers in self._buffers]
            return itertools.cycle(self._buffers)
        one = itertools.repeat(self._buffers[0])
        # Several large buffers would only evict each other from the processor's cache.
        return map(self._restamp, one) if self._job.writes else one

    def _shared_walk(
        self,
        turn: Counter,
        calls: Iterator[Callable[..., int]],
        buffers: Iterator[list[memoryview]],
    ) -> Iterator[_Operation]:
        """Yield operations on the next blocks of one sequence that all threads share.

        An operation is (function, descriptor, buffers, offset in bytes).  `calls` and `buffers`
        have its function and its buffers.  `turn` counts the blocks taken by all threads.  Each
        block is taken just before its operation.
        """
        size, first = self._job.block_size, self._thread.target.first_byte
        per_file = self._thread.target.file_bytes // size
        for call, buffer in zip(calls, buffers, strict=False):
            file, block = divmod(turn.take() % self._blocks, per_file)
            yield call, self._fds[file], buffer, block * size + first

    def _positions(self, many: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the numbers of the next `many` blocks of this thread.

        The blocks of all files are numbered from 0, one file after another.
        """
        job, number = self._job, self._thread.number
        if job.access is BlockOrder.RANDOM:
            return self._random.integers(0, self._blocks, many)
        if self._popular is not None:
            return self._popular.draw(self._random, many)
        steps = np.arange(self._next, self._next + many, dtype=np.int64)
        self._next += many
        first = self._blocks * number // job.threads
        length = self._blocks * (number + 1) // job.threads - first
        return steps % length + first

    def _dash(self, operations: Iterator[_Operation], deadline: int) -> int:
        """Run prepared operations one after another; return how many were done.

        It stops at their end or at `deadline`, in ns of CLOCK_MONOTONIC.  The end of an operation
        is taken as the begin of the next one.
        """
        clock, ends, size = time.monotonic_ns, self._ends, self._job.block_size
        done = 0
        self._begin = clock()
        for call, fd, buffers, offset in operations:
            if call(fd, buffers, offset) != size:
                raise self._short(offset)
            ends[done] = now = clock()
            done += 1
            if now >= deadline:
                break
        return done

    def _rush(self, operations: Operations, deadline: int) -> int:
        """Do as `_dash` does, in machine code, with operations of `CompiledLoop.prepare`."""
        assert self._compiled is not None
        ends = np.frombuffer(self._ends, dtype=np.int64)
        self._begin = time.monotonic_ns()
        done, wrong = self._compiled.run(operations, ends, deadline)
        if wrong == SHORT:
            raise self._short(int(operations.offsets[done]))
        if wrong:
            raise OSError(wrong, os.strerror(wrong))
        return done

    def _stroll(self, operations: Iterator[_Operation], deadline: int) -> int:
        """Run prepared operations, with pauses, syncs or page drops as the job requires.

        It stops at their end or at `deadline`, in ns of CLOCK_MONOTONIC.  Returns how many were
        done.
        """
        clock, begins, ends = time.monotonic_ns, self._begins, self._ends
        job, size = self._job, self._job.block_size
        sync = _SYNCS.get(job.sync)
        every = job.sync_every if job.writes else 0
        pause = int(1e9 * job.threads / job.rate) if job.rate else 0
        done = 0
        for call, fd, buffers, offset in operations:
            if pause and not self._wait(pause, deadline):
                break
            if job.drop:
                # Of a page that is named only in part, nothing is dropped.
                page, end = offset & -PAGE, -(-(offset + size) // PAGE) * PAGE
                os.posix_fadvise(fd, page, end - page, os.POSIX_FADV_DONTNEED)
            begins[done] = clock()
            if call(fd, buffers, offset) != size:
                raise self._short(offset)
            if sync and every and call is not os.preadv:
                self._unsynced += 1
                if self._unsynced >= every:
                    sync(fd)
                    self._unsynced = 0
            ends[done] = now = clock()
            done += 1
            if now >= deadline:
                break
        return done

    def _wait(self, pause: int, deadline: int) -> bool:
        """Sleep until the next operation is due; return False if that is not before the deadline.

        `pause` is the time between two operations in ns, and `deadline` is in ns of
        CLOCK_MONOTONIC.
        """
        due = self._due
        if due >= deadline:
            return False
        left = due - time.monotonic_ns()
        if left > 0:
            time.sleep(left / 1e9)
        self._due = due + pause
        return True

    def _fold(self, kinds: Any, did: int, done: int, begin: int, deadline: int) -> None:
        """Add a chunk's latencies to the results, for operations that ended in the measured window.

        `kinds` is True for each write, or None if all operations are alike.  `did` is the number of
        operations of this chunk that were run, and `done` the number before this chunk.  The window
        is from `begin` to `deadline`, in ns of CLOCK_MONOTONIC.
        """
        ends = np.frombuffer(self._ends, dtype=np.int64)[:did]
        if self._job.paced:
            begins = np.frombuffer(self._begins, dtype=np.int64)[:did]
        else:
            begins = np.concatenate((np.array([self._begin], dtype=np.int64), ends[:-1]))[:did]
        writes = np.full(did, self._job.read_share == 0) if kinds is None else kinds[:did]
        counted = (ends > begin) & (ends <= deadline)
        counted[: max(0, self._job.skip - done)] = False
        for kind, mine in enumerate((~writes, writes)):
            self._issued[kind] += int(mine.sum())
            chosen = mine & counted
            self._seen[kind].add((ends - begins)[chosen])
        seconds, many = np.unique((ends[counted] - begin) // 1_000_000_000, return_counts=True)
        for second, count in zip(seconds.tolist(), many.tolist(), strict=True):
            self._per_second[second] = self._per_second.get(second, 0) + count

    def _share(self, begin: int, last: int, *, cut: bool) -> ThreadResult:
        per_second = tuple(
            self._per_second.get(second, 0)
            for second in range(max(self._per_second, default=-1) + 1)
        )
        return ThreadResult(
            window_begin_ns=begin,
            last_ns=last,
            cut=cut,
            issued=(self._issued[0], self._issued[1]),
            latencies=(self._seen[0].recorded(), self._seen[1].recorded()),
            per_second=per_second,
            compiled=self._compiled is not None,
            refusal=self._refusal,
        )

    def _short(self, offset: int) -> OSError:
        name = self._thread.target.paths[0]
        return OSError(
            errno.ENODATA,
            f"fewer bytes than requested were read or written at offset {offset}; "
            f"{name} was cut short, or its disk is full",
        )

    def _still_there(self) -> None:
        """Raise ReplayerError if a path no longer leads to the file that was opened."""
        for path, fd in zip(self._thread.target.paths, self._fds, strict=True):
            mine = os.fstat(fd)
            try:
                there = Path(path).stat()
            except FileNotFoundError:
                there = None
            if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
                raise ReplayerError(
                    f"{self._job.name}: {path} was deleted or replaced while it was "
                    f"in use; its figures are not kept"
                )


class _Zipf:
    """A source of random block numbers by Zipf's law: the k-th most popular weighs k ** -theta.

    The popular blocks are spread over all `many` blocks.
    """

    def __init__(self, many: int, theta: float) -> None:
        self._many = many
        self._theta = theta
        # A step that is coprime to `many` visits every block once, so that popular blocks are
        # spread.
        step = max(1, int(many * 0.6180339887498949)) | 1
        while math.gcd(step, many) != 1:
            step += 2
        self._step = step

    def draw(self, random: np.random.Generator, many: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return `many` block numbers, drawn at random by Zipf's law."""
        drawn = random.random(many)
        power = 1.0 - self._theta
        if abs(power) < 1e-9:
            ranks = np.exp(drawn * math.log(self._many + 1.0))
        else:
            ranks = (drawn * ((self._many + 1.0) ** power - 1.0) + 1.0) ** (1.0 / power)
        whole = np.clip(ranks.astype(np.int64) - 1, 0, self._many - 1)
        spread: np.ndarray[Any, np.dtype[np.int64]] = whole * self._step % self._many
        return spread
