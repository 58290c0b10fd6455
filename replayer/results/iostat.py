"""Reports of iostat, of every version of sysstat: text with or without -x, -t, -h, -m, and JSON."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from replayer.model import Fact
from replayer.results import imported
from replayer.results.imported import ImportSource, number, words
from replayer.results.sysstat import (
    DAY,
    KIB,
    MIB,
    SECTOR,
    DeviceLists,
    Restart,
    find_clock,
    has_any_clock,
    second_of_day,
    statistics,
)

_CORES = re.compile(r"\((\d{1,6}) CPU\)")
_PLAIN = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_MOST_COLUMNS = 64
_FEW_STAMP_PARTS = 4
"""Of a stamp with a date, a time, AM or PM and a zone."""
_MOST_STAMP_PARTS = 8
"""Of a stamp with names of the day and the month, such as Friday 27 Nov 2026 02:31:04 PM IST."""
_MOST_VALUES = 4_000_000
"""Limit on the number of values of all reports of a file together."""
_SUFFIXES = {"k": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3}
"""Suffix that --human and -h write after a value -> factor that converts the value to KiB."""


class IostatColumn(NamedTuple):
    """A column of iostat: its quantity, and the factor that converts it to 1/s, bytes/s, s or %."""

    quantity: str
    factor: float


COLUMNS: Mapping[str, IostatColumn] = {
    name: IostatColumn(quantity, factor)
    for quantity, factor, names in (
        ("reads", 1, "r/s"),
        ("writes", 1, "w/s"),
        ("transfers", 1, "tps"),
        ("read_throughput", KIB, "rkB/s kB_read/s"),
        ("read_throughput", MIB, "rMB/s MB_read/s"),
        ("read_throughput", SECTOR, "rsec/s Blk_read/s"),
        ("write_throughput", KIB, "wkB/s kB_wrtn/s"),
        ("write_throughput", MIB, "wMB/s MB_wrtn/s"),
        ("write_throughput", SECTOR, "wsec/s Blk_wrtn/s"),
        ("read_wait", 1e-3, "r_await"),
        ("write_wait", 1e-3, "w_await"),
        ("wait", 1e-3, "await"),
        ("queue", 1, "aqu-sz avgqu-sz"),
        ("utilisation", 1, "%util"),
    )
    for name in names.split()
}
"""The columns that are known, of every version of sysstat."""
REQUESTS: Mapping[str, Sequence[str]] = {
    "r_await": ("r/s",),
    "w_await": ("w/s",),
    "await": ("r/s", "w/s", "tps"),
}
"""A wait -> the columns whose requests waited for it; -s has tps in place of r/s and w/s."""


@dataclass(slots=True)
class Report:
    """The report of one interval; `devices` are device -> column -> value, `cpu` is in percent."""

    host: Mapping[str, Fact]
    clock: int | None = None
    """Second of the day; None where it is not known, as without -t."""
    stamp: str = ""
    """Date, time and zone as iostat wrote them; "" without -t.  If there is a stamp and no `clock`,
    the time is in a form that is not known."""
    date: str = ""
    """The date of the machine's heading, as iostat wrote it."""
    cores: int | None = None
    """Processors of the machine; None if the heading does not name them."""
    cpu: dict[str, float] = field(default_factory=dict)
    devices: dict[str, dict[str, float]] = field(default_factory=dict)
    listed: bool = False
    """True if the report has a list of devices, even an empty one, as with -z."""


@dataclass(slots=True)
class _Reader:
    """The state of the parser between two lines of text."""

    host: Mapping[str, Fact] = field(default_factory=dict)
    clock: int | None = None
    stamp: str = ""
    date: str = ""
    cores: int | None = None
    names: Sequence[str] = ()
    last: bool = False
    """True if the device's name is the last column, where -h of newer sysstat writes it."""
    device: str = ""
    """The device whose values are on the next line, where -h of older sysstat writes them."""
    cpu: Sequence[str] = ()
    reports: list[Report] = field(default_factory=list)
    """Reports that were not yet yielded; the last one may be incomplete."""
    values: int = 0
    only: Collection[str] = ()

    def start(self) -> None:
        """Begin a report with the current host, time and number of processors."""
        self.reports.append(Report(self.host, self.clock, self.stamp, self.date, self.cores))


def all_reports(source: ImportSource) -> list[Report]:
    """Return the reports of a file of iostat; stop after about four million values."""
    return list(reports(source, _MOST_VALUES))


