"""The result of an I/O job: the sum over its threads, its clients, or its hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from replayer.errors import ReplayerError
from replayer.watch.histogram import Latencies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.storage.io_job import IoJob, ThreadResult


@dataclass(frozen=True)
class IoResult:
    """The result of one I/O job of one client, or the sum of this job for several clients.

    The measured window begins at `begin_ns`, in ns of CLOCK_MONOTONIC, and lasts `seconds`. The
    operations that ended in it are counted, without the first `skip` operations of each thread.
    `reads` and `writes` are the latencies of the counted operations; in a sum over hosts, where
    `within` is set, also those of operations outside the window. `per_second` has the number of
    counted operations in each second. `issued_reads` and `issued_writes` are the numbers of all
    operations.
    """

    job: IoJob
    seconds: float
    reads: Latencies
    writes: Latencies
    issued_reads: int
    issued_writes: int
    per_second: tuple[int, ...]
    begin_ns: int
    within: int | None = None
    """The number of operations in the window, if the latencies include others; else None."""
    compiled: bool = False
    """True if the loops of all threads were machine code."""
    refusal: str = ""
    """The reason why numba did not compile a loop; "" if it did, or was not asked to."""

    @property
    def end_ns(self) -> int:
        """Return the end of the measured window, in ns of the clock of `begin_ns`."""
        return self.begin_ns + round(self.seconds * 1e9)

    @property
    def operations(self) -> int:
        """Return the number of counted reads and writes, which ended in the measured window."""
        if self.within is not None:
            return self.within
        return self.reads.operations + self.writes.operations

    def done_between(self, begin_ns: int, end_ns: int) -> float:
        """Return the number of counted reads and writes between two times, by interpolation.

        The times are in ns of the clock of `self.begin_ns`. The operations that ended in a second
        of the measured window are taken as spread evenly over this second.
        """
        ends = [min(float(second), self.seconds) for second in range(len(self.per_second) + 1)]
        done = [0, *accumulate(self.per_second)]
        first, last = ((ns - self.begin_ns) / 1e9 for ns in (begin_ns, end_ns))
        return float(np.interp(last, ends, done) - np.interp(first, ends, done))

    @property
    def bytes(self) -> int:
        """Return the bytes of all counted reads and writes."""
        return self.operations * self.job.block_size

    @property
    def iops(self) -> float:
        """Return the counted reads and writes per second of the measured window."""
        return self.operations / self.seconds

    @property
    def throughput(self) -> float:
        """Return the bytes of the counted reads and writes per second of the measured window."""
        return self.bytes / self.seconds

    @property
    def latencies(self) -> Latencies:
        """Return the latencies of reads and writes together."""
        return Latencies.of([self.reads, self.writes])


def summed(job: IoJob, shares: Sequence[ThreadResult]) -> IoResult:
    """Return the sum of the results of all threads of a job; `shares` has one result per thread.

    The measured window is the job's duration if the time limit ended the job.  In other cases it
    lasts from the end of the warm-up to the end of the last operation, or of the job's sync call
    after it.  Raises ReplayerError if no operation was counted.
    """
    begin = shares[0].window_begin_ns
    last = max(share.last_ns for share in shares)
    seconds = (last - begin) / 1e9
    if job.seconds is not None and any(share.cut for share in shares):
        seconds = job.seconds
    result = IoResult(
        job=job,
        seconds=seconds,
        reads=Latencies.of(share.latencies[0] for share in shares),
        writes=Latencies.of(share.latencies[1] for share in shares),
        issued_reads=sum(share.issued[0] for share in shares),
        issued_writes=sum(share.issued[1] for share in shares),
        per_second=_added([share.per_second for share in shares]),
        begin_ns=begin,
        compiled=all(share.compiled for share in shares),
        refusal=next((share.refusal for share in shares if share.refusal), ""),
    )
    if not result.operations or seconds <= 0:
        raise ReplayerError(
            f"{job.name}: no operation of {job.block_size} bytes ended within {seconds:g} s; "
            f"the storage hangs or the duration is too short"
        )
    return result


def together(results: Sequence[IoResult]) -> IoResult:
    """Return the sum of one job's results for several clients of this host.

    `results` has one result per client.  The measured window of the sum is the longest of theirs.
    """
    first = results[0]
    return IoResult(
        job=first.job,
        seconds=max(one.seconds for one in results),
        reads=Latencies.of(one.reads for one in results),
        writes=Latencies.of(one.writes for one in results),
        issued_reads=sum(one.issued_reads for one in results),
        issued_writes=sum(one.issued_writes for one in results),
        per_second=_added([one.per_second for one in results]),
        begin_ns=first.begin_ns,
        compiled=all(one.compiled for one in results),
        refusal=next((one.refusal for one in results if one.refusal), ""),
    )


def overlapped(results: Sequence[IoResult]) -> IoResult:
    """Return the sum of one job's results on several hosts, over the time when all hosts worked.

    `results` has one result per host, all by the same clock.  The latencies also include the
    operations of a host while not all hosts worked.  Raises ReplayerError if there was no time in
    which all hosts worked.
    """
    begin, end = max(one.begin_ns for one in results), min(one.end_ns for one in results)
    if begin >= end:
        raise ReplayerError(
            f"{results[0].job.name}: there was no time in which all hosts worked, so that there is "
            f"no sum: give them more to do"
        )
    return replace(
        together(results),
        seconds=(end - begin) / 1e9,
        begin_ns=begin,
        within=round(sum(one.done_between(begin, end) for one in results)),
    )


def _added(many: Sequence[Sequence[int]]) -> tuple[int, ...]:
    longest = max((len(one) for one in many), default=0)
    return tuple(sum(one[at] if at < len(one) else 0 for one in many) for at in range(longest))


def summary(latencies: Latencies) -> dict[str, Any]:
    """Return the columns of a table of latencies: name, such as `p95_us` -> microseconds.

    They are mean, percentiles 50, 95 and 99, largest, smallest and standard deviation.
    """
    return {
        "avg_us": latencies.mean_ns / 1e3,
        "p50_us": latencies.percentile_ns(50) / 1e3,
        "p95_us": latencies.percentile_ns(95) / 1e3,
        "p99_us": latencies.percentile_ns(99) / 1e3,
        "max_us": latencies.most_ns / 1e3,
        "min_us": latencies.least_ns / 1e3,
        "stddev_us": latencies.deviation_ns / 1e3,
    }
