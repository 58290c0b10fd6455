"""sadf: `sadf -j -- -u -r -b -d -n DEV`, or `-A`, for the days that sar has recorded."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from replayer.errors import Impossible
from replayer.results import intervals, sysstat
from replayer.results.imported import ImportSource, Unread, number, words
from replayer.results.profile import Gap, ResourceProfile
from replayer.results.sysstat import KIB, SECTOR

SIGN = re.compile(r"\"file-date\": ?\"|\"timestamp\": ?\{ ?\"date\"")

_CPU: Mapping[str, tuple[str, ...]] = {
    # columns of -u, and of -u ALL
    "cpu_user": ("user", "usr", "nice", "guest", "gnice"),
    "cpu_system": ("system", "sys", "irq", "soft"),
    "cpu_iowait": ("iowait",),
    "cpu_steal": ("steal",),
}
_PORT = re.compile(r"(eth\d|en[opsxP]|em\d|p\d+p\d|ib\d|ibp|wl|ww)\w*")
"""Names that Linux gives to the ports of a machine; a VLAN on one has a dot in its name."""
_BOND = re.compile(r"(bond|team)\d+")
_VIRTUAL = re.compile(
    r"(lo|ifb\d.*|veth.*|docker\d.*|br-.*|br\d.*|\w*br\d+|tap.*|tun.*|wg.*|vnet\d.*|dummy.*"
    r"|.*\.\d+)$"
)
_READ: Mapping[str, int] = {"rkB": KIB, "rd_sec": SECTOR}
_WRITTEN: Mapping[str, int] = {"wkB": KIB, "wr_sec": SECTOR}
"""Keys of a disk with what it moved per second -> the bytes in their unit."""
_ADDED = ("read_mbps", "write_mbps", "queue_depth")
"""Columns of a profile in which the values of the disks are added up."""
_NO_CPU = "the CPU is not known: `sadf -j -- -A` has it, or sar's -u"
_NO_IO = "reads and writes a second are not known: `sadf -j -- -A` has them, or sar's -b"


def read(file: ImportSource, devices: Sequence[str]) -> ResourceProfile:
    """Return the profile of a file of one machine; raise Impossible for several machines.

    `devices` are the disks whose values are summed, () for all disks.
    """
    reader = _filled(file, sysstat.DiskRows(file.name, devices))
    if instead := reader.disks.with_arrays():
        # The parts that cannot be read were counted the first time.
        reader = _filled(replace(file, unread=Unread(file.name)), instead)
    return reader.profile()


def _filled(file: ImportSource, disks: sysstat.DiskRows) -> "_Reader":
    reader = _Reader(file, disks)
    for about, one in sysstat.statistics(file):
        reader.machine(about)
        try:
            if isinstance(one, sysstat.Restart):
                reader.restarts.append(reader.clock.seconds(_stamp(one.stamp)))
            else:
                reader.add(one)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            file.unread.say(
                f"statistics that cannot be read: {type(error).__name__} {words(error)}"
            )
    return reader


def _stamp(keys: Mapping[str, Any]) -> str:
    # Newer sysstat writes a zone's name; of others than UTC it does not show whether it is summer.
    zone = "+0000" if keys.get("utc") == 1 or keys.get("tz") == "UTC" else ""
    return f"{keys['date']} {keys['time']}{zone}"


class _Reader:
    """A reader of statistics, and the data that it has read so far."""

    def __init__(self, file: ImportSource, disks: sysstat.DiskRows) -> None:
        self.file = file
        self.clock = sysstat.StampSequence(sysstat.Orders(0, 1, 2))
        self.rows = intervals.IntervalRows()
        self.restarts: list[float] = []
        self.cores: int | None = None
        self.names: set[str] = set()
        self.disks = disks
        self.about: Mapping[str, Any] | None = None
        self.interfaces: dict[str, None] = {}
        self.memory: list[float] = []

    def machine(self, about: Mapping[str, Any]) -> None:
        """Note the machine's number of processors; raise Impossible if it is a second machine."""
        if about is not self.about:
            self.about = about
            self.disks.lists = sysstat.DeviceLists()
        self.names.add(str(about.get("nodename", "")))
        if len(self.names) > 1:
            raise Impossible(f"{self.file.name} is of several machines: a profile is of one")
        cores = about.get("number-of-cpus")
        if isinstance(cores, int) and cores > 0:
            self.cores = cores

    def add(self, keys: Mapping[str, Any]) -> None:
        """Add the statistics of one interval: `keys` is an entry of sadf's JSON."""
        stamp = keys["timestamp"]
        seconds = self.clock.seconds(_stamp(stamp))
        values = {
            # Older sysstat writes -A and -u ALL under another key.
            **self._cpu(keys.get("cpu-load") or keys.get("cpu-load-all", [])),
            **self._memory(keys.get("memory", {})),
            **_io(keys.get("io", {})),
            **(self._disks(keys["disk"]) if "disk" in keys else {}),
            **self._network(keys.get("network", {}).get("net-dev", [])),
        }
        values = {name: value for name, value in values.items() if value >= 0}
        self.rows.add(seconds, values, number(stamp.get("interval", "nan") or "nan"))

    def _cpu(self, loads: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        whole = next((one for one in loads if str(one.get("cpu")) in {"all", "-1"}), None)
        if whole is None or not self.cores:
            return {}
        share = self.cores / 100
        values = {
            column: share * sum(number(whole[name]) for name in names if name in whole)
            for column, names in _CPU.items()
        }
        return {**values, "cpu_cores": values["cpu_user"] + values["cpu_system"]}

    def _memory(self, keys: Mapping[str, Any]) -> dict[str, float]:
        if "memused" not in keys or not number(keys.get("memused-percent", 0)) > 0:
            return {}
        # The share has two decimals only, so use the median of many: the memory does not change.
        self.memory.append(100 * number(keys["memused"]) / number(keys["memused-percent"]))
        values = {"page_cache_bytes": number(keys["cached"]) * KIB} if "cached" in keys else {}
        if "avail" in keys:
            values["memory_bytes"] = number(keys["avail"]) * KIB
        return values

    def _disks(self, disks: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        named = {words(one["disk-device"]): one for one in disks}
        moved = {name: (_bytes(one, _READ), _bytes(one, _WRITTEN)) for name, one in named.items()}
        chosen = self.disks.choose(moved, len(self.rows.ends))
        if not chosen:
            # The totals of -b are not those of a wanted disk.
            return dict.fromkeys(_ADDED, math.nan) if self.disks.wanted else {}
        values = {
            column: sum(moved[name][i] for name in chosen) / 1e6
            for i, (column, keys) in enumerate((("read_mbps", _READ), ("write_mbps", _WRITTEN)))
            if any(key in named[chosen[0]] for key in keys)
        }
        first = named[chosen[0]]
        queue = "aqu-sz" if "aqu-sz" in first else "avgqu-sz"
        if queue in first:
            values["queue_depth"] = sum(number(named[name][queue]) for name in chosen)
        return values

    def _network(self, devices: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        named = {words(one.get("iface", "lo")): one for one in devices}
        self.interfaces |= dict.fromkeys(name for name in named if name != "lo")
        real = [named[name] for name in _interfaces(list(named))]
        if not real:
            return {}
        return {
            column: sum(number(one[name]) for one in real) * KIB / 1e6
            for column, name in (("net_in_mbps", "rxkB"), ("net_out_mbps", "txkB"))
            if all(name in one for one in real)
        }

    def profile(self) -> ResourceProfile:
        """Return the profile of all statistics that were added."""
        self._use_memory()
        chosen, notes = self.disks.finish(self.rows, _ADDED)
        interfaces = list(self.interfaces)
        notes += sysstat.note_of_choice("interfaces", interfaces, _interfaces(interfaces))
        if "cpu_cores" not in self.rows.values:
            notes.append(_NO_CPU)
        if "read_iops" not in self.rows.values:
            notes.append(_NO_IO)
        elif len(self.disks.names) > len(chosen):
            notes.append(
                "reads and writes a second are those of all devices: sar counts them together"
            )
        total = _middle(self.memory)
        made = intervals.profile(
            self.file,
            self.rows,
            {
                "kind": "sadf",
                "place": self.file.name,
                "cores": self.cores,
                "memory_bytes": round(total * KIB) if total else None,
                "device": "+".join(chosen) or None,
            },
            in_order=False,
            zoned=self.clock.zoned,
            notes=notes,
        )
        gaps = [Gap(begin=at, end=at, reason="the machine was started") for at in self.restarts]
        return replace(made, gaps=tuple(sorted((*made.gaps, *gaps), key=_begin)))

    def _use_memory(self) -> None:
        """Replace the available memory in each row by the memory in use, if the total is known."""
        available = self.rows.values.get("memory_bytes")
        total = _middle(self.memory)
        if available is None or total is None:
            return
        self.rows.values["memory_bytes"] = [max(0.0, total * KIB - one) for one in available]


def _bytes(disk: Mapping[str, Any], keys: Mapping[str, int]) -> float:
    """Return the bytes per second in the first of these keys that the disk has, 0 without one."""
    return next((number(disk[key]) * factor for key, factor in keys.items() if key in disk), 0.0)


def _begin(gap: Gap) -> float:
    return gap.begin


def _middle(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _io(keys: Mapping[str, Any]) -> dict[str, float]:
    values = {}
    for column, group, name in (
        ("read_iops", "io-reads", "rtps"),
        ("write_iops", "io-writes", "wtps"),
    ):
        if name in keys.get(group, {}):
            values[column] = number(keys[group][name])
    for column, group, name in (
        ("read_mbps", "io-reads", "bread"),
        ("write_mbps", "io-writes", "bwrtn"),
    ):
        if name in keys.get(group, {}):
            values[column] = number(keys[group][name]) * SECTOR / 1e6
    return values


def _interfaces(names: Sequence[str]) -> list[str]:
    """Return the interfaces that are added up, so that each byte is counted once.

    What a bond, a VLAN, a bridge or a tunnel carries is counted at the ports below it, too.
    """
    for names_of in (_PORT, _BOND):
        if real := [name for name in names if names_of.fullmatch(name)]:
            return real
    return [name for name in names if not _VIRTUAL.match(name)]
