"""The ledger of a window: how many blocks came from buffer pool, page cache and device.

Its verdict names the main source. If at most 2 percent of all blocks were missing in the server's
own buffers, the verdict is `buffered`: so few blocks do not characterize the run. Otherwise it
depends on these missed blocks:

    cached    at most 2 percent of them were read from the device
    physical  at least 90 percent of them were read from the device
    mixed     everything between

RIOPS is missed blocks per second. The share that was read from the device is device reads / RIOPS
if a device read is one block (at most 1.5 blocks on average). If device reads are larger, it is
bytes read / block size / RIOPS. The device's counters include all programs. If it is known what the
server's processes read themselves (/proc/PID/io), other readers do not change the verdict. If they
read clearly more than the device counted, its counter lacks reads, and only `physical` is proven.
The server's processes also read for its other databases. If the verdict depends on how many of
their blocks came from the device, it is `unknown`.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from replayer.model import Ledger, ReadOrigin

BUFFERED_AT_MOST = 0.02
CACHED_AT_MOST = 0.02
PHYSICAL_AT_LEAST = 0.9
FOREIGN_FROM = 0.02
"""Other programs' reads or writes are reported from this share of the run's own on.

The share is that of the bytes or that of the requests.
"""
FOREIGN_ROWS_FROM = 0.1
"""Other sessions' rows are reported from this share of the run's own rows on.

It is higher than FOREIGN_FROM, because a program that monitors a server reads statistics tables.
"""
_FEW_BLOCKS = 200_000
"""The work of other sessions is compared with at least this many blocks or rows.

Replayer's connections that control and watch a step read up to 2,700 blocks of the catalogs.
"""
_ONE_BLOCK = 1.5
_UNCOUNTED_FROM = 1.1
"""The server's own bytes are clearly more than the device's from this ratio on.

Both are read within milliseconds of each other, so that they differ a little on a busy device.
"""
COUNTED_LATE = 2
"""Sessions of other databases may have read up to so many times the blocks that are counted.

A session counts its blocks when a statement ends, at most once a second, so that some are missing.
"""
UNCOUNTED = 1 << 48
"""A number of blocks that stands for an unknown one, larger than a server reads."""
_MIB = 1 << 20
_LITTLE = 16 * _MIB
"""The traffic of other programs is compared with at least this many bytes."""


class Moved(Protocol):
    """The difference of the device's counters over the window, as in sampler.DeviceDelta."""

    @property
    def reads(self) -> int:
        """Return the read requests that the device completed in the window."""
        ...

    @property
    def read_bytes(self) -> int:
        """Return the bytes read from the device in the window."""
        ...

    @property
    def write_bytes(self) -> int:
        """Return the bytes written to the device in the window."""
        ...


@dataclass(frozen=True, slots=True)
class ServerCounters:
    """The server's block counters and its clock (seconds since 1970), read at the same time.

    `hits` are blocks found in the server's buffers, `reads` blocks that were missing there.
    `other_databases` are blocks that were missing there for other databases of the server.
    `other_statements` are statements for these that have not ended: their blocks are not counted.
    """

    clock: float
    hits: int
    reads: int
    other_databases: int = 0
    other_statements: int = 0


@dataclass(frozen=True, slots=True)
class OtherSessions:
    """The work of other users' sessions during a step; None means not counted.

    `hits` and `reads` are their blocks, found and missing in the server's buffers. `rows` are the
    rows that they read, for a server that does not count blocks per session; `own_rows` are those
    of the step.
    """

    hits: int | None = None
    reads: int | None = None
    rows: int | None = None
    own_rows: int = 0
    counted: bool = False
    """True if `hits` and `reads` are included in the step's own numbers."""


def missed_apart(before: ServerCounters, after: ServerCounters) -> int:
    """Return the blocks that were missing for other databases of the server between two readings.

    Returns UNCOUNTED if a statement for one of them had not ended.
    """
    if after.other_statements:
        return UNCOUNTED
    return max(0, after.other_databases - before.other_databases)


def riops(before: ServerCounters, after: ServerCounters) -> float:
    """Return blocks read (missed in the server's buffers) per second of the server's clock.

    This is the formula of the benchmark pgio, but blocks and time are of the same window: pgio
    reads its counters before it launches the sessions, and starts its timer afterwards.
    """
    return _rate(after.reads - before.reads, after.clock - before.clock)


def cache_hits(before: ServerCounters, after: ServerCounters) -> float:
    """Return blocks found in the server's buffers per second of the server's clock."""
    return _rate(after.hits - before.hits, after.clock - before.clock)


def _rate(moved: float, seconds: float) -> float:
    return moved / seconds if seconds > 0 else 0.0


