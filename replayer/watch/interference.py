"""Interference with a measurement: CPU time and disk traffic of other programs.

Other programs are those that are neither the database's server nor replayer.

    before = interference.point(host, server, devices)
    ...                                             # the window
    after = interference.point(host, server, devices)
    others = interference.between(before, after, delta)  # delta: what the device did meanwhile

`server` is the list of process ids of the database's server. It is [] if no server runs, and None
if its processes are not known: then its work cannot be distinguished from that of other programs.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

from replayer.machine import cgroups, processes, processors
from replayer.machine.cgroups import CgroupUsage, Throttled
from replayer.machine.host import Host
from replayer.machine.processes import Process
from replayer.model import Foreign

ENDED = "programs that have ended"
"""The name of programs that are known in sum only."""
UNSEEN = "programs that have ended or cannot be seen from here"
"""Their name where not all processes are visible."""
_MOVED = "programs that have ended or moved to other processors"
"""Their name where the run may not use all processors."""
_KERNEL_THREADS = (2, "kthreadd")
"""Process id and name of the thread that is the parent of all other kernel threads."""
_USER_STATES = ("usr", "nice", "guest", "gnice")
"""The CPU states of user mode, in which the kernel's threads never are."""
_STATES = (*_USER_STATES, "sys")
"""The CPU states whose time a process used.

The other states do not count: interrupts belong to no process, stolen time to another machine.
"""
_TICK = os.sysconf("SC_CLK_TCK")
_LEAST_SECONDS = 1.0
"""The CPU share of a shorter window may be noise: the kernel counts busy processors in ticks."""
_NAMED = 0.1
"""A program is reported if it used more than this share of the CPU time of all other programs."""
_MOST_NAMES = 3
_COUNT = re.compile(r"^(\w+): (\d+)$", re.MULTILINE)
_COUNTS = ("read_bytes", "write_bytes", "rchar", "syscr")
"""Lines of /proc/PID/io, in the order of the fields of Traffic."""
_TRIES = 20
_PAUSE_SECONDS = 0.03


class DeviceMovement(Protocol):
    """The difference of the device's counters between two readings, as in sampler.DeviceDelta."""

    @property
    def read_bytes(self) -> int:
        """Return the bytes read from the device between the two readings."""
        ...

    @property
    def write_bytes(self) -> int:
        """Return the bytes written to the device between the two readings."""
        ...


class ServerProcesses(Protocol):
    """The database's server, as far as needed to separate its work from that of others."""

    can_stop: bool

    def pids(self) -> list[int]:
        """Return the ids of the server's processes, the main one first; [] if none is known."""
        ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that processes read from and wrote to devices, since each process began."""

    read_bytes: int
    write_bytes: int
    asked_bytes: int = 0
    """Bytes that the processes got from read() and similar calls, from page cache or device."""
    asks: int = 0
    """Calls of read() and similar calls."""


@dataclass(frozen=True, slots=True)
class AccountMark:
    """The CPU and traffic counters at the begin or the end of a window; None means unknown.

    If it is `partial`, all CPU seconds are those of user mode, in which the kernel's threads never
    are, because their work cannot be subtracted. Either not all processes are visible here, as in a
    container or with the option hidepid of /proc. Or only the processors `allowed` count, and the
    kernel's threads run on others, too.
    """

    clock: float
    """Seconds of this host's monotonic clock at which the counters were read."""
    busy: float | None
    """Seconds that the processors together were busy since the machine's start."""
    known: float
    """CPU seconds that the server, replayer and the kernel's threads used."""
    processors: int
    others: Mapping[tuple[int, str], float] = field(default_factory=dict)
    """(process id, program) of each process of another program -> CPU seconds."""
    traffic: Traffic | None = None
    """The traffic of the server."""
    quotas: Mapping[str, Mapping[str, Throttled]] = field(default_factory=dict)
    """`server` or `replayer` -> folder of a cgroup -> how often its quota was used up so far."""
    groups: Mapping[str, CgroupUsage] = field(default_factory=dict)
    """`server` or `replayer` -> the limits of its cgroups, and what was used of them so far."""
    partial: bool = False
    allowed: frozenset[int] | None = None
    """The processors that the server and replayer may use; None for all."""
    rest: str = ENDED
    """The name of programs that are known in sum only."""
    apart: frozenset[int] = frozenset()
    """The ids of processes that ran last on a processor that is not allowed."""


def pids_of(server: ServerProcesses | None) -> Sequence[int] | None:
    """Return a server's process ids: [] if none runs, None if they are not known here."""
    if server is None:
        return []
    pids = server.pids()
    return pids if pids or server.can_stop else None


