"""Where the blocks of one window came from: buffer pool, page cache or device, and the verdict.

The verdict looks at the blocks that the server missed in its own buffers:

    cached    at most 2 percent of them were read from the device
    physical  at least 90 percent were
    mixed     everything between

Where at most 2 percent of all blocks were missed, the buffers served the run and it is cached.
Their share is device reads / RIOPS as long as a device read is one block (at most 1.5 blocks on
average), and bytes read / block size / RIOPS where reads are larger and bring several blocks each.
The device's counters are those of the whole device.  Where the server's processes could be asked
what they read themselves (/proc/PID/io), other readers do not change the verdict.
"""

from dataclasses import dataclass
from typing import Protocol

from replayer.model import Ledger, Verdict

CACHED_AT_MOST = 0.02
PHYSICAL_AT_LEAST = 0.9
_ONE_BLOCK = 1.5
_LARGE = 0.05
"""Other activity is told of when its bytes are more than this share of the blocks' bytes."""
_MIB = 1 << 20
_LITTLE = 16 * _MIB


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
    *,
    own_bytes: int | None = None,
) -> Ledger:
    """Return the three layers of a window per second, and the verdict.

    `reads_blocks` and `hits_blocks` are what the server's counters moved, `delta` what the whole
    device did, `own_bytes` what the server's processes read from it, if that is known.  Without
    `delta` the verdict is `unknown` and the note says why.
    """
    missed = _rate(reads_blocks, window_seconds)
    verdict, notes = _judge(reads_blocks * block_size, delta, block_size, own_bytes)
    if delta is not None and 0 < reads_blocks <= CACHED_AT_MOST * (reads_blocks + hits_blocks):
        # Where the few misses came from says nothing of the run.
        verdict = Verdict.CACHED
        notes = ["almost no block was missed in the server's buffers"]
    if delta is not None:
        notes += _others(reads_blocks * block_size, delta, own_bytes)
    if asked is not None and verdict not in (asked, Verdict.UNKNOWN):
        notes.insert(0, f"asked for {asked}, got {verdict}")
    reads = None if delta is None else _rate(delta.reads, window_seconds)
    return Ledger(
        asked=asked,
        verdict=verdict,
        window_seconds=window_seconds,
        riops=missed,
        buffer_hits=_rate(hits_blocks, window_seconds),
        page_cache_hits=(
            None
            if delta is None
            else max(0.0, missed - _rate(_bytes(delta, own_bytes) / block_size, window_seconds))
        ),
        device_reads=reads,
        device_read_bytes=None if delta is None else _rate(delta.read_bytes, window_seconds),
        ratio=None if reads is None or not missed else reads / missed,
        device=device,
        note="; ".join(notes),
    )


def _bytes(delta: Moved, own_bytes: int | None) -> int:
    return delta.read_bytes if own_bytes is None else min(own_bytes, delta.read_bytes)


def _judge(
    needed: int, delta: Moved | None, block_size: int, own_bytes: int | None
) -> tuple[Verdict, list[str]]:
    if delta is None:
        return Verdict.UNKNOWN, ["the device's reads could not be counted"]
    if not needed:
        # Every block was in the server's own buffers, so the device was asked for none.
        return Verdict.CACHED, ["no block was missed in the server's buffers"]
    notes = []
    share = _bytes(delta, own_bytes) / needed
    average = delta.read_bytes / delta.reads if delta.reads else 0.0
    if average <= _ONE_BLOCK * block_size:
        by_requests = delta.reads * block_size / needed
        share = by_requests if own_bytes is None else min(share, by_requests)
    else:
        notes.append(f"a device read was {average / 1024:.0f} KiB on average: verdict by bytes")
    if share <= CACHED_AT_MOST:
        return Verdict.CACHED, notes
    return (Verdict.PHYSICAL if share >= PHYSICAL_AT_LEAST else Verdict.MIXED), notes


def _others(needed: int, delta: Moved, own_bytes: int | None) -> list[str]:
    """Say what else the device did in the window, where it was much."""
    large = _LARGE * max(needed, _LITTLE)
    notes = []
    if own_bytes is not None and delta.read_bytes - own_bytes > large:
        more = (delta.read_bytes - own_bytes) / _MIB
        notes.append(f"other processes read {more:,.0f} MiB from the device meanwhile")
    elif own_bytes is None and delta.read_bytes - needed > large:
        more = (delta.read_bytes - needed) / _MIB
        notes.append(
            f"the device read {more:,.0f} MiB more than the blocks that were missed: "
            f"read-ahead or another reader"
        )
    if delta.write_bytes > large:
        notes.append(f"the device also wrote {delta.write_bytes / _MIB:,.0f} MiB")
    return notes
