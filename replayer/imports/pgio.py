"""pgio: the captured output of runit.sh, with the files that it wrote next to it.

Every DBNAME line is a repeat, with or without text before it.  Lines of `uname -a` and os-release
around it describe the host.  RIOPS and CACHE_HITS/s are taken as printed.  The files next to the
output (session detail, iostat, vmstat) belong to the last repeat, because pgio writes them anew at
each run.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Advice, Better, Fact, Measurement, Run, Series, Status, StepResult
from replayer.results import imported, iostat
from replayer.results.imported import ImportSource, measured, number, quoted

WINDOW = (
    "pgio starts its counters before it launches the sessions and its clock after, so RIOPS and "
    "CACHE_HITS/s are too high by what was read meanwhile"
)
_SAMPLE_SECONDS = 3
"""The interval with which runit.sh calls iostat, vmstat and mpstat."""
_BESIDE = ("iostat.out", "vmstat.out", "mpstat.out", "pgio_session_detail.out")
_OTHERS = (
    "pgio_diskstats.out",
    "pgio_objects_creation.out",
    "pgio_data_load_table_sizes.out",
    "pgio_base_table_load.out",
)

SIGN = re.compile(r"DBNAME: |Launching the sessions took ")

# Every gap has a largest length, so that a line with many begins of a match is not slow to search.
_DBNAME = re.compile(
    r"DBNAME:\s{1,20}(?P<dbname>\S.{0,120}?)\.\s{1,20}(?P<num_schemas>\d{1,9}) schemas, "
    r"(?P<num_threads>\d{1,9}) threads\(each\)\. Run time: (?P<seconds>\d{1,9}) seconds\. "
    r"RIOPS >(?P<riops>\d{1,15})< CACHE_HITS/s >(?P<hits>\d{1,15})<"
)
_ROW = re.compile(
    r"(?:BEFORE|AFTER):\s{1,20}[^|\s][^|]{0,120}\|"
    + r"\|".join([r"\s{0,20}(\d{1,18})\s{0,20}"] * 5)
    + r"$"
)
_TESTING = re.compile(
    r"Testing \d{1,9} schemas with \d{1,9} thread\(s\) accessing (?P<scale>\S{1,40}) "
    r"\((?P<blocks>\d{1,15}) blocks\) of each schema"
)
_LAUNCH = re.compile(r"Launching the sessions took (?P<launch>\d{1,9}) seconds")
_BUFFERS = re.compile(r"Shared buffers: (?P<buffers>\S{1,40}?)\.?$")
_DATE = re.compile(r"Date:\s{1,20}(?P<date>\S.{0,80})$")
_STARTS = {"DBNAME:": _DBNAME, "BEFORE:": _ROW, "AFTER:": _ROW, "Testing ": _TESTING}
"""Beginning of a line of pgio -> the pattern that the line must match."""


@dataclass
class _Line:
    """One DBNAME line (result) of pgio, and the values of the lines after the previous DBNAME line.

    `before` and `after` are the numbers in the rows of those names.
    """

    values: dict[str, str] = field(default_factory=dict)
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    host: dict[str, Fact] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        """Return the options of the pgio run as a step's keys, as far as they are known."""
        known = {key: int(self.values[key]) for key in ("num_schemas", "num_threads")}
        scale = {"scale": self.values["scale"]} if "scale" in self.values else {}
        return {"step": "sessions", "name": "sessions", "tool": "pgio", **known, **scale}


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each kernel and configuration in the file, its DBNAME lines as repeats.

    `label` is the user's name for the runs.  Raises Impossible if the file has no DBNAME line that
    can be read.  A file that pgio writes next to its output gives no run.
    """
    name = Path(source.name).name
    if name in _BESIDE + _OTHERS:
        source.unread.say("it is read with the captured output that lies next to it")
        return ImportResult((), source.unread.all())
    rows = _scan(source)
    if not rows:
        raise Impossible(
            f"{source.name} has no DBNAME line that can be read: give the captured output of "
            f"runit.sh"
        )
    runs = []
    for index, (_, members) in enumerate(groupby(rows, key=_kind), start=1):
        repeats = list(members)
        last = repeats[-1] is rows[-1]
        runs.append(_run(source, label, index, repeats, last=last))
    return ImportResult(tuple(runs), source.unread.all())


def _kind(one: _Line) -> tuple[object, ...]:
    return (
        one.host.get("kernel.release"),
        one.values["dbname"],
        *sorted(map(str, one.spec.items())),
    )


def _scan(source: ImportSource) -> list[_Line]:
    """Return the values of each DBNAME line (result); note the lines that cannot be read."""
    rows: list[_Line] = []
    current, host = _Line(), dict[str, Fact]()
    hosts: list[dict[str, Fact]] = []
    orphans = 0
    for at, raw in source.lines():
        line = raw.strip()
        facts = imported.host(line)
        if facts:
            new = "kernel.release" in facts
            host = {**({} if new and "kernel.release" in host else host), **facts}
            hosts.append(host)
        start, pattern = next(((s, p) for s, p in _STARTS.items() if s in line), ("", None))
        if pattern and not pattern.search(line):
            source.unread.line(at, line)
            continue
        _note(current, line, start)
        if start == "DBNAME:":
            current.host = dict(host)
            orphans += not host
            rows.append(current)
            current = _Line()
    if orphans and hosts:
        _adopt(source, rows, hosts)
    return rows


def _adopt(source: ImportSource, rows: Sequence[_Line], hosts: Sequence[dict[str, Fact]]) -> None:
    """Give the last of `hosts` to all DBNAME lines, as some have no facts of a host before them.

    If the file names several kernels, the host of a line is not known, and no line gets one.
    """
    several = len({host["kernel.release"] for host in hosts if "kernel.release" in host}) > 1
    if several:
        source.unread.say(
            "several kernels are named, but not before each DBNAME line, so none is taken"
        )
    for row in rows:
        row.host = {} if several else dict(hosts[-1])


def _note(current: _Line, line: str, start: str) -> None:
    """Add the values in `line` to `current`, the result that the next DBNAME line completes.

    `start` is the word with which the line was recognised, such as BEFORE:, or "".
    """
    row = _ROW.search(line)
    if start in ("BEFORE:", "AFTER:") and row:
        setattr(current, start[:-1].lower(), tuple(int(value) for value in row.groups()))
    for pattern in (_DBNAME, _TESTING, _LAUNCH, _BUFFERS, _DATE):
        if match := pattern.search(line):
            current.values |= match.groupdict()


def _run(
    source: ImportSource, label: str, index: int, repeats: Sequence[_Line], *, last: bool
) -> Run:
    """Return the run number `index` of the file, made of these repeats.

    `last` is True if they include the last repeat of the file.  That repeat also gets the data from
    the files next to the source, which are of that repeat only.
    """
    steps = [_step(one, repeat) for repeat, one in enumerate(repeats, start=1)]
    if last:
        watched = _series(source, steps[-1].started)
        tables = _detail(source)
        steps[-1] = steps[-1].model_copy(update={"series": watched, "tables": tables})
    first = repeats[0]
    return imported.run(
        "pgio",
        source,
        label,
        index,
        steps=steps,
        name="pgio",
        specs=[first.spec],
        host=first.host,
        started=steps[0].started,
        advice=[Advice(found=WINDOW)],
    )


def _step(one: _Line, repeat: int) -> StepResult:
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


def _same_window(one: _Line, seconds: int) -> Iterator[Measurement]:
    """Yield the rates of reads and cache hits a second, from the rows BEFORE and AFTER.

    The rows have the counters at the beginning and at the end of `seconds`, the run time.  Nothing
    is yielded without both rows, or if a counter went down.
    """
    if not one.before or not one.after or not seconds:
        return
    hits, reads = (one.after[i] - one.before[i] for i in (0, 1))
    if min(hits, reads) >= 0:
        yield measured("sessions.riops_same_window", reads // seconds, "1/s")
        yield measured("sessions.cache_hits_same_window", hits // seconds, "1/s", Better.NEITHER)


def _started(date: str) -> str:
    """Return the output of date(1) as ISO 8601 if it is in UTC; "" for any other text."""
    for form in ("%a %b %d %H:%M:%S UTC %Y", "%a %d %b %Y %I:%M:%S %p UTC"):
        try:
            return datetime.strptime(date, form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return ""


def _series(source: ImportSource, started: str) -> Series | None:
    """Return the values of iostat.out and vmstat.out as a series; None if there are none.

    Both files lie next to `source`.  Their first values are left out, because they cover the time
    since the boot.  `started` is the start of the series in ISO 8601.
    """
    columns = {**_iostat(source), **_vmstat(source)}
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


def _iostat(source: ImportSource) -> dict[str, list[float | None]]:
    """Return column -> values of the file iostat.out next to `source`; {} without that file."""
    beside = source.beside("iostat.out")
    if beside is None:
        return {}
    reports = iostat.all_reports(beside)[1:]
    for sentence in beside.unread.all():
        source.unread.say(sentence)
    idle = iostat.omit_idle(reports)
    return iostat.columns(reports, iostat.busy(reports), idle=idle)


def _vmstat(source: ImportSource) -> dict[str, list[float | None]]:
    names: list[str] = []
    rows: list[list[float]] = []
    for at, line in _lines(source, "vmstat.out"):
        words = line.split()
        if words[0] == "r":
            names = words
        elif names and words[0] != "procs" and not words[0].startswith("--"):
            values = _numbers(words[: len(names)])
            if values is None or len(values) != len(names):
                source.unread.say(f"vmstat.out: line {at} cannot be read: {quoted(line)}")
            else:
                rows.append(values)
    rows = [row for row in rows if len(row) == len(names)]
    return {f"vmstat.{name}": [row[i] for row in rows[1:]] for i, name in enumerate(names)}


def _detail(source: ImportSource) -> Mapping[str, tuple[dict[str, Any], ...]]:
    """Return {"session_detail": rows} of the file pgio_session_detail.out; {} without rows."""
    names: list[str] = []
    rows = []
    for at, line in _lines(source, "pgio_session_detail.out"):
        cells = [cell.strip() for cell in line.split("|")]
        if "mypid" in cells:
            names = cells
        elif len(cells) == len(names) > 1:
            rows.append({n: _cell(c) for n, c in zip(names, cells, strict=True)})
        elif not (set(line) <= set("-+ ") or line.strip().startswith("(")):
            source.unread.say(f"pgio_session_detail.out: line {at} cannot be read: {quoted(line)}")
    return {"session_detail": tuple(rows)} if rows else {}


def _cell(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else text


def _lines(source: ImportSource, name: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines of the file `name` next to the source, if it exists."""
    beside = source.beside(name)
    if beside is not None:
        yield from beside.lines()


def _numbers(texts: Sequence[str]) -> list[float] | None:
    try:
        return [number(text.replace(",", ".")) for text in texts]
    except ValueError:
        return None