def point(host: Host, server: Sequence[int] | None, devices: Sequence[str] = ()) -> AccountMark:
    """Return the present CPU and traffic counters of all processes; this takes milliseconds.

    `server` has the process ids of the database's server. It is [] if no server runs, and None if
    its processes are not known. `devices` are the data's disk and the devices above it, named as in
    /proc/diskstats: without them no limit of a disk is read.
    """
    traffic = server_traffic(host, server[0]) if server else None
    times = processors.ticks(host.read(processors.FILE).encode())
    allowed = None if server is None else _allowed(host, server[:1], times)
    roots = (*(server or ())[:1], os.getpid())
    table = processes.settled(
        lambda: {process.pid: process for process in processes.table()},
        lambda table: {pid: table[pid].reaped for pid in _families(table, roots)},
    )
    kernel = [pid for pid, process in table.items() if (pid, process.name) == _KERNEL_THREADS]
    partial = not kernel or allowed is not None
    if partial:
        table = {pid: process.in_user_mode() for pid, process in table.items()}
    own = _families(table, (*roots, *kernel))
    known = sum(table[pid].cpu + table[pid].reaped for pid in own)
    measured = [(w, pids) for w, pids in (("server", server), ("replayer", [os.getpid()])) if pids]
    ticks = processors.together(times, allowed)
    states = _USER_STATES if partial else _STATES
    return AccountMark(
        clock=time.monotonic(),
        busy=sum(ticks[state] for state in states) / _TICK
        if ticks and server is not None
        else None,
        known=known,
        processors=len(times) - 1 if allowed is None else len(allowed),
        others={
            (process.pid, process.name): process.cpu
            for process in table.values()
            if process.pid not in own
        },
        traffic=traffic,
        quotas={whose: cgroups.throttled_groups(host, pids) for whose, pids in measured},
        groups={whose: cgroups.account(host, pids[0], devices) for whose, pids in measured},
        partial=partial,
        allowed=allowed,
        rest=UNSEEN if not kernel else ENDED if allowed is None else _MOVED,
        apart=frozenset(
            process.pid
            for process in table.values()
            if allowed is not None and process.processor not in allowed
        ),
    )


def _allowed(
    host: Host, server: Sequence[int], times: Mapping[str, dict[str, int]]
) -> frozenset[int] | None:
    """Return the processors that the server and replayer may use; None for all, or if unknown."""
    files = (processors.STATUS, *(f"proc/{pid}/status" for pid in server))
    return processors.restricted(map(host.read, files), times, host.read(processors.OFFLINE))


def between(
    before: AccountMark,
    after: AccountMark,
    delta: DeviceMovement | None,
    own: Traffic | None = None,
) -> Foreign:
    """Return the CPU share and the disk traffic of other programs between two calls of `point`.

    `before` and `after` are the results of these calls. `delta` is what the data's device read and
    wrote between them, None if that was not counted. `own` is the part of this traffic that belongs
    to the measured processes; by default these are the server's.
    """
    own = own or server_moved(before, after)
    known = delta is not None and own is not None
    share = _cpu_share(before, after)
    return Foreign(
        cpu_share=share,
        programs=_programs(before, after, share) if share else (),
        read_bytes=max(0, delta.read_bytes - own.read_bytes) if known and delta and own else None,
        write_bytes=max(0, delta.write_bytes - own.write_bytes)
        if known and delta and own
        else None,
        held_back=dict(_held_back(before.quotas, after.quotas)),
        disk_limits=dict(_disk_limits(before, after)),
    )


def judged(before: AccountMark, after: AccountMark) -> Foreign | None:
    """Return the work of other programs between two calls of `point`, without a disk's traffic.

    Returns None for less than a second between them, as the CPU share could be noise, unless it is
    larger than twice what one clock tick of each processor at both ends can make of it.
    """
    seconds = after.clock - before.clock
    found = between(before, after, None)
    is_clear = (found.cpu_share or 0.0) * seconds * _TICK > 4
    return found if seconds >= _LEAST_SECONDS or is_clear else None


def _held_back(
    before: Mapping[str, Mapping[str, Throttled]], after: Mapping[str, Mapping[str, Throttled]]
) -> Iterator[tuple[str, float | None]]:
    """Yield `server` or `replayer`, and the share of periods in which its quota was used up.

    `before` and `after` are the quotas of the AccountMarks at the begin and the end of a window. Of
    several cgroups, the largest share is yielded. It is None if a process came into a cgroup with a
    quota meanwhile, because that cgroup's counts are not of this window alone. A process that came
    and left in the window is not seen.
    """
    for whose in before.keys() & after.keys():
        first, last = before[whose], after[whose]
        shares = [cgroups.throttled_share(first.get(folder), last[folder]) for folder in last]
        known = [share for share in shares if share is not None]
        if any(last[folder].periods for folder in last.keys() - first.keys()):
            yield whose, None
        elif known:
            yield whose, max(known)


