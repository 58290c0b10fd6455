"""fio: JSON of 2.x and 3.x, also json+; every job or group of jobs is a step.

Reads, writes and trims stay separate, unless fio was set to unify them.  Several reports in a file
are interim reports of the last one (--status-interval), or repeats.  Reports that ran at the same
time, or on clients of different names, are of different machines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Advice, Better, Fact, Latency, Measurement, Run, StepResult
from replayer.results import imported, stored_histogram
from replayer.results.imported import ImportSource, measured, number, whole, words

SIGN = re.compile(r"\"fio version\"")

_SIDES = ("read", "write", "trim", "mixed")
_PERCENTILES = {"50": "p50", "95": "p95", "99": "p99", "99.9": "p999"}
_SUM = "All clients"
_WRONG = (KeyError, TypeError, ValueError, AttributeError)
_SAME_BEGIN = 2.0
"""Seconds by which computed starts of the same work can differ: times have whole seconds."""


@dataclass
class _Report:
    """The results of one machine in one JSON object of fio; its jobs are the steps.

    `begin` and `end` are in seconds since 1970, None if not known.  `operations` are those of each
    job, and `interim` the number of earlier reports of the same work.
    """

    steps: list[StepResult]
    version: str
    host: dict[str, Fact]
    begin: float | None
    end: float | None
    operations: list[float]
    interim: int = 0
    repeats: "list[_Report]" = field(default_factory=list)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return a key that is equal for reports of the same jobs on the same machine."""
        return self.version, str(self.host), [str(step.spec) for step in self.steps]


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each machine of the file, with the user's `label`.

    Raises Impossible if the file has no JSON report of fio.
    """
    reports = [report for keys in source.documents() for report in _reports(source, keys)]
    if not reports:
        why = f" ({source.unread.sentences[0]})" if source.unread.count else ""
        raise Impossible(
            f"{source.name} is not output of fio: it needs --output-format=json{why[:300]}"
        )
    runs = [
        _run(source, label, index, first)
        for index, first in enumerate(_machines(_final(reports)), start=1)
    ]
    return ImportResult(tuple(runs), source.unread.all())


def _reports(source: ImportSource, keys: Mapping[str, Any]) -> Iterator[_Report]:
    """Yield the report in `keys`, a JSON object of fio; with --client, one for each client."""
    # With several hosts, fio writes client_stats, and their sum after them.
    jobs = keys.get("jobs", keys.get("client_stats"))
    if "fio version" not in keys or not isinstance(jobs, list):
        source.unread.say("a JSON object in it is not fio's")
        return
    clients: dict[str, list[Any]] = {}
    for job in jobs:
        if not isinstance(job, dict):
            source.unread.say(f"a job cannot be read: {words(job)}")
        elif job.get("jobname") != _SUM or len(jobs) == 1:
            clients.setdefault(words(job.get("hostname", "")), []).append(job)
    for client, members in clients.items():
        report = _report(source, keys, client, members)
        if report.steps:
            yield report


def _report(
    source: ImportSource, keys: Mapping[str, Any], client: str, jobs: Sequence[Mapping[str, Any]]
) -> _Report:
    names: dict[str, int] = {}
    steps, operations, elapsed = [], [], [0.0]
    for job in jobs:
        try:
            steps.append(_step(job, names, keys))
            operations.append(sum(number(_side(job, s).get("total_ios", 0)) for s in _SIDES))
            elapsed.append(number(job.get("elapsed", steps[-1].elapsed)))
        except _WRONG as error:
            name = words(job.get("jobname", "without a name"))
            source.unread.say(f"job {name} cannot be read: {type(error).__name__} {words(error)}")
    end = _end(keys)
    return _Report(
        steps,
        version=words(keys["fio version"]),
        host={"host.name": client} if client else {},
        begin=None if end is None else end - max(elapsed),
        end=end,
        operations=operations,
    )


def _end(keys: Mapping[str, Any]) -> float | None:
    """Return when the report `keys` was written, in seconds since 1970; None if it has no time."""
    try:
        return number(keys["timestamp_ms"]) / 1000
    except _WRONG:
        pass
    try:
        return number(keys["timestamp"])
    except _WRONG:
        return None


def _final(reports: Sequence[_Report]) -> Iterator[_Report]:
    """Yield the final reports, without the interim ones of --status-interval.

    Each interim report is continued by the next report.
    """
    interim = 0
    for report, following in pairwise([*reports, None]):
        assert report is not None
        if following is not None and _goes_on(report, following):
            interim += 1
        else:
            report.interim, interim = interim, 0
            yield report


def _goes_on(report: _Report, following: _Report) -> bool:
    """Return whether a report is only an interim report of the work in the `following` report."""
    if report.kind != following.kind or len(report.operations) != len(following.operations):
        return False
    more = all(a <= b for a, b in zip(report.operations, following.operations, strict=True))
    if report.begin is None or following.begin is None:
        return more and report.steps[-1].elapsed < following.steps[-1].elapsed
    return more and abs(report.begin - following.begin) <= _SAME_BEGIN


def _machines(reports: Iterator[_Report]) -> list[_Report]:
    """Return the first report of each machine; its `repeats` are all reports of that machine."""
    firsts: list[_Report] = []
    latest: dict[str, _Report] = {}
    for report in reports:
        first = latest.get(str(report.kind))
        if first is not None and not _beside(first.repeats[-1], report):
            first.repeats.append(report)
        else:
            firsts.append(report)
            report.repeats = [report]
            latest[str(report.kind)] = report
    return firsts


def _beside(report: _Report, following: _Report) -> bool:
    """Return whether two reports overlap in time, which shows that they are of two machines."""
    if report.end is None or following.begin is None or following.end is None:
        return False
    return following.begin < report.end - _SAME_BEGIN < following.end


def _run(source: ImportSource, label: str, index: int, first: _Report) -> Run:
    last = first.repeats[-1]
    advice = []
    if len(first.repeats) > 1:
        advice.append(
            f"{len(first.repeats)} reports of one file, one after another, are taken as repeats on "
            f"one machine: import those of another machine from a file of their own"
        )
    interim = sum(report.interim for report in first.repeats)
    if interim:
        advice.append(f"{interim} interim reports of --status-interval were passed over")
    return imported.run(
        "fio",
        source,
        label,
        index,
        steps=[
            step.model_copy(update={"repeat": repeat})
            for repeat, report in enumerate(first.repeats, start=1)
            for step in report.steps
        ],
        name="fio",
        specs=[step.spec for step in first.steps],
        host=first.host,
        started=first.steps[0].started,
        finished="" if last.end is None else imported.stamp(last.end),
        advice=[Advice(found=sentence) for sentence in advice],
    )


def _step(job: Mapping[str, Any], names: dict[str, int], keys: Mapping[str, Any]) -> StepResult:
    """Return the step of a job of the report `keys`.

    If several jobs have the same name, the second is called NAME-2, and so on.  `names` counts the
    jobs of each name so far.
    """
    name = words(job["jobname"])
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}-{names[name]}"
    error = whole(job.get("error", 0))
    return imported.step(
        "fio",
        name,
        failure=f"fio's job {name} ended with error {error}" if error else "",
        started=_started(job),
        elapsed=_elapsed(job),
        spec=_options(keys, job),
        measurements=tuple(_measurements(job)),
        latency=dict(_latencies(job)),
        facts={"version": words(keys["fio version"])},
    )


def _started(job: Mapping[str, Any]) -> str:
    milliseconds = job.get("job_start")
    return "" if milliseconds is None else imported.stamp(number(milliseconds) / 1000)


def _elapsed(job: Mapping[str, Any]) -> float:
    """Return a job's duration in seconds: the longest time of its reads, writes or trims.

    job_runtime is used only if there is no such time: it is a sum over the jobs of a group.
    """
    sides = [number(_side(job, side).get("runtime", 0)) for side in _SIDES]
    return (max(sides) or number(job.get("job_runtime", 0))) / 1000


def _side(job: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    keys = job.get(side) or {}
    if not isinstance(keys, dict):
        raise TypeError(f"{side} is not an object")
    return keys


def _options(keys: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    options = {**keys.get("global options", {}), **job.get("job options", {})}
    return {words(key): words(value) for key, value in options.items()}


def _measurements(job: Mapping[str, Any]) -> Iterator[Measurement]:
    for side in _SIDES:
        values = _side(job, side)
        if values.get("total_ios", values.get("io_bytes")):
            yield measured(f"fio.{side}.iops", number(values["iops"]), "1/s")
            yield measured(f"fio.{side}.throughput", _throughput(values), "bytes/s")
            yield from _side_latency(side, values)
    for kind, key in (("user", "usr_cpu"), ("system", "sys_cpu")):
        if key in job:
            yield measured(f"fio.cpu.{kind}", number(job[key]), "%", Better.LESS)


def _throughput(values: Mapping[str, Any]) -> float:
    """Return the rate in bytes/s of `values`, a job's reads, writes or trims; fio 2 has KiB/s."""
    return number(values["bw_bytes"]) if "bw_bytes" in values else number(values["bw"]) * 1024


