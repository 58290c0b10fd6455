"""Rates of a profiled server's machine from the kernel's counters, if it is this machine."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import assets
from replayer.engines import environment
from replayer.machine import diskstats, network, processes, processors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.engines.connection import Row
    from replayer.machine.diskstats import DiskCounters
    from replayer.machine.host import Host

_SAME_START = 3.0
"""Seconds by which the start times of the server and of the kernel's process may differ."""
_LONGEST_LINE = 64
"""The most bytes that are read of the first line of a PID file."""
_PROCESSOR = re.compile(rb"^cpu\d", re.MULTILINE)
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|Cached): +(\d+)", re.MULTILINE)


class Location(NamedTuple):
    """A server's data folder, and its main process."""

    directory: Path
    process: int
    served: Path
    """The folder's path on the server, which is another one if that is in a container."""


class Totals(NamedTuple):
    """This machine's counters of CPU, memory, disk and network at one instant.

    `clock` is in seconds of the monotonic clock, `memory` in bytes, `network` bytes in and out.
    """

    clock: float
    ticks: dict[str, int]
    processors: int
    memory: dict[str, int]
    disks: tuple[DiskCounters | None, ...]
    network: tuple[int, int]


def totals(host: Host, device: str | None) -> Totals:
    """Return this machine's counters now; raise OSError where /proc cannot be read.

    `device` is the disk to read the counters of, or several with + between them; None for none.
    """
    disk = host.path(diskstats.FILE).read_bytes() if device else b""
    clock = time.monotonic()
    first, _, others = host.path(processors.FILE).read_bytes().partition(b"\n")
    return Totals(
        clock,
        processors.ticks(first)["cpu"],
        len(_PROCESSOR.findall(others)),
        _memory(host.path("proc/meminfo").read_bytes()),
        tuple(diskstats.counters(disk, one) for one in device.split("+")) if device else (),
        network.totals(host),
    )


def rates(before: Totals, after: Totals) -> dict[str, float]:
    """Return column of a profile -> its rate or value for the time between two readings.

    A column is NaN or left out if its counter fell, is missing, or is not counted.
    """
    seconds = after.clock - before.clock
    return {
        **_cpu(before, after),
        **_held(after.memory),
        **_disk(before.disks, after.disks, seconds),
        **_net(before.network, after.network, seconds),
    }


def _cpu(before: Totals, after: Totals) -> dict[str, float]:
    """Return column -> mean number of processors that were in a state between two readings.

    It is the state's share of all clock ticks, times the number of processors, as iostat and vmstat
    count.
    """
    spent = {state: max(0, after.ticks[state] - before.ticks[state]) for state in after.ticks}
    each = after.processors / (sum(spent.values()) or 1)
    user = (spent["usr"] + spent["nice"] + spent["guest"] + spent["gnice"]) * each
    system = (spent["sys"] + spent["irq"] + spent["soft"]) * each
    return {
        "cpu_cores": user + system,
        "cpu_user": user,
        "cpu_system": system,
        "cpu_iowait": spent["iowait"] * each,
        "cpu_steal": spent["steal"] * each,
    }


def _memory(text: bytes) -> dict[str, int]:
    """Return name -> bytes of the lines of /proc/meminfo that are used here."""
    return {name.decode(): int(value) << 10 for name, value in _MEMORY.findall(text)}


def _held(memory: dict[str, int]) -> dict[str, float]:
    available = memory.get("MemAvailable", math.nan)
    return {
        "memory_bytes": memory.get("MemTotal", math.nan) - available,
        "page_cache_bytes": memory.get("Cached", math.nan),
    }


def _disk(
    before: Sequence[DiskCounters | None], after: Sequence[DiskCounters | None], seconds: float
) -> dict[str, float]:
    """Return column -> rate of all disks together; {} if one of them is not counted."""
    pairs = zip(before, after, strict=True)
    deltas = [diskstats.moved(old, new) if old and new else None for old, new in pairs]
    known = [delta for delta in deltas if delta is not None]
    if not known or len(known) < len(deltas):
        return {}
    delta = diskstats.added(known)
    return {
        "read_iops": delta.reads / seconds,
        "write_iops": delta.writes / seconds,
        "read_mbps": delta.sectors_read * diskstats.SECTOR / 1e6 / seconds,
        "write_mbps": delta.sectors_written * diskstats.SECTOR / 1e6 / seconds,
        "read_await_ms": _per(delta.read_ms, delta.reads),
        "write_await_ms": _per(delta.write_ms, delta.writes),
        "queue_depth": _per(delta.queue_ms, 1000 * seconds),
    }


def _per(milliseconds: int | None, number: float) -> float:
    return milliseconds / number if milliseconds is not None and number else math.nan


def _net(before: tuple[int, int], after: tuple[int, int], seconds: float) -> dict[str, float]:
    names = ("net_in_mbps", "net_out_mbps")
    return {
        # An interface that went away takes its bytes along.
        name: (new - old) / 1e6 / seconds if new >= old else math.nan
        for name, old, new in zip(names, before, after, strict=True)
    }


def located(engine: str, row: Row, listener: int) -> Location | None:
    """Return the location of a server, if it is proven that it runs on this machine.

    `row` is the server's answer to the engine's query `profile/location`.  `listener` is the
    process at the other end of a Unix socket, 0 where there is none.  The server is that process,
    or the one that the server's PID file names.  As proof, the process was started at the time that
    the server reports, and its working folder is the server's directory, if this user may see that
    folder.
    """
    for directory in environment.folders(engine, Path(str(row["directory"]))):
        for process in filter(None, (listener, _noted(directory / str(row["pid_file"])))):
            begun = processes.started(process)
            folder = processes.working_folder(process)
            same = begun is not None and abs(begun - row.real("started")) < _SAME_START
            if same and (folder is None or folder == directory.resolve()):
                return Location(directory, process, Path(str(row["directory"])))
    return None


def _noted(pid_file: Path) -> int:
    """Return the process number in a PID file; 0 if there is none or it cannot be read.

    The server names the file, and may be broken or hostile: it can be a device or a pipe.
    """
    try:
        with assets.open_regular(pid_file) as file:
            first = file.readline(_LONGEST_LINE).strip()
    except (OSError, ValueError):
        return 0
    return int(first) if first.isdigit() and len(first) < 10 else 0
