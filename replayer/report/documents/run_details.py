"""The details of one run: every number with its unit, and where the data of each step came from.

Measurements, tables, facts, latencies and series are shown in the same way for all steps.  A step
whose numbers are usually shown in another form has a module `display` in its folder, which defines
that form.
"""

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from replayer import registry
from replayer.analysis import repeats
from replayer.analysis.capacity.client_hosts import TABLE as CLIENT_HOSTS
from replayer.model import Fact, Measurement, Run, Series, Status, StepResult
from replayer.report.document import (
    Document,
    Facts,
    Numbered,
    Part,
    Section,
    SparkLines,
    Table,
    Texts,
)
from replayer.report.documents import (
    account,
    client_hosts,
    collector_columns,
    run_summary,
    series_means,
    step_layout,
    step_proof,
    summary,
)
from replayer.report.documents.records import cell, condensed, heading, records
from replayer.report.documents.step_summary import RunsSummary, StepSummary
from replayer.report.sanitize import NOTE, lines, sanitize, short
from replayer.results import run_listing
from replayer.run.display import Sentence, Tone
from replayer.units import show, show_count, show_duration

_TONES: Mapping[str, Tone] = {
    Status.DONE: Tone.GOOD,
    Status.SKIPPED: Tone.UNCLEAR,
    Status.RUNNING: Tone.UNCLEAR,
}
# Settings for places, languages and logs, which do not show how the server works.
_QUIET = re.compile(
    r"lc_|log|listen_|unix_socket|port$|socket$|.*(?:zone|style|_config|_directory|_file)$",
    re.IGNORECASE,
)
_SHORT = 24
_EMPTY: tuple[object, ...] = (None, "", ())


def document(run: Run, path: Path | None = None) -> Document:
    """Return the details of a run; `path` is its result file, which is named in the report."""
    one = summary.summarise([run])
    remarks = Numbered(run_summary.numbered(one, [*_further(one, run)]))
    error = f": {run.error}" if run.error and not summary.reasons_of_end(run) else ""
    # The findings come first; the details that explain them follow.
    return Document(
        f"replayer run {run.id}",
        Sentence(f"{run_listing.state(run)}{error}", _tone(run_listing.state(run))),
        [
            Section("In short", [Facts([*_in_short(one, run)])], is_main=True),
            *(_step(results, run) for results in repeats.by_name(run.steps)),
            Section(
                "What to know about these numbers",
                [remarks] if remarks.items else [],
                is_main=True,
            ),
        ],
        answer=[Facts([(label, value) for label, value in _head(run, path) if str(value)])],
    )


def _further(one: RunsSummary, run: Run) -> Iterator[int]:
    """Yield the numbers, from 1, of the remarks that the report lists.

    Remarks with the reason why the run ended are left out, because the report has it already.
    """
    ends = [sanitize(reason) for reason in summary.reasons_of_end(run)]
    for number, point in enumerate(one.points, 1):
        if not any(end in point.text for end in ends):
            yield number


def _tone(status: str) -> Tone:
    return _TONES.get(status, Tone.BAD)


def _head(run: Run, path: Path | None) -> Iterator[tuple[str, str | Texts]]:
    workload = run.workload
    source = workload.source if workload.source != workload.name else ""
    yield "workload", lines([workload.name, source, summary.repeated(run)])
    yield "label", short(run.label)
    yield "notes", lines((short(note, NOTE) for note in run.notes), "; ")
    yield "tags", lines(short(f"{name}={text}") for name, text in run.tags.items())
    yield "started", f"{summary.stamp(run.started)}{summary.took(run)}"
    yield "taken up", lines(map(summary.stamp, run.resumed))
    yield from summary.cluster(run)
    yield from summary.host(run.host)
    yield from _engine(run)
    yield "result file", str(path or "")


def _engine(run: Run) -> Iterator[tuple[str, str | Texts]]:
    engine = run.engine
    if engine is None:
        return
    yield "engine", summary.engine(run)
    known = sorted(engine.settings.items(), key=lambda item: item[0] not in run.workload.settings)
    settings = [f"{name}={value}" for name, value in known if not _QUIET.match(name)]
    if len(settings) < len(known):
        settings.append(f"(and {len(known) - len(settings)} of locale, log and addresses)")
    yield "settings", Texts(settings, "  ")
    yield from ((key, _fact(key, value)) for key, value in engine.facts.items())


def _in_short(one: RunsSummary, run: Run) -> Iterator[tuple[str, Texts]]:
    """Yield (step, its main numbers) for each step; numbers of a repeated step are medians.

    A last pair has the label `control`: how much the machine's speed changed during the run, by
    calibrations before and after it.  It is left out if this is not known.
    """
    yield from ((step.name, _main_numbers(step)) for step in one.lines)
    shares = [
        f"{name} {statistics.median(after) / statistics.median(before) - 1:+.1%}"
        for name in dict.fromkeys(key.partition(".")[0] for key in run.control)
        for before, after in [(run.control.get(f"{name}.{w}", ()) for w in ("before", "after"))]
        if before and after and statistics.median(before)
    ]
    if shares:
        explanation = "(speed after the run against before, no disk or database involved)"
        yield "control", Texts([*shares, explanation])


