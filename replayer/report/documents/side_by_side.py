"""The report of the same workload on several engines: a column for each engine, the answer first.

The JSON is the `asdict` of what `line_up` returns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from replayer.analysis.advice.leading_metrics import leader
from replayer.analysis.repeats import alike, by_name, counted, finished, medians
from replayer.model import Cold, Run, Status, StepResult, Temperature
from replayer.report.document import Document, Table
from replayer.report.documents import run_screen, summary
from replayer.report.documents.combined_words import combine, span
from replayer.report.sanitize import sanitize, short
from replayer.run.display import Sentence
from replayer.units import show, show_count, show_duration, show_size

_METRICS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "build": (("time", "build.elapsed"),),
    "flush": (("time", "flush.elapsed"),),
    "walk": (("files", "walk.files"), ("bytes", "walk.bytes"), ("throughput", "walk.throughput")),
    "scan": (("time", "scan.elapsed"),),
    "ranges": (("rate", "ranges.completed"), ("p50", "ranges.service.p50")),
}
"""Kind of step -> ((name of a row, metric), ...).

A step of another kind has one row, its first leading metric, or none without such a metric.
"""


@dataclass(frozen=True)
class SideBySide:
    """The content of the report: a headline, a table with a column for each engine, and notes.

    The headline compares the times of the cold table scans of the engines.
    """

    headline: str
    scope: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def line_up(runs: Sequence[Run]) -> SideBySide:
    """Return the content of the report on these runs; each run is a column, in the given order."""
    names = [sanitize(run_screen.name_engine(run)) for run in runs]
    steps = list(dict.fromkeys(step.name for run in runs for step in run.steps))
    rows = tuple(row for step in steps for row in _rows(step, runs))
    return SideBySide(
        headline=_headline(runs),
        scope=_scope(runs),
        headings=("", *names),
        rows=rows,
        notes=tuple(_notes(runs)),
    )


def _scope(runs: Sequence[Run]) -> str:
    first = runs[0]
    machines = {str(run.host.get("machine.id") or run.host.get("host.name")) for run in runs}
    where = "on one machine" if len(machines) == 1 else f"on {len(machines)} machines"
    names = ", ".join(short(run.id) for run in runs)
    return sanitize(f"{first.workload.name}, {len(runs)} engines {where}: {names}")


class _ColdScan(NamedTuple):
    """The cold scans of one step on one engine: all its finished repeats."""

    engine: str
    seconds: float
    """The median of the repeats."""
    results: Sequence[StepResult]

    @property
    def unproven(self) -> int:
        """Return the number of repeats that are not proven to be cold."""
        return sum(not _is_proven(result.cold) for result in self.results)

    def __str__(self) -> str:
        """Return the engine and its time, and how many of several repeats are not proven cold."""
        words = f"{self.engine} in {show_duration(self.seconds)}"
        count = len(self.results)
        return words if self.unproven in (0, count) else f"{words} ({self.unproven} of {count})"


def _headline(runs: Sequence[Run]) -> str:
    """Return a sentence with the times of the cold table scans of all engines, the fastest first.

    The time of a repeated scan is a median.  Scans of which all repeats are proven to be cold come
    before the others.  If no engine has a cold scan, the sentence reports that.
    """
    known = sorted(_cold_scans(runs), key=lambda scan: scan.seconds)
    if not known:
        return "No engine has a cold scan of the table: see the rows below."
    sizes = [result.facts.get("rows") for scan in known for result in scan.results]
    same, rows = len(set(sizes)) == 1, sizes[0]
    what = f"The same {show_count(rows)} rows" if same and isinstance(rows, int) else "The rows"
    proven = [str(scan) for scan in known if not scan.unproven]
    others = [str(scan) for scan in known if scan.unproven]
    parts = []
    if proven:
        by = "each proven cold by bytes that the process read of the device"
        parts.append(f"{what} read cold: {', '.join(proven)}, {by}")
    if others:
        begin = "not proven cold" if proven else f"{what} read, not proven cold"
        parts.append(f"{begin}: {', '.join(others)}")
    repeats = [len(scan.results) for scan in known]
    if max(repeats) > 1:
        parts.append(span([f"medians of {count}" for count in repeats]))
    different = "" if same else " (the tables have different numbers of rows)"
    return sanitize(f"{'; '.join(parts)}{different}.")


def _cold_scans(runs: Sequence[Run]) -> Iterator[_ColdScan]:
    for run in runs:
        for results in by_name(filter(_is_cold_scan, run.steps)):
            times = [m.value for m in medians(results) if m.metric == "scan.elapsed"]
            yield from (_ColdScan(_title(run), seconds, results) for seconds in times)


def _title(run: Run) -> str:
    return run_screen.name_engine(run).rpartition(" ")[0] or run_screen.name_engine(run)


def _is_cold_scan(step: StepResult) -> bool:
    cold = step.cold
    return (
        step.step == "scan"
        and step.status is Status.DONE
        and cold is not None
        and cold.asked is Temperature.COLD
    )


def _is_proven(cold: Cold | None) -> bool:
    return cold is not None and cold.got is Temperature.COLD and bool(cold.own_bytes)


def _rows(name: str, runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a step: a column for each run, whose cell has all repeats of the step."""
    found = [[step for step in run.steps if step.name == name] for run in runs]
    every = [step for results in found for step in results]
    first = next(iter(finished(every)), every[0])
    named = _METRICS.get(first.step) or tuple(("", m.metric) for m in leader(first))
    for title, metric in named:
        yield (_label(name, title), *(_cell(results, metric) for results in found))
    for title, cells in (
        ("repeats", [_repeats(results) for results in found]),
        ("dealt", [_words(results, _dealt) for results in found]),
        ("proof", [_words(results, _proof) for results in found]),
    ):
        if any(cells):
            yield (_label(name, title), *cells)