def reports(
    source: ImportSource, most: float = math.inf, only: Collection[str] = ()
) -> Iterator[Report]:
    """Yield the reports of a file, text or JSON; stop after about `most` values.

    The reports of one machine, and of one start of iostat, have the same object `host`.  Text that
    is not iostat's is recorded in `source.unread`.  If `only` names devices, a text's values of all
    other devices are not read.  Those devices are then in the reports, but without values.
    """
    if source.data.lstrip()[:1] == b"{":
        return _of_json(source, most)
    return _of_text(source, most, only)


def _of_text(source: ImportSource, most: float, only: Collection[str]) -> Iterator[Report]:
    reader = _Reader(only=only)
    for at, line in source.lines():
        if reader.values > most:
            source.unread.say(f"what follows line {at:,} is more than can be held")
            break
        try:
            understood = _line(reader, line)
        except ValueError:
            understood = False
        if not understood:
            source.unread.line(at, line)
        if len(reader.reports) > 1:
            yield reader.reports.pop(0)
    yield from reader.reports


def _line(reader: _Reader, line: str) -> bool:
    """Update the reader from a line; return whether it is one of iostat's.

    Raises ValueError for values that are not numbers, or for a wrong number of them.
    """
    parts = line.split()
    if facts := imported.host(line):
        cores = _CORES.search(line)
        reader.host, reader.date, reader.names = facts, line.partition(")")[2], ()
        reader.cores = int(cores[1]) if cores else None
        reader.clock, reader.stamp = None, ""
        return True
    if parts[0] == "avg-cpu:":
        reader.cpu, reader.names = parts[1:_MOST_COLUMNS], ()
        reader.start()
        return True
    if parts[0].rstrip(":") == "Device" or parts[-1] == "Device":
        return _header(reader, parts)
    if reader.cpu:
        reader.reports[-1].cpu = dict(zip(reader.cpu, map(_value, parts), strict=True))
        reader.cpu = ()
        return True
    if (is_known := _read_stamp(reader, parts, line[:80])) is not None:
        return is_known
    return bool(reader.names) and _device(reader, parts)


def _read_stamp(reader: _Reader, parts: Sequence[str], line: str) -> bool | None:
    """Read a stamp; return whether its time is in a form that is known, None if it is no stamp.

    A line with as many parts as a device has is that of a device, whatever its name is.
    """
    is_device = len(parts) == len(reader.names) + 1 or bool(reader.device)
    is_short = len(parts) <= _MOST_STAMP_PARTS and not is_device
    clock = find_clock(line) if is_short or len(parts) <= _FEW_STAMP_PARTS else None
    if clock is None and not (is_short and has_any_clock(line)):
        return None
    reader.clock = None if clock is None else second_of_day(clock)
    reader.stamp, reader.names = line.strip(), ()
    return clock is not None


def _header(reader: _Reader, parts: Sequence[str]) -> bool:
    reader.last = parts[-1] == "Device"
    # Older versions write a blank before the colon of "Device :".
    columns = parts[:-1] if reader.last else [part for part in parts[1:] if part != ":"]
    if not columns or len(columns) > _MOST_COLUMNS:
        return False
    # Names are sanitized once here, and not again for each of a day's millions of values.
    reader.names, reader.cpu, reader.device = [words(name) for name in columns], (), ""
    if not reader.reports or reader.reports[-1].devices or not reader.reports[-1].cpu:
        reader.start()
    reader.reports[-1].listed = True
    return True


def _device(reader: _Reader, parts: Sequence[str]) -> bool:
    """Read a device's values: they are after its name, before it, or on the next line."""
    if len(parts) == 1:
        reader.device = parts[0]
        return True
    if reader.device and len(parts) == len(reader.names):
        name, values, reader.device = reader.device, parts, ""
    elif reader.last:
        name, values = parts[-1], parts[:-1]
    else:
        name, values = parts[0], parts[1:]
    if reader.only and name not in reader.only:
        reader.reports[-1].devices[words(name)] = {}
        return True
    pairs = zip(reader.names, map(_value, values), strict=True)
    reader.reports[-1].devices[words(name)] = dict(pairs)
    reader.values += len(values)
    return True


def _value(text: str) -> float:
    """Return a value as a number; it may have a decimal comma, a percent sign or -h's unit.

    Raises ValueError for what is not a number, or below zero.
    """
    if _PLAIN.fullmatch(text):
        return float(text)
    plain = text.rstrip("%").replace(",", ".")
    factor = _SUFFIXES.get(plain[-1:], 0.0)
    return _measured(plain[:-1]) * factor if factor else _measured(plain)


