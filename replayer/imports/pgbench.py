"""pgbench: reports with their progress lines, and logs (-l, also aggregated)."""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Latency, Measurement, Series, StepResult
from replayer.results import imported, stored_histogram
from replayer.results.imported import ImportedStep, ImportSource, measured, number, words

SIGN = re.compile(
    r"^(?:transaction type: |pgbench \(\d|progress: \d{1,12}\.\d s, |tps = \d)"
    r"|^\d{1,6} \d{1,9} \d{1,12} \d{1,4} 1\d{9} \d{1,6}\b"
    r"|^1\d{9} \d{1,9} \d{1,18} \d{1,18} \d{1,18} ",
    re.MULTILINE,
)

_NUMBER = r"(?P<v>\d{1,15}(?:\.\d{1,9})?)"
_OPTIONS = {
    "transaction type": "transaction",
    "scaling factor": "scale",
    "query mode": "mode",
    "number of clients": "clients",
    "number of threads": "threads",
    "duration": "duration",
    "number of transactions per client": "transactions",
}
_OPTION = re.compile(r"(?P<key>[a-z -]{1,60}): (?P<value>.{1,300})")
_VALUES: list[tuple[re.Pattern[str], str, str, float, Better]] = [
    (re.compile(pattern.replace("NUMBER", _NUMBER)), name, unit, factor, better)
    for pattern, name, unit, factor, better in (
        (r"tps = NUMBER \((?:excluding|without).{1,60}\)", "tps", "1/s", 1, Better.MORE),
        (r"tps = NUMBER(?: \(including.{1,60}\))?", "tps_with_connecting", "1/s", 1, Better.MORE),
        (r"latency average(?: =|:) NUMBER ms.{0,60}", "latency.mean", "s", 1e-3, Better.LESS),
        (r"latency stddev(?: =|:) NUMBER ms", "latency.deviation", "s", 1e-3, Better.LESS),
        (r"(?:initial|average) connection time = NUMBER ms", "connecting", "s", 1e-3, Better.LESS),
        (r"number of failed transactions: NUMBER \(.{1,30}\)", "failed", "", 1, Better.LESS),
        (r"number of transactions actually processed: NUMBER(?:/\d{1,15})?", "transactions", "", 1,
         Better.NEITHER),
    )
]  # fmt: skip
_PROGRESS = re.compile(
    r"progress: (?P<at>\d{1,15}(?:\.\d{1,9})?) s, (?P<tps>\d{1,15}(?:\.\d{1,9})?) tps, "
    r"lat (?P<lat>\d{1,15}(?:\.\d{1,9})?|NaN|-nan) ms(?: stddev (?P<dev>\S{1,20}))?.{0,200}"
)
_OTHER = re.compile(
    r"pgbench \(|starting vacuum|vacuuming|SQL script \d|- (?:weight|latency|\d{1,15} trans)"
    r"|rate limit schedule lag"
    r"|maximum number of tries|number of transactions (?:retried|above|skipped)"
    r"|total number of retries|statement latencies"
    r"|\d{1,9}\.\d{3}\s{1,20}\S|(?:dropping|creating|generating|done in|set primary)"
)
_LOG = re.compile(
    r"\d{1,9} \d{1,12} (?:\d{1,12}|[a-z]{4,20}) \d{1,6} \d{9,11} \d{1,6}(?: \S{1,20}){0,2}"
)
_AGGREGATE = re.compile(r"\d{9,11}(?: \d{1,20}(?:\.\d{1,9})?){5,16}")
_PERCENTILES = {50: "p50", 95: "p95", 99: "p99", 99.9: "p999"}
_MOST_SECONDS = 200_000
_WITH_FAILURES = 15
"""The number of columns of an interval's line that ends with its two numbers of failures."""


@dataclass
class _Report:
    """The report of one call of pgbench; `rows` are (seconds, metric -> value) of its progress."""

    spec: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Measurement] = field(default_factory=dict)
    rows: list[tuple[float, dict[str, float | None]]] = field(default_factory=list)


