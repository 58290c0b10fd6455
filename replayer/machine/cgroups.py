"""The limits that a process's cgroups set: processor time, and reads and writes of a disk.

Both version 1 (cpu.cfs_quota_us, blkio.throttle.*) and 2 (cpu.max, io.max) are read. Of the limits
of a process's group and of all groups above it, the lowest is in force. Only the disk's limits of
version 1 are of a group's own processes alone: the kernel does not apply them to the groups below.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, product
from typing import NamedTuple

from replayer.machine.host import Host


class _Place(NamedTuple):
    """The places of a limit of a disk, and of the counter of its use, in a cgroup's files."""

    limit_file: str
    """The file of the limit in version 1."""
    limit_key: str
    """The key of the limit in the file io.max of version 2."""
    used_file: str
    """The file of the counter in version 1."""
    word: str
    """The word before the counter in `used_file`."""
    used_key: str
    """The key of the counter in the file io.stat of version 2."""


def _place(first: str, limit_key: str, counter: str, word: str, used_key: str) -> _Place:
    folder = "blkio.throttle."
    return _Place(f"{folder}{first}_device", limit_key, f"{folder}{counter}", word, used_key)


_PLACES = {
    "read_iops": _place("read_iops", "riops", "io_serviced", "Read", "rios"),
    "write_iops": _place("write_iops", "wiops", "io_serviced", "Write", "wios"),
    "read_bytes": _place("read_bps", "rbps", "io_service_bytes", "Read", "rbytes"),
    "write_bytes": _place("write_bps", "wbps", "io_service_bytes", "Write", "wbytes"),
}
"""Name of a disk's limit, a field of CgroupLimits -> its places."""


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
class LimitedGroup:
    """A cgroup that limits a device; the keys are the device's fields of CgroupLimits."""

    limits: Mapping[str, float]
    """Name of each limit that the group sets -> the most per second."""
    used: Mapping[str, int]
    """Name of each of these limits -> the amount used so far; left out if it is not counted."""


class OwnCount(NamedTuple):
    """The use of a disk by the processes of one cgroup so far: a process's own, not one above."""

    folder: str
    used: int


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """The use of limited resources by a process's cgroups so far."""

    throttled: Throttled | None = None
    """None if no CPU quota is set, or if the kernel does not count its use."""
    groups: Mapping[tuple[str, str], LimitedGroup] = field(default_factory=dict)
    """(folder of a cgroup, device that it limits) -> its limits of this device, and their use."""
    own: Mapping[tuple[str, str], OwnCount] = field(default_factory=dict)
    """(limited device, name of a limit) -> its use by the process's own group, as far as counted.

    This group need not be the one that sets the limit.
    """


_FREE = LimitedGroup({}, {})
"""A cgroup without a limit of a device."""


class LimitUse(NamedTuple):
    """A limit of a disk, and the part of it that was used; all fields are per second."""

    used: float
    """The use by the group that sets the limit, and by all groups below it."""
    most: float
    own: float | None = None
    """The part of `used` that is of the process's own group; None if not known."""


def account(host: Host, process: int, devices: Iterable[str]) -> CgroupUsage:
    """Return how much of its limited resources a process's cgroups have used so far.

    `devices` are the data's disk and the devices above it, named as in /proc/diskstats: the kernel
    applies the limits of each of them.
    """
    groups = _limited_groups(host, process, devices)
    own = _own_counts(host, process, groups)
    return CgroupUsage(throttled(host, process), groups, own)


