"""The limits that a process's cgroups set: processor time, and reads and writes of a disk.

Both version 1 (cpu.cfs_quota_us, blkio.throttle.*) and 2 (cpu.max, io.max) are read. Of the limits
of a process's group and of all groups above it, the lowest is in force. Only the disk's limits of
version 1 are of a group's own processes alone: the kernel does not apply them to the groups below.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from replayer.machine.host import Host

_IO = {
    "read_iops": ("blkio.throttle.read_iops_device", "riops"),
    "write_iops": ("blkio.throttle.write_iops_device", "wiops"),
    "read_bytes": ("blkio.throttle.read_bps_device", "rbps"),
    "write_bytes": ("blkio.throttle.write_bps_device", "wbps"),
}
"""Name of a limit -> its file in version 1, and its key in the file io.max of version 2."""


_USED = {
    "read_iops": "reads",
    "write_iops": "writes",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
}
"""Name of a limit -> the field of CgroupUsage with the amount used of the limited resource."""


class _Served(NamedTuple):
    """The place of a counter of a cgroup's disk use, such as bytes read, in the cgroup's files."""

    file: str
    word: str
    """The word before the counter in `file`, which is the file of version 1."""
    key: str
    """The key of the counter in the file io.stat of version 2."""


_SERVED = (
    _Served("blkio.throttle.io_serviced", "Read", "rios"),
    _Served("blkio.throttle.io_serviced", "Write", "wios"),
    _Served("blkio.throttle.io_service_bytes", "Read", "rbytes"),
    _Served("blkio.throttle.io_service_bytes", "Write", "wbytes"),
)


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The limits of a process; None means no limit.

    `cores` is CPU time as a number of processors, such as 1.5.
    """

    cores: float | None = None
    read_iops: float | None = None
    """Requests per second on one disk; the next three fields are per second on this disk, too."""
    write_iops: float | None = None
    read_bytes: float | None = None
    write_bytes: float | None = None


class Throttled(NamedTuple):
    """The use of a cgroup's CPU quota so far: how often it was used up, how long threads waited.

    The quota is the CPU time that the cgroup may use in each period.
    """

    periods: int
    throttled: int
    """The number of periods in which the quota was used up, so that threads had to wait."""
    seconds: float
    """The seconds that threads had to wait, added up over the processors."""


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """The use of limited resources by a process's cgroups so far; None without a limit."""

    limits: CgroupLimits
    throttled: Throttled | None
    reads: int | None
    """Read requests on the disk; the next three fields are of this disk, too."""
    writes: int | None
    read_bytes: int | None
    write_bytes: int | None


def account(host: Host, process: int, device: str | None) -> CgroupUsage:
    """Return how much of its limited resources a process's cgroups have used so far.

    The counts of the disk are those of the process's own group if its disk use is limited, else of
    the nearest limited group above it. They are None if no group limits the disk. `device` is named
    as in /proc/diskstats.
    """
    number = _number(host, device)
    known = limits(host, process, device), throttled(host, process)
    for folder in _io_folders(host, process) if number else ():
        if any(_limit(host, folder, number, *where) for where in _IO.values()):
            return CgroupUsage(*known, *(_served(host, folder, number, one) for one in _SERVED))
    return CgroupUsage(*known, None, None, None, None)


def limits(host: Host, process: int, device: str | None) -> CgroupLimits:
    """Return the limits that a process's cgroups set; `device` is named as in /proc/diskstats."""
    cores = min((cores for cores, _ in host.cpu_quotas(process)), default=None)
    number = _number(host, device)
    if not number:
        return CgroupLimits(cores=cores)
    folders = _io_folders(host, process)
    io = {
        name: min(
            (most for f in folders if (most := _limit(host, f, number, *where)) is not None),
            default=None,
        )
        for name, where in _IO.items()
    }
    return CgroupLimits(cores=cores, **io)


def throttled(host: Host, process: int) -> Throttled | None:
    """Return how often the lowest CPU quota of a process's cgroups was used up so far.

    `process` is the process's id. None if there is no quota, or if the kernel does not count this.
    """
    quota = min(host.cpu_quotas(process), default=None)
    return _throttled(host, quota[1]) if quota else None


def throttled_groups(host: Host, processes: Iterable[int]) -> dict[str, Throttled]:
    """Return folder of a cgroup -> how often its CPU quota was used up so far.

    These are the cgroups of `processes`, given by their ids, and all groups above. A group whose
    quota was taken away is included, as the kernel keeps its count.
    """
    # Few of many sessions are in groups of their own, and each look at the mounts takes its time.
    one_of_each = {host.read(f"proc/{process}/cgroup"): process for process in processes}
    folders = {folder for one in one_of_each.values() for folder in host.cgroups("cpu", one)}
    counts = {folder: _throttled(host, folder) for folder in folders}
    return {folder: count for folder, count in counts.items() if count is not None}


