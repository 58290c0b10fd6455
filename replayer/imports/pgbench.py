"""pgbench: reports with their progress lines, and logs (-l, also aggregated).

The logs that the threads of one run wrote, PREFIX.PID and PREFIX.PID.n, are one run if they are
given together.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replayer import assets
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
    r"pgbench \(|starting vacuum|vacuuming|SQL script \d"
    r"|- (?:weight|latency|\d{1,15} trans|number of|total number|statement latencies)"
    r"|rate limit schedule lag|maximum number of tries|total number of retries|statement latencies"
    r"|number of (?:transactions (?:retried|above|skipped)|(?:serialization|deadlock) failures)"
    r"|\d{1,9}\.\d{3}\s{1,20}\S|(?:dropping|creating|generating|done in|set primary)"
)
_LOG = re.compile(
    r"\d{1,9} \d{1,12} (?:\d{1,12}|[a-z]{4,20}) \d{1,6} \d{9,11} \d{1,6}(?: \S{1,20}){0,2}"
)
_AGGREGATE = re.compile(r"\d{9,11}(?: \d{1,20}(?:\.\d{1,9})?){5,16}")
_THREAD = re.compile(r"(?P<first>.*\.\d+)\.(?P<number>\d{1,6})", re.DOTALL)
"""The name of the log of another thread than the first one of pgbench."""
_PERCENTILES = {50: "p50", 95: "p95", 99: "p99", 99.9: "p999"}
_MOST_SECONDS = 200_000
_LONGEST_LINE = 400
_SKIPPED = 10
"""The place of the number of skipped transactions in an interval's line."""
_WITH_FAILURES = 15
"""The number of columns of an interval's line that ends with its two numbers of failures."""
_WHOLE = 0.99
"""The share of its transactions that a log has at least, unless pgbench logged a sample."""
_PAUSE = 1.0
"""Seconds between two runs, if the log of the later one is the first in the file."""


@dataclass
class _Report:
    """The report of one call of pgbench; `rows` are (seconds, metric -> value) of its progress."""

    spec: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Measurement] = field(default_factory=dict)
    rows: list[tuple[float, dict[str, float | None]]] = field(default_factory=list)


@dataclass
class _Client:
    """The transactions of one client in a log, which pgbench numbers without a gap."""

    first: int
    """The lowest number."""
    next: int
    """The lowest number that the client's next transaction can have."""
    lines: int = 0


@dataclass
class _Log:
    """The transactions in a log that pgbench -l wrote in one run."""

    clients: dict[str, _Client] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """Microseconds of a transaction, to four digits -> number of such transactions."""
    seconds: dict[int, list[float]] = field(default_factory=dict)
    """Seconds since 1970 -> number of transactions, and the sum of their microseconds."""
    failed: int = 0
    skipped: int = 0
    is_complete: bool = True
    """False if the lines do not have the number of failed transactions."""
    interval: int = 0
    """Seconds of an interval; 0 while it is not known."""
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

    def expected(self) -> int:
        """Return the number of transactions that the clients' numbers promise at least."""
        return sum(client.next - client.first for client in self.clients.values())

    def lines(self) -> int:
        """Return the number of lines about transactions."""
        return sum(client.lines for client in self.clients.values())


def group_files(names: Sequence[str]) -> list[list[str]]:
    """Return the names of files in groups: the log of a first thread, and those of the others.

    A file that does not begin as a log, such as a report, is one group.
    """
    groups: dict[str, list[str]] = {name: [] for name in names}
    threads = [
        thread for name in groups if (thread := _THREAD.fullmatch(name)) and _begins_a_log(name)
    ]
    for thread in sorted(threads, key=lambda thread: int(thread["number"])):
        if thread["first"] in groups:
            groups[thread["first"]].append(thread[0])
    others = {name for group in groups.values() for name in group}
    return [[name, *groups[name]] for name in names if name not in others]


