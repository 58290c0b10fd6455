"""Captured output of pgio's runit.sh, with the session detail, iostat and vmstat files beside it.

Every DBNAME line is a repeat, with or without text before it; lines of `uname -a` and os-release
around it tell the host.  RIOPS and CACHE_HITS/s are taken as printed.  The files beside it, which
pgio writes anew at each run, belong to the last one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from replayer.errors import Impossible
from replayer.imports import Sheaf
from replayer.model import Better, Fact, Measurement, Run, Series, Status, StepResult
from replayer.results import imported
from replayer.results.imported import measured, quoted

WINDOW = (
    "pgio starts its counters before it launches the sessions and its clock after, so RIOPS and "
    "CACHE_HITS/s are too high by what was read meanwhile"
)
_SAMPLE_SECONDS = 3
"""runit.sh calls iostat, vmstat and mpstat with this interval."""
_BESIDE = ("iostat.out", "vmstat.out", "mpstat.out", "pgio_session_detail.out")
_OTHERS = (
    "pgio_diskstats.out",
    "pgio_objects_creation.out",
    "pgio_data_load_table_sizes.out",
    "pgio_base_table_load.out",
)

_DBNAME = re.compile(
    r"DBNAME:\s+(?P<dbname>.+?)\.\s+(?P<num_schemas>\d+) schemas, (?P<num_threads>\d+) "
    r"threads\(each\)\. Run time: (?P<seconds>\d+) seconds\. "
    r"RIOPS >(?P<riops>\d+)< CACHE_HITS/s >(?P<hits>\d+)<"
)
_ROW = re.compile(r"(?:BEFORE|AFTER):\s+[^|]+\|" + r"\|".join([r"\s*(\d+)\s*"] * 5) + r"$")
_TESTING = re.compile(
    r"Testing \d+ schemas with \d+ thread\(s\) accessing (?P<scale>\S+) "
    r"\((?P<blocks>\d+) blocks\) of each schema"
)
_LAUNCH = re.compile(r"Launching the sessions took (?P<launch>\d+) seconds")
_BUFFERS = re.compile(r"Shared buffers: (?P<buffers>\S+?)\.?\s*$")
_DATE = re.compile(r"Date:\s+(?P<date>.+?)\s*$")
_UNAME = re.compile(
    r"\bLinux (?P<host>\S+) (?P<release>\d+\.\d+\S*) (?P<version>#\d+.*?) "
    r"(?P<machine>x86_64|aarch64|ppc64le|s390x)\b"
)
_OS = re.compile(r"\bPRETTY_NAME=\"?(?P<os>[^\"]+)\"?\s*$")
_STARTS = {"DBNAME:": _DBNAME, "BEFORE:": _ROW, "AFTER:": _ROW, "Testing ": _TESTING}
"""What a line of pgio begins with, and what it must then look like."""


@dataclass
class _Found:
    """One DBNAME line and what was said before it, since the one before."""

    values: dict[str, str] = field(default_factory=dict)
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    host: dict[str, Fact] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """Return what was asked of pgio, as far as it is told."""
        known = {key: int(self.values[key]) for key in ("num_schemas", "num_threads")}
        scale = {"scale": self.values["scale"]} if "scale" in self.values else {}
        return {"step": "sessions", "name": "sessions", "tool": "pgio", **known, **scale}


def read(path: Path, label: str) -> Sheaf:
    """Return a run for each kernel and configuration in the file, its DBNAME lines as repeats."""
    if path.name in _BESIDE + _OTHERS:
        return Sheaf((), (f"{path}: it is read with the captured output that lies beside it",))
    found, unread = _scan(path)
    if not found:
        raise Impossible(
            f"{path} has no DBNAME line that can be read: give the captured output of runit.sh"
            + (f" ({unread[0]})" if unread else "")
        )
    runs = []
    for number, (_, members) in enumerate(groupby(found, key=_kind), start=1):
        repeats = list(members)
        last = repeats[-1] is found[-1]
        runs.append(_run(path, label, number, repeats, unread if last else None))
    return Sheaf(tuple(runs), tuple(unread))


def _kind(one: _Found) -> tuple[object, ...]:
    return (
        one.host.get("kernel.release"),
        one.values["dbname"],
        *sorted(map(str, one.spec.items())),
    )


def _scan(path: Path) -> tuple[list[_Found], list[str]]:
    """Return what the file says of each DBNAME line, and sentences on lines that cannot be read."""
    found, unread = [], []
    current, host = _Found(), dict[str, Fact]()
    hosts: list[dict[str, Fact]] = []
    orphans = 0
    for number, line in enumerate(imported.text(path).splitlines(), start=1):
        facts = _host(line)
        if facts:
            new = "kernel.release" in facts
            host = {**({} if new and "kernel.release" in host else host), **facts}
            hosts.append(host)
        start, pattern = next(((s, p) for s, p in _STARTS.items() if s in line), ("", None))
        if pattern and not pattern.search(line):
            unread.append(f"{path}: line {number} cannot be read: {quoted(line)}")
            continue
        _note(current, line, start)
        if start == "DBNAME:":
            current.host = dict(host)
            orphans += not host
            found.append(current)
            current = _Found()
    _adopt(path, found, hosts, orphans, unread)
    return found, unread


def _adopt(
    path: Path,
    found: Sequence[_Found],
    hosts: Sequence[dict[str, Fact]],
    orphans: int,
    unread: list[str],
) -> None:
    """Give the host that is told after the first DBNAME lines to them, where there is only one."""
    if not orphans or not hosts:
        return
    if len({host.get("kernel.release") for host in hosts if "kernel.release" in host}) > 1:
        for one in found:
            one.host = {}
        unread.append(
            f"{path}: several kernels are told and not before each DBNAME line, so none is taken"
        )
        return
    for one in found:
        one.host = dict(hosts[-1])


def _note(current: _Found, line: str, start: str) -> None:
    """Add what a line says."""
    row = _ROW.search(line)
    if start in ("BEFORE:", "AFTER:") and row:
        setattr(current, start[:-1].lower(), tuple(int(value) for value in row.groups()))
    for pattern in (_DBNAME, _TESTING, _LAUNCH, _BUFFERS, _DATE):
        if match := pattern.search(line):
            current.values |= match.groupdict()


def _host(line: str) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    if match := _UNAME.search(line):
        facts |= {"host.name": match["host"], "kernel.release": match["release"]}
        facts |= {"kernel.version": match["version"]}
    if match := _OS.search(line):
        facts["os.name"] = match["os"]
    return facts


def _run(
    path: Path, label: str, number: int, repeats: Sequence[_Found], beside: list[str] | None
) -> Run:
    """Return a run of repeats; with `beside`, which takes notes, the last has the files' data."""
    steps = [_step(one, repeat) for repeat, one in enumerate(repeats, start=1)]
    if beside is not None:
        series = _series(path.parent, steps[-1].started, beside)
        tables = _detail(path.parent / "pgio_session_detail.out", beside)
        steps[-1] = steps[-1].model_copy(update={"series": series, "tables": tables})
    first = repeats[0]
    return imported.run(
        "pgio",
        path,
        label,
        number,
        steps=steps,
        name="pgio",
        specs=[first.spec],
        host=first.host,
        started=steps[0].started,
        advice=[WINDOW],
    )


