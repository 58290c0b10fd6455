"""sysbench's reports (cpu, memory, fileio, threads, oltp_*): several in one file are repeats."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replayer.errors import Impossible
from replayer.imports import Sheaf
from replayer.model import Better, Measurement, Series, Status, StepResult
from replayer.results import imported
from replayer.results.imported import measured, quoted

_MIB = 1 << 20
_BEGIN = re.compile(r"sysbench (\d+\.\d+\S*)")
_THREADS = re.compile(r"Number of threads: (\d+)")
_STARTED = "Threads started!"
_OPTIONS = {
    # what the report says before the work starts -> the key it becomes
    r"Prime numbers limit: (\S+)": "cpu_max_prime",
    r"\s+block size: (\S+)": "block_size",
    r"\s+total size: (\S+)": "total_size",
    r"\s+operation: (\S+)": "operation",
    r"\s+scope: (\S+)": "scope",
    r"(\d+ files, \S+ each)": "files",
    r"Block size (\S+)": "block_size",
    r"Using (.+) I/O mode": "io_mode",
    r"Doing (.+) test": "mode",
    r"Read/Write ratio for combined random IO test: (\S+)": "rw_ratio",
    r"Extra file open flags: (.+)": "file_flags",
}
_NUMBER = r"(-?\d+(?:\.\d+)?)"


def _metric(
    pattern: str, name: str, unit: str, better: Better = Better.MORE, factor: float = 1
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], list[Measurement]]]:
    """Return a line of the report and how its first number becomes a measurement."""

    def make(found: re.Match[str]) -> list[Measurement]:
        given = found.groupdict().get("p")
        metric = name.format(p=_percentile(given) if given else "")
        return [measured(f"sysbench.{metric}", float(found["v"]) * factor, unit, better)]

    return re.compile(pattern.replace("NUMBER", _NUMBER.replace("(-", "(?P<v>-", 1))), make


def _percentile(text: str) -> str:
    """Return p999 for 99.9 and p95 for 95, as everywhere in replayer."""
    return "p" + text.replace(".", "")


_METRICS = [
    _metric(r"events per second:\s+NUMBER", "events_per_second", "1/s"),
    _metric(r"events/s \(eps\):\s+NUMBER", "events_per_second", "1/s"),
    _metric(r"reads/s:\s+NUMBER", "reads", "1/s"),
    _metric(r"writes/s:\s+NUMBER", "writes", "1/s"),
    _metric(r"fsyncs/s:\s+NUMBER", "fsyncs", "1/s"),
    _metric(r"read, MiB/s:\s+NUMBER", "read_throughput", "bytes/s", factor=_MIB),
    _metric(r"written, MiB/s:\s+NUMBER", "write_throughput", "bytes/s", factor=_MIB),
    _metric(r"Total operations: \d+ \(\s*NUMBER per second\)", "operations", "1/s"),
    _metric(r"[\d.]+ MiB transferred \(NUMBER MiB/sec\)", "throughput", "bytes/s", factor=_MIB),
    _metric(r"transactions:\s+\d+\s+\(NUMBER per sec\.\)", "transactions", "1/s"),
    _metric(r"queries:\s+\d+\s+\(NUMBER per sec\.\)", "queries", "1/s"),
    _metric(r"ignored errors:\s+\d+\s+\(NUMBER per sec\.\)", "errors", "1/s", Better.LESS),
    _metric(r"reconnects:\s+\d+\s+\(NUMBER per sec\.\)", "reconnects", "1/s", Better.LESS),
    _metric(r"total time:\s+NUMBERs", "elapsed", "s", Better.NEITHER),
    _metric(r"time elapsed:\s+NUMBERs", "elapsed", "s", Better.NEITHER),
    _metric(r"total number of events:\s+NUMBER", "events", "", Better.NEITHER),
    _metric(r"min:\s+NUMBER", "latency.min", "s", Better.LESS, 1e-3),
    _metric(r"avg:\s+NUMBER", "latency.mean", "s", Better.LESS, 1e-3),
    _metric(r"max:\s+NUMBER", "latency.max", "s", Better.LESS, 1e-3),
    _metric(r"(?P<p>\d+(?:\.\d+)?)th percentile:\s+NUMBER", "latency.{p}", "s", Better.LESS, 1e-3),
]
_HEADINGS = re.compile(
    r"(CPU speed|General statistics|Latency \(ms\)|Latency histogram.*|Threads fairness"
    r"|File operations|Throughput|SQL statistics|queries performed|sum|read|write|other|total"
    r"|events \(avg/stddev\)|execution time \(avg/stddev\))(?::.*)?"
)
_SECOND = re.compile(r"\[ (?P<at>\d+(?:\.\d+)?)s \] (?P<rest>.+)")
_PAIR = re.compile(r"(?P<name>thds|tps|qps|eps|reads|writes|fsyncs|err/s|reconn/s): " + _NUMBER)


@dataclass
class _Report:
    """One report of the file, as far as it was read."""

    version: str
    threads: int = 0
    options: dict[str, str] = field(default_factory=dict)
    metrics: list[Measurement] = field(default_factory=list)
    seconds: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    started: bool = False

    @property
    def test(self) -> str:
        """Return which of sysbench's tests it is, by what it reports."""
        names = {m.metric.removeprefix("sysbench.") for m in self.metrics}
        for metric, test in (
            ("transactions", "oltp"),
            ("reads", "fileio"),
            ("throughput", "memory"),
            ("events_per_second", "cpu"),
        ):
            if metric in names:
                return test
        return "sysbench"