def _begins_a_log(name: str) -> bool:
    try:
        with assets.open_regular(Path(name)) as file:
            line = file.readline(_LONGEST_LINE).decode(errors="replace").strip()
    except OSError:
        return False
    return bool(_LOG.fullmatch(line) or _AGGREGATE.fullmatch(line))


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each set of options of pgbench's reports, and one for the lines of logs.

    Reports with the same options, and logs, are repeats of one run.  `label` is the user's
    name for the runs.  Raises Impossible if the file has neither.
    """
    reports, logs = _scan(source)
    steps = [ImportedStep(_step(report), {}) for report in reports if report.metrics]
    unfinished = sum(1 for report in reports if report.rows and not report.metrics)
    if unfinished:
        source.unread.say("pgbench's progress ends without a report: it did not come to its end")
    lacks = _missing(source)
    steps += [ImportedStep(_logged(log, lacks), {}) for log in logs if log.seconds]
    if not steps:
        raise Impossible(f"{source.name} has neither a report of pgbench nor a log of its -l")
    runs = imported.runs(source, "pgbench", label, steps)
    return ImportResult(tuple(map(imported.told_of_repeats, runs)), source.unread.all())


def _missing(source: ImportSource) -> str:
    """Return the name of a log of another thread of the same run, "" if none is known."""
    if source.folder is None:
        return ""
    name = Path(source.name).name
    known = source.parts or (name,)
    numbers = (f"{name}.{number}" for number in range(1, len(known) + 1))
    others = [next(one for one in numbers if one not in known)]
    if thread := _THREAD.fullmatch(name):
        others.append(thread["first"])
    return next((one for one in others if (source.folder / one).is_file()), "")


def _scan(source: ImportSource) -> tuple[list[_Report], list[_Log]]:
    reports, logs = [_Report()], [_Log()]
    for at, raw in source.lines():
        line = raw.strip()
        # A number may be larger than any that a machine has.
        with contextlib.suppress(ValueError):
            if _is_taken(reports, logs, line):
                continue
        source.unread.line(at, line)
    return reports, logs


def _is_taken(reports: list[_Report], logs: list[_Log], line: str) -> bool:
    """Add a line to the last report or to the last log; return whether it is known.

    Raises ValueError for a number that is too large.
    """
    if _LOG.fullmatch(line):
        _transaction(logs, line.split())
        return True
    if _AGGREGATE.fullmatch(line):
        _interval(logs, line.split())
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


def _transaction(logs: list[_Log], parts: list[str]) -> None:
    """Add a transaction to the last of the logs, or to a new one if it is of another run.

    It is of another run if its client's numbers begin again, at a time outside of the log.
    """
    is_done = parts[2].isdigit()
    number, microseconds = int(parts[1]), int(parts[2]) if is_done else 0
    end = int(parts[4]) + int(parts[5]) / 1e6
    begin = end - microseconds / 1e6
    log = logs[-1]
    client = log.clients.setdefault(parts[0], _Client(number, number))
    if number < client.next and (begin >= log.end or end <= log.begin - _PAUSE):
        log, client = _Log(), _Client(number, number)
        log.clients[parts[0]] = client
        logs.append(log)
    client.first, client.lines = min(client.first, number), client.lines + 1
    # A skipped one does not count, so that the next one may have its number.
    client.next = max(client.next, number + is_done)
    if not is_done:
        # A skipped one did not fail: it was too late to begin (--latency-limit).
        log.skipped += parts[2] == "skipped"
        log.failed += parts[2] != "skipped"
        return
    rounded = microseconds - microseconds % 10 ** max(0, len(parts[2]) - 4)
    log.times[rounded] = log.times.get(rounded, 0) + 1
    log.note(int(parts[4]), 1, microseconds, microseconds)
    log.begin, log.end = min(log.begin, begin), max(log.end, end)


def _interval(logs: list[_Log], parts: list[str]) -> None:
    """Add an interval to the last of the logs, or to a new one if it is of another run.

    pgbench leaves no interval out, but the log of the next thread begins where that of the first
    thread did.
    """
    at, count, total, longest = (number(parts[place]) for place in (0, 1, 2, 5))
    second, log = int(at), logs[-1]
    after = second - log.last if log.last else 0
    if log.interval and (after > log.interval or second < log.begin - log.interval):
        log, after = _Log(), 0
        logs.append(log)
    # From PostgreSQL 15 on; before, failures are not in these lines.
    failures = parts[-2:] if len(parts) == _WITH_FAILURES else []
    log.failed += int(sum(map(number, failures)))
    log.is_complete = log.is_complete and bool(failures)
    skipped = number(parts[_SKIPPED]) if len(parts) > _SKIPPED else 0
    log.skipped += int(skipped)
    log.interval = log.interval or max(after, 0)
    log.last = second
    # Before PostgreSQL 15 the skipped ones are counted among the transactions.
    done = count if len(parts) >= _WITH_FAILURES else count - skipped
    log.note(second, done, total, longest)
    log.begin, log.end = min(log.begin, second), max(log.end, second + (log.interval or 1))


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


def _logged(log: _Log, lacks: str) -> StepResult:
    """Return the step of a log; `lacks` is the log of another thread of its run, "" if none."""
    first, elapsed = min(log.seconds), max(log.end - log.begin, 1e-6)
    transactions = sum(count for count, _ in log.seconds.values())
    total = sum(microseconds for _, microseconds in log.seconds.values())
    latency = _latency(log)
    notes = list(_doubts(log, lacks))
    measurements = [
        measured("pgbench.latency.max", log.longest * 1e-6, "s", Better.LESS),
        *_percentiles(latency),
    ]
    if not notes:
        measurements += _counts(log, transactions, elapsed)
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
        watched=None if notes else _watched(log, first),
        notes=notes,
    )


def _counts(log: _Log, transactions: float, elapsed: float) -> Iterator[Measurement]:
    """Yield the rate and the numbers of transactions of a log that has all of them."""
    yield measured("pgbench.tps", transactions / elapsed, "1/s")
    yield measured("pgbench.transactions", transactions, "", Better.NEITHER)
    if log.is_complete:
        yield measured("pgbench.failed", log.failed, "", Better.LESS)
    if log.skipped:
        yield measured("pgbench.skipped", log.skipped, "", Better.LESS)


def _doubts(log: _Log, lacks: str) -> Iterator[str]:
    """Yield why a log has only a part of the transactions of its run."""
    if log.lines() < _WHOLE * log.expected():
        yield (
            f"the log has {log.lines():,} of {log.expected():,} transactions, as with "
            f"--sampling-rate: rates and counts are left out, and latencies are those of the sample"
        )
    if lacks or (log.clients and "0" not in log.clients):
        reason = f"there is {words(lacks)}, too" if lacks else "it has no client 0"
        yield (
            f"the log is of a part of pgbench's threads, as {reason}: rates and counts are left "
            f"out, and latencies are those of the part; give the logs of all threads (-j) together"
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
    interval = log.interval or 1
    rows: list[tuple[float, Mapping[str, float | None]]] = [
        (float(second - first + interval), {"pgbench.tps": count / interval})
        for second, (count, _) in sorted(log.seconds.items())
    ]
    return imported.series(imported.stamp(first), rows)