def _side_latency(side: str, values: Mapping[str, Any]) -> Iterator[Measurement]:
    """Yield percentiles and maximum of the completion latency of a `side`, in seconds.

    A side is a job's read, write, trim or mixed; `values` is its JSON object.  fio reports the
    latency in nanoseconds since version 3.0, and in microseconds before.
    """
    latency, factor = (
        (values["clat_ns"], 1e-9) if "clat_ns" in values else (values.get("clat", {}), 1e-6)
    )
    known = {f"{number(p):g}": value for p, value in latency.get("percentile", {}).items()}
    for percent, name in _PERCENTILES.items():
        if percent in known:
            seconds = number(known[percent]) * factor
            yield measured(f"fio.{side}.latency.{name}", seconds, "s", Better.LESS)
    if latency.get("N", latency.get("max")):
        seconds = number(latency["max"]) * factor
        yield measured(f"fio.{side}.latency.max", seconds, "s", Better.LESS)


def _latencies(job: Mapping[str, Any]) -> Iterator[tuple[str, Latency]]:
    """Yield (side, its latency histogram) of a job from the bins of fio's format json+.

    A side is read, write, trim or mixed.  Nothing is yielded for sides without bins.
    """
    for side in _SIDES:
        bins = _side(job, side).get("clat_ns", {}).get("bins")
        if bins:
            counts = {whole(value): whole(count) for value, count in bins.items()}
            yield side, stored_histogram.encode(counts)
