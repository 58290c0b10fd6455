"""iostat: `iostat -x -t` as text, or `-o JSON`, of every sysstat; use `-y`, or one report is lost.

The first report is passed over, as it is since the boot unless -y was given.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from replayer.errors import Impossible
from replayer.results import intervals, iostat, sysstat
from replayer.results.imported import Source, words
from replayer.results.iostat import Report
from replayer.results.profile import Profile

SIGN = re.compile(
    r"^avg-cpu:|^Device:? .*(?:tps|r/s)|\"avg-cpu\": ?\{|\"disk_device\"|^ +r/s .*Device$",
    re.MULTILINE,
)

_KIB, _MIB, _SECTOR = 1 << 10, 1 << 20, 512
_BYTES: Mapping[str, tuple[str, int]] = {
    # iostat's column -> the profile's, bytes in one of iostat's
    "rkB/s": ("read_mbps", _KIB),
    "wkB/s": ("write_mbps", _KIB),
    "rMB/s": ("read_mbps", _MIB),
    "wMB/s": ("write_mbps", _MIB),
    "rsec/s": ("read_mbps", _SECTOR),
    "wsec/s": ("write_mbps", _SECTOR),
    "kB_read/s": ("read_mbps", _KIB),
    "kB_wrtn/s": ("write_mbps", _KIB),
    "MB_read/s": ("read_mbps", _MIB),
    "MB_wrtn/s": ("write_mbps", _MIB),
    "Blk_read/s": ("read_mbps", _SECTOR),
    "Blk_wrtn/s": ("write_mbps", _SECTOR),
}
_ADDED = {"r/s": "read_iops", "w/s": "write_iops", "aqu-sz": "queue_depth",
          "avgqu-sz": "queue_depth"}  # fmt: skip
_AWAITS = {"r_await": ("read_await_ms", "r/s"), "w_await": ("write_await_ms", "w/s")}
_CORES = re.compile(r"\((\d{1,6}) CPU\)")
_NO_X = "without -x iostat does not tell reads from writes: their number a second is not known"
_NO_CORES = "how many processors there are is not said: the CPU is not known"


class _Taken(NamedTuple):
    """What is kept of a report."""

    seconds: float
    span: float
    """NaN where it follows from the others' times."""
    cores: int | None
    cpu: Mapping[str, float]
    devices: Mapping[str, Mapping[str, float]]


def read(file: Source, devices: Sequence[str]) -> Profile:
    """Return the profile of a file: of one machine, as iostat saw it."""
    clock, taken = _taken(file)
    names = list(dict.fromkeys(name for one in taken for name in one.devices))
    chosen = sysstat.disks(names, devices, file.name)
    rows = intervals.Rows()
    for one in taken:
        _add(rows, one, chosen)
    notes = [f"taken of the devices {', '.join(names[:20])}: {', '.join(chosen[:20])}"]
    notes += [_NO_X] if "read_iops" not in rows.values and names else []
    cores = taken[-1].cores
    notes += [] if cores else [_NO_CORES]
    return intervals.profile(
        file,
        rows,
        {"kind": "iostat", "place": file.name, "cores": cores, "device": "+".join(chosen) or None},
        in_order=True,
        zoned=clock.zoned,
        notes=notes if len(names) > len(chosen) else notes[1:],
    )


