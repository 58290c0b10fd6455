"""The summary of runs for a reader with one minute, as plain data for every form of output.

It has facts about the runs.  It has a line for each step: figures, proofs, and whether the figures
can be believed.  It has remarks, each once, with the number of runs that have it.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from replayer import registry
from replayer.analysis.advice.as_asked import (
    is_not_cold,
    is_other_work,
    other_than_asked,
)
from replayer.analysis.capacity.client_hosts import bound as client_bound
from replayer.analysis.repeats import alike, by_name, counted, finished, medians, repeats_of
from replayer.model import (
    Advice,
    Better,
    Cold,
    Fact,
    Measurement,
    Run,
    Status,
    StepResult,
    Temperature,
)
from replayer.report.documents import run_headline, step_layout, step_proof
from replayer.report.documents.combined_words import combine
from replayer.report.documents.step_summary import Remark, RunsSummary, StepSummary, Trust
from replayer.report.sanitize import NOTE, lines, sanitize, short
from replayer.run.display import Brief, Form
from replayer.units import show, show_duration, show_size

Kind = TypeVar("Kind", bound=Hashable)

_EMPTY: tuple[object, ...] = (None, "", ())
_NOT_AS_ASKED = ("coldness", "verdict")
"""The names of the warnings about steps whose data was not where it was requested to be."""
_MOST_VALUES = 3
"""The most values of one fact about the runs that are listed; of others, only the number is."""
_VARYING = re.compile(r"\([^()]*\)|[-+]?\d[\d.,:]*")
"""Parts of a sentence that may differ between runs although its meaning is the same: numbers and
examples in parentheses."""


def summarise(runs: Sequence[Run]) -> RunsSummary:
    """Return the summary of some runs: facts, a line for each step, remarks and the headline."""
    points = _points(runs)
    groups = by_name(step for run in runs for step in run.steps)
    lines_ = tuple(_line(results, runs, points) for results in groups)
    return RunsSummary(
        about=tuple(_about(runs)),
        lines=lines_,
        points=points,
        runs=len(runs),
        headline=run_headline.headline(runs, lines_),
    )


def with_headline(run: Run) -> Run:
    """Return a copy of a run with its headline in words; a run that has not ended is unchanged."""
    if run.status is Status.RUNNING:
        return run
    return run.model_copy(update={"headline": str(summarise([run]).headline)})


def reasons_of_end(run: Run) -> list[str]:
    """Return the reasons of steps that contain the run's error, or that the run's error contains.

    A report shows these only once.  The list is empty if no step caused the error.
    """
    error, reasons = run.error, [step.reason for step in run.steps if step.reason]
    return [reason for reason in reasons if error and (reason in error or error in reason)]


class _Deviation(NamedTuple):
    """A deviation from what was requested of a step.

    The step was not finished, or its data was not as cold, or not in the place, as requested.
    """

    step: str
    text: str
    reason: str = ""
    """The reason, as words that follow `text`; "" if it is not known, or is in `text`."""
    data: bool = False
    """True if the step's data was not as cold, or not in the place, as was requested."""
    todo: str = ""
    """An action that would help."""


def _deviations(run: Run) -> Iterator[_Deviation]:
    """Yield all that was not as requested in a run: ends of steps, coldness, origins of blocks."""
    for results in by_name(run.steps):
        name, several = sanitize(results[0].name), len(results) > 1
        for (status, reason), same in alike(results, lambda r: (r.status, r.reason)):
            if status is not Status.DONE:
                where = f"{name}{repeats_of(same) if several else ''}"
                text = f"{where}: {status.value}: {sanitize(reason)}"
                yield _Deviation(results[0].name, text)
        for text, same in alike(results, other_than_asked):
            if text:
                where = f"{name}{repeats_of(same) if several else ''}"
                cold = _furthest(same)
                reason = f": {sanitize(cold.why)}" if cold and cold.why else ""
                todo = sanitize(cold.todo) if cold else ""
                yield _Deviation(results[0].name, f"{where}: {text}", reason, True, todo)


