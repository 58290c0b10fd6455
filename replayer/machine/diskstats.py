"""One block device's line of /proc/diskstats, and the growth of its counters.

An NVMe disk with several paths (multipath) has a line for each path, such as nvme0c1n1, and one for
all of them, nvme0n1. Before Linux 6.4 the kernel counts nothing in the line for all of them. Before
Linux 5.9 it counts requests and sectors of an md device (software RAID), but no times.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replayer.machine.host import Host

FILE = "proc/diskstats"
SECTOR = 512

_WRAP = 1 << 32
_GAUGES = frozenset({"in_flight"})
_TIMES = frozenset({"read_ms", "write_ms", "busy_ms", "queue_ms", "discard_ms"})
_NVME = re.compile(r"(nvme\d+)(n\d+)")


class DiskCounters(NamedTuple):
    """One device's totals since boot; times are in ms, and a sector has 512 bytes.

    A field is None if this kernel does not count it, which for the times in every line is known
    from their growth alone. `in_flight` is the present number of requests.
    """

    reads: int
    reads_merged: int
    sectors_read: int
    read_ms: int | None
    writes: int
    writes_merged: int
    sectors_written: int
    write_ms: int | None
    in_flight: int
    busy_ms: int | None
    queue_ms: int | None
    discards: int | None = None
    discards_merged: int | None = None
    sectors_discarded: int | None = None
    discard_ms: int | None = None
    flushes: int | None = None
    flush_ms: int | None = None


def counters(text: bytes, device: str) -> DiskCounters | None:
    """Return the counters of a device from the text of /proc/diskstats, None if it is not there.

    Linux has 11 counters, 15 since 4.18 (discards), 17 since 5.5 (flushes); more are ignored. Those
    of an NVMe disk that counts nothing itself are the sums of its paths.
    """
    lines: dict[str, DiskCounters] = {}
    names = _with_paths(device)
    for line in text.splitlines():
        fields = line.split()
        if len(fields) >= 14 and names.fullmatch(name := fields[2].decode(errors="replace")):
            numbers = [int(field) for field in fields[3 : 3 + len(DiskCounters._fields)]]
            whole = next(size for size in (17, 15, 11) if len(numbers) >= size)
            lines[name] = DiskCounters(*numbers[:whole])
    known = lines.pop(device, None)
    if known is None or any(known) or not lines:
        return known
    sums = map(_sum, zip(*lines.values(), strict=True))
    return DiskCounters(*sums)  # type: ignore[arg-type]


def _with_paths(device: str) -> re.Pattern[str]:
    """Return the pattern of a device's name and of the names of its paths."""
    disk = _NVME.fullmatch(device)
    return re.compile(rf"{disk[1]}(?:c\d+)?{disk[2]}" if disk else re.escape(device))


def _sum(values: tuple[int | None, ...]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def unaccounted(host: "Host", device: str) -> str:
    """Return the file that stops the kernel from counting a device's requests; "" if none does."""
    names = filter(_with_paths(device).fullmatch, host.entries("sys/block"))
    paths = [name for name in names if name != device]
    files = [f"sys/block/{name.replace('/', '!')}/queue/iostats" for name in paths or [device]]
    return next((f"/{file}" for file in files if host.read(file) == "0"), "")


def moved(before: DiskCounters, after: DiskCounters) -> DiskCounters | None:
    """Return the growth of every counter, or None if the counters were reset.

    Times wrap at 32 bits on every kernel, the other counters only on 32-bit kernels. `in_flight` is
    not a counter, so its value is that of `after`. A counter that decreased has wrapped only if it
    was at least half of 2**32 before. If not, it was reset: the name now belongs to another device.
    Times are None if the device had requests since boot, but all its times are 0.
    """
    differences: list[int | None] = []
    uncounted = frozenset[str]() if _has_times(after) else _TIMES
    for name, old, new in zip(DiskCounters._fields, before, after, strict=True):
        if old is None or new is None or name in uncounted:
            differences.append(None)
            continue
        difference = new if name in _GAUGES else new - old
        if difference < 0 and _WRAP // 2 <= old < _WRAP:
            difference += _WRAP
        if difference < 0:
            return None
        differences.append(difference)
    return DiskCounters(*differences)  # type: ignore[arg-type]


def added(disks: Sequence[DiskCounters]) -> DiskCounters:
    """Return the sums of several devices' counters; one is None if any device does not count it."""
    sums = (None if None in values else sum(values) for values in zip(*disks, strict=True))
    return DiskCounters(*sums)  # type: ignore[arg-type]


def _has_times(totals: DiskCounters) -> bool:
    """Return whether the kernel counts a device's times; True if it had no request since boot."""
    requests = totals.reads + totals.writes + (totals.discards or 0)
    return not requests or any(getattr(totals, name) for name in _TIMES)
