"""The report of the same workload on several engines: a column for each engine, the answer first.

The JSON is the `asdict` of what `line_up` returns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from replayer.analysis.advice.leading_metrics import leader
from replayer.model import Cold, Run, Status, StepResult, Temperature
from replayer.report.document import Document, Table
from replayer.report.documents import run_screen, summary
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


def _headline(runs: Sequence[Run]) -> str:
    """Return a sentence with the times of the cold table scans of all engines, the fastest first.

    Scans that are proven to be cold come before the others.  If no engine has a cold scan, the
    sentence reports that.
    """
    scans = [(run, step) for run in runs for step in run.steps if _is_cold_scan(step)]
    timed = [(run, step, step.value("scan.elapsed")) for run, step in scans]
    known = sorted(
        ((run, step, value) for run, step, value in timed if value is not None),
        key=lambda one: one[2],
    )
    if not known:
        return "No engine has a cold scan of the table: see the rows below."
    same = len({step.facts.get("rows") for _, step, _ in known}) == 1
    rows = known[0][1].facts.get("rows")
    what = f"The same {show_count(rows)} rows" if same and isinstance(rows, int) else "The rows"
    times: dict[bool, list[str]] = {True: [], False: []}
    for run, step, value in known:
        times[_is_proven(step.cold)].append(f"{_title(run)} in {show_duration(value)}")
    parts = []
    if times[True]:
        by = "each proven cold by bytes that the process read of the device"
        parts.append(f"{what} read cold: {', '.join(times[True])}, {by}")
    if times[False]:
        begin = "not proven cold" if times[True] else f"{what} read, not proven cold"
        parts.append(f"{begin}: {', '.join(times[False])}")
    different = "" if same else " (the tables have different numbers of rows)"
    return sanitize(f"{'; '.join(parts)}{different}.")


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
    found = [next((step for step in run.steps if step.name == name), None) for run in runs]
    first = next(step for step in found if step is not None)
    named = _METRICS.get(first.step) or tuple(("", m.metric) for m in leader(first))
    for title, metric in named:
        label = f"{name}, {title}" if title else name
        yield (sanitize(label), *(_cell(step, metric) for step in found))
    dealt = [_fact(step, "dealt") for step in found]
    if any(dealt):
        yield (sanitize(f"{name}, dealt"), *dealt)
    proofs = [_proof(step) for step in found]
    if any(proofs):
        yield (sanitize(f"{name}, proof"), *proofs)


def _cell(step: StepResult | None, metric: str) -> str:
    if step is None:
        return "-"
    if step.status is not Status.DONE:
        return step.status.value
    measured = next((m for m in step.measurements if m.metric == metric), None)
    if measured is None:
        return "-"
    if measured.unit == "files":
        return show_count(round(measured.value))
    return show(measured.value, measured.unit)


def _fact(step: StepResult | None, name: str) -> str:
    return "" if step is None else sanitize(str(step.facts.get(name) or ""))


def _proof(step: StepResult | None) -> str:
    """Return a step's proof in few words: where its blocks came from, or how cold they were.

    It is "" for a step without a proof, or one that was not done.
    """
    if step is None or step.status is not Status.DONE:
        return ""
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
        for step in run.steps:
            if step.status is not Status.DONE:
                # A reason that is the engine's own begins with its title, too.
                reason = step.reason.removeprefix(f"{title}: ")
                yield sanitize(f"{title}: {step.name}: {step.status.value}: {reason}")
            elif step.cold is not None and step.cold.got is not step.cold.asked and step.cold.why:
                yield sanitize(f"{title}: {step.name}: {step.cold.why}")
        # The cost of the sessions' path is the last note of a step.
        paths = [step.notes[-1] for step in run.steps if step.step == "ranges" and step.notes]
        if paths:
            yield sanitize(f"{title}: {paths[0]}")
        sure = summary.summarise([run]).headline.sure
        if sure:
            yield sanitize(f"{title}: {sure}")


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