def read(path: Path, label: str) -> Sheaf:
    """Return a run for each kind of report in the file."""
    reports, unread = _scan(path)
    whole = [report for report in reports if report.metrics]
    unread += [
        f"{path}: report {number} has no results: sysbench did not come to its end"
        for number, report in enumerate(reports, start=1)
        if not report.metrics
    ]
    if not whole:
        raise Impossible(f"{path} has no report of sysbench with results in it")
    kinds: dict[str, list[_Report]] = {}
    for report in whole:
        kinds.setdefault(f"{report.test} {report.threads} {report.options}", []).append(report)
    runs = tuple(
        imported.run(
            "sysbench",
            path,
            label,
            number,
            steps=[_step(report, repeat) for repeat, report in enumerate(members, start=1)],
            name=f"sysbench-{members[0].test}",
            specs=[_spec(members[0])],
        )
        for number, members in enumerate(kinds.values(), start=1)
    )
    return Sheaf(runs, tuple(unread))


def _scan(path: Path) -> tuple[list[_Report], list[str]]:
    reports: list[_Report] = []
    unread = []
    for number, line in enumerate(imported.text(path).splitlines(), start=1):
        if begin := _BEGIN.match(line):
            reports.append(_Report(begin[1]))
        elif reports and line.strip() and not _understood(reports[-1], line):
            unread.append(f"{path}: line {number} cannot be read: {quoted(line)}")
    return reports, unread


def _understood(report: _Report, line: str) -> bool:
    """Take what a line says into the report; tell whether it says what sysbench's lines say."""
    words = line.strip()
    if words == _STARTED:
        report.started = True
        return True
    if not report.started:
        _option(report, line)
        return True
    if second := _SECOND.fullmatch(words):
        pairs = {found["name"]: float(found[2]) for found in _PAIR.finditer(second["rest"])}
        report.seconds.append((float(second["at"]), pairs))
        return bool(pairs)
    for pattern, make in _METRICS:
        if found := pattern.fullmatch(words):
            report.metrics += make(found)
            return True
    return bool(_HEADINGS.fullmatch(words))


def _option(report: _Report, line: str) -> None:
    if found := _THREADS.match(line):
        report.threads = int(found[1])
    for pattern, key in _OPTIONS.items():
        if found := re.match(pattern, line):
            report.options[key] = found[1]


def _spec(report: _Report) -> dict[str, str | int]:
    name = report.test
    return {"step": "sysbench", "name": name, "threads": report.threads, **report.options}


def _step(report: _Report, repeat: int) -> StepResult:
    elapsed = next((m.value for m in report.metrics if m.metric == "sysbench.elapsed"), 0.0)
    return StepResult(
        step="sysbench",
        name=report.test,
        repeat=repeat,
        status=Status.DONE,
        started="",
        elapsed=elapsed,
        spec=_spec(report),
        measurements=tuple(report.metrics),
        series=_series(report.seconds),
        facts={"version": report.version},
    )


def _series(seconds: Sequence[tuple[float, dict[str, float]]]) -> Series | None:
    if not seconds:
        return None
    names = dict.fromkeys(name for _, pairs in seconds for name in pairs)
    return Series(
        started="",
        seconds=tuple(at for at, _ in seconds),
        columns={
            f"sysbench.{name}": tuple(pairs.get(name) for _, pairs in seconds) for name in names
        },
    )