def balance(  # noqa: PLR0917 - the order of the ledger's line
    asked: ReadOrigin | None,
    window_seconds: float,
    reads_blocks: int,
    hits_blocks: int,
    delta: Moved | None,
    device: str | None,
    block_size: int,
    *,
    own_bytes: int | None = None,
    own_write_bytes: int = 0,
    other_reads_blocks: int = 0,
    other_databases_blocks: int = 0,
) -> Ledger:
    """Return the ledger of a window: the rates of buffers, page cache and device, and the verdict.

    `asked` is the verdict that the user asked for, None for any. `reads_blocks` and `hits_blocks`
    are the step's blocks, missing and found in the server's buffers. `delta` is the work of the
    whole device. `own_bytes` is what the server's processes read from it, None if unknown, and
    `own_write_bytes` what they wrote. `other_reads_blocks` are blocks that other users' sessions
    missed, `other_databases_blocks` those missed for other databases. Bytes read are divided
    between the step and these others in proportion to the missed blocks, each of `block_size`
    bytes. Without `delta` the verdict is `buffered` or `unknown`, and a note has the reason.
    """
    missed = _rate(reads_blocks, window_seconds)
    every_block = reads_blocks + other_reads_blocks
    own_share = _own_share(reads_blocks, every_block, other_databases_blocks)
    needed, apart = every_block * block_size, other_databases_blocks * block_size
    verdict, notes, hidden = _judge_apart(needed, delta, block_size, own_bytes, apart)
    blocks = reads_blocks + hits_blocks
    if blocks and reads_blocks <= BUFFERED_AT_MOST * blocks:
        verdict = ReadOrigin.BUFFERED
        notes = [f"{_percent(hits_blocks / blocks)} of the blocks were in the server's own buffers"]
    if delta is not None:
        notes += foreign_traffic(needed, delta, own_bytes, own_write_bytes, block_size)
    if asked is not None and verdict not in (asked, ReadOrigin.UNKNOWN):
        notes.insert(0, f"asked for {asked}, got {verdict}")
    reads = None if delta is None else _rate(delta.reads, window_seconds)
    clear = verdict is ReadOrigin.PHYSICAL or not hidden
    read_bytes = 0 if delta is None else _bytes(delta, own_bytes)
    read_blocks = _rate(read_bytes / block_size, window_seconds)
    return Ledger(
        asked=asked,
        verdict=verdict,
        window_seconds=window_seconds,
        riops=missed,
        buffer_hits=_rate(hits_blocks, window_seconds),
        page_cache_hits=max(0.0, missed - own_share * read_blocks) if delta and clear else None,
        device_reads=reads,
        device_read_bytes=None if delta is None else _rate(delta.read_bytes, window_seconds),
        # A buffered run missed so few blocks that their share has no meaning.
        ratio=(
            None
            if reads is None or not clear or not missed or verdict is ReadOrigin.BUFFERED
            else own_share * _requests(delta, own_bytes, block_size) / window_seconds / missed
        ),
        device=device,
        note="; ".join(notes),
    )


def _bytes(delta: Moved, own_bytes: int | None) -> int:
    return delta.read_bytes if own_bytes is None else min(own_bytes, delta.read_bytes)


def _own_share(own: int, every: int, apart: int) -> float:
    """Return the step's share of all missed blocks: `own` of `every` block and those `apart`.

    `apart` are those of other databases; if it is UNCOUNTED, they are left out.
    """
    known = max(0, apart) if apart < UNCOUNTED else 0
    return own / (every + known) if every else 1.0


def _requests(delta: Moved | None, own_bytes: int | None, block_size: int) -> float:
    """Return how many reads of the device the server's processes requested, as an estimate.

    Returns all reads if the server's bytes are not known, or if the device read nothing else.  The
    others' requests are taken to be as large as the server's, or larger if these are then more than
    one for each block.
    """
    if delta is None or own_bytes is None or not delta.read_bytes:
        return 0.0 if delta is None else float(delta.reads)
    own = _bytes(delta, own_bytes)
    return min(delta.reads, max(delta.reads * own / delta.read_bytes, own / block_size))


def _judge_apart(
    needed: int, delta: Moved | None, block_size: int, own_bytes: int | None, other_bytes: int
) -> tuple[ReadOrigin, list[str], bool]:
    """Return the verdict, its notes, and whether the server's reads of the device are not known.

    They are not if the device counts too few, or if reads for other databases hide them.
    `other_bytes` were missing in the server's buffers for other databases. The device may have
    delivered all or none of them, so the verdict must be the same in both cases.
    """
    verdict, notes = _judge(needed, delta, block_size, own_bytes)
    lacks = _lacks_reads(needed, delta, own_bytes)
    if delta is None or needed <= 0 or other_bytes <= FOREIGN_FROM * needed:
        return verdict, notes, lacks
    missed = f"other databases of this server missed {other_bytes / _MIB:,.0f} MiB meanwhile"
    if other_bytes >= UNCOUNTED * block_size:
        missed = "a statement for another database of this server had not ended"
    without, _ = _judge(needed, delta, block_size, own_bytes, COUNTED_LATE * other_bytes)
    if verdict is without:
        return verdict, [*notes, missed], lacks
    reason = f"{missed}: how much of the device's reads was for them is not known"
    return ReadOrigin.UNKNOWN, [reason], True