def _label(name: str, title: str) -> str:
    return sanitize(f"{name}, {title}" if title else name)


def _cell(results: Sequence[StepResult], metric: str) -> str:
    """Return the median of a metric, with its unit; "-" if the step does not have it."""
    done = finished(results)
    if results and not done:
        return counted([step.status.value for step in results])
    measured = next((m for m in medians(done) if m.metric == metric), None)
    if measured is None:
        return "-"
    if measured.unit == "files":
        return show_count(round(measured.value))
    return show(measured.value, measured.unit)


def _repeats(results: Sequence[StepResult]) -> str:
    """Return of how many repeats the numbers are, and how the others ended; "" of one repeat."""
    if len(results) < 2:
        return ""
    ends = [
        f"{len(same)} {status.value}"
        for status, same in alike(results, lambda r: r.status)
        if status is not Status.DONE
    ]
    done = len(finished(results))
    numbers = [f"medians of {done}" if done > 1 else "of one repeat"] if done else []
    return ", ".join([*numbers, *ends])


def _words(results: Sequence[StepResult], words: Callable[[StepResult], str]) -> str:
    """Return words about the finished repeats of a step; those that differ are counted."""
    return combine([sanitize(words(step)) for step in finished(results)])


def _dealt(step: StepResult) -> str:
    return str(step.facts.get("dealt") or "")


def _proof(step: StepResult) -> str:
    """Return a result's proof in few words: where its blocks came from, or how cold they were.

    It is "" for a result without a proof.
    """
    if step.ledger is not None:
        moved = step.value("ranges.device_bytes")
        each = "" if moved is None else f", {show_size(round(moved))} each"
        return f"{step.ledger.verdict.value}{each}"
    cold = step.cold
    if cold is not None:
        own = "" if cold.own_bytes is None else f", {show_size(cold.own_bytes)} of disk"
        wrong = "" if cold.got is cold.asked else f"NOT {cold.asked.value.upper()}: "
        return f"{wrong}{cold.got.value}{own}"
    proven = step.facts.get("proven")
    return "" if proven is None else "0 dirty" if proven else "NOT PROVEN CLEAN"


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    for run in runs:
        title = _title(run)
        notes = (note for step in run.steps if (note := _note(step, title)))
        yield from (sanitize(f"{title}: {note}") for note in dict.fromkeys(notes))
        # The cost of the sessions' path is the last note of a step.
        paths = [step.notes[-1] for step in run.steps if step.step == "ranges" and step.notes]
        if paths:
            yield sanitize(f"{title}: {paths[0]}")
        sure = summary.summarise([run]).headline.sure
        if sure:
            yield sanitize(f"{title}: {sure}")


def _note(step: StepResult, title: str) -> str:
    """Return why a result was not done, or not as cold as requested; "" if it was as requested.

    `title` is that of the engine.
    """
    if step.status is not Status.DONE:
        # A reason that is the engine's own begins with its title, too.
        reason = step.reason.removeprefix(f"{title}: ")
        return f"{step.name}: {step.status.value}: {reason}"
    if step.cold is not None and step.cold.got is not step.cold.asked and step.cold.why:
        return f"{step.name}: {step.cold.why}"
    return ""


def document(one: SideBySide, again: str = "") -> Document:
    """Return the report of several engines side by side, from its content `one`.

    `again` is a note with the command that makes its page, "" for none.
    """
    return Document(
        "side by side",
        Sentence(one.headline),
        [Sentence(one.scope), Table(one.headings, one.rows)],
        notes=[*one.notes, *([again] if again else [])],
        is_answer_last=True,
    )