def _furthest(results: Sequence[StepResult]) -> Cold | None:
    """Return the record of coldness that differs most from the request.

    For a cold read it is the one with most data in memory, for a hot read the one with least.
    Returns None if all results are as requested.
    """
    colds = [result.cold for result in results if result.cold is not None and is_not_cold(result)]
    hot = any(cold.asked is Temperature.HOT for cold in colds)
    chosen = min if hot else max
    return chosen(colds, key=lambda cold: cold.resident_share or 0.0, default=None)


def _line(
    results: Sequence[StepResult], runs: Sequence[Run], points: Sequence[Remark]
) -> StepSummary:
    done = finished(results)
    first = results[0]
    forms = [step_layout.of(result) for result in done or results[:1]]
    proofs = tuple(step_proof.proofs(results, forms))
    see = tuple(i for i, point in enumerate(points, 1) if first.name in point.steps)
    wrong = len(done) < len(results) or any(map(other_than_asked, done))
    wrong = wrong or any(map(is_other_work, done))
    doubted = bool(see) or not all(proof.good for proof in proofs)
    return StepSummary(
        name=sanitize(first.name),
        kind="" if first.name == first.step else sanitize(first.step),
        figures=_figures(done, forms) if done else (counted([one.status for one in results]),),
        data=_data(done),
        repeats=len(done),
        seconds=sum(result.elapsed for result in results),
        proofs=proofs,
        trust=Trust.NO if wrong else Trust.CARE if doubted else Trust.YES,
        client_bound=any(client_bound(result, run) for run in runs for result in _of(run, done)),
        brief=_brief(first.step, _with_medians(done, forms)),
        once=bool(first.spec.get("once")),
        measured=_is_measured(done, forms),
        see=see,
    )


def _with_medians(done: Sequence[StepResult], forms: Sequence[Form]) -> Sequence[Form]:
    """Return the form of each finished repeat, with the medians of all repeats as measurements.

    `forms` are those with the measurements of each repeat.
    """
    if len(done) < 2:
        return forms
    update = {"measurements": medians(done)}
    return [step_layout.of(one.model_copy(update=update)) for one in done]


def _brief(step: str, forms: Sequence[Form]) -> Brief:
    """Return a step in few words: its action, its main results and its proof.

    `forms` are those of its finished repeats, with medians.  `step` is the kind of the step.
    """
    briefs = [form.brief for form in forms]
    results = zip_longest(*(one.results for one in briefs), fillvalue="")
    return Brief(
        did=_combine(one.did for one in briefs) or _about_step(step),
        results=[_combine(texts) for texts in results],
        proof=_combine(one.proof for one in briefs),
        subject=next((sanitize(one.subject) for one in briefs if one.subject), ""),
        clause=_combine(one.clause for one in briefs),
    )


def _combine(texts: Iterable[str]) -> str:
    return combine([sanitize(text) for text in texts])


def _about_step(step: str) -> str:
    """Return the first line of the description of the step named `step`, without its full stop.

    The result is "" if there is no such step, or if the line is too long for the table of steps.
    """
    if step not in registry.names("steps"):
        return ""
    about = registry.about("steps", step).partition("\n")[0].rstrip(".")
    return short(about, step_proof.BRIEF) if len(about) <= step_proof.BRIEF else ""


def _of(run: Run, results: Sequence[StepResult]) -> list[StepResult]:
    return [result for result in results if any(result is step for step in run.steps)]


def _data(done: Sequence[StepResult]) -> str:
    return (
        counted([result.ledger.verdict.value for result in done if result.ledger])
        if any(result.ledger for result in done)
        else counted([result.cold.got.value for result in done if result.cold] or [""])
    )


def _figures(done: Sequence[StepResult], forms: Sequence[Form]) -> tuple[str, ...]:
    """Return a step's main numbers with their names, as medians of its repeats.

    `forms` are those of the finished repeats, `done`.
    """
    middle = {one.metric: one for one in medians(done)}
    usual = [one.metric for one in middle.values() if one.better is not Better.NEITHER][:2]
    wanted = dict.fromkeys(metric for form in forms for metric in form.headline or usual)
    return tuple(_figure(middle[metric]) for metric in wanted if metric in middle)


