"""ORION: the summary, and its iops, mbps and lat CSV files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number, words

SIGN = re.compile(
    r"^(?:O?RION VERSION|ORION: ORacle IO Numbers|Maximum (?:Large MBPS|Small IOPS)=)"
    r"|^\"?Large/Small\"?\s{0,5},",
    re.MULTILINE,
)

_MIB = 1 << 20
_NUMBER = r"(\d{1,15}(?:\.\d{1,15})?)"
_AT = r" @ Small=(\d{1,6}) and Large=(\d{1,6})"
_BEGIN = re.compile(
    r"(?:O?RION VERSION|ORION: ORacle IO Numbers -- Version) ?(?P<version>\S{1,60})"
)
_MAXIMUM = re.compile(r"Maximum (?P<what>Large MBPS|Small IOPS)=(?P<value>[\d.]{1,30})" + _AT)
_MINIMUM = re.compile(r"Minimum Small Latency=(?P<value>[\d.]{1,30})(?P<unit> usecs)?" + _AT)
_LATENCY = re.compile(
    r"Small (?P<way>Read|Write) Latency: avg=(?P<avg>[\d.]{1,30}) us, min=(?P<min>[\d.]{1,30}) us, "
    r"max=(?P<max>[\d.]{1,30}) us, std dev=(?P<dev>[\d.]{1,30}) us" + _AT
)
_OPTION = re.compile(
    r"(?P<key>Test|Small IO size|Large IO size|I/?O Types|Sequential stream pattern"
    r"|Simulated Array Type|Writes?|Cache Size|Duration for each Data Point|Small Columns"
    r"|Large Columns|Total Data Points):,?\s{0,20}(?P<value>.{0,2000})",
    re.IGNORECASE,
)
_FILE = re.compile(r"Name: (?P<name>.{1,300}?)\s{1,20}Size: (?P<size>\d{1,18})")
_OTHER = re.compile(
    r"Command ?line:|These options|-\S|This maps to this test:|\d{1,9} files? found"
    r"|.{0,20}Latency Histogram @"
    r"|Latency:|\d{1,12} - \d{1,12}\s{1,20}us:|Calibration will|Using a large|Setting ftype"
    r"|[\w.-]{1,100}$"
    r"|Contains the |Each value |.{0,200}\bin (?:micro|milli)seconds\b",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\bin (?P<unit>micro|milli)seconds\b", re.IGNORECASE)
_MATRIX = re.compile(r"\"?Large/Small\"?\s{0,5},(?P<columns>.{1,4000})", re.IGNORECASE)


@dataclass
class _Test:
    """The results of one test in a summary of ORION, with the options of the test."""

    version: str = ""
    options: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Measurement] = field(default_factory=dict)
    where: str = ""
    """The metric to which the next read and write latencies belong."""


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each kind of test in a summary, or one run for a CSV file.

    Equal tests are repeats of one run.  `label` is the user's name for the runs.  Raises Impossible
    if the file has no results.
    """
    tests, rows = _scan(source)
    steps = [_step(test) for test in tests if test.metrics]
    if rows:
        steps.append(_matrix(source, rows))
    results = [ImportedStep(step, {}) for step in steps if step.measurements]
    if not results:
        raise Impossible(f"{source.name} has no results of ORION: give its summary.txt or a .csv")
    return ImportResult(imported.runs(source, "orion", label, results), source.unread.all())


def _scan(source: ImportSource) -> tuple[list[_Test], list[list[str]]]:
    tests: list[_Test] = [_Test()]
    rows: list[list[str]] = []
    for at, raw in source.lines():
        line = raw.strip()
        if _MATRIX.fullmatch(line) or (rows and "," in line):
            rows.append([cell.strip().strip('"') for cell in line.split(",")])
        elif begin := _BEGIN.match(line):
            tests.append(_Test(words(begin["version"])))
        elif maximum := _MAXIMUM.search(line):
            # A second maximum of one kind belongs to another test, whose beginning is missing.
            if maximum["what"] in tests[-1].options.get("seen", ""):
                tests.append(_Test())
            _maximum(tests[-1], maximum)
        elif not _understood(tests[-1], line):
            source.unread.line(at, line)
    return tests, rows


