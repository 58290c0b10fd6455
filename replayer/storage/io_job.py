"""Jobs of the I/O engine: the operations of its workers, and the files that they work on."""

from dataclasses import dataclass, replace
from enum import StrEnum

from replayer.errors import Impossible
from replayer.watch.histogram import Latencies
from replayer.watch.workers import Counter

MIB = 1 << 20


class BlockOrder(StrEnum):
    """The order in which the threads of an I/O job read or write the blocks of their files."""

    RANDOM = "random"
    """Each block is equally likely every time, whether it was visited before or not."""
    ZIPF = "zipf"
    """Some blocks are more likely, by Zipf's law with exponent `theta`, spread over the files."""
    SEQUENTIAL = "sequential"
    """Every thread visits its own region in order, again and again."""
    SHARED = "shared"
    """All threads share one sequential walk: each takes the next block."""


class Sync(StrEnum):
    """The system call after a write that brings it to the disk; the latency includes it."""

    NONE = "none"
    FSYNC = "fsync"
    FDATASYNC = "fdatasync"


@dataclass(frozen=True, slots=True)
class IoTarget:
    """Files of equal size that one client of an I/O job reads and writes, or one block device."""

    paths: tuple[str, ...]
    file_bytes: int
    direct: bool
    """True if O_DIRECT can be used on these files."""
    first_byte: int = 0
    """Offset of the first block in each file, in bytes; a device's first MiB is never used."""

    @property
    def bytes(self) -> int:
        """Return the size of all files together, in bytes."""
        return self.file_bytes * len(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoJob:
    """The reads and writes of an I/O measurement, by `threads` threads in blocks of `block_size`.

    The block size is in bytes.  The job ends after `seconds` or after `operations`; at least one of
    the two is given.
    """

    name: str
    threads: int
    block_size: int
    access: BlockOrder = BlockOrder.RANDOM
    read_share: float = 1.0
    """Share of reads: 1 is reads only, 0 is writes only; between, each operation is random."""
    direct: bool = True
    dsync: bool = False
    sync: Sync = Sync.NONE
    sync_every: int = 1
    drop: bool = False
    """Drop each block from the page cache before its operation; the latency excludes this."""
    seconds: float | None = None
    operations: int | None = None
    """Operations of all threads together."""
    warmup: float = 0.0
    """Seconds of work before the counting begins."""
    skip: int = 0
    """Number of first operations of every thread that are not counted."""
    rate: float | None = None
    """Operations per second of all threads together; None means as fast as possible."""
    rewrite: bool = False
    """Each write reads the block first, changes one byte, and writes it back."""
    finish: Sync = Sync.NONE
    """The sync call of each thread after its last operation; its time is part of the window."""
    huge: bool = True
    """Put buffers on huge pages if the kernel grants them: a block is then contiguous in memory."""
    theta: float = 1.1
    working_set: int | None = None
    """Bytes of the target that are used, from its start; None means all."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seconds is None and self.operations is None:
            raise Impossible(f"{self.name}: neither a duration nor a number of operations is given")

    @property
    def writes(self) -> bool:
        """Return whether at least some of the job's operations are writes."""
        return self.read_share < 1

    @property
    def paced(self) -> bool:
        """Return whether the job does more than one read or write after another."""
        return self.drop or self.sync is not Sync.NONE or self.rate is not None

    @property
    def compilable(self) -> bool:
        """Return whether the loop of the job can be machine code.

        It cannot if it takes its blocks from a counter, or does more than reads and writes.
        """
        return not (self.paced or self.rewrite or self.access is BlockOrder.SHARED)

    def blocks(self, target: IoTarget) -> int:
        """Return the number of a target's blocks that the job uses, limited by its working set.

        Raises Impossible if there are fewer blocks than threads.
        """
        usable = target.file_bytes // self.block_size * len(target.paths)
        if self.working_set is not None:
            usable = min(usable, self.working_set // self.block_size)
        if usable < self.threads:
            raise Impossible(
                f"{self.name}: {self.threads} threads need as many blocks of {self.block_size} "
                f"bytes, and the files have {usable}"
            )
        return usable


@dataclass(frozen=True, slots=True)
class IoThread:
    """One thread's part of an I/O job: the job, the files, and the thread's number.

    `client` is the index, from 0, of the client that the thread works for.
    """

    job: IoJob
    target: IoTarget
    number: int
    """Number of the thread in the job, from 0."""
    client: int = 0
    turn: Counter | None = None
    """The counter from which all threads take the next block, if the order is SHARED."""
    apart: bool = False
    """True if the thread may run on another host than the one that made the files."""
    compiled: bool = False
    """True to compile its loop, if the job is compilable and numba works."""


@dataclass(frozen=True, slots=True)
class ThreadResult:
    """The result of one thread of an I/O job.

    The measured window begins after the warm-up, at `window_begin_ns`. The last operation, or the
    job's sync call after it, ended at `last_ns`. Both are in ns of CLOCK_MONOTONIC. `latencies` are
    (those of the counted reads, those of the counted writes). `per_second` has the number of
    counted operations in each second since the window began.
    """

    window_begin_ns: int
    last_ns: int
    cut: bool
    """True if the time limit ended the thread, and not the number of operations."""
    issued: tuple[int, int]
    """(reads, writes), including those that are not counted."""
    latencies: tuple[Latencies, Latencies]
    per_second: tuple[int, ...]
    compiled: bool = False
    """True if the loop was machine code, False if it was Python."""
    refusal: str = ""
    """The reason why numba did not compile the loop; "" if it did, or was not asked to."""

    def moved(self, by_ns: int) -> "ThreadResult":
        """Return a copy with `by_ns` nanoseconds added to its two times, to change their clock."""
        begin_ns, last_ns = self.window_begin_ns + by_ns, self.last_ns + by_ns
        return replace(self, window_begin_ns=begin_ns, last_ns=last_ns)
