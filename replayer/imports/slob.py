"""SLOB: the table of awr_info.sh, or AWR reports as text (awr.txt)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Fact, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number, words

SIGN = re.compile(r"^FILE\|SESSIONS\|ELAPSED\||WORKLOAD REPOSITORY report for", re.MULTILINE)

_MIB = 1 << 20
_US = 1e-6
_METRICS: Mapping[str, tuple[str, str, float, Better]] = {
    # awr_info's column -> the metric, its unit, the factor from the column's unit to it
    "DB CPU": ("db_cpu", "s/s", 1, Better.NEITHER),
    "DB Tm": ("db_time", "s/s", 1, Better.NEITHER),
    "EXECUTES": ("executes", "1/s", 1, Better.MORE),
    "LIO": ("logical_reads", "1/s", 1, Better.MORE),
    "PREADS": ("reads", "1/s", 1, Better.MORE),
    "READ_MBS": ("read_throughput", "bytes/s", _MIB, Better.MORE),
    "PWRITES": ("writes", "1/s", 1, Better.MORE),
    "WRITE_MBS": ("write_throughput", "bytes/s", _MIB, Better.MORE),
    "REDO_MBS": ("redo", "bytes/s", _MIB, Better.MORE),
    "DFSR_LAT": ("latency.db_file_sequential_read", "s", _US, Better.LESS),
    "DPR_LAT": ("latency.direct_path_read", "s", _US, Better.LESS),
    "DFPR_LAT": ("latency.db_file_parallel_read", "s", _US, Better.LESS),
    "DFPW_LAT": ("latency.db_file_parallel_write", "s", _US, Better.LESS),
    "LFPW_LAT": ("latency.log_file_parallel_write", "s", _US, Better.LESS),
}
_PER_SECOND: Mapping[str, tuple[str, float]] = {
    # the beginning of a line of AWR's Load Profile or statistics -> awr_info's column and factor
    "DB Time(s):": ("DB Tm", 1),
    "DB CPU(s):": ("DB CPU", 1),
    "Executes:": ("EXECUTES", 1),
    "Executes (SQL):": ("EXECUTES", 1),
    "Logical reads:": ("LIO", 1),
    "Logical read (blocks):": ("LIO", 1),
}
_STATISTICS: Mapping[str, tuple[str, float]] = {
    "physical read IO requests": ("PREADS", 1),
    "physical write IO requests": ("PWRITES", 1),
    "physical read total bytes": ("READ_MBS", 1 / _MIB),
    "physical write total bytes": ("WRITE_MBS", 1 / _MIB),
    "redo size": ("REDO_MBS", 1 / _MIB),
}
_EVENTS = {
    ("Foreground", "db file sequential read"): "DFSR_LAT",
    ("Foreground", "direct path read"): "DPR_LAT",
    ("Foreground", "db file parallel read"): "DFPR_LAT",
    ("Background", "db file parallel write"): "DFPW_LAT",
    ("Background", "log file parallel write"): "LFPW_LAT",
}
_WAITS = frozenset(_EVENTS.values())
_SECTION = re.compile(
    r"(?:(?P<whose>Foreground|Background) Wait Events|[A-Z][\w /]{3,60}) +DB/Inst: "
)
_BEGIN = "WORKLOAD REPOSITORY report for"
_ELAPSED = re.compile(r"\s{0,20}Elapsed:\s{1,40}(?P<minutes>[\d,]{1,12}\.\d{1,4}) \(mins\)")
_HOST = re.compile(r"(?P<host>\S{1,64})\s{1,40}Linux \S.{0,60}?\s{2,40}(?P<cpus>\d{1,5})\s")
_AVERAGE = re.compile(r"[\d,]{0,25}\.?\d{1,9}(?:ns|us|ms|s)\b")
_NUMBER = re.compile(r"\d[\d,]{0,25}(?:\.\d{1,9})?(?:E[+-]\d\d)?|\.\d{1,9}")


@dataclass
class _Report:
    """One AWR report, as far as it is read; `elapsed` is in seconds.

    `values` is a column of awr_info.sh -> value in that column's unit.
    """

    values: dict[str, float] = field(default_factory=dict)
    elapsed: float = 0.0
    host: dict[str, Fact] = field(default_factory=dict)
    waits: str = ""
    """The kind of wait events in the current lines: Foreground or Background; "" for neither."""


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each number of sessions in a table, or for each machine of AWR reports.

    `label` is the user's name for the runs.  Raises Impossible if the file has neither.
    """
    results = list(_table(source) if "FILE|SESSIONS|" in source.head else _reports(source))
    if not results:
        raise Impossible(f"{source.name} has neither rows of awr_info.sh nor an AWR report as text")
    return ImportResult(imported.runs(source, "slob", label, results), source.unread.all())