def _step(one: _Found, repeat: int) -> StepResult:
    seconds = int(one.values["seconds"])
    notes = [WINDOW]
    facts: dict[str, Fact] = {"dbname": one.values["dbname"]}
    if "buffers" in one.values:
        facts["shared_buffers"] = one.values["buffers"]
    if "launch" in one.values:
        notes.append(f"launching the sessions took {one.values['launch']} s")
    measurements = [
        measured("sessions.riops", int(one.values["riops"]), "1/s"),
        measured("sessions.cache_hits", int(one.values["hits"]), "1/s", Better.NEITHER),
    ]
    window = list(_same_window(one, seconds))
    if window and window[0].value:
        factor = measurements[0].value / window[0].value
        rows = f"{window[0].value:,.0f} RIOPS over the {seconds} s"
        notes.append(
            f"its own BEFORE and AFTER rows give {rows}; "
            f"the printed {measurements[0].value:,.0f} are {factor:.2f} times that"
        )
    return StepResult(
        step="sessions",
        name="sessions",
        repeat=repeat,
        status=Status.DONE,
        started=_started(one.values.get("date", "")),
        elapsed=seconds,
        spec=one.spec,
        measurements=(*measurements, *window),
        facts=facts,
        notes=tuple(notes),
    )


def _same_window(one: _Found, seconds: int) -> Iterator[Measurement]:
    """Yield what pgio's own rows give when counters and clock cover the same window."""
    if not one.before or not one.after or not seconds:
        return
    hits, reads = (one.after[i] - one.before[i] for i in (0, 1))
    if min(hits, reads) >= 0:
        yield measured("sessions.riops_same_window", reads // seconds, "1/s")
        yield measured("sessions.cache_hits_same_window", hits // seconds, "1/s", Better.NEITHER)


def _started(date: str) -> str:
    """Return date(1)'s UTC time as ISO; "" for other zones, whose names are ambiguous."""
    for form in ("%a %b %d %H:%M:%S UTC %Y", "%a %d %b %Y %I:%M:%S %p UTC"):
        try:
            return datetime.strptime(date, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return ""


def _series(folder: Path, started: str, unread: list[str]) -> Series | None:
    """Return iostat's and vmstat's lines as a series, without their first, which is since boot."""
    columns = {**_iostat(folder / "iostat.out", unread), **_vmstat(folder / "vmstat.out", unread)}
    longest = max(map(len, columns.values()), default=0)
    if not longest:
        return None
    return Series(
        started=started,
        seconds=tuple(float(_SAMPLE_SECONDS * (i + 1)) for i in range(longest)),
        columns={
            name: (*values, *[None] * (longest - len(values))) for name, values in columns.items()
        },
    )


def _iostat(path: Path, unread: list[str]) -> dict[str, list[float | None]]:
    """Return device.column -> values; the only device that worked is called `diskstats`."""
    reports: list[dict[str, list[float]]] = []
    names: list[str] = []
    for number, line in _lines(path):
        words = line.split()
        if words[0].rstrip(":") == "Device":
            names = words[1:]
            reports.append({})
        elif names and len(words) == len(names) + 1:
            values = _numbers(words[1:])
            if values is None:
                unread.append(f"{path}: line {number} cannot be read: {quoted(line)}")
            else:
                reports[-1][words[0]] = values
        elif words[0] in ("Linux", "avg-cpu:"):
            names = []
    reports = reports[1:]
    devices = dict.fromkeys(device for report in reports for device in report)
    busy = [d for d in devices if any(any(report.get(d, ())) for report in reports)]
    if not names and not reports:
        return {}
    return {
        f"{'diskstats' if len(busy) == 1 else f'iostat.{device}'}.{name}": [
            report[device][i] if device in report and i < len(report[device]) else None
            for report in reports
        ]
        for device in busy
        for i, name in enumerate(names)
    }


def _vmstat(path: Path, unread: list[str]) -> dict[str, list[float | None]]:
    names: list[str] = []
    rows: list[list[float]] = []
    for number, line in _lines(path):
        words = line.split()
        if words[0] == "r":
            names = words
        elif names and words[0] != "procs" and not words[0].startswith("--"):
            values = _numbers(words[: len(names)])
            if values is None or len(values) != len(names):
                unread.append(f"{path}: line {number} cannot be read: {quoted(line)}")
            else:
                rows.append(values)
    return {f"vmstat.{name}": [row[i] for row in rows[1:]] for i, name in enumerate(names)}


def _detail(path: Path, unread: list[str]) -> Mapping[str, tuple[dict[str, Any], ...]]:
    """Return the table of the session detail, numbers as numbers and times as they are."""
    names: list[str] = []
    rows = []
    for number, line in _lines(path):
        cells = [cell.strip() for cell in line.split("|")]
        if "mypid" in cells:
            names = cells
        elif len(cells) == len(names) > 1:
            rows.append(
                {n: int(c) if c.isdecimal() else c for n, c in zip(names, cells, strict=True)}
            )
        elif not (set(line) <= set("-+ ") or line.strip().startswith("(")):
            unread.append(f"{path}: line {number} cannot be read: {quoted(line)}")
    return {"session_detail": tuple(rows)} if rows else {}


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that are not empty; none if there is no such file."""
    if path.is_file():
        for number, line in enumerate(imported.text(path).splitlines(), start=1):
            if line.strip():
                yield number, line


def _numbers(words: Sequence[str]) -> list[float] | None:
    try:
        return [float(word.replace(",", ".")) for word in words]
    except ValueError:
        return None