def _is_measured(done: Sequence[StepResult], forms: Sequence[Form]) -> bool:
    """Return whether a step has a rate, or a metric for which it is run, in any finished repeat."""
    leads = {metric for form in forms for metric in form.headline}
    return any(
        one.leading or one.better is Better.MORE or one.metric in leads for one in medians(done)
    )


def _figure(measurement: Measurement) -> str:
    leaf = "" if _is_named_by_unit(measurement) else step_layout.leaf(measurement)
    shown = show(measurement.value, measurement.unit)
    return sanitize(" ".join(filter(None, (step_layout.group(measurement), leaf, shown))))


def surroundings(facts: Mapping[str, Fact]) -> list[str]:
    """Return the hypervisor and the container in which a machine runs, such as `kvm` and `docker`.

    `facts` are those of the host.  What there is not, or what is not known, is left out.
    """
    found = [facts.get(key) for key in ("virtualisation", "container")]
    names = [str(kind) for kind in found if kind not in (None, "", "none")]
    return ["a hypervisor" if name == "yes" else sanitize(name) for name in names]


def value_of(measurement: Measurement) -> str:
    """Return a value with its unit, but without a unit that is already the metric's name.

    So `files 1,542 files` is avoided.
    """
    unit = "" if _is_named_by_unit(measurement) else measurement.unit
    return sanitize(show(measurement.value, unit))


def _is_named_by_unit(measurement: Measurement) -> bool:
    """Return whether the last word of a metric's name is its unit, as `walk.files` in files.

    It is always False for bytes, which are printed in another unit, such as GiB.
    """
    unit = measurement.unit
    return unit != "bytes" and unit.lower() == step_layout.leaf(measurement).lower()


def _points(runs: Sequence[Run]) -> tuple[Remark, ...]:
    """Return the remarks, each once: first everything that was not as requested, then advice.

    A remark that several runs have counts them.
    """
    loud: dict[str, Remark] = {}
    quiet: dict[tuple[str, ...], Remark] = {}
    for run in runs:
        # The headline of one run has its error.
        if run.error and len(runs) > 1 and not reasons_of_end(run):
            text = f"{run.status.value}: {sanitize(run.error)}"
            _count(loud, text, Remark(text, loud=True))
        remedies, used = _remedies(run), list[Advice]()
        for one in _deviations(run):
            advice = remedies.get(one.step) if one.data else None
            # One line has what was got and what to do; a remedy of several steps stands once.
            remedy = sanitize(advice.todo) if advice and advice not in used else ""
            todo = remedy if advice else one.todo
            used += [advice] if advice else []
            called = sanitize(advice.name) if advice else ""
            end = f"; {todo}" if todo else ""
            point = Remark(
                f"{one.text}{one.reason}{end}", loud=True, steps=(one.step,), name=called
            )
            # The reason has numbers, which differ between runs.
            _count(loud, f"{one.text}{end}", point)
        own: dict[tuple[str, ...], Remark] = {}
        for advice in run.advice:
            if advice in used:
                continue
            point = Remark(sanitize(str(advice)), steps=advice.steps, name=sanitize(advice.name))
            own.setdefault(_key(advice), point)
        for key, point in own.items():
            _count(quiet, key, point)
    return (*loud.values(), *quiet.values())


def _remedies(run: Run) -> dict[str, Advice]:
    """Return step -> advice for each step whose data was not where it was requested to be."""
    advices = [advice for advice in run.advice if advice.name in _NOT_AS_ASKED]
    return {step: advice for advice in advices for step in advice.steps}


def _count(points: dict[Kind, Remark], key: Kind, point: Remark) -> None:
    """Add the remark `point`; if `key` exists, add its steps and one run to the remark there."""
    same = points.get(key)
    if same is None:
        points[key] = point
        return
    steps = tuple(dict.fromkeys((*same.steps, *point.steps)))
    points[key] = replace(same, steps=steps, runs=same.runs + 1)


def _key(advice: Advice) -> tuple[str, ...]:
    """Return a key that is the same for advice that differs only in numbers and examples.

    Such advice of several runs becomes one remark.
    """
    found = advice.found.removeprefix(", ".join(advice.steps))
    return _VARYING.sub("#", found), _VARYING.sub("#", advice.todo)


