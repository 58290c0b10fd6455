"""iostat: `iostat -x -t` as text, or `-o JSON`, of every sysstat; use `-y`, or one report is lost.

The first report is skipped: without -y, it covers the time since the boot.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from replayer.errors import Impossible
from replayer.results import intervals, iostat, sysstat
from replayer.results.imported import ImportSource, Unread, quoted
from replayer.results.iostat import Report
from replayer.results.profile import ResourceProfile

SIGN = re.compile(
    r"^avg-cpu:|^Device:? .*(?:tps|r/s)|\"avg-cpu\": ?\{|\"disk_device\"|^ +r/s .*Device$",
    re.MULTILINE,
)

_ADDED: Mapping[str, tuple[str, float]] = {
    # a quantity of iostat's columns -> the profile's column, and its unit in 1/s or bytes/s
    "reads": ("read_iops", 1),
    "writes": ("write_iops", 1),
    "read_throughput": ("read_mbps", 1e6),
    "write_throughput": ("write_mbps", 1e6),
    "queue": ("queue_depth", 1),
}
_READ, _WRITTEN = (
    [(name, factor) for name, (quantity, factor) in iostat.COLUMNS.items() if quantity == moved]
    for moved in ("read_throughput", "write_throughput")
)
_AWAITS = {"r_await": ("read_await_ms", "r/s"), "w_await": ("write_await_ms", "w/s")}
_NO_X = (
    "without -x iostat does not count reads and writes apart: their number a second is not known"
)
_NO_CORES = "it does not name the number of processors: the CPU is not known"


def read(file: ImportSource, devices: Sequence[str]) -> ResourceProfile:
    """Return the profile of one machine's file; raise Impossible for several machines.

    `devices` are the disks whose values are summed, () for all disks.
    """
    text = file.data.decode("utf-8", errors="replace")
    order = sysstat.order_of(_dates(text))
    del text
    reader = _filled(file, order, sysstat.DiskRows(file.name, devices))
    if instead := reader.disks.with_arrays():
        # The parts that cannot be read were counted the first time.
        reader = _filled(replace(file, unread=Unread(file.name)), order, instead)
    return reader.profile(file)


def _filled(file: ImportSource, order: sysstat.Orders, disks: sysstat.DiskRows) -> "_Reader":
    reader = _Reader(sysstat.StampSequence(order), disks)
    for report in iostat.reports(file, only=disks.wanted):
        reader.add(report)
    return reader


class _Reader:
    """A reader of reports; it keeps only their rows, because one day may have 86,400 reports."""

    def __init__(self, clock: sysstat.StampSequence, disks: sysstat.DiskRows) -> None:
        self.clock = clock
        self._rows = intervals.IntervalRows()
        self.disks = disks
        self._machine: Mapping[str, object] | None = None
        self._machines: set[str] = set()
        self._cores: int | None = None
        self._date = ""
        self._began = math.nan
        """End of the report that covers the time since boot; NaN after the next report."""
        self._undated = 0
        self._unknown = ""
        """The first stamp that is not understood; "" if there is none."""

    def add(self, report: Report) -> None:
        """Add a report; skip the first one after each start of iostat."""
        if report.date != self._date:
            self._date = report.date
            self.clock.date(report.date)
        self._machines.add(str(report.host.get("host.name", "")))
        first, self._machine = report.host is not self._machine, report.host
        if first:
            self.disks.lists = sysstat.DeviceLists()
        if not (report.cpu or report.listed):
            return
        try:
            seconds = self.clock.seconds(report.stamp)
        except ValueError:
            self._undated += not first
            self._unknown = self._unknown or report.stamp
            return
        if first:
            self._began = seconds
            self.disks.lists.add(report.devices)
            return
        span, self._began = seconds - self._began, math.nan
        self._cores = report.cores
        row = len(self._rows.ends)
        chosen = self.disks.choose(_moved(report.devices), row) if report.listed else []
        known = _cpu(report.cpu, report.cores) | _device([report.devices[name] for name in chosen])
        values = {name: value for name, value in known.items() if not value < 0}
        self._rows.add(seconds, values, span if span > 0 else math.nan)

    def profile(self, file: ImportSource) -> ResourceProfile:
        """Return the profile of all reports of a file; raise Impossible if there is none."""
        name = file.name
        if len(self._machines) > 1:
            raise Impossible(f"{name} is of {len(self._machines)} machines: a profile is of one")
        if not self._rows.ends:
            raise Impossible(f"{name} {self._why_none()}")
        if self._undated:
            file.unread.say(
                f"{self._undated:,} reports have no time of their own: they are left out"
            )
        added = [column for column, _ in _ADDED.values()]
        chosen, notes = self.disks.finish(self._rows, added)
        if chosen and "read_iops" not in self._rows.values:
            notes.append(_NO_X)
        return intervals.profile(
            file,
            self._rows,
            {
                "kind": "iostat",
                "place": name,
                "cores": self._cores,
                "device": "+".join(chosen) or None,
            },
            in_order=True,
            zoned=self.clock.zoned,
            notes=notes if self._cores else [*notes, _NO_CORES],
        )

    def _why_none(self) -> str:
        if self._undated and self._unknown:
            return (
                f"has times in a form that is not known, such as {quoted(self._unknown)!r}: record "
                f"it with `LC_ALL=C iostat -x -t -y 1`"
            )
        if self._undated:
            return "has no times: record it with `iostat -x -t -y 1`"
        if self._machine is None:
            return "has no report of iostat"
        return (
            "has one report only, which is the mean since the boot: record it with `iostat -x -t 1`"
        )


def _dates(text: str) -> Iterator[str]:
    for match in re.finditer(r"^[^\n]{0,200}\d:\d\d:\d\d|^Linux [^\n]{0,300}", text, re.MULTILINE):
        yield match[0][-80:] if not match[0].startswith("Linux") else match[0].partition(")")[2]


def _cpu(percent: Mapping[str, float], cores: int | None) -> dict[str, float]:
    """Return column of a profile -> processors in use, from shares in percent of all processors.

    Returns {} if the number of processors or the idle share is not known.
    """
    shares = {name.lstrip("%"): value for name, value in percent.items()}
    if not cores or "idle" not in shares:
        return {}
    share = cores / 100
    known = {name: shares.get(name, 0.0) * share for name in ("iowait", "steal", "system")}
    user = (shares.get("user", 0.0) + shares.get("nice", 0.0)) * share
    return {
        "cpu_cores": user + known["system"],
        "cpu_user": user,
        "cpu_system": known["system"],
        "cpu_iowait": known["iowait"],
        "cpu_steal": known["steal"],
    }


def _moved(devices: Mapping[str, Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return device -> the bytes that it read and wrote, per second."""
    return {
        name: (
            sum(values[column] * factor for column, factor in _READ if column in values),
            sum(values[column] * factor for column, factor in _WRITTEN if column in values),
        )
        for name, values in devices.items()
    }


def _device(devices: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return column of a profile -> value for the devices together.

    Most values are sums.  A wait is the mean over all requests of the devices.
    """
    values: dict[str, float] = {}
    for device in devices:
        for name, value in device.items():
            quantity, factor = iostat.COLUMNS.get(name, ("", 0))
            if quantity in _ADDED:
                column, unit = _ADDED[quantity]
                values[column] = values.get(column, 0.0) + value * factor / unit
    for name, (column, requests) in _AWAITS.items():
        known = [(one[name], one[requests]) for one in devices if name in one and requests in one]
        many = sum(number for _, number in known)
        if known:
            values[column] = sum(a * b for a, b in known) / many if many else np.nan
    return values