def _main_numbers(step: StepSummary) -> Texts:
    """Return a step's main numbers; in parentheses, where its data was and other remarks."""
    inside = [
        step.data,
        f"medians of {step.repeats}" if step.repeats > 1 else "",
        "client-bound" if step.client_bound else "",
    ]
    words = "; ".join(filter(None, inside))
    return Texts([*step.figures, *([f"({words})"] if words else [])])


def _step(results: Sequence[StepResult], run: Run) -> Section:
    """Return the section of a step: all of its one result, or the medians of its repeats."""
    first, took = results[0], show_duration(sum(result.elapsed for result in results))
    kind = "" if first.name == first.step else f" ({first.step})"
    many = f"{len(results)} repeats, " if len(results) > 1 else ""
    parts = [
        Texts([*_asked(first)], "  ", Tone.QUIET),
        *_ends(results),
        *(_repeats(results, run) if many else _result(first, run)),
        *_notes(results),
    ]
    return Section(f"{first.name}{kind} · {many}{took}", parts, is_main=True, is_named=True)


def _asked(result: StepResult) -> Iterator[str]:
    """Yield `key=value` for the keys of a step's table in the workload file."""
    for key, value in result.spec.items():
        if key not in ("step", "name", "once") and value not in _EMPTY:
            yield f"{key}={_plain(value)}"


def _plain(value: object) -> str:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ends(results: Sequence[StepResult]) -> Iterator[Sentence]:
    """Yield a sentence for the results that did not end as "done": their status and reason."""
    for (status, reason), same in repeats.alike(results, lambda r: (r.status, r.reason)):
        if status is not Status.DONE:
            where = repeats.repeats_of(same) if len(results) > 1 else ""
            yield Sentence(f"{status.value}{where}: {reason}", _tone(status))


def _result(result: StepResult, run: Run) -> Iterator[Part]:
    """Yield the parts of a report with all numbers of one result of a step."""
    form = step_layout.of(result)
    for part in form.parts:
        yield from step_layout.parts(part, result)
    measurements = [m for m in result.measurements if m.metric not in form.metrics]
    yield Facts([*_measurements(measurements, form.glosses)])
    yield from client_hosts.parts(result, run)
    told = {*form.tables, CLIENT_HOSTS, account.LATENCY}
    for name, rows in result.tables.items():
        if name not in told and rows:
            yield from _table(name, rows)
    yield Facts([*_latencies(result)])
    yield from step_proof.of_result(result)
    shown = form.facts | client_hosts.FACTS
    facts = {key: value for key, value in result.facts.items() if key not in shown}
    if result.steady is not None:
        facts = {f"{result.step}.steady": result.steady.words, **facts}
    yield from _facts(facts, result.step)
    yield from account.parts(result)
    yield from _watched(result, run)