def _about(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield (label, value) of facts about the runs; if runs differ, the first few values."""
    items: dict[str, dict[str, None]] = {}
    for run in runs:
        for label, value in _of_run(run):
            items.setdefault(label, {})[value] = None
    for label, values in items.items():
        known = [value for value in values if value]
        if known:
            more = f" | and {len(known) - _MOST_VALUES} more" if len(known) > _MOST_VALUES else ""
            yield label, " | ".join(known[:_MOST_VALUES]) + more


def _of_run(run: Run) -> Iterator[tuple[str, str]]:
    yield "workload", lines([run.workload.name, repeated(run)])
    yield from host(run.host)
    yield "engine", engine(run)
    yield "when", f"{stamp(run.started)}{took(run)}"
    yield "notes", lines((short(note, NOTE) for note in run.notes), "; ")
    yield "tags", lines(short(f"{name}={text}") for name, text in run.tags.items())
    yield from cluster(run)


def engine(run: Run) -> str:
    """Return the engine, its version, and whether replayer started the server; "" without one."""
    if run.engine is None:
        return ""
    place = "private server" if run.engine.place == "private" else "running server"
    return lines([f"{run.engine.name} {run.engine.version}", place])


def cluster(run: Run) -> Iterator[tuple[str, str]]:
    """Yield ("clients", names of the client hosts) and ("database", its host), as texts.

    A text is "" if the run did not have other hosts for this.
    """
    hosts, database = run.cluster.get("hosts"), run.cluster.get("database")
    yield "clients", lines(hosts) if isinstance(hosts, tuple) else ""
    yield "database", sanitize(database or "")


def repeated(run: Run) -> str:
    """Return the number of requested repeats as text; "" if there is only one."""
    return f"{run.workload.repeat} repeats" if run.workload.repeat > 1 else ""


def stamp(text: str) -> str:
    """Return a time stamp as `2026-01-31 12:00:00 UTC`; text of another form is only cleaned."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return sanitize(text)
    return f"{when:%Y-%m-%d %H:%M:%S} {when.tzname() or ''}".rstrip()


def took(run: Run) -> str:
    """Return the duration of a run as words that follow its start time, such as `, took 3 min`."""
    try:
        began, ended = (
            datetime.fromisoformat(run.started),
            datetime.fromisoformat(run.finished or ""),
        )
        seconds = (ended - began).total_seconds()
        # A step is timed by a clock that nothing sets; the two times of a run are wall-clock times.
        if seconds < 0:
            return ", duration not known (the clock was set back meanwhile)"
        return f", took {show_duration(seconds)}"
    except (ValueError, TypeError):
        return ", not finished" if run.finished is None else ""


def host(facts: dict[str, Fact]) -> Iterator[tuple[str, str]]:
    """Yield pairs of label and text about a host: its name, kernel, CPU, memory and device."""

    def get(key: str, form: str = "{}") -> str:
        value = facts.get(key)
        return "" if value in _EMPTY else form.format(sanitize(value))

    def size(key: str, form: str) -> str:
        value = facts.get(key)
        return form.format(show_size(value)) if isinstance(value, int | float) and value else ""

    yield "host", lines([get("host.name"), get("os.name"), *surroundings(facts)])
    yield "kernel", lines([get("kernel.release"), get("kernel.machine")], " ")
    mhz = facts.get("cpu.mhz")
    speed = f"{mhz:,.0f} MHz" if isinstance(mhz, int | float) else ""
    yield "CPU", lines([get("cpu.model"), get("cpu.threads", "{} threads"), speed])
    yield (
        "memory",
        lines(
            [
                size("memory.bytes", "{}"),
                size("memory.swap_bytes", "swap {}")
                or ("no swap" if facts.get("memory.swap_bytes") == 0 else ""),
                get("memory.transparent_huge_pages", "transparent huge pages {}"),
            ]
        ),
    )
    yield (
        "device",
        lines(
            [
                lines([get("device.name"), get("device.model", "({})")], " "),
                size("device.size_bytes", "{}"),
                get("device.scheduler", "scheduler {}"),
                get("device.read_ahead_kb", "read-ahead {} KiB"),
                lines([get("fs.type"), get("fs.options", "({})")], " "),
            ]
        ),
    )