def _maximum(test: _Test, match: re.Match[str]) -> None:
    test.options["seen"] = test.options.get("seen", "") + match["what"]
    if match["what"] == "Large MBPS":
        name, value, unit = "orion.max_large_throughput", number(match["value"]) * _MIB, "bytes/s"
    else:
        name, value, unit = "orion.max_small_iops", number(match["value"]), "IOPS"
    test.metrics[name] = measured(name, value, unit)
    test.where = "max_small_iops"


def _understood(test: _Test, line: str) -> bool:
    """Add the values of a line of a summary to the test; return whether it is a line of ORION."""
    try:
        if minimum := _MINIMUM.search(line):
            # Up to 11.1 the value is in milliseconds, without a unit.
            factor = 1e-6 if minimum["unit"] else 1e-3
            _less(test, "orion.min_small_latency", number(minimum["value"]) * factor)
            test.where = "min_small_latency"
        elif latency := _LATENCY.search(line):
            for name in ("avg", "max"):
                metric = f"orion.{test.where or 'small'}.{latency['way'].lower()}_latency.{name}"
                _less(test, metric, number(latency[name]) * 1e-6)
        elif option := _OPTION.fullmatch(line):
            test.options[option["key"].lower().replace(" ", "_")] = words(option["value"])
        elif file := _FILE.search(line):
            test.options[f"file {words(file['name'])}"] = file["size"]
        else:
            return bool(_OTHER.match(line))
    except ValueError:
        return False
    return True


def _less(test: _Test, metric: str, value: float) -> None:
    test.metrics[metric] = measured(metric, value, "s", Better.LESS)


def _step(test: _Test) -> StepResult:
    options = {key: value for key, value in test.options.items() if key != "seen"}
    return imported.step(
        "orion",
        "orion",
        spec=options,
        measurements=test.metrics.values(),
        facts={"version": test.version} if test.version else {},
    )


def _matrix(source: ImportSource, rows: Sequence[Sequence[str]]) -> StepResult:
    """Return the step of one CSV file, whose cells are `rows`; it measures the file's best value.

    The file is a matrix: a column for each number of small outstanding I/Os, a row for each number
    of large ones.  The end of its name shows the metric: IOPS, throughput or latency.  Raises
    Impossible for latencies without the header lines, which have their unit.
    """
    kind = next((k for k in ("iops", "mbps", "lat") if f"{k}.csv" in source.name.lower()), "")
    if not kind:
        source.unread.say(
            "its name does not end in iops.csv, mbps.csv or lat.csv, which tells what"
        )
    head, *body = rows
    best = []
    for row in body:
        for column, cell in zip(head[1:], row[1:], strict=False):
            try:
                best.append((number(cell), f"small={words(column)} large={words(row[0])}"))
            except ValueError:
                if cell:
                    source.unread.say(f"the cell {words(cell)} is not a number")
    metric, unit, factor, better = {
        "iops": ("max_small_iops", "IOPS", 1.0, Better.MORE),
        "mbps": ("max_large_throughput", "bytes/s", float(_MIB), Better.MORE),
        "lat": ("min_small_latency", "s", 1.0, Better.LESS),
    }.get(kind, ("max", "", 1.0, Better.NEITHER))
    if kind == "lat":
        factor = _latency_unit(source)
    known = [pair for pair in best if pair[0]]
    choose = min if better is Better.LESS else max
    value, where = choose(known) if known else (0.0, "")
    return imported.step(
        "orion",
        kind or "matrix",
        measurements=[measured(f"orion.{metric}", value * factor, unit, better)] if known else [],
        facts={"at": where},
        tables={kind or "matrix": [{"at": at, "value": value} for value, at in best[:10_000]]},
    )


def _latency_unit(source: ImportSource) -> float:
    """Return the seconds of one unit in a CSV file of latencies, from its header lines."""
    unit = _UNIT.search(source.head)
    if unit is None:
        raise Impossible(
            f"{source.name} has no header line with the unit of its latencies, which are "
            f"milliseconds up to ORION 11.1 and microseconds later: give the file as ORION wrote "
            f"it, or its summary.txt"
        )
    return 1e-6 if unit["unit"].lower() == "micro" else 1e-3
