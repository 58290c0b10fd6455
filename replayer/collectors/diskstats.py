"""The data's block device, from /proc/diskstats, in the columns of `iostat -x`.

Formulas: sysstat 12, rd_stats.c (compute_ext_disk_stats) and iostat.c (write_ext_stat); fields:
the kernel's Documentation/admin-guide/iostats.rst.  With d for a difference and dt in seconds:
r/s = d1/dt, rkB/s = d3/2/dt, r_await = d4/d1 ms, rareq-sz = d3/2/d1 kB, aqu-sz = d11/1000/dt,
%util = d10/10/dt; await and areq-sz are over reads, writes and discards together.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from replayer.collectors import Columns, Sample

FILES = ("proc/diskstats",)

_SECTOR = 512
_WRAP = 1 << 32
_GAUGES = frozenset({"in_flight"})


class Counters(NamedTuple):
    """One device's totals since boot, times in ms; None is what this kernel does not count."""

    reads: int
    reads_merged: int
    sectors_read: int
    read_ms: int
    writes: int
    writes_merged: int
    sectors_written: int
    write_ms: int
    in_flight: int
    busy_ms: int
    queue_ms: int
    discards: int | None = None
    discards_merged: int | None = None
    sectors_discarded: int | None = None
    discard_ms: int | None = None
    flushes: int | None = None
    flush_ms: int | None = None


def counters(text: bytes, device: str) -> Counters | None:
    """Return a device's line of /proc/diskstats, or None if it has none.

    Linux has 11 fields, 15 since 4.18 (discards), 17 since 5.5 (flushes); later ones are ignored.
    """
    name = device.encode()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == name:
            numbers = [int(field) for field in fields[3 : 3 + len(Counters._fields)]]
            whole = next(size for size in (17, 15, 11) if len(numbers) >= size)
            return Counters(*numbers[:whole])
    return None


def moved(before: Counters, after: Counters) -> Counters | None:
    """Return how far every counter moved, or None if they were set back.

    Times wrap at 32 bits on every kernel, the others on 32-bit ones; `in_flight` is taken from
    `after`, being no counter.  A counter that falls from below half of that range was not wrapped
    but set back: the device is another one now.
    """
    differences: list[int | None] = []
    for name, old, new in zip(Counters._fields, before, after, strict=True):
        if old is None or new is None:
            differences.append(None)
            continue
        difference = new if name in _GAUGES else new - old
        if difference < 0 and _WRAP // 2 <= old < _WRAP:
            difference += _WRAP
        if difference < 0:
            return None
        differences.append(difference)
    return Counters(*differences)  # type: ignore[arg-type]


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return one value per interval and column; nan where the device had no line."""
    if device is None:
        return {}
    lines = [counters(sample.texts[0], device) for sample in samples]
    if not any(lines):
        return {}
    rows = []
    for (first, before), (last, after) in pairwise(zip(samples, lines, strict=True)):
        delta = moved(before, after) if before and after else None
        rows.append(_row(delta, (last.clock_ns - first.clock_ns) / 1e9) if delta else {})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, math.nan) for row in rows] for name in names}


def _row(delta: Counters, seconds: float) -> dict[str, float]:
    requests = delta.reads + delta.writes + (delta.discards or 0)
    sectors = delta.sectors_read + delta.sectors_written + (delta.sectors_discarded or 0)
    waited = delta.read_ms + delta.write_ms + (delta.discard_ms or 0)
    row = _kind(
        "r",
        seconds,
        requests=delta.reads,
        merged=delta.reads_merged,
        sectors=delta.sectors_read,
        waited=delta.read_ms,
    ) | _kind(
        "w",
        seconds,
        requests=delta.writes,
        merged=delta.writes_merged,
        sectors=delta.sectors_written,
        waited=delta.write_ms,
    )
    if delta.discards is not None:
        row |= _kind(
            "d",
            seconds,
            requests=delta.discards,
            merged=delta.discards_merged or 0,
            sectors=delta.sectors_discarded or 0,
            waited=delta.discard_ms or 0,
        )
    if delta.flushes is not None:
        row["f/s"] = delta.flushes / seconds
        row["f_await"] = _each(delta.flush_ms or 0, delta.flushes)
    row["await"] = _each(waited, requests)
    row["areq-sz"] = _each(sectors / 2, requests)
    row["aqu-sz"] = delta.queue_ms / 1000 / seconds
    row["%util"] = delta.busy_ms / 10 / seconds
    return row


def _kind(
    letter: str, seconds: float, *, requests: int, merged: int, sectors: int, waited: int
) -> dict[str, float]:
    return {
        f"{letter}/s": requests / seconds,
        f"{letter}kB/s": sectors / 2 / seconds,
        f"{letter}rqm/s": merged / seconds,
        f"%{letter}rqm": _each(100 * merged, merged + requests),
        f"{letter}_await": _each(waited, requests),
        f"{letter}areq-sz": _each(sectors / 2, requests),
    }


def _each(amount: float, number: int) -> float:
    """Return the amount for each one, 0 if there was none, as iostat prints it."""
    return amount / number if number else 0.0
