"""The report of one run: every number with its unit and its proof, at most 100 columns wide.

Measurements, tables, facts, latencies and series are shown in the same way for all steps.  If users
know the numbers of a step in another form, the module `display` in the step's folder defines it.
"""

import re
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from replayer import registry
from replayer.analysis.capacity.client_hosts import TABLE as CLIENT_HOSTS
from replayer.model import (
    Fact,
    Measurement,
    Run,
    Status,
    StepResult,
)
from replayer.report.document import Numbered
from replayer.report.documents import (
    account,
    client_hosts,
    collector_columns,
    run_summary,
    step_layout,
    step_proof,
    summary,
)
from replayer.report.documents.step_summary import StepSummary
from replayer.report.sanitize import NOTE, lines, sanitize, short
from replayer.report.terminal.tables import (
    Flow,
    NumberTable,
    Spark,
    averages,
    cell,
    condensed,
    heading,
    indented,
    line,
    pairs,
    records,
)
from replayer.report.writers import terminal_writer
from replayer.units import show, show_duration

Kind = TypeVar("Kind", bound=Hashable)

LOUD = "bold red"
_STATUS_STYLE = {Status.DONE: "green", Status.SKIPPED: "yellow", Status.RUNNING: "yellow"}
_LABEL = 10
# Settings for places, languages and logs, which do not show how the server works.
_QUIET = re.compile(
    r"lc_|log|listen_|unix_socket|port$|socket$|.*(?:zone|style|_config|_directory|_file)$",
    re.IGNORECASE,
)
_SHORT = 24
_EMPTY: tuple[object, ...] = (None, "", ())


def render(run: Run, path: Path | None = None) -> Group:
    """Return the report of a run, with the path of its result file if that is given."""
    # The findings come first; the details that explain them follow.
    parts: list[RenderableType] = [*_head(run), *_short(run)]
    for results in summary.by_name(run.steps):
        parts += _step(results[0], run) if len(results) == 1 else _repeats(results, run)
    return Group(*parts, *_tail(run, path))


def _head(run: Run) -> Iterator[RenderableType]:
    yield Text.assemble(
        "replayer run ",
        (sanitize(run.id), "bold"),
        "  ",
        (run.status.value, _STATUS_STYLE.get(run.status, LOUD)),
    )
    items = [
        ("workload", lines([run.workload.name, _path(run), summary.repeated(run)])),
        ("label", short(run.label)),
        ("notes", lines((short(note, NOTE) for note in run.notes), "; ")),
        ("tags", lines(short(f"{name}={text}") for name, text in run.tags.items())),
        ("started", f"{summary.stamp(run.started)}{summary.took(run)}"),
        ("taken up", lines(map(summary.stamp, run.resumed))),
        *summary.cluster(run),
        *summary.host(run.host),
        *_engine(run),
    ]
    yield pairs([item for item in items if item[1]], _LABEL)


def _path(run: Run) -> str:
    return run.workload.source if run.workload.source != run.workload.name else ""


def _engine(run: Run) -> Iterator[tuple[str, str | Text | Flow]]:
    engine = run.engine
    if engine is None:
        return
    yield "engine", summary.engine(run)
    known = sorted(engine.settings.items(), key=lambda item: item[0] not in run.workload.settings)
    settings = [
        f"{sanitize(name)}={sanitize(value)}" for name, value in known if not _QUIET.match(name)
    ]
    if len(settings) < len(known):
        settings.append(f"(and {len(known) - len(settings)} of locale, log and addresses)")
    yield "settings", Flow(settings)
    yield from (
        (sanitize(key), _fact(key, value))
        for key, value in engine.facts.items()
        if value not in _EMPTY
    )


def _step(result: StepResult, run: Run) -> Iterator[RenderableType]:
    """Yield the full report of one result of a step."""
    yield from _title(result.name, result, f"{show_duration(result.elapsed)}")
    if result.status is not Status.DONE:
        style = _STATUS_STYLE.get(result.status, LOUD)
        yield line(f"{result.status.value}: {sanitize(result.reason)}", style)
    form = step_layout.of(result)
    for part in form.parts:
        yield from step_layout.rendered(part, result)
    measurements = [m for m in result.measurements if m.metric not in form.metrics]
    yield from _measurements(measurements, form.glosses)
    yield from terminal_writer.show_parts(client_hosts.parts(result, run))
    told = {*form.tables, CLIENT_HOSTS, account.LATENCY}
    for name, rows in result.tables.items():
        if name not in told and rows:
            yield from _table(name, rows)
    yield from _latencies(result)
    yield from terminal_writer.show_parts(step_proof.of_result(result))
    shown = form.facts | client_hosts.FACTS
    facts = {key: value for key, value in result.facts.items() if key not in shown}
    if result.steady is not None:
        facts = {f"{result.step}.steady": result.steady.words, **facts}
    yield from _facts(facts, result.step)
    yield from account.parts(result)
    yield from _watched(result, run)
    yield from _notes([result])


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """Yield a table; one of a collector is condensed, because it has very many columns."""
    if name.partition(".")[0] in registry.names("collectors"):
        flows = condensed(rows)
        labels = [sanitize(name), *[""] * (len(flows) - 1)]
        yield indented(zip(labels, flows, strict=True))
        return
    yield line(sanitize(name.replace("_", " ")), "dim")
    yield records(rows)


