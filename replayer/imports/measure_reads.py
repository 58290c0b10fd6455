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
    """The times and counts of one call of the script measure_reads.rb, and its machine's facts.

    `times` is `list` or `read` -> (user, system, total, real) seconds.
    """

    times: dict[str, tuple[float, ...]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    host: dict[str, Fact] = field(default_factory=dict)
    earlier: dict[str, int] = field(default_factory=dict)
    """The number of threads of the call before, which holds until another is printed."""

    def known(self) -> dict[str, int]:
        """Return all counts that are known of this call."""
        return self.earlier | self.counts


class _Walks:
    """The calls of the script so far; the last of them is not complete yet."""

    def __init__(self) -> None:
        self._current = _Walk()
        self._done: list[_Walk] = []

    def take_times(self, kind: str, times: tuple[float, ...]) -> None:
        """Add the times of listing or reading: each call has them once."""
        self._end_before(kind in self._current.times)
        self._current.times[kind] = times

    def take_count(self, name: str, count: int) -> None:
        """Add a count; a second one of the same name is that of the next call."""
        self._end_before(name in self._current.counts)
        self._current.counts[name] = count

    def take_host(self, facts: dict[str, Fact]) -> None:
        """Add facts of the machine; other values than the call's own are of the next call."""
        host = self._current.host
        self._end_before(any(host.get(key, value) != value for key, value in facts.items()))
        self._current.host = {**host, **facts}

    def all(self) -> list[_Walk]:
        """Return the calls that have times."""
        return [*self._done, *([self._current] if self._current.times else [])]

    def _end_before(self, other: bool) -> None:  # noqa: FBT001 - the condition of each caller
        """Begin the next call if the last one has times and this is not of the same call."""
        if other and self._current.times:
            known = {name: n for name, n in self._current.known().items() if name == "threads"}
            self._done.append(self._current)
            self._current = _Walk(host=self._current.host, earlier=known)


def read(source: ImportSource, label: str) -> ImportResult:
    """Return a run for each combination of machine and number of threads in the file.

    Each call of the script, which reads all files once, is a repeat.  Counts (threads, entries) may
    stand before or after a call's times.  `label` is the user's name for the runs.  Raises
    Impossible if the file has no such times.
    """
    walks = _Walks()
    for at, raw in source.lines():
        line = raw.strip()
        if times := _TIMES.fullmatch(line):
            walks.take_times(times["what"][:4], tuple(number(v) for v in times.groups()[1:]))
        elif count := _COUNT.fullmatch(line):
            if text := count["before"] or count["after"]:
                walks.take_count(count["what"].replace(" ", "_"), int(text.replace(",", "")))
        elif facts := imported.host(line):
            walks.take_host(facts)
        elif not _HEADING.fullmatch(line):
            source.unread.line(at, line)
    if not walks.all():
        raise Impossible(
            f"{source.name} has no times of measure_reads for listing or reading files"
        )
    steps = [ImportedStep(_step(walk), walk.host) for walk in walks.all()]
    return ImportResult(imported.runs(source, "measure_reads", label, steps), source.unread.all())


def _step(walk: _Walk) -> StepResult:
    known = walk.known()
    threads = {"threads": known["threads"]} if "threads" in known else {}
    facts: dict[str, Fact] = {
        key: known[key] for key in ("threads", "directory_entries") if key in known
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
