"""The data's block device, from /proc/diskstats, in the columns of `iostat -x`.

The formulas are those of sysstat 12: rd_stats.c (compute_ext_disk_stats) and iostat.c
(write_ext_stat). The fields are numbered in the kernel's Documentation/admin-guide/iostats.rst. If
dN is the growth of field N in an interval of dt seconds: r/s = d1/dt, rkB/s = d3/2/dt, r_await =
d4/d1 ms, rareq-sz = d3/2/d1 kB, aqu-sz = d11/1000/dt, %util = d10/10/dt. The columns await and
areq-sz are over reads, writes and discards together. %util is the share of time in which the device
had work, not the share of its capacity: a device that works on many requests at once may take more
work at 100 %.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from replayer.collectors import CollectorColumns, Columns, Panel, Sample
from replayer.machine.diskstats import FILE, DiskCounters, counters, moved

FILES = (FILE,)
SHEET = CollectorColumns(
    "device {device} over {time}, as iostat -x: awaits in ms, sizes in kB",
    "r/s rkB/s r_await rareq-sz w/s wkB/s w_await wareq-sz areq-sz aqu-sz %util",
)
PANEL = Panel("device, 1/s", (("r/s", "device r/s"), ("w/s", "device w/s")), order=1)


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column -> one value for each interval between two samples.

    The result is {} if `device` is None or in no sample. A value is nan if the device is missing in
    a sample at either end of the interval, or if its counters were reset. Awaits, aqu-sz and %util
    are nan if the kernel does not count the device's times.
    """
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


def _row(delta: DiskCounters, seconds: float) -> dict[str, float]:
    requests = delta.reads + delta.writes + (delta.discards or 0)
    sectors = delta.sectors_read + delta.sectors_written + (delta.sectors_discarded or 0)
    read_ms, write_ms, busy_ms, queue_ms = map(
        _known, (delta.read_ms, delta.write_ms, delta.busy_ms, delta.queue_ms)
    )
    discard_ms = 0 if delta.discards is None else _known(delta.discard_ms)
    row = _kind(
        "r",
        seconds,
        requests=delta.reads,
        merged=delta.reads_merged,
        sectors=delta.sectors_read,
        waited=read_ms,
    ) | _kind(
        "w",
        seconds,
        requests=delta.writes,
        merged=delta.writes_merged,
        sectors=delta.sectors_written,
        waited=write_ms,
    )
    if delta.discards is not None:
        row |= _kind(
            "d",
            seconds,
            requests=delta.discards,
            merged=delta.discards_merged or 0,
            sectors=delta.sectors_discarded or 0,
            waited=discard_ms,
        )
    if delta.flushes is not None:
        row["f/s"] = delta.flushes / seconds
        row["f_await"] = _each(delta.flush_ms or 0, delta.flushes)
    row["await"] = _each(read_ms + write_ms + discard_ms, requests)
    row["areq-sz"] = _each(sectors / 2, requests)
    row["aqu-sz"] = queue_ms / 1000 / seconds
    row["%util"] = busy_ms / 10 / seconds
    return row


def _kind(
    letter: str, seconds: float, *, requests: int, merged: int, sectors: int, waited: float
) -> dict[str, float]:
    return {
        f"{letter}/s": requests / seconds,
        f"{letter}kB/s": sectors / 2 / seconds,
        f"{letter}rqm/s": merged / seconds,
        f"%{letter}rqm": _each(100 * merged, merged + requests),
        f"{letter}_await": _each(waited, requests),
        f"{letter}areq-sz": _each(sectors / 2, requests),
    }


def _known(milliseconds: int | None) -> float:
    return math.nan if milliseconds is None else milliseconds


def _each(amount: float, number: int) -> float:
    """Return `amount` / `number`; 0 if `number` is 0, as iostat does; nan if `amount` is nan."""
    return amount / number if number else 0.0 * amount