def _repeats(results: Sequence[StepResult], run: Run) -> Iterator[Part]:
    """Yield the parts about a repeated step: medians and ranges, and each repeat's origin of data.

    The uses of time (the account) are shown for one repeat only, the one with the median time.
    """
    for result in results:
        for part in step_layout.of(result).verbatim:
            yield from step_layout.parts(part, result)
    done = repeats.finished(results)
    if done:
        yield _ranges(done)
        yield from step_proof.of_repeats(done)
        yield from _middle_ceiling(done)
        if hosts := [*client_hosts.parts(done[-1], run)]:
            yield from [*step_layout.name_repeat(done), *hosts]
        yield from _middle_account(done)
        yield from _watched(done[-1], run, f"repeat {done[-1].repeat}, ")


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield a table of a result; for a collector, a few lines, because it has very many columns."""
    if name.partition(".")[0] in registry.names("collectors"):
        texts = condensed(rows)
        yield Facts([*zip([name, *[""] * (len(texts) - 1)], texts, strict=True)])
        return
    yield Sentence(name.replace("_", " "), Tone.QUIET)
    yield records(rows)


def _middle_ceiling(results: Sequence[StepResult]) -> Iterator[Part]:
    """Yield one line: the step's reads compared with the ceiling of the device, for one repeat.

    A ceiling is the reads per second of the device without a database.  The repeat is the one with
    the median reads per second.  Nothing is yielded if no repeat has a ceiling.
    """
    held = [result for result in results if result.facts.get("ceiling")]
    if held:
        ordered = sorted(held, key=lambda one: one.reads.per_second if one.reads else 0.0)
        middle = ordered[(len(ordered) - 1) // 2]
        words = f"ceiling of repeat {middle.repeat}, the middle one: {middle.facts['ceiling']}"
        yield Sentence(words)


def _middle_account(results: Sequence[StepResult]) -> Iterator[Part]:
    """Yield the account (the uses of time) of the repeat with the median time per operation.

    Nothing is yielded if no repeat has an account.
    """
    middle = account.middle(results)
    if middle is not None:
        yield Sentence(f"repeat {middle.repeat}, the middle one:", Tone.QUIET)
        yield from account.parts(middle)


def _ranges(results: Sequence[StepResult]) -> Table:
    rows = []
    for metric in dict.fromkeys(m.metric for result in results for m in result.measurements):
        same = [m for result in results for m in result.measurements if m.metric == metric]
        values, unit = [m.value for m in same], same[0].unit
        middle = statistics.median(values)
        spread = f"{(max(values) - min(values)) / abs(middle):.1%}" if middle else "-"
        shown = [show(value, unit) for value in (middle, min(values), max(values))]
        rows.append([metric, *shown, spread, str(len(values))])
    headings = ("metric", "median", "least", "most", "range / median", "n")
    return Table(headings, rows, numbers=range(1, len(headings)))


def _measurements(
    measurements: Sequence[Measurement], glosses: Mapping[str, str]
) -> Iterator[tuple[str, Texts]]:
    """Yield (label, values) of measurements; those with a common name, as `a.b.*`, share one line.

    `glosses` has metric -> a remark that follows its value.
    """
    for group, members in groupby(measurements, key=step_layout.group):
        if group:
            words = [f"{step_layout.leaf(m)} {summary.value_of(m)}" for m in members]
            yield group, Texts(words)
            continue
        for m in members:
            gloss = glosses.get(m.metric, "")
            yield step_layout.leaf(m), Texts([summary.value_of(m)], gloss=gloss)


def _latencies(result: StepResult) -> Iterator[tuple[str, str | Texts]]:
    """Yield (label, percentiles as text) of each kind of latency in a result.

    A kind is left out if its percentiles are among the step's measurements.
    """
    measured = {step_layout.group(m) for m in result.measurements}
    for kind, latency in result.latency.items():
        if not {kind, "latency", f"{kind}.latency", f"latency.{kind}"} & measured:
            yield f"{kind} latency", step_layout.percentiles(latency)


def _facts(facts: Mapping[str, Fact], step: str) -> Iterator[Part]:
    """Yield the facts of a result of the kind of step `step`, such as walk.

    Short facts are in one line, and each long fact has its own line.  Facts of another kind, such
    as `a.b` and `a.c`, share the line `a`.  Facts without a value are left out.
    """
    short: list[str] = []
    items: dict[str, list[str]] = {}
    for key, value in facts.items():
        kind, dot, rest = key.partition(".")
        text = _fact(key, value)
        if value in _EMPTY:
            continue
        if dot and kind != step:
            items.setdefault(kind, []).append(f"{rest}={text}")
        elif len(text) <= _SHORT:
            short.append(f"{heading(rest or kind)} {text}")
        else:
            items.setdefault(heading(rest or kind), []).append(text)
    yield Texts(short, " · ")
    yield Facts([(label, Texts(texts, "  ")) for label, texts in items.items()])


def _fact(key: str, value: Fact) -> str:
    if value in _EMPTY:
        return ""
    return lines(one.strip() for one in value) if isinstance(value, tuple) else cell(key, value)


def _watched(result: StepResult, run: Run, begin: str = "") -> Iterator[Part]:
    """Yield averages of the collectors over the window, and spark lines of the step's own rates.

    Events during the step follow.  `begin` is put before the titles of the averages.
    """
    series = result.series
    if series is None or not series.seconds:
        return
    inside = series.window or (0.0, series.seconds[-1])
    time = show_duration(inside[1] - inside[0])
    device = series.device or run.host.get("device.name") or "of the data"
    watched = {name.partition(".")[0] for name in series.columns}
    listed = watched - {result.step}
    for collector in sorted(watched & set(registry.names("collectors"))):
        shown = collector_columns.sheet(collector, series)
        if shown is None:
            continue
        listed.discard(collector)
        sheet = series_means.averages(series, collector, shown.columns.split())
        if sheet is not None:
            yield Sentence(begin + shown.title.format(device=device, time=time), Tone.QUIET)
            yield sheet
    yield SparkLines([*_sparks(result, series)])
    for mark in series.marks:
        yield Sentence(f"at {mark.at:.0f} s: {mark.kind}: {mark.text}", Tone.QUIET)
    if listed:
        number = len(series.seconds)
        intervals = f"{number} interval{'s' if number > 1 else ''}"
        yield Sentence(f"{lines(sorted(listed))}: {intervals} in the result file", Tone.QUIET)


def _sparks(
    result: StepResult, series: Series
) -> Iterator[tuple[str, Sequence[float | None], str]]:
    """Yield (name, values, range as text) of the step's own rates.

    Columns without a value, and series with only one point, are left out.
    """
    units = step_layout.of(result).units
    for name in sorted(series.columns):
        step, _, label = name.partition(".")
        values = series.columns[name]
        read = [value for value in values if value is not None]
        if step != result.step or not read or len(series.seconds) < 2:
            continue
        unit = units.get(name) or ("bytes/s" if label == "bytes" else "")
        low, high = (
            show(value, unit) if unit else f"{show_count(value)}/s"
            for value in (min(read), max(read))
        )
        yield label, values, f"{low} to {high}"


def _notes(results: Sequence[StepResult]) -> Iterator[Sentence]:
    for text in dict.fromkeys(note for result in results for note in result.notes):
        yield Sentence(f"note: {text}", Tone.UNCLEAR)
