"""sysbench: reports of 0.4 to 1.1 (cpu, memory, fileio, threads, oltp).

Several reports of one test are its repeats.

If `uname -a` or os-release stands before the reports, each machine has a separate run.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Fact, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number, words

SIGN = re.compile(r"^sysbench v? ?\d+\.\d+", re.MULTILINE)

_MIB = 1 << 20
_BEGIN = re.compile(r"sysbench v? ?(\d+\.\d+[^\s:]{0,40})")
_THREADS = re.compile(r"Number of threads: (\d{1,9})")
_STARTED = re.compile(r"Threads started!.{0,40}")
_OPTIONS = {
    # an option in the report, before the work starts or (in 0.4) after it -> the key it becomes
    re.compile(pattern): key
    for pattern, key in {
        r"Prime numbers limit: (\S+)": "cpu_max_prime",
        r"Maximum prime number checked in CPU test: (\S+)": "cpu_max_prime",
        r"\s*block size: (\S+)": "block_size",
        r"\s*total size: (\S+)": "total_size",
        r"\s*operation: (\S+)": "operation",
        r"\s*scope: (\S+)": "scope",
        r"(\d{1,9} files, \S+ each)": "files",
        r"Block size (\S+)": "block_size",
        r"Using (.{1,40}) I/O mode": "io_mode",
        r"Doing (.{1,60}) (?:test|benchmark)": "mode",
        r"Read/Write ratio for combined random IO test: (\S+)": "rw_ratio",
        r"Extra file open flags: (.+)": "file_flags",
        r"Memory block size: (\S+)": "block_size",
        r"Memory transfer size: (\S+)": "total_size",
        r"Memory operations type: (\S+)": "operation",
        r"Memory scope type: (\S+)": "scope",
    }.items()
}
_NUMBER = r"(-?\d{1,18}(?:\.\d{1,18})?)"


def _metric(
    pattern: str, name: str, unit: str, better: Better = Better.MORE, factor: float = 1
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], list[Measurement]]]:
    """Return (pattern of a line in a report, function that makes the measurement from its match).

    `name` is the metric without `sysbench.`; {p} in it stands for a percentile.  `factor` converts
    the number in the line to `unit`.  In `pattern`, NUMBER stands for that number.
    """

    def make(match: re.Match[str]) -> list[Measurement]:
        given = match.groupdict().get("p")
        metric = name.format(p=_percentile(given) if given else "")
        return [measured(f"sysbench.{metric}", number(match["v"]) * factor, unit, better)]

    return re.compile(pattern.replace("NUMBER", _NUMBER.replace("(-", "(?P<v>-", 1))), make


def _percentile(text: str) -> str:
    """Return the name of a percentile, as in other metrics: p999 for 99.9 and p95 for 95."""
    return "p" + text.replace(".", "")


_PER_SECOND = r"\d+\s+\(NUMBER per sec\.\)"
_METRICS = [
    _metric(r"events per second:\s+NUMBER", "events_per_second", "1/s"),
    _metric(r"events/s \(eps\):\s+NUMBER", "events_per_second", "1/s"),
    _metric(r"reads/s:\s+NUMBER", "reads", "1/s"),
    _metric(r"writes/s:\s+NUMBER", "writes", "1/s"),
    _metric(r"fsyncs/s:\s+NUMBER", "fsyncs", "1/s"),
    _metric(r"read, MiB/s:\s+NUMBER", "read_throughput", "bytes/s", factor=_MIB),
    _metric(r"written, MiB/s:\s+NUMBER", "write_throughput", "bytes/s", factor=_MIB),
    # 1.1 has rate and throughput in one line
    _metric(r"read:\s+IOPS=NUMBER .{1,60}", "reads", "1/s"),
    _metric(r"write:\s+IOPS=NUMBER .{1,60}", "writes", "1/s"),
    _metric(r"fsync:\s+IOPS=NUMBER", "fsyncs", "1/s"),
    _metric(r"read:\s+IOPS=[\d.]+ NUMBER MiB/s .{1,40}", "read_throughput", "bytes/s",
            factor=_MIB),
    _metric(r"write:\s+IOPS=[\d.]+ NUMBER MiB/s .{1,40}", "write_throughput", "bytes/s",
            factor=_MIB),
    _metric(r"(?:Total operations|Operations performed): \d+ \(\s*NUMBER (?:per second|ops/sec)\)",
            "operations", "1/s"),
    _metric(r"[\d.]+ Mi?B transferred \(NUMBER Mi?B/sec\)", "throughput", "bytes/s", factor=_MIB),
    _metric(r"transactions:\s+" + _PER_SECOND, "transactions", "1/s"),
    _metric(r"queries:\s+" + _PER_SECOND, "queries", "1/s"),
    _metric(r"read/write requests:\s+" + _PER_SECOND, "requests", "1/s"),
    _metric(r"other operations:\s+" + _PER_SECOND, "other_operations", "1/s", Better.NEITHER),
    _metric(r"deadlocks:\s+" + _PER_SECOND, "deadlocks", "1/s", Better.LESS),
    _metric(r"ignored errors:\s+" + _PER_SECOND, "errors", "1/s", Better.LESS),
    _metric(r"reconnects:\s+" + _PER_SECOND, "reconnects", "1/s", Better.LESS),
    _metric(r"NUMBER Requests/sec executed", "requests", "1/s"),
    # 0.4 calls 2^20 bytes Mb
    _metric(r"Read [\d.]+[KMGT]?b\s+Written [\d.]+[KMGT]?b\s+Total transferred [\d.]+[KMGT]?b"
            r"\s+\(NUMBERKb/sec\)", "throughput", "bytes/s", factor=1 << 10),
    _metric(r"Read [\d.]+[KMGT]?b\s+Written [\d.]+[KMGT]?b\s+Total transferred [\d.]+[KMGT]?b"
            r"\s+\(NUMBERMb/sec\)", "throughput", "bytes/s", factor=_MIB),
    _metric(r"Read [\d.]+[KMGT]?b\s+Written [\d.]+[KMGT]?b\s+Total transferred [\d.]+[KMGT]?b"
            r"\s+\(NUMBERGb/sec\)", "throughput", "bytes/s", factor=1 << 30),
    _metric(r"total time:\s+NUMBERs", "elapsed", "s", Better.NEITHER),
    _metric(r"time elapsed:\s+NUMBERs", "elapsed", "s", Better.NEITHER),
    _metric(r"total number of events:\s+NUMBER", "events", "", Better.NEITHER),
    # 0.4.8 and older write seconds
    _metric(r"min:\s+NUMBERs", "latency.min", "s", Better.LESS),
    _metric(r"avg:\s+NUMBERs", "latency.mean", "s", Better.LESS),
    _metric(r"max:\s+NUMBERs", "latency.max", "s", Better.LESS),
    _metric(r"approx\.\s+(?P<p>\d{1,3}(?:\.\d{1,4})?) ?percentile:\s+NUMBERs", "latency.{p}", "s",
            Better.LESS),
    _metric(r"min:\s+NUMBER(?:ms)?", "latency.min", "s", Better.LESS, 1e-3),
    _metric(r"avg:\s+NUMBER(?:ms)?", "latency.mean", "s", Better.LESS, 1e-3),
    _metric(r"max:\s+NUMBER(?:ms)?", "latency.max", "s", Better.LESS, 1e-3),
    _metric(r"(?P<p>\d{1,3}(?:\.\d{1,4})?)th percentile:\s+NUMBER", "latency.{p}", "s",
            Better.LESS, 1e-3),
    _metric(r"approx\.\s+(?P<p>\d{1,3}(?:\.\d{1,4})?) percentile:\s+NUMBERms", "latency.{p}", "s",
            Better.LESS, 1e-3),
]  # fmt: skip
_HEADINGS = re.compile(
    r"(CPU speed|General statistics|Latency \(ms\)|Latency histogram.*|Threads fairness"
    r"|File operations|Throughput|SQL statistics|queries performed"
    r"|OLTP test statistics|Test execution summary|per-request statistics|response time"
    r"|total time taken by event execution"
    r"|events \(avg/stddev\)|execution time \(avg/stddev\))(?::.*)?"
    r"|(?:sum|read|write|other|total):\s*[\d.]+"
    r"|Done\.|Time limit exceeded, exiting\.{3}|\(last message repeated \d+ times\)"
    r"|Operations performed:  ?\d+ [Rr]eads?, \d+ [Ww]rites?, \d+ Other = \d+ Total"
)
_SECOND = re.compile(r"\[ {0,10}(?P<at>\d{1,12}(?:\.\d{1,6})?) ?s ?\] (?P<rest>.+)")
_PAIR = re.compile(
    r"(?P<name>thds|threads|tps|qps|eps|reads|writes|fsyncs|errors|err|reconnects|reconn)(?:/s)?:"
    r" {1,4}" + _NUMBER
)
_SAME = {"threads": "thds", "errors": "err/s", "err": "err/s"}
_SAME |= {"reconnects": "reconn/s", "reconn": "reconn/s"}


@dataclass
class _Report:
    """One report of sysbench, as far as it was read.

    `seconds` are (second of the test, name -> value) of its lines about intervals.
    """

    version: str
    host: Mapping[str, Fact]
    threads: int = 0
    options: dict[str, str] = field(default_factory=dict)
    metrics: list[Measurement] = field(default_factory=list)
    seconds: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    started: bool = False

    @property
    def test(self) -> str:
        """Return the name of sysbench's test, such as oltp, deduced from its metrics."""
        names = {m.metric.removeprefix("sysbench.") for m in self.metrics}
        for metric, test in (
            ("transactions", "oltp"),
            ("reads", "fileio"),
            ("requests", "fileio"),
            ("throughput", "memory"),
        ):
            if metric in names:
                return test
        return "cpu" if "cpu_max_prime" in self.options else "sysbench"


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each machine and each test with its options in the file.

    Equal tests are repeats of one run.  `label` is the user's name for the runs.  Raises Impossible
    if no report has results.
    """
    reports = _scan(source)
    complete = [report for report in reports if report.metrics]
    for index, report in enumerate(reports, start=1):
        if not report.metrics:
            source.unread.say(f"report {index} has no results: sysbench did not come to its end")
    if not complete:
        raise Impossible(f"{source.name} has no report of sysbench with results in it")
    results = [ImportedStep(_step(report), report.host) for report in complete]
    runs = imported.runs(source, "sysbench", label, results)
    return ImportResult(tuple(map(imported.told_of_repeats, runs)), source.unread.all())


def _scan(source: ImportSource) -> list[_Report]:
    reports: list[_Report] = []
    host: Mapping[str, Fact] = {}
    for at, line in source.lines():
        if begin := _BEGIN.match(line):
            reports.append(_Report(words(begin[1]), host))
        elif facts := imported.host(line):
            host = facts if "kernel.release" in facts else {**host, **facts}
        elif reports and not _understood(reports[-1], line):
            source.unread.line(at, line)
    return reports


def _understood(report: _Report, line: str) -> bool:
    """Add the values of a line to the report; return whether it is a known line of sysbench."""
    text = line.strip()
    if _STARTED.fullmatch(text):
        report.started = True
        return True
    if not report.started:
        _option(report, line)
        return True
    if second := _SECOND.fullmatch(text):
        return _seconds(report, second)
    matches = [(make, match) for p, make in _METRICS if (match := p.fullmatch(text))]
    report.metrics += [metric for make, match in matches for metric in make(match)]
    # 0.4 writes its options after the work.
    return bool(matches) or _option(report, line) or bool(_HEADINGS.fullmatch(text))


def _seconds(report: _Report, line: re.Match[str]) -> bool:
    """Add the values of a line about one interval to the report; return whether it has any.

    Values stay in sysbench's units: in its fileio test, reads and writes are in MiB/s.
    """
    pairs = {
        _SAME.get(pair["name"], pair["name"]): number(pair[2])
        for pair in _PAIR.finditer(line["rest"])
    }
    report.seconds.append((number(line["at"]), pairs))
    return bool(pairs)


def _option(report: _Report, line: str) -> bool:
    if threads := _THREADS.match(line):
        report.threads = int(threads[1])
        return True
    for pattern, key in _OPTIONS.items():
        if option := pattern.match(line):
            report.options[key] = words(option[1])
            return True
    return False


def _step(report: _Report) -> StepResult:
    elapsed = next((m.value for m in report.metrics if m.metric == "sysbench.elapsed"), 0.0)
    return imported.step(
        "sysbench",
        report.test,
        elapsed=elapsed,
        spec={"threads": report.threads, **report.options},
        measurements=report.metrics,
        watched=imported.series(
            "",
            [
                (at, {f"sysbench.{name}": value for name, value in pairs.items()})
                for at, pairs in report.seconds
            ],
        ),
        facts={"version": report.version},
    )
