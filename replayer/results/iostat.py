"""iostat's reports, of every sysstat: text with and without -x, -t, -h and -m, and JSON."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from replayer.model import Fact
from replayer.results import imported
from replayer.results.imported import ImportSource, number, words

_CLOCK = re.compile(r"(?:^|[ T])(\d{1,2}):(\d\d):(\d\d)(?: ?([AP])M)?")
_PLAIN = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_DAY = 86400
_MOST_COLUMNS = 64
_MOST_VALUES = 4_000_000
"""Of all reports of a file."""
_SUFFIXES = {"k": 1.0, "M": 1024.0, "G": 1024.0**2, "T": 1024.0**3}
"""What --human and -h write behind a value, as they are of the column's KiB."""


@dataclass(slots=True)
class Report:
    """One interval: device -> column -> value, and the processors' shares in percent."""

    host: Mapping[str, Fact]
    clock: int | None = None
    """Second of the day; None without -t."""
    stamp: str = ""
    """Date, time and zone as they were written; "" without -t."""
    head: str = ""
    """The line that names the machine, the date and the processors; "" in JSON."""
    cpu: dict[str, float] = field(default_factory=dict)
    devices: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class _Reader:
    """What is known when the next line comes."""

    host: Mapping[str, Fact] = field(default_factory=dict)
    clock: int | None = None
    stamp: str = ""
    head: str = ""
    names: Sequence[str] = ()
    last: bool = False
    """The device's name is the last column, as -h of late has it."""
    device: str = ""
    """A device whose values stand on the next line, as -h of old has it."""
    cpu: Sequence[str] = ()
    reports: list[Report] = field(default_factory=list)
    """Those that nobody has had yet; the last may not be complete."""
    values: int = 0
    only: Collection[str] = ()

    def start(self) -> None:
        """Begin a report."""
        self.reports.append(Report(self.host, self.clock, self.stamp, self.head))


def reports(source: ImportSource) -> list[Report]:
    """Return the reports of a file; lines that are not iostat's are noted."""
    if source.data.lstrip()[:1] == b"{":
        return [report for keys in source.documents() for report in _hosts(source, keys)]
    return list(of_text(source, _MOST_VALUES))


def of_text(
    source: ImportSource, most: float = math.inf, only: Collection[str] = ()
) -> Iterator[Report]:
    """Yield the reports of a text, of as many values at most; other lines are noted.

    With `only` the values of no other device are read.
    """
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
    """Take what a line says; tell whether it is one of iostat's."""
    parts = line.split()
    if facts := imported.host(line):
        reader.host, reader.head, reader.names = facts, line, ()
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
    # A stamp is at most a date, a time, AM or PM and a zone.
    if len(parts) <= 4 and (clock := _CLOCK.search(line[:80])):
        reader.clock, reader.stamp, reader.names = _second(clock), line.strip(), ()
        return True
    return bool(reader.names) and _device(reader, parts)


def _header(reader: _Reader, parts: Sequence[str]) -> bool:
    reader.last = parts[-1] == "Device"
    # Device: of old, where a blank stands before the colon
    columns = parts[:-1] if reader.last else [part for part in parts[1:] if part != ":"]
    if not columns or len(columns) > _MOST_COLUMNS:
        return False
    # Made harmless once and not at each of a day's millions of values.
    reader.names, reader.cpu, reader.device = [words(name) for name in columns], (), ""
    if not reader.reports or reader.reports[-1].devices or not reader.reports[-1].cpu:
        reader.start()
    return True


def _device(reader: _Reader, parts: Sequence[str]) -> bool:
    """Take a device's values, which stand behind or before its name, or on the line after it."""
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
    """Return a value, also with a comma, a percent sign or the unit of -h."""
    if _PLAIN.fullmatch(text):
        return float(text)
    plain = text.rstrip("%").replace(",", ".")
    factor = _SUFFIXES.get(plain[-1:], 0.0)
    return number(plain[:-1]) * factor if factor else number(plain)


def _second(clock: re.Match[str]) -> int:
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + 12 * (clock[4] == "P")
    return hour * 3600 + int(clock[2]) * 60 + int(clock[3])


def _hosts(source: ImportSource, keys: Mapping[str, Any]) -> Iterator[Report]:
    try:
        for host in keys["sysstat"]["hosts"]:
            facts: dict[str, Fact] = {
                fact: words(host[key])
                for key, fact in (("nodename", "host.name"), ("release", "kernel.release"))
                if key in host
            }
            for statistics in host["statistics"]:
                yield of_json(facts, statistics)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        source.unread.say(f"its JSON is not iostat's: {type(error).__name__} {words(error)}")


def of_json(host: Mapping[str, Fact], keys: Mapping[str, Any]) -> Report:
    """Return one of the statistics of a machine.

    Raises KeyError, TypeError, ValueError or AttributeError for what is none of iostat's.
    """
    stamp = str(keys.get("timestamp", ""))[:80]
    clock = _CLOCK.search(stamp)
    report = Report(host, None if clock is None else _second(clock), stamp)
    report.cpu = {f"%{words(name)}": number(v) for name, v in keys.get("avg-cpu", {}).items()}
    for disk in keys.get("disk", []):
        report.devices[words(disk["disk_device"])] = {
            "%util" if name == "util" else words(name): number(value)
            for name, value in disk.items()
            if name != "disk_device"
        }
    return report


def seconds(group: Sequence[Report]) -> list[float] | None:
    """Return the end of each report but the first, in seconds since it; None without -t."""
    clocks = [report.clock for report in group]
    if not clocks or None in clocks:
        return None
    at, ends = 0.0, []
    for earlier, later in pairwise(clocks):
        assert earlier is not None
        assert later is not None
        at += (later - earlier) % _DAY
        ends.append(at)
    return ends


def busy(group: Iterable[Report]) -> list[str]:
    """Return the devices that did anything, in their order."""
    names = dict.fromkeys(
        name for report in group for name, values in report.devices.items() if any(values.values())
    )
    return list(names)


def columns(group: Sequence[Report], devices: Sequence[str]) -> dict[str, list[float | None]]:
    """Return device.column -> values; the only device is called `diskstats`, as replayer's own."""
    if len(devices) * _MOST_COLUMNS * len(group) > 4 * _MOST_VALUES:
        devices = devices[: max(1, 4 * _MOST_VALUES // _MOST_COLUMNS // max(1, len(group)))]
    return {
        f"{'diskstats' if len(devices) == 1 else f'iostat.{device}'}.{name}": [
            report.devices.get(device, {}).get(name) for report in group
        ]
        for device in devices
        for name in dict.fromkeys(
            name for report in group for name in report.devices.get(device, ())
        )
    }


def cpu(group: Sequence[Report]) -> dict[str, list[float | None]]:
    """Return iostat.cpu.column -> values."""
    names = dict.fromkeys(name for report in group for name in report.cpu)
    return {f"iostat.cpu.{name}": [report.cpu.get(name) for report in group] for name in names}
