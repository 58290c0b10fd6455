"""The work of one process that keeps a processor or memory busy and counts the operations."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from replayer.watch.histogram import Latencies, Recorder
from replayer.watch.workers import distributable

if TYPE_CHECKING:
    from collections.abc import Callable

    from replayer.watch.workers import Barrier, Report

_LEAST_DIVISOR = 3
_BATCH_BYTES = 4 << 20
_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class SpinWork:
    """The work of a process that keeps a processor or memory busy for `seconds`.

    If `kind` is `cpu`, it is a search for primes. If it is `read` or `write`, a block of memory is
    read or written.
    """

    kind: str
    seconds: float
    limit: int
    """For `cpu`, one more than the largest tested number; else the size of the block in bytes."""


@distributable
def work(job: SpinWork, barrier: Barrier, report: Report) -> tuple[int, Latencies]:  # noqa: ARG001
    """Do the work until its seconds are over; return (number of operations, their latencies).

    An operation is a search for primes, or a read or write of the block of memory.
    """
    event, each = _cpu(job.limit) if job.kind == "cpu" else _memory(job.kind, job.limit)
    event()
    clock, recorder, ends = time.monotonic_ns, Recorder(), array("q", bytes(8 * _CHUNK))
    begin = barrier.wait()
    deadline = begin + int(job.seconds * 1e9)
    done, now = 0, begin
    while now < deadline:
        first, many = clock(), 0
        while many < _CHUNK and now < deadline:
            event()
            ends[many] = now = clock()
            many += 1
        times = np.frombuffer(ends, dtype=np.int64)[:many]
        spans = np.diff(times, prepend=first)[times <= deadline]
        recorder.add(spans // each)
        done += len(spans) * each
    return done, recorder.recorded()


def _cpu(limit: int) -> tuple[Callable[[], Any], int]:
    """Return (a function that counts the primes from 3 to below `limit`, 1).

    The function does exactly the divisions of sysbench's loop, but for all numbers by one divisor
    after another. A number is removed after its first divisor, or when the divisor exceeds its
    square root. 1 is the number of operations in a call.
    """
    numbers = np.arange(_LEAST_DIVISOR, limit, dtype=np.uint64)

    def event() -> int:
        primes, left, divisor = 0, numbers, 2
        while len(left):
            beyond = int(np.searchsorted(left, np.uint64(divisor * divisor)))
            primes += beyond
            left = left[beyond:]
            left = left[left % np.uint64(divisor) != 0]
            divisor += 1
        return primes

    return event, 1


def _memory(kind: str, size: int) -> tuple[Callable[[], Any], int]:
    """Return (a function, the number of operations in one call of it).

    The function reads or writes the same block of `size` bytes that many times; `kind` is `read` or
    `write`.
    """
    times = max(1, _BATCH_BYTES // size)
    block = np.zeros(size // 8, dtype=np.int64)
    again = np.lib.stride_tricks.as_strided(block, (times, len(block)), (0, 8), writeable=True)
    if kind == "read":
        sums = np.empty(times, dtype=np.int64)
        return lambda: np.bitwise_xor.reduce(again, axis=1, out=sums), times
    return lambda: np.copyto(again, 5), times