def _taken(file: Source) -> tuple[sysstat.Clock, list[_Taken]]:
    """Return the reports of a file, without the first one after each start of iostat."""
    text = file.data.decode("utf-8", errors="replace")
    clock = sysstat.Clock(sysstat.order_of(_dates(text)))
    taken: list[_Taken] = []
    before: Mapping[str, object] | None = None
    machines: set[str] = set()
    undated = 0
    started = math.nan
    for report, cores in _reports(file, clock):
        machines.add(str(report.host.get("host.name", "")))
        first, before = report.host is not before, report.host
        if not (report.cpu or report.devices):
            continue
        try:
            seconds = clock.seconds(report.stamp)
        except ValueError:
            undated += not first
            continue
        span, started = (seconds - started if seconds > started else math.nan), math.nan
        if first:
            started = seconds
        else:
            taken.append(_Taken(seconds, span, cores, report.cpu, report.devices))
    if len(machines) > 1:
        raise Impossible(f"{file.name} is of {len(machines)} machines: a profile is of one")
    if not taken:
        raise Impossible(f"{file.name} {_why_none(undated, before)}")
    if undated:
        file.unread.say(f"{undated:,} reports have no time of their own: they are left out")
    return clock, taken


def _why_none(undated: int, host: object) -> str:
    if undated:
        return "has no times: record it with `iostat -x -t -y 1`"
    if host is None:
        return "has no report of iostat"
    return "has one report only, which is the mean since the boot: record it with `iostat -x -t 1`"


def _dates(text: str) -> Iterator[str]:
    for match in re.finditer(r"^[^\n]{0,200}\d:\d\d:\d\d|^Linux [^\n]{0,300}", text, re.MULTILINE):
        yield match[0][-80:] if not match[0].startswith("Linux") else match[0].partition(")")[2]


def _reports(file: Source, clock: sysstat.Clock) -> Iterator[tuple[Report, int | None]]:
    """Yield reports, and how many processors the machine has."""
    if file.data.lstrip()[:1] != b"{":
        head = ""
        for report in iostat.of_text(file):
            if report.head != head:
                head = report.head
                clock.date(head.partition(")")[2])
            match = _CORES.search(head)
            yield report, int(match[1]) if match else None
        return
    hosts: dict[int, tuple[Mapping[str, object], Mapping[str, str]]] = {}
    for about, one in sysstat.statistics(file):
        # One and the same for all of a machine's, as in a text.
        _, host = hosts.setdefault(id(about), (about, {"host.name": words(about.get("nodename"))}))
        clock.date(str(about.get("date", "")))
        try:
            report = iostat.of_json(host, one)  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            file.unread.say(f"a report is not iostat's: {type(error).__name__} {words(error)}")
            continue
        cores = about.get("number-of-cpus")
        yield report, cores if isinstance(cores, int) else None


def _add(rows: intervals.Rows, one: _Taken, chosen: Sequence[str]) -> None:
    values = {**_cpu(one), **_device([one.devices[name] for name in chosen if name in one.devices])}
    values = {name: value for name, value in values.items() if value >= 0}
    rows.add(one.seconds, values, one.span)


def _cpu(one: _Taken) -> dict[str, float]:
    """Return processors in use, of the shares in percent of all."""
    shares = {name.lstrip("%"): value for name, value in one.cpu.items()}
    if not one.cores or "idle" not in shares:
        return {}
    share = one.cores / 100
    known = {name: shares.get(name, 0.0) * share for name in ("iowait", "steal", "system")}
    user = (shares.get("user", 0.0) + shares.get("nice", 0.0)) * share
    return {
        "cpu_cores": user + known["system"],
        "cpu_user": user,
        "cpu_system": known["system"],
        "cpu_iowait": known["iowait"],
        "cpu_steal": known["steal"],
    }


def _device(devices: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what devices did together; a wait is the mean of their requests'."""
    values: dict[str, float] = {}
    for device in devices:
        for name, value in device.items():
            if name in _ADDED:
                values[_ADDED[name]] = values.get(_ADDED[name], 0.0) + value
            elif name in _BYTES:
                column, factor = _BYTES[name]
                values[column] = values.get(column, 0.0) + value * factor / 1e6
    for name, (column, requests) in _AWAITS.items():
        known = [(one[name], one[requests]) for one in devices if name in one and requests in one]
        many = sum(number for _, number in known)
        if known:
            values[column] = sum(a * b for a, b in known) / many if many else np.nan
    return values
