"""iostat: its output as text or JSON; means of each device, and with -t a series.

If there are several reports, the first is skipped: without -y, it covers the time since the boot.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Measurement, Series, StepResult
from replayer.results import imported, iostat
from replayer.results.imported import ImportedStep, ImportSource, measured
from replayer.results.iostat import Report

SIGN = re.compile(
    r"^avg-cpu:|^Device:? .*(?:tps|r/s)|\"sysstat\": ?\{|^ +r/s .*Device$", re.MULTILINE
)

METRICS: Mapping[str, tuple[str, Better]] = {
    # a quantity of iostat's columns -> the unit of its metric, and the better direction
    "reads": ("1/s", Better.MORE),
    "writes": ("1/s", Better.MORE),
    "transfers": ("1/s", Better.MORE),
    "read_throughput": ("bytes/s", Better.MORE),
    "write_throughput": ("bytes/s", Better.MORE),
    "read_wait": ("s", Better.LESS),
    "write_wait": ("s", Better.LESS),
    "wait": ("s", Better.LESS),
    "queue": ("", Better.NEITHER),
    "utilisation": ("%", Better.NEITHER),
}
_FIRST = (
    "the first report is passed over: unless iostat was given -y, it is the mean since the boot"
)
_ONLY = "there is one report only: unless iostat was given -y, it is the mean since the boot"
_NO_TIME = "without -t iostat does not say how long its intervals are: there are means, no series"
_UNKNOWN_TIME = (
    "its times are in a form that is not known, such as {!r}: there are means, no series; "
    "`LC_ALL=C iostat -t` writes one that is known"
)
_MOST_DEVICES = 500
_OMITTED = (
    "reports omit devices, as with -z: there an omitted device was idle, its load counts as 0"
)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each machine in the file; each start of iostat on it is a repeat.

    `label` is the user's name for the runs.  Raises Impossible if no report has devices.
    """
    groups = [
        list(members) for _, members in groupby(iostat.all_reports(source), lambda r: id(r.host))
    ]
    steps = [
        ImportedStep(_step(source, group), group[0].host) for group in groups if _devices(group)
    ]
    if not steps:
        raise Impossible(f"{source.name} has no report of iostat with devices in it")
    return ImportResult(imported.runs(source, "iostat", label, steps), source.unread.all())


def _devices(group: Sequence[Report]) -> bool:
    return any(report.devices for report in group)


def _step(source: ImportSource, group: Sequence[Report]) -> StepResult:
    kept = group[1:] or group
    ends = iostat.seconds(group) or []
    devices = iostat.busy(kept)
    if len(devices) > _MOST_DEVICES:
        source.unread.say(
            f"{len(devices)} devices worked: those after {_MOST_DEVICES} are left out"
        )
        devices = devices[:_MOST_DEVICES]
    idle = iostat.omit_idle(group)
    watched = (
        _series(kept, devices, ends, idle=idle) if len(group) > 1 and ends and ends[-1] else None
    )
    notes = [_FIRST if len(group) > 1 else _ONLY, *[_OMITTED] * idle]
    if watched is None and len(group) > 1:
        unknown = next((one.stamp for one in group if one.stamp and one.clock is None), "")
        notes.append(_UNKNOWN_TIME.format(imported.quoted(unknown)) if unknown else _NO_TIME)
    return imported.step(
        "iostat",
        "iostat",
        elapsed=ends[-1] if watched else 0.0,
        measurements=[
            *(m for device in devices for m in _measurements(kept, device, idle=idle)),
            *_processors(kept),
        ],
        facts={"reports": len(kept)},
        notes=notes,
        watched=watched,
    )


def _series(
    kept: Sequence[Report], devices: Sequence[str], ends: Sequence[float], *, idle: bool
) -> Series:
    columns = {**iostat.columns(kept, devices, idle=idle), **iostat.cpu(kept)}
    return Series(
        started="",
        seconds=tuple(ends),
        columns={name: tuple(values) for name, values in columns.items()},
    )


def _measurements(kept: Sequence[Report], device: str, *, idle: bool) -> Iterator[Measurement]:
    """Yield the mean of each known column of a device, over the reports that have the column.

    The mean of a wait is over the requests, and is left out if there were none.  If `idle`, the
    other means are over the reports that omit the device, too.  A metric is in 1/s, bytes/s, s or %
    according to its column; the queue's length has no unit.
    """
    rows = [report.devices[device] for report in kept if device in report.devices]
    omitted = sum(iostat.is_omitted(report, device) for report in kept) if idle else 0
    for name in dict.fromkeys(name for row in rows for name in row):
        if name in iostat.COLUMNS:
            column = iostat.COLUMNS[name]
            known = [row for row in rows if name in row]
            requests = iostat.REQUESTS.get(name, ())
            weights = [sum(row.get(one, 0.0) for one in requests) for row in known]
            if requests and not any(weights):
                continue
            value = fmean((row[name] for row in known), weights if requests else None)
            busy = 1.0 if requests else len(rows) / (len(rows) + omitted)
            value *= busy * column.factor
            yield measured(f"iostat.{device}.{column.quantity}", value, *METRICS[column.quantity])


def _processors(kept: Sequence[Report]) -> Iterator[Measurement]:
    for name, values in iostat.cpu(kept).items():
        known = [value for value in values if value is not None]
        yield measured(name.replace("%", ""), fmean(known), "%", Better.NEITHER)