def _repeats(results: Sequence[StepResult], run: Run) -> Iterator[RenderableType]:
    """Yield the report of a step's repeats: medians and ranges, and all proofs together."""
    done = [result for result in results if result.status is Status.DONE]
    took = show_duration(sum(result.elapsed for result in results))
    yield from _title(results[0].name, results[0], f"{len(results)} repeats, {took}")
    for (status, reason), same in summary.alike(results, lambda r: (r.status, r.reason)):
        if status is not Status.DONE:
            text = f"{status.value}{summary.repeats_of(same)}: {sanitize(reason)}"
            yield line(text, _STATUS_STYLE.get(status, LOUD))
    for result in results:
        for part in step_layout.of(result).verbatim:
            yield from step_layout.rendered(part, result)
    if done:
        yield _summary(done)
        yield from terminal_writer.show_parts(step_proof.of_repeats(done))
        yield from _middle_ceiling(done)
        yield from terminal_writer.show_parts(client_hosts.parts(done[-1], run))
        yield from _middle_account(done)
        yield from _watched(done[-1], run, f"repeat {done[-1].repeat}, ")
    yield from _notes(results)


def _middle_ceiling(results: Sequence[StepResult]) -> Iterator[RenderableType]:
    """Yield the ceiling of the median repeat: one line for any number of repeats."""
    held = [result for result in results if result.facts.get("ceiling")]
    if held:
        ordered = sorted(held, key=lambda one: one.reads.per_second if one.reads else 0.0)
        middle = ordered[(len(ordered) - 1) // 2]
        yield line(f"ceiling of repeat {middle.repeat}, the middle one: {middle.facts['ceiling']}")


def _middle_account(results: Sequence[StepResult]) -> Iterator[RenderableType]:
    """Yield the account of the median repeat."""
    middle = account.middle(results)
    if middle is not None:
        yield line(f"repeat {middle.repeat}, the middle one:", "dim")
        yield from account.parts(middle)


def _summary(results: Sequence[StepResult]) -> NumberTable:
    rows = []
    for metric in dict.fromkeys(m.metric for result in results for m in result.measurements):
        same = [m for result in results for m in result.measurements if m.metric == metric]
        values, unit = [m.value for m in same], same[0].unit
        middle = statistics.median(values)
        spread = f"{(max(values) - min(values)) / abs(middle):.1%}" if middle else "-"
        shown = [sanitize(show(value, unit)) for value in (middle, min(values), max(values))]
        rows.append([sanitize(metric), *shown, spread, str(len(values))])
    return NumberTable(["metric", "median", "least", "most", "range / median", "n"], rows)


def _title(name: str, result: StepResult, took: str) -> Iterator[RenderableType]:
    yield Text("")
    kind = "" if name == result.step else f" ({sanitize(result.step)})"
    yield _rule(Text.assemble((f"{sanitize(name)}{kind}", "bold"), f" · {took}"))
    asked = [
        sanitize(f"{key}={_plain(value)}")
        for key, value in result.spec.items()
        if _telling(key, value)
    ]
    if asked:
        yield line(Flow(asked, style="dim"))


def _telling(key: str, value: object) -> bool:
    return key not in ("step", "name", "once") and value not in _EMPTY


def _plain(value: object) -> str:
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _measurements(
    measurements: Sequence[Measurement], glosses: Mapping[str, str]
) -> Iterator[RenderableType]:
    """Yield each plain quantity on its own line; those with a common name, `a.b.*`, on one line."""
    items: list[tuple[str, str | Text | Flow]] = []
    for group, members in groupby(measurements, key=step_layout.group):
        same = list(members)
        if group:
            words = [sanitize(f"{step_layout.leaf(m)} {summary.value_of(m)}") for m in same]
            items.append((sanitize(group), Flow(words, "   ")))
        else:
            items += [(sanitize(step_layout.leaf(m)), _explained(m, glosses)) for m in same]
    if items:
        yield indented(items)


def _explained(measurement: Measurement, glosses: Mapping[str, str]) -> Text:
    gloss = glosses.get(measurement.metric, "")
    return Text.assemble(summary.value_of(measurement), (f"   {gloss}" if gloss else "", "dim"))


def _latencies(result: StepResult) -> Iterator[RenderableType]:
    """Yield percentiles of each histogram, unless the step has measurements of them."""
    measured = {step_layout.group(m) for m in result.measurements}
    items: list[tuple[str, str | Text | Flow]] = []
    for kind, latency in result.latency.items():
        if not {kind, "latency", f"{kind}.latency", f"latency.{kind}"} & measured:
            items.append((f"{sanitize(kind)} latency", step_layout.percentiles(latency)))
    if items:
        yield indented(items)


def _facts(facts: dict[str, Fact], step: str) -> Iterator[RenderableType]:
    """Yield short facts on shared lines, each long fact on its own, and facts `a.*` on one line."""
    short: list[str] = []
    items: dict[str, list[str]] = {}
    for key, value in facts.items():
        kind, dot, rest = key.partition(".")
        text = _fact(key, value)
        if value in _EMPTY:
            continue
        if dot and kind != step:
            items.setdefault(sanitize(kind), []).append(f"{sanitize(rest)}={text}")
        elif len(text) <= _SHORT:
            short.append(f"{heading(rest or kind)} {text}")
        else:
            items[heading(rest or kind)] = [text]
    if short:
        yield line(Flow(short, " · "))
    if items:
        yield indented((label, Flow(texts)) for label, texts in items.items())


def _fact(key: str, value: Fact) -> str:
    return lines(one.strip() for one in value) if isinstance(value, tuple) else cell(key, value)


def _watched(result: StepResult, run: Run, begin: str = "") -> Iterator[RenderableType]:
    """Yield the collectors' averages over the window, and spark lines of the step's own rates."""
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
        sheet = averages(series, collector, shown.columns.split())
        if sheet is not None:
            title = shown.title.format(device=sanitize(device), time=time)
            yield line(begin + title, "dim")
            yield sheet
    own = sorted(name for name in series.columns if name.startswith(f"{result.step}."))
    for name in own:
        if len(series.seconds) > 1:
            label, unit = (
                sanitize(name.partition(".")[2]),
                step_layout.of(result).units.get(name, ""),
            )
            yield Spark(label, series.columns[name], unit)
    for mark in series.marks:
        yield line(f"at {mark.at:.0f} s: {sanitize(mark.kind)}: {sanitize(mark.text)}", "dim")
    if listed:
        number = len(series.seconds)
        intervals = f"{number} interval{'s' if number > 1 else ''}"
        text = f"{lines(sorted(listed))}: {intervals} in the result file"
        yield line(text, "dim")


def _notes(results: Sequence[StepResult]) -> Iterator[RenderableType]:
    for text in dict.fromkeys(note for result in results for note in result.notes):
        yield line(f"note: {sanitize(text)}", "yellow")


def _short(run: Run) -> Iterator[RenderableType]:
    """Yield a line for each step: its main numbers (medians of repeats) and its data's origin."""
    items = [(one.name, _headline(one)) for one in summary.summarise([run]).lines]
    share = [
        f"{name} {(_middle(after) / _middle(before) - 1):+.1%}"
        for name in dict.fromkeys(key.partition(".")[0] for key in run.control)
        for before, after in [(run.control.get(f"{name}.{w}", ()) for w in ("before", "after"))]
        if before and after and _middle(before)
    ]
    if share:
        explanation = "speed after the run against before, no disk or database involved"
        items.append(("control", Flow([*map(sanitize, share), f"({explanation})"], "   ")))
    if items:
        yield Text("")
        yield _rule(Text("in short", style="bold"))
        yield indented(items)


def _headline(step: StepSummary) -> Flow:
    """Return a step's main numbers, and the place where its data was."""
    inside = [
        step.data,
        f"medians of {step.repeats}" if step.repeats > 1 else "",
        "client-bound" if step.client_bound else "",
    ]
    words = "; ".join(filter(None, inside))
    return Flow([*step.figures, f"({words})"] if words else step.figures, "   ")


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def _tail(run: Run, path: Path | None) -> Iterator[RenderableType]:
    one = summary.summarise([run])
    numbered = run_summary.numbered(one, range(1, len(one.points) + 1))
    if numbered:
        yield Text("")
        yield _rule(Text("what to know about these numbers", style="bold"))
        yield from terminal_writer.show_parts([Numbered(numbered)])
    if path is not None:
        yield Text("")
        yield Text(f"result file: {sanitize(path)}", overflow="fold")


def _rule(title: Text) -> Rule:
    return Rule(title, align="left", style="dim")