def _judge(
    needed: int,
    delta: Moved | None,
    block_size: int,
    own_bytes: int | None,
    other_bytes: int = 0,
) -> tuple[ReadOrigin, list[str]]:
    """Return the verdict and its notes, if the device delivered `other_bytes` for others."""
    if delta is None:
        return ReadOrigin.UNKNOWN, ["the device's reads could not be counted"]
    if not needed:
        return ReadOrigin.UNKNOWN, ["the server counted no block"]
    notes = []
    share = max(0, _bytes(delta, own_bytes) - other_bytes) / needed
    average = delta.read_bytes / delta.reads if delta.reads else 0.0
    if average <= _ONE_BLOCK * block_size:
        by_requests = max(0, delta.reads * block_size - other_bytes * (own_bytes is None)) / needed
        share = by_requests if own_bytes is None else min(share, by_requests)
    else:
        notes.append(f"a device read was {average / 1024:.0f} KiB on average: verdict by bytes")
    if share >= PHYSICAL_AT_LEAST:
        return ReadOrigin.PHYSICAL, notes
    if own_bytes is not None and _lacks_reads(needed, delta, own_bytes):
        reason = (
            f"the device counted {delta.read_bytes / _MIB:,.0f} MiB of reads where the server's "
            f"processes read {own_bytes / _MIB:,.0f} MiB: it does not count all of them, or they "
            f"were on another device"
        )
        return ReadOrigin.UNKNOWN, [reason]
    return (ReadOrigin.CACHED if share <= CACHED_AT_MOST else ReadOrigin.MIXED), notes


def _lacks_reads(needed: int, delta: Moved | None, own_bytes: int | None) -> bool:
    """Return whether the device counted clearly less than the server's processes read."""
    if delta is None or own_bytes is None:
        return False
    excess = own_bytes - delta.read_bytes
    few = FOREIGN_FROM * max(needed, _LITTLE)
    return excess > few and own_bytes > _UNCOUNTED_FROM * delta.read_bytes


def foreign_traffic(
    needed: int,
    delta: Moved,
    own_bytes: int | None,
    own_write_bytes: int,
    request_bytes: int,
) -> list[str]:
    """Return sentences about other programs' reads and writes in the window; [] if they are small.

    They are small below 2 percent of `needed`, in bytes and in requests. `needed` is the number of
    bytes that the measured processes requested, `request_bytes` the size of one of their requests.
    `own_bytes` is what these processes read from the device, None if that is not known, and
    `own_write_bytes` what they wrote.
    """
    against = max(needed, _LITTLE)
    notes = []
    foreign = delta.read_bytes - (needed if own_bytes is None else own_bytes)
    requests = round(delta.reads * foreign / delta.read_bytes) if foreign > 0 else 0
    if max(foreign / against, requests * request_bytes / against) >= FOREIGN_FROM:
        amount = f"{foreign / _MIB:,.0f} MiB"
        notes.append(
            f"other processes read {amount} from the device meanwhile, in {requests:,} reads"
            if own_bytes is not None
            else f"the device read {amount} more than was asked for: read-ahead or another reader"
        )
    written = delta.write_bytes - own_write_bytes
    if written >= FOREIGN_FROM * against:
        whose = " for others" if own_write_bytes else ""
        notes.append(f"the device also wrote {written / _MIB:,.0f} MiB{whose}")
    return notes


def other_sessions(others: OtherSessions, blocks: int, seconds: float) -> list[str]:
    """Return sentences about the work of other users' sessions; [] if it is small.

    `blocks` is the number of the step's own blocks, `seconds` the length of the window. Work is
    small below 2 percent of the own blocks, or below 10 percent of the own rows.
    """
    if others.hits is not None and others.reads is not None:
        if others.hits + others.reads < FOREIGN_FROM * max(blocks, _FEW_BLOCKS):
            return []
        hits, reads = (_rate(count, seconds) for count in (others.hits, others.reads))
        note = (
            f"other sessions of this database missed {reads:,.0f} blocks/s and found {hits:,.0f}/s "
            f"in the server's buffers meanwhile, which are {'' if others.counted else 'not '}"
            f"counted here"
        )
        return [note]
    rows = others.rows or 0
    if rows < FOREIGN_ROWS_FROM * max(others.own_rows, _FEW_BLOCKS):
        return []
    share = rows / (rows + others.own_rows)
    rate = _rate(rows, seconds)
    note = (
        f"other sessions of this server read {rate:,.0f} rows/s meanwhile ({share:.0%} of all): "
        f"the blocks are in RIOPS and CACHE_HITS, as this server counts them for all together"
    )
    return [note]


def _percent(share: float) -> str:
    return "all" if share == 1 else f"{math.floor(1000 * share) / 10:.1f} %"