def _table(source: ImportSource) -> Iterator[ImportedStep]:
    names: Sequence[str] = ()
    for at, line in source.lines():
        cells = [cell.strip() for cell in line.strip().removesuffix("|").split("|")]
        if cells[:2] == ["FILE", "SESSIONS"]:
            names = cells[:100]
        elif names and len(names) - 1 <= len(cells) <= len(names) and _numeric(cells[3:5]):
            try:
                yield ImportedStep(_row(dict(zip(names, cells, strict=False))), {})
            except ValueError:
                source.unread.line(at, line)
        else:
            source.unread.line(at, line)


def _numeric(cells: Sequence[str]) -> bool:
    return all(_NUMBER.fullmatch(cell) for cell in cells)


def _row(cells: Mapping[str, str]) -> StepResult:
    values = {
        name: _number(cell)
        for name, cell in cells.items()
        # awr_info.sh writes a latency of 0 for an event that it has not found.
        if name in _METRICS and _NUMBER.fullmatch(cell) and not (name in _WAITS and cell == "0")
    }
    elapsed = cells.get("ELAPSED", "")
    return _step(
        values,
        spec={"sessions": words(cells["SESSIONS"])} if cells["SESSIONS"] else {},
        elapsed=_number(elapsed) if _NUMBER.fullmatch(elapsed) else 0.0,
        facts={"file": words(cells["FILE"]), "top_wait": words(cells.get("TOP WAIT", ""))},
    )


def _reports(source: ImportSource) -> Iterator[ImportedStep]:
    """Yield a step for each AWR report that has at least one of the known values.

    Lines before the first report, and lines without a known value, are ignored.  A line with a
    number that is too large is left out.
    """
    report: _Report | None = None
    for at, line in source.lines():
        if _BEGIN in line:
            if report is not None and report.values:
                yield _result(report)
            report = _Report()
        elif report is not None:
            try:
                _line(report, line)
            except ValueError:
                source.unread.line(at, line)
    if report is not None and report.values:
        yield _result(report)


def _line(report: _Report, line: str) -> None:
    text = line.strip()
    for begin, (column, factor) in {**_PER_SECOND, **_STATISTICS}.items():
        if text.startswith(begin) and column not in report.values:
            numbers = _NUMBER.findall(text[len(begin) :])
            # The load profile begins with the value per second, the statistics with the total.
            place = 1 if begin in _STATISTICS else 0
            if len(numbers) > place and text[len(begin) : len(begin) + 1] in (" ", ""):
                report.values[column] = _number(numbers[place]) * factor
            return
    if section := _SECTION.match(text):
        report.waits = section["whose"] or ""
    elif report.waits and _wait(report, text):
        return
    if (elapsed := _ELAPSED.match(line)) and not report.elapsed:
        report.elapsed = _number(elapsed["minutes"]) * 60
    elif (host := _HOST.match(line)) and not report.host:
        report.host = {"host.name": words(host["host"]), "cpu.threads": int(host["cpus"])}


def _wait(report: _Report, text: str) -> bool:
    """Add the mean wait of an event, in microseconds, to the report, from the line `text`.

    The line has the event's name, the number of waits, maybe a share, the total time in seconds,
    and the mean, in newer versions with its unit.  Without that unit the mean is computed, and
    left out if the total was rounded to 0.  Returns whether the line is of an event that is
    imported.
    """
    for (whose, event), column in _EVENTS.items():
        if whose == report.waits and text.startswith(f"{event} ") and column not in report.values:
            numbers = [_number(number) for number in _NUMBER.findall(text[len(event) :])]
            if len(numbers) in (5, 6) and numbers[0]:
                average = _AVERAGE.search(text[len(event) :])
                mean = (
                    imported.seconds(average[0].replace(",", ""))
                    if average
                    else numbers[-4] / numbers[0]
                )
                if mean:
                    report.values[column] = mean * 1e6
            return True
    return False


def _result(report: _Report) -> ImportedStep:
    return ImportedStep(_step(report.values, {}, report.elapsed, {}), report.host)


def _step(
    values: Mapping[str, float], spec: Mapping[str, str], elapsed: float, facts: Mapping[str, Fact]
) -> StepResult:
    return imported.step(
        "slob",
        "slob",
        elapsed=elapsed,
        spec=spec,
        measurements=_measurements(values),
        facts={key: value for key, value in facts.items() if value},
    )


def _measurements(values: Mapping[str, float]) -> Iterator[Measurement]:
    for column, value in values.items():
        metric, unit, factor, better = _METRICS[column]
        yield measured(f"slob.{metric}", value * factor, unit, better)


def _number(text: str) -> float:
    return number(text.replace(",", ""))
