"""Where the blocks of one window came from: buffer pool, page cache or device, and the verdict.

The verdict looks at the blocks that the server missed in its own buffers:

    cached    at most 2 percent of them were read from the device
    physical  at least 90 percent were
    mixed     everything between

Their share is device reads / RIOPS as long as a device read is one block (at most 1.5 blocks on
average); larger reads bring several blocks each, and then it is device read bytes / block size.
"""

from dataclasses import dataclass
from typing import Protocol

from replayer.model import Ledger, Verdict

CACHED_AT_MOST = 0.02
PHYSICAL_AT_LEAST = 0.9
_ONE_BLOCK = 1.5
_LARGE = 0.05
"""Other activity is told of when its bytes are more than this share of the blocks' bytes."""


class Moved(Protocol):
    """What the device did in the window: sampler.DeviceDelta."""

    @property
    def reads(self) -> int:
        """Return completed read requests."""
        ...

    @property
    def read_bytes(self) -> int:
        """Return bytes read."""
        ...

    @property
    def write_bytes(self) -> int:
        """Return bytes written."""
        ...


@dataclass(frozen=True, slots=True)
class Counters:
    """The server's counters and its clock, read together: clock in seconds since 1970."""

    clock: float
    hits: int
    reads: int


def riops(before: Counters, after: Counters) -> float:
    """Return blocks read (missed in the server's buffers) per second of the server's clock.

    pgio's formula with one window for both parts: pgio starts its counters before it launches the
    sessions and its timer after.
    """
    return _rate(after.reads - before.reads, after.clock - before.clock)


def cache_hits(before: Counters, after: Counters) -> float:
    """Return blocks found in the server's buffers per second of the server's clock."""
    return _rate(after.hits - before.hits, after.clock - before.clock)


def _rate(moved: float, seconds: float) -> float:
    return moved / seconds if seconds > 0 else 0.0


def balance(  # noqa: PLR0917 - the order of the ledger's line
    asked: Verdict | None,
    window_seconds: float,
    reads_blocks: int,
    hits_blocks: int,
    delta: Moved | None,
    device: str | None,
    block_size: int,
) -> Ledger:
    """Return the three layers of a window per second, and the verdict.

    `reads_blocks` and `hits_blocks` are what the server's counters moved, `delta` what the whole
    device did; without it the verdict is `unknown` and the note says why.
    """
    missed = _rate(reads_blocks, window_seconds)
    device_reads = None if delta is None else _rate(delta.reads, window_seconds)
    device_bytes = None if delta is None else _rate(delta.read_bytes, window_seconds)
    verdict, notes = _judge(reads_blocks, delta, block_size)
    if delta is not None:
        notes += _others(reads_blocks, delta, block_size)
    if asked is not None and verdict not in (asked, Verdict.UNKNOWN):
        notes.insert(0, f"asked for {asked}, got {verdict}")
    return Ledger(
        asked=asked,
        verdict=verdict,
        window_seconds=window_seconds,
        riops=missed,
        buffer_hits=_rate(hits_blocks, window_seconds),
        page_cache_hits=(
            None if device_bytes is None else max(0.0, missed - device_bytes / block_size)
        ),
        device_reads=device_reads,
        device_read_bytes=device_bytes,
        ratio=None if device_reads is None or not missed else device_reads / missed,
        device=device,
        note="; ".join(notes),
    )


def _judge(reads: int, delta: Moved | None, block_size: int) -> tuple[Verdict, list[str]]:
    if delta is None:
        return Verdict.UNKNOWN, ["the device's reads could not be counted"]
    if not reads:
        # Every block was in the server's own buffers, so the device was asked for none.
        return Verdict.CACHED, ["no block was missed in the server's buffers"]
    notes = []
    share = delta.reads / reads
    average = delta.read_bytes / delta.reads if delta.reads else 0.0
    if average > _ONE_BLOCK * block_size:
        share = delta.read_bytes / block_size / reads
        notes.append(
            f"a device read was {average / 1024:.0f} KiB on average, so the verdict is by bytes"
        )
    if share <= CACHED_AT_MOST:
        return Verdict.CACHED, notes
    return (Verdict.PHYSICAL if share >= PHYSICAL_AT_LEAST else Verdict.MIXED), notes


def _others(reads: int, delta: Moved, block_size: int) -> list[str]:
    """Say what else the whole device did, as its counters do not tell who asked."""
    needed = reads * block_size
    notes = []
    if delta.read_bytes > (1 + _LARGE) * needed + (1 << 20):
        more = (delta.read_bytes - needed) / (1 << 20)
        notes.append(
            f"the device read {more:,.0f} MiB more than the blocks that were missed: "
            f"read-ahead or another reader"
        )
    if delta.write_bytes > _LARGE * max(needed, 1 << 24):
        notes.append(f"the device also wrote {delta.write_bytes / (1 << 20):,.0f} MiB")
    return notes
