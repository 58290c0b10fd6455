"""measure_reads.rb: its times of listing and reading files are a walk.

A walk is a step that lists and reads the files of a folder.  The times are Ruby's Benchmark: user,
system, total and, in parentheses, real seconds.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from replayer.errors import Impossible
from replayer.imports import ImportResult
from replayer.model import Better, Fact, Measurement, StepResult
from replayer.results import imported
from replayer.results.imported import ImportedStep, ImportSource, measured, number

SIGN = re.compile(
    r"^\s{0,80}user +system +total +real|^list files\b.{0,20}\d+\.\d+ +\d+\.\d+", re.MULTILINE
)

_TIME = r"\s{1,40}(\d{1,9}\.\d{1,9})"
_TIMES = re.compile(
    r"(?P<what>(?:list|read)(?:ing)?\b[^\d(]{0,60}?):?" + _TIME * 3 + r"\s{1,40}\(?\s{0,40}"
    r"(\d{1,9}\.\d{1,9})\)?"
)
_HEADING = re.compile(r"\s{0,80}(?:seconds\s{1,40})?user\s{1,40}system\s{1,40}total\s{1,40}real")
_COUNT = re.compile(
    r"(?P<before>\d[\d,]{0,18})?\s{0,40}(?P<what>threads|directory[ _]entries|files|bytes)"
    r"[:=]?\s{0,40}(?P<after>\d[\d,]{0,18})?"
)


@dataclass
class _Walk:
    """The times and counts of one call of the script."""

    times: dict[str, tuple[float, ...]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each combination of machine and number of threads in the file.

    Each call of the script, which reads all files once, is a repeat.  Counts (threads, entries) may
    stand before or after a call's times.
    """
    walks: list[tuple[_Walk, dict[str, Fact]]] = []
    current = _Walk()
    host: dict[str, Fact] = {}
    for at, raw in source.lines():
        line = raw.strip()
        if times := _TIMES.fullmatch(line):
            kind = times["what"][:4]
            if kind in current.times:
                walks.append((current, host))
                current = _Walk(counts={k: v for k, v in current.counts.items() if k == "threads"})
            current.times[kind] = tuple(number(value) for value in times.groups()[1:])
        elif count := _COUNT.fullmatch(line):
            text = count["before"] or count["after"] or ""
            if text:
                current.counts[count["what"].replace(" ", "_")] = int(text.replace(",", ""))
        elif facts := imported.host(line):
            host = {**host, **facts}
        elif not _HEADING.fullmatch(line):
            source.unread.line(at, line)
    if current.times:
        walks.append((current, host))
    if not walks:
        raise Impossible(
            f"{source.name} has no times of measure_reads for listing or reading files"
        )
    steps = [ImportedStep(_step(walk), facts) for walk, facts in walks]
    return ImportResult(imported.runs(source, "measure_reads", label, steps), source.unread.all())


def _step(walk: _Walk) -> StepResult:
    threads = {"threads": walk.counts["threads"]} if "threads" in walk.counts else {}
    facts: dict[str, Fact] = {
        key: walk.counts[key] for key in ("threads", "directory_entries") if key in walk.counts
    }
    step = imported.step(
        "walk",
        "walk",
        elapsed=sum(times[-1] for times in walk.times.values()),
        spec={"tool": "measure_reads", **threads},
        measurements=_measurements(walk),
        facts=facts,
    )
    return step.model_copy(update={"notes": ("measure_reads does not say how cold it was",)})


def _measurements(walk: _Walk) -> Iterator[Measurement]:
    for key in ("files", "bytes"):
        if key in walk.counts:
            yield measured(f"walk.{key}", walk.counts[key], key, Better.NEITHER)
    for kind, (user, system, _, real) in walk.times.items():
        for name, value in (("user", user), ("system", system), ("real", real)):
            yield measured(f"walk.{kind}.{name}", value, "s", Better.LESS)
    if "bytes" in walk.counts and "read" in walk.times and walk.times["read"][-1]:
        yield measured("walk.throughput", walk.counts["bytes"] / walk.times["read"][-1], "bytes/s")