def _disk_limits(before: AccountMark, after: AccountMark) -> Iterator[tuple[str, float | None]]:
    """Yield (limit of a cgroup on its disk, such as `server.read_iops`, share of it that was used).

    The share is None if the limit was changed in the window.
    """
    seconds = after.clock - before.clock
    for whose in before.groups.keys() & after.groups.keys() if seconds > 0 else ():
        first, last = before.groups[whose], after.groups[whose]
        for limit, share in cgroups.disk_limit_shares(first, last, seconds).items():
            yield f"{whose}.{limit}", share


def worst_limits(shares: Iterable[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return each limit's largest share of several windows; None if it is unknown in one of them.

    `shares` are fields of `Foreign`: `held_back` or `disk_limits` of each window.
    """
    worst: dict[str, float | None] = {}
    for name, share in (pair for one in shares for pair in one.items()):
        known = worst.get(name, share)
        worst[name] = None if known is None or share is None else max(known, share)
    return worst


def busiest(windows: Sequence[Foreign]) -> Foreign:
    """Return the work of other programs in that one of several windows which they disturbed most.

    The window with their largest share of the processors' time is the one disturbed most.
    Limits of cgroups are those of all windows.
    """
    limits = {
        "held_back": worst_limits(one.held_back for one in windows),
        "disk_limits": worst_limits(one.disk_limits for one in windows),
    }
    worst = max(windows, key=lambda others: others.cpu_share or 0.0)
    return worst.model_copy(update=limits)


def server_moved(before: AccountMark, after: AccountMark) -> Traffic | None:
    """Return the server's disk traffic between two calls of `point`; None if it is not known."""
    if before.traffic is None or after.traffic is None:
        return None
    pairs = zip(astuple(after.traffic), astuple(before.traffic), strict=True)
    return Traffic(*(last - first for last, first in pairs))


def server_traffic(host: Host, main: int) -> Traffic | None:
    """Return a server's disk traffic since its start, from /proc/PID/io; None if unknown.

    `main` is the id of the server's main process. The numbers of the main process and of all living
    children are added up: each includes the process's ended children. If a process comes or goes
    during the reading, everything is read again.
    """
    for _ in range(_TRIES):
        pids = processes.family(main, ended=True)
        texts = [host.read(f"proc/{pid}/io") for pid in pids]
        counts = [_bytes(text) for text in texts]
        if pids and all(counts) and processes.family(main, ended=True) == pids:
            known = [one for one in counts if one is not None]
            return Traffic(*map(sum, zip(*map(astuple, known), strict=True)))
        time.sleep(_PAUSE_SECONDS)
    return None


def counts_reads(host: Host) -> bool:
    """Return whether this kernel counts what each process reads from devices."""
    return _bytes(host.read("proc/self/io")) is not None


def _bytes(text: str) -> Traffic | None:
    found = dict(_COUNT.findall(text))
    if not {"read_bytes", "write_bytes"} <= found.keys():
        return None
    return Traffic(*(int(found.get(name, 0)) for name in _COUNTS))


def _families(table: Mapping[int, Process], roots: Sequence[int]) -> set[int]:
    """Return the ids of those processes in `roots` that exist, and of all their descendants."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    members = [pid for pid in dict.fromkeys(roots) if pid in table]
    known = set(members)
    for member in members:
        fresh = [pid for pid in children.get(member, ()) if pid not in known]
        members.extend(fresh)
        known.update(fresh)
    return known


def _cpu_share(before: AccountMark, after: AccountMark) -> float | None:
    seconds = (after.clock - before.clock) * after.processors
    alike = (before.partial, before.allowed) == (after.partial, after.allowed)
    if before.busy is None or after.busy is None or seconds <= 0 or not alike:
        return None
    used = (after.busy - before.busy) - (after.known - before.known)
    return min(1.0, max(0.0, used / seconds))


def _programs(before: AccountMark, after: AccountMark, share: float) -> tuple[str, ...]:
    """Return texts such as `postgres 12%`: the other programs that used the most CPU time.

    The percentage is of the time of the processors, of which other programs used the share `share`.
    What processes used that have ended since, or that are not visible, is known in sum only; it
    comes last, if it is most.
    """
    seconds = (after.clock - before.clock) * after.processors
    used: dict[str, float] = {}
    # A process keeps its time when it runs another program; a number that is given again has less.
    earlier = {pid: cpu for (pid, _), cpu in before.others.items()}
    for (pid, name), now in after.others.items():
        if pid in after.apart:
            continue
        begun = earlier.get(pid, 0.0)
        used[name] = used.get(name, 0.0) + (now - begun if now >= begun else now) / seconds
    largest = sorted(used.items(), key=lambda item: -item[1])[:_MOST_NAMES]
    # The kernel counts the time of processes finer than that of processors: a part may be larger.
    named = [f"{name} {min(part, share):.0%}" for name, part in largest if part > _NAMED * share]
    rest = share - sum(used.values())
    if rest > share / 2:
        named.append(f"{after.rest} {rest:.0%}")
    return tuple(named)