def throttled_share(before: Throttled | None, after: Throttled | None) -> float | None:
    """Return the share (0 to 1) of a CPU quota's periods in which the quota was used up.

    `before` and `after` are two readings of one cgroup, and only the periods between them count.
    None if a reading is None, or if no period has passed.
    """
    if before is None or after is None or after.periods <= before.periods:
        return None
    share = (after.throttled - before.throttled) / (after.periods - before.periods)
    return min(1.0, max(0.0, share))


def used_per_second(before: CgroupUsage, after: CgroupUsage, seconds: float) -> dict[str, float]:
    """Return the use of the disk per second between two readings that are `seconds` apart.

    The keys are the fields `reads`, `writes`, `read_bytes` and `write_bytes` of CgroupUsage. A
    field is left out if it is not known, or if it is lower than before.
    """
    rates = {}
    for name in _USED.values():
        first, last = getattr(before, name), getattr(after, name)
        # The counters start anew if the process was moved to another cgroup.
        if first is not None and last is not None and last >= first:
            rates[name] = (last - first) / seconds
    return rates


def disk_limit_shares(
    before: CgroupUsage, after: CgroupUsage, seconds: float
) -> dict[str, float | None]:
    """Return name of a disk limit -> the used share of it (1 is all) between two readings.

    The readings are `seconds` apart. The names are the fields of CgroupLimits, such as `read_iops`.
    A share is None if the limit was changed meanwhile. A limit that is not set, or whose use is not
    known, is left out.
    """
    rates = used_per_second(before, after, seconds)
    shares: dict[str, float | None] = {}
    for limit, used in _USED.items():
        most = getattr(after.limits, limit)
        if most != getattr(before.limits, limit):
            shares[limit] = None
        elif most and used in rates:
            shares[limit] = rates[used] / most
    return shares


def _throttled(host: Host, folder: str) -> Throttled | None:
    counts = dict(
        pair for line in host.read(f"{folder}/cpu.stat").splitlines()
        if len(pair := line.split()) == 2
    )  # fmt: skip
    if not {"nr_periods", "nr_throttled"} <= set(counts):
        return None
    seconds = int(counts.get("throttled_time", 0)) / 1e9  # version 1 has ns
    seconds += int(counts.get("throttled_usec", 0)) / 1e6
    return Throttled(int(counts["nr_periods"]), int(counts["nr_throttled"]), seconds)


def _number(host: Host, device: str | None) -> str:
    """Return a disk's device number as `major:minor`, "" if it is not known."""
    return host.read(f"sys/class/block/{device.replace('/', '!')}/dev") if device else ""


def _io_folders(host: Host, process: int) -> list[str]:
    """Return the folders of a process's cgroups that may limit a disk, the process's own first.

    Of version 1 it is the process's own group alone.
    """
    own = islice(host.cgroups("blkio", process), 1)
    return list(dict.fromkeys([*own, *host.cgroups("io", process)]))


def _limit(host: Host, folder: str, number: str, file: str, key: str) -> float | None:
    """Return one limit of a disk in the cgroup `folder`; None if it sets none.

    `number` is the disk's `major:minor`. `file` is the limit's file in version 1, and `key` is its
    key in the file io.max of version 2.
    """
    first = rf"^{re.escape(number)} (\d+)$"
    second = rf"^{re.escape(number)} .*\b{key}=(\d+)"
    match = re.search(first, host.read(f"{folder}/{file}"), re.MULTILINE) or re.search(
        second, host.read(f"{folder}/io.max"), re.MULTILINE
    )
    return float(match[1]) if match else None


def _served(host: Host, folder: str, number: str, where: _Served) -> int | None:
    """Return one counter of a cgroup's use of a disk so far; None if the kernel does not count it.

    `folder` is that of the cgroup, `number` the disk's `major:minor`, and `where` the place of the
    counter in the cgroup's files.
    """
    first = rf"^{re.escape(number)} {where.word} (\d+)$"
    second = rf"^{re.escape(number)} .*\b{where.key}=(\d+)"
    for file, line in ((where.file, first), ("io.stat", second)):
        if host.exists(f"{folder}/{file}"):
            # Before the group's first read or write, the disk has no line, or one without counters.
            match = re.search(line, host.read(f"{folder}/{file}"), re.MULTILINE)
            return int(match[1]) if match else 0
    return None
