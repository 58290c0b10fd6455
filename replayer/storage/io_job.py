"""What one kind of worker does to which files: the nouns of the I/O engine."""

from dataclasses import dataclass, replace
from enum import StrEnum

from replayer.errors import Impossible
from replayer.watch.histogram import Latencies
from replayer.watch.workers import Counter

MIB = 1 << 20


class BlockOrder(StrEnum):
    """The order in which blocks are visited."""

    RANDOM = "random"
    """Uniform, with replacement."""
    ZIPF = "zipf"
    """Zipf's law with exponent `theta`; popular blocks are spread over the files."""
    SEQUENTIAL = "sequential"
    """Every thread walks a region of its own, again and again."""
    SHARED = "shared"
    """All threads share one sequential walk: each takes the block that is next."""


class Sync(StrEnum):
    """What follows a write inside its latency."""

    NONE = "none"
    FSYNC = "fsync"
    FDATASYNC = "fdatasync"


@dataclass(frozen=True, slots=True)
class IoTarget:
    """Files of equal size that one client works on, or one block device."""

    paths: tuple[str, ...]
    file_bytes: int
    direct: bool
    """Whether O_DIRECT works here."""
    first_byte: int = 0
    """Where the first block begins in each file; a device's first MiB is left alone."""

    @property
    def bytes(self) -> int:
        """Return the size of all files together."""
        return self.file_bytes * len(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class IoJob:
    """What `threads` threads do; it ends after `seconds` or `operations`, whichever is first."""

    name: str
    threads: int
    block_size: int
    access: BlockOrder = BlockOrder.RANDOM
    read_share: float = 1.0
    """1 reads only, 0 writes only, between them a mix drawn for each operation."""
    direct: bool = True
    dsync: bool = False
    sync: Sync = Sync.NONE
    sync_every: int = 1
    drop: bool = False
    """Drop each block from the page cache before it is touched, outside its latency."""
    seconds: float | None = None
    operations: int | None = None
    """Of all threads together."""
    warmup: float = 0.0
    """Seconds that are worked but not counted."""
    skip: int = 0
    """First operations of every thread that are not counted."""
    rate: float | None = None
    """Operations per second of all threads together; None for as fast as possible."""
    rewrite: bool = False
    """What is written is what was just read there, changed."""
    finish: Sync = Sync.NONE
    """What each thread does after its last operation, inside the window."""
    huge: bool = True
    """Buffers on huge pages, where the kernel grants them: a block is one stretch of memory."""
    theta: float = 1.1
    working_set: int | None = None
    """Bytes of the target that are used, from its start; None for all."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seconds is None and self.operations is None:
            raise Impossible(f"{self.name}: neither a duration nor a number of operations is given")

    @property
    def writes(self) -> bool:
        """Tell whether anything is written."""
        return self.read_share < 1

    def blocks(self, target: IoTarget) -> int:
        """Return how many blocks of a target are in use; raise Impossible if there are none."""
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
    """One thread's part of a job."""

    job: IoJob
    target: IoTarget
    number: int
    """Which of the job's threads this is, from 0."""
    client: int = 0
    turn: Counter | None = None
    """The next block of a shared walk."""
    apart: bool = False
    """Whether it is on another host than the one that made the files."""


@dataclass(frozen=True, slots=True)
class ThreadResult:
    """What one thread did.

    `latencies` are those of the counted reads and of the counted writes, `per_second` the counted
    operations of each second since the window began.
    """

    window_begin_ns: int
    last_ns: int
    cut: bool
    """Whether the clock ended it, and not the number of operations."""
    issued: tuple[int, int]
    """Reads and writes including those that are not counted."""
    latencies: tuple[Latencies, Latencies]
    per_second: tuple[int, ...]

    def moved(self, by_ns: int) -> "ThreadResult":
        """Return it with its instants on a clock that is so much ahead of the one they are of."""
        begin_ns, last_ns = self.window_begin_ns + by_ns, self.last_ns + by_ns
        return replace(self, window_begin_ns=begin_ns, last_ns=last_ns)
