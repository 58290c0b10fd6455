"""One block device's line of /proc/diskstats, and the growth of its counters."""

from typing import NamedTuple

FILE = "proc/diskstats"
SECTOR = 512

_WRAP = 1 << 32
_GAUGES = frozenset({"in_flight"})


class DiskCounters(NamedTuple):
    """One device's totals since boot; times are in ms, and a sector has 512 bytes.

    A field is None if this kernel does not count it. `in_flight` is the present number of requests.
    """

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


def counters(text: bytes, device: str) -> DiskCounters | None:
    """Return the counters of a device from the text of /proc/diskstats, None if it is not there.

    Linux has 11 counters, 15 since 4.18 (discards), 17 since 5.5 (flushes); more are ignored.
    """
    name = device.encode()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and fields[2] == name:
            numbers = [int(field) for field in fields[3 : 3 + len(DiskCounters._fields)]]
            whole = next(size for size in (17, 15, 11) if len(numbers) >= size)
            return DiskCounters(*numbers[:whole])
    return None


def moved(before: DiskCounters, after: DiskCounters) -> DiskCounters | None:
    """Return the growth of every counter, or None if the counters were reset.

    Times wrap at 32 bits on every kernel, the other counters only on 32-bit kernels. `in_flight` is
    not a counter, so its value is that of `after`. A counter that decreased has wrapped only if it
    was at least half of 2**32 before. If not, it was reset: the name now belongs to another device.
    """
    differences: list[int | None] = []
    for name, old, new in zip(DiskCounters._fields, before, after, strict=True):
        if old is None or new is None:
            differences.append(None)
            continue
        difference = new if name in _GAUGES else new - old
        if difference < 0 and _WRAP // 2 <= old < _WRAP:
            difference += _WRAP
        if difference < 0:
            return None
        differences.append(difference)
    return DiskCounters(*differences)  # type: ignore[arg-type]