def limits(host: Host, process: int, devices: Iterable[str]) -> CgroupLimits:
    """Return the limits that a process's cgroups set: of several `devices`, the lowest."""
    cores = min((cores for cores, _ in host.cpu_quotas(process)), default=None)
    groups = _limited_groups(host, process, devices).values()
    io = {
        name: min((one.limits[name] for one in groups if name in one.limits), default=None)
        for name in _PLACES
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


def limit_uses(
    before: CgroupUsage, after: CgroupUsage, seconds: float
) -> dict[str, LimitUse | None]:
    """Return name of a disk limit -> its use between two readings that are `seconds` apart.

    The names are the fields of CgroupLimits, such as `read_iops`. The processes of all groups below
    use a group's limit. So of several groups and devices, the one counts that the process's own
    group reaches first if it does more and the others do the same. The use is None if one of the
    limits was changed meanwhile. A limit that is not set, or whose use is not known, is left out.
    """
    uses = _uses_of_all(before, after, seconds).items()
    return {name: reduce(_reached_first, each) if each else None for name, each in uses}


def disk_limit_shares(
    before: CgroupUsage, after: CgroupUsage, seconds: float
) -> dict[str, float | None]:
    """Return name of a disk limit -> the used share of it (1 is all); None as in `limit_uses`.

    Of several groups and devices, the largest share counts.
    """
    uses = _uses_of_all(before, after, seconds).items()
    return {name: max(map(_share, each)) if each else None for name, each in uses}


def _uses_of_all(
    before: CgroupUsage, after: CgroupUsage, seconds: float
) -> dict[str, list[LimitUse] | None]:
    """Return name of a disk limit -> its use in each group on each device, as far as known.

    It is None if one of these limits was changed meanwhile, and is left out if no use is known.
    """
    uses: dict[str, list[LimitUse] | None] = {}
    # Of equal uses, the first one counts: a set would have another order in each process.
    for key in dict.fromkeys([*before.groups, *after.groups]):
        first, last = (one.groups.get(key, _FREE) for one in (before, after))
        for name in dict.fromkeys([*first.limits, *last.limits]):
            begin, end = first.used.get(name), last.used.get(name)
            if first.limits.get(name) != last.limits.get(name):
                uses[name] = None
            # The counters start anew if the group was removed and made again.
            elif begin is not None and end is not None and end >= begin:
                own = _own_growth(before, after, (key[1], name))
                part = None if own is None else min(own, end - begin) / seconds
                now = LimitUse((end - begin) / seconds, last.limits[name], part)
                if (known := uses.setdefault(name, [])) is not None:
                    known.append(now)
    return uses


def _share(use: LimitUse) -> float:
    return use.used / use.most


def _reached_first(one: LimitUse, other: LimitUse) -> LimitUse:
    """Return the use of the limit that the process's own group reaches first if it does more.

    If its part is not known, it is the use of the larger share of its limit; of equal shares, that
    of the lower limit.
    """
    if one.own is None or other.own is None:
        return max(one, other, key=lambda use: (_share(use), -use.most))
    return min(one, other, key=_room)


def _room(use: LimitUse) -> tuple[float, float]:
    """Return how many times as much, and how much, the own group may do; its part is known."""
    own = use.own or 0.0
    left = use.most - use.used + own
    return (left / own if own else math.inf), left


def _own_growth(before: CgroupUsage, after: CgroupUsage, key: tuple[str, str]) -> int | None:
    """Return what a process's own group used of a limit between two readings.

    `key` is one of CgroupUsage.own. None if this is not counted, or if the process came into
    another group meanwhile.
    """
    first, last = before.own.get(key), after.own.get(key)
    if first is None or last is None or first.folder != last.folder or last.used < first.used:
        return None
    return last.used - first.used


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


def _number(host: Host, device: str) -> str:
    """Return a device's number as `major:minor`, "" if it is not known."""
    return host.read(f"sys/class/block/{device.replace('/', '!')}/dev")


def _io_folders(host: Host, process: int) -> list[str]:
    """Return the folders of a process's cgroups that may limit a disk, the process's own first.

    Of version 1 it is the process's own group alone.
    """
    own = islice(host.cgroups("blkio", process), 1)
    return list(dict.fromkeys([*own, *host.cgroups("io", process)]))


def _limited_groups(
    host: Host, process: int, devices: Iterable[str]
) -> dict[tuple[str, str], LimitedGroup]:
    """Return (folder, device) -> limits and use, of each of a process's cgroups that limits it."""
    numbers = [(device, number) for device in devices if (number := _number(host, device))]
    groups = {}
    for folder, (device, number) in product(_io_folders(host, process) if numbers else (), numbers):
        limited = {
            name: most for name, at in _PLACES.items() if (most := _limit(host, folder, number, at))
        }
        counts = {name: _used(host, folder, number, _PLACES[name]) for name in limited}
        known = {name: count for name, count in counts.items() if count is not None}
        if limited:
            groups[folder, device] = LimitedGroup(limited, known)
    return groups


def _own_counts(
    host: Host, process: int, groups: Mapping[tuple[str, str], LimitedGroup]
) -> dict[tuple[str, str], OwnCount]:
    """Return (device, name of a limit) -> its use by the process's own group, of what is limited.

    `groups` are the groups that set limits.
    """
    limited = {(device, name) for (_, device), group in groups.items() for name in group.limits}
    versions = ("blkio", "io") if limited else ()
    folders = [folder for name in versions for folder in islice(host.cgroups(name, process), 1)]
    own: dict[tuple[str, str], OwnCount] = {}
    for (device, name), folder in product(limited, folders):
        used = _used(host, folder, _number(host, device), _PLACES[name])
        if used is not None:
            own.setdefault((device, name), OwnCount(folder, used))
    return own


def _limit(host: Host, folder: str, number: str, place: _Place) -> float | None:
    """Return one limit of a disk in the cgroup `folder`; None if it sets none.

    `number` is the disk's `major:minor`.
    """
    first = rf"^{re.escape(number)} (\d+)$"
    second = rf"^{re.escape(number)} .*\b{place.limit_key}=(\d+)"
    match = re.search(first, host.read(f"{folder}/{place.limit_file}"), re.MULTILINE) or re.search(
        second, host.read(f"{folder}/io.max"), re.MULTILINE
    )
    return float(match[1]) if match else None


def _used(host: Host, folder: str, number: str, place: _Place) -> int | None:
    """Return one counter of a cgroup's use of a disk so far; None if the kernel does not count it.

    `folder` is that of the cgroup, and `number` the disk's `major:minor`.
    """
    first = rf"^{re.escape(number)} {place.word} (\d+)$"
    second = rf"^{re.escape(number)} .*\b{place.used_key}=(\d+)"
    for file, line in ((place.used_file, first), ("io.stat", second)):
        if host.exists(f"{folder}/{file}"):
            # Before the group's first read or write, the disk has no line, or one without counters.
            match = re.search(line, host.read(f"{folder}/{file}"), re.MULTILINE)
            return int(match[1]) if match else 0
    return None