@dataclass
class _Log:
    """The transactions in a log that pgbench -l wrote."""

    times: dict[int, int] = field(default_factory=dict)
    """Microseconds of a transaction, to four digits -> number of such transactions."""
    seconds: dict[int, list[float]] = field(default_factory=dict)
    """Seconds since 1970 -> number of transactions, and the sum of their microseconds."""
    failed: int = 0
    skipped: int = 0
    is_complete: bool = True
    """False if the lines do not have the number of failed transactions."""
    interval: int = 1
    last: int = 0
    """Seconds since 1970 of the last line with an interval's sums; 0 without one."""
    longest: float = 0.0
    begin: float = math.inf
    end: float = 0.0
    """`begin` and `end` are the start of the first transaction and the end of the last.

    Both are in seconds since 1970.
    """

    def note(self, second: int, count: float, total: float, longest: float) -> None:
        """Add `count` transactions that ended in the `second`, counted since 1970.

        `total` and `longest` are their total and longest time, in microseconds.
        """
        sums = self.seconds.setdefault(second, [0.0, 0.0])
        sums[0] += count
        sums[1] += total
        self.longest = max(self.longest, longest)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each set of options of pgbench's reports, and one for the lines of a log.

    Reports with the same options are repeats of one run.  `label` is the user's name for the runs.
    Raises Impossible if the file has neither.
    """
    reports, log = _scan(source)
    steps = [ImportedStep(_step(report), {}) for report in reports if report.metrics]
    unfinished = sum(1 for report in reports if report.rows and not report.metrics)
    if unfinished:
        source.unread.say("pgbench's progress ends without a report: it did not come to its end")
    if log.seconds:
        steps.append(ImportedStep(_logged(log), {}))
    if not steps:
        raise Impossible(f"{source.name} has neither a report of pgbench nor a log of its -l")
    runs = imported.runs(source, "pgbench", label, steps)
    return ImportResult(tuple(map(imported.told_of_repeats, runs)), source.unread.all())


def _scan(source: ImportSource) -> tuple[list[_Report], _Log]:
    reports, log = [_Report()], _Log()
    for at, raw in source.lines():
        line = raw.strip()
        # A number may be larger than any that a machine has.
        with contextlib.suppress(ValueError):
            if _is_taken(reports, log, line):
                continue
        source.unread.line(at, line)
    return reports, log


def _is_taken(reports: list[_Report], log: _Log, line: str) -> bool:
    """Add a line to the last report or to the log; return whether it is known.

    Raises ValueError for a number that is too large.
    """
    if line[:1].isdigit() and _logline(log, line):
        return True
    if progress := _PROGRESS.fullmatch(line):
        _begun(reports, "tps").rows.append(_progress(progress))
        return True
    return bool(_value(reports, line) or _option(reports, line) or _OTHER.match(line))


def _begun(reports: list[_Report], metric: str) -> _Report:
    """Return the last of the reports, or a new one if the last has a value of `metric` already."""
    if f"pgbench.{metric}" in reports[-1].metrics:
        reports.append(_Report())
    return reports[-1]


def _value(reports: list[_Report], line: str) -> bool:
    for pattern, name, unit, factor, better in _VALUES:
        if match := pattern.fullmatch(line):
            metric = f"pgbench.{name}"
            value = number(match["v"]) * factor
            _begun(reports, name).metrics[metric] = measured(metric, value, unit, better)
            return True
    return False


def _option(reports: list[_Report], line: str) -> bool:
    option = _OPTION.fullmatch(line)
    if not option or option["key"] not in _OPTIONS:
        return False
    report = reports[-1]
    if option["key"] == "transaction type" and report.metrics:
        reports.append(_Report())
        report = reports[-1]
    report.spec[_OPTIONS[option["key"]]] = words(option["value"])
    return True


def _progress(match: re.Match[str]) -> tuple[float, dict[str, float | None]]:
    latency = number(match["lat"]) / 1000 if match["lat"][0].isdigit() else None
    return number(match["at"]), {"pgbench.tps": number(match["tps"]), "pgbench.latency": latency}


def _logline(log: _Log, line: str) -> bool:
    if _LOG.fullmatch(line):
        parts = line.split()
        if not parts[2].isdigit():
            # A skipped one did not fail: it was too late to begin (--latency-limit).
            log.skipped += parts[2] == "skipped"
            log.failed += parts[2] != "skipped"
            return True
        microseconds = int(parts[2])
        rounded = microseconds - microseconds % 10 ** max(0, len(parts[2]) - 4)
        log.times[rounded] = log.times.get(rounded, 0) + 1
        log.note(int(parts[4]), 1, microseconds, microseconds)
        end = int(parts[4]) + int(parts[5]) / 1e6
        log.begin, log.end = min(log.begin, end - microseconds / 1e6), max(log.end, end)
        return True
    if _AGGREGATE.fullmatch(line):
        parts = line.split()
        at, count, total, longest = (number(parts[place]) for place in (0, 1, 2, 5))
        # From PostgreSQL 15 on; before, failures are not in these lines.
        failures = parts[-2:] if len(parts) == _WITH_FAILURES else []
        log.failed += int(sum(map(number, failures)))
        log.is_complete = log.is_complete and bool(failures)
        second = int(at)
        # Not where the log of the next thread begins.
        if log.last and second > log.last:
            log.interval = second - log.last
        log.last = second
        log.note(second, count, total, longest)
        log.begin, log.end = min(log.begin, second), max(log.end, second + log.interval)
        return True
    return False


def _step(report: _Report) -> StepResult:
    # --progress-timestamp writes seconds since 1970.
    first = report.rows[0][0] if report.rows else 0.0
    begin = first if first > 1e8 else 0.0
    duration = re.match(r"\d{1,9}", report.spec.get("duration", ""))
    return imported.step(
        "pgbench",
        "pgbench",
        elapsed=number(duration[0]) if duration else 0.0,
        spec=report.spec,
        measurements=report.metrics.values(),
        watched=imported.series("", [(at - begin, values) for at, values in report.rows]),
    )


def _logged(log: _Log) -> StepResult:
    first, elapsed = min(log.seconds), max(log.end - log.begin, 1e-6)
    transactions = sum(count for count, _ in log.seconds.values())
    total = sum(microseconds for _, microseconds in log.seconds.values())
    latency = _latency(log)
    measurements = [
        measured("pgbench.tps", transactions / elapsed, "1/s"),
        measured("pgbench.transactions", transactions, "", Better.NEITHER),
        measured("pgbench.latency.max", log.longest * 1e-6, "s", Better.LESS),
        *_percentiles(latency),
    ]
    if log.is_complete:
        measurements.append(measured("pgbench.failed", log.failed, "", Better.LESS))
    if log.skipped:
        measurements.append(measured("pgbench.skipped", log.skipped, "", Better.LESS))
    if transactions:
        mean = total / transactions * 1e-6
        measurements.append(measured("pgbench.latency.mean", mean, "s", Better.LESS))
    return imported.step(
        "pgbench",
        "log",
        elapsed=elapsed,
        started=imported.stamp(first),
        measurements=measurements,
        latency={} if latency is None else {"transaction": latency},
        watched=_watched(log, first),
    )


def _latency(log: _Log) -> Latency | None:
    try:
        return (
            stored_histogram.encode({us * 1000: n for us, n in log.times.items()})
            if log.times
            else None
        )
    except ValueError:
        return None


def _percentiles(latency: Latency | None) -> Iterator[Measurement]:
    if latency is not None:
        values = stored_histogram.decode(latency.payload).get_percentile_to_value_dict(_PERCENTILES)
        for percent, name in _PERCENTILES.items():
            yield measured(f"pgbench.latency.{name}", values[percent] / 1e9, "s", Better.LESS)


def _watched(log: _Log, first: int) -> Series | None:
    """Return the transactions a second as a series, one row for each second or interval of the log.

    `first` is the first second of the log, since 1970.  Returns None for a log with more than
    200,000 rows.
    """
    if len(log.seconds) > _MOST_SECONDS:
        return None
    rows: list[tuple[float, Mapping[str, float | None]]] = [
        (float(second - first + log.interval), {"pgbench.tps": count / log.interval})
        for second, (count, _) in sorted(log.seconds.items())
    ]
    return imported.series(imported.stamp(first), rows)