def _measured(value: object) -> float:
    """Return a value of a report as a number; raise ValueError if it is negative or no number."""
    measured = number(value)
    if measured < 0:
        raise ValueError(f"{measured:g} is below zero")
    return measured


def _of_json(source: ImportSource, most: float) -> Iterator[Report]:
    hosts: dict[int, tuple[Mapping[str, Any], Mapping[str, Fact]]] = {}
    values = 0
    for about, entry in statistics(source):
        if values > most:
            source.unread.say(f"what follows {values:,} values is more than can be held")
            return
        if isinstance(entry, Restart):
            continue
        # Use the same object for all reports of a machine, as for a text.
        _, host = hosts.setdefault(id(about), (about, _host(about)))
        try:
            report = _report(host, about, entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            source.unread.say(f"a report is not iostat's: {type(error).__name__} {words(error)}")
            continue
        values += sum(map(len, report.devices.values()))
        yield report


def _host(about: Mapping[str, Any]) -> Mapping[str, Fact]:
    keys = (("nodename", "host.name"), ("release", "kernel.release"))
    return {fact: words(about[key]) for key, fact in keys if key in about}


def _report(host: Mapping[str, Fact], about: Mapping[str, Any], keys: Mapping[str, Any]) -> Report:
    """Return the report of one entry of a machine's `statistics`.

    Raises KeyError, TypeError, ValueError or AttributeError if the entry is not iostat's.
    """
    stamp = str(keys.get("timestamp", ""))[:80]
    clock = find_clock(stamp)
    cores = about.get("number-of-cpus")
    report = Report(
        host,
        None if clock is None else second_of_day(clock),
        stamp,
        str(about.get("date", "")),
        cores if isinstance(cores, int) else None,
    )
    report.cpu = {f"%{words(name)}": _measured(v) for name, v in keys.get("avg-cpu", {}).items()}
    report.listed = "disk" in keys
    for disk in keys.get("disk", []):
        report.devices[words(disk["disk_device"])] = {
            "%util" if name == "util" else words(name): _measured(value)
            for name, value in disk.items()
            if name != "disk_device"
        }
    return report


def seconds(group: Sequence[Report]) -> list[float] | None:
    """Return the end of each report except the first, in seconds since the first.

    Returns None if a report has no time, as without -t.
    """
    clocks = [report.clock for report in group]
    if not clocks or None in clocks:
        return None
    at, ends = 0.0, []
    for earlier, later in pairwise(clocks):
        assert earlier is not None
        assert later is not None
        at += (later - earlier) % DAY
        ends.append(at)
    return ends


def busy(group: Iterable[Report]) -> list[str]:
    """Return the names of the devices that have any value other than 0 in these reports.

    They are in the order in which the reports name them.
    """
    names = dict.fromkeys(
        name for report in group for name, values in report.devices.items() if any(values.values())
    )
    return list(names)


def omit_idle(group: Iterable[Report]) -> bool:
    """Return True if the reports of one start leave out devices that were idle, as with -z."""
    lists = DeviceLists()
    for report in group:
        if report.listed:
            lists.add(report.devices)
    return lists.omit_idle


def is_omitted(report: Report, device: str) -> bool:
    """Return True if a report has a list of devices, but not this one."""
    return report.listed and device not in report.devices


def columns(
    group: Sequence[Report], devices: Sequence[str], *, idle: bool = False
) -> dict[str, list[float | None]]:
    """Return iostat.DEVICE.COLUMN -> one value for each report; None if a report has no value.

    If there is only one device, its columns are called diskstats.COLUMN, like those that replayer
    itself samples.  If `idle`, an omitted device was idle: its columns, except waits, are 0.
    """
    if len(devices) * _MOST_COLUMNS * len(group) > 4 * _MOST_VALUES:
        devices = devices[: max(1, 4 * _MOST_VALUES // _MOST_COLUMNS // max(1, len(group)))]
    return {
        f"{'diskstats' if len(devices) == 1 else f'iostat.{device}'}.{name}": [
            0.0
            if idle and name in COLUMNS.keys() - REQUESTS and is_omitted(report, device)
            else report.devices.get(device, {}).get(name)
            for report in group
        ]
        for device in devices
        for name in dict.fromkeys(
            name for report in group for name in report.devices.get(device, ())
        )
    }


def cpu(group: Sequence[Report]) -> dict[str, list[float | None]]:
    """Return iostat.cpu.COLUMN -> one value for each report; None if a report has no value."""
    names = dict.fromkeys(name for report in group for name in report.cpu)
    return {f"iostat.cpu.{name}": [report.cpu.get(name) for report in group] for name in names}
