"""The report of a machine sized by a profile: on at most 100 columns, as CSV or as Markdown.

It answers whether the database fits on the machine.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from replayer.analysis.profiles import usage
from replayer.load.objective import goals
from replayer.model import Run
from replayer.report.sanitize import sanitize
from replayer.report.terminal.tables import NumberTable, bullets, indented, line
from replayer.report.writers import csv_writer as csv
from replayer.report.writers import markdown_writer as markdown
from replayer.run.time_promise import about
from replayer.sizing.findings import Remedy, ResourceRow, here, last, required
from replayer.sizing.recommendation import RecommendedSize
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import Requirement
from replayer.sizing.sizing_plan import SizingPlan
from replayer.sizing.target import Fit
from replayer.sizing.verdict import FitVerdict
from replayer.units import show_count, show_duration, show_size, three

STYLES = {Fit.FITS: "bold green", Fit.DOES_NOT_FIT: "bold red", Fit.UNCLEAR: "bold yellow"}
_NEAR = 1.1
"""Two rates that are nearer to each other than this factor are one."""
_BAR = 20
"""Characters of a bar; the objective is at half of them."""


class SizingSummary(NamedTuple):
    """The content of a report on a machine that was sized by a profile."""

    sizing: Sizing
    run: Run
    verdict: FitVerdict


def beginning(sizing: Sizing, plan: SizingPlan, refutations: Sequence[str] = ()) -> Group:
    """Return the requirement and the plan of the run with its duration, to show before it starts.

    If `refutations` has sentences, nothing will be run: they show that the database cannot fit.
    """
    if refutations:
        return Group(
            _rule(f"what is required · {sanitize(sizing.source)}"),
            *_requirement(sizing),
            *_targets(sizing),
            _rule("what will be done · nothing: arithmetic alone refutes it"),
            *(line(sanitize(f"{Fit.DOES_NOT_FIT.value}: {words}")) for words in refutations),
        )
    steps = [
        (f"{number}.", f"{stage.words} ({about(stage.seconds)})")
        for number, stage in enumerate(plan.stages, 1)
    ]
    parts: list[RenderableType] = [
        _rule(f"what is required · {sanitize(sizing.source)}"),
        *_requirement(sizing),
        *_targets(sizing),
        _rule(f"what will be done · {about(plan.seconds)}"),
        indented(steps),
        bullets(
            (sanitize(words), "dim") for words in (*sizing.requirement.notes, *sizing.unproven)
        ),
    ]
    return Group(*parts)


def _targets(sizing: Sizing) -> Iterator[RenderableType]:
    """Yield the verdicts that follow from a target's known limits, without a run."""
    if sizing.judgements:
        yield _rule(f"limits by --target · {sanitize(sizing.target)}")
        yield bullets(
            (sanitize(f"{one.title}: {one.fit.value}: {one.words}"), STYLES[one.fit])
            for one in sizing.judgements
        )


def _rule(text: str) -> Rule:
    return Rule(Text(text, style="bold"), align="left", style="dim")


def render(one: SizingSummary) -> Group:
    """Return the verdict for the terminal, with the answer at its end."""
    verdict = one.verdict
    parts: list[RenderableType] = [
        _rule(title(one)),
        line("what is required", "bold"),
        *_requirement(one.sizing),
        *_resources(verdict),
        *_curve(one),
        *_listed("what would change the answer", map(changed, verdict.changes)),
        *_recommended(verdict),
        *_listed("seen at the source", verdict.source_notes),
        *_listed("not tested", verdict.not_tested),
        *_listed("otherwise than at the source", verdict.unproven),
        "",
        line(headline(verdict), STYLES[verdict.fit]),
        *(line(sanitize(words)) for words in behind(verdict)),
    ]
    return Group(*parts)


def title(one: SizingSummary) -> str:
    """Return the title of the report: source, host and server."""
    host = sanitize(one.run.host.get("host.name") or "this machine")
    engine = one.run.engine
    server = f"{engine.name} {engine.version}" if engine else ""
    return " · ".join(sanitize(word) for word in ("size", one.sizing.source, host, server) if word)


def headline(verdict: FitVerdict) -> str:
    """Return the verdict in one line."""
    return sanitize(verdict.headline)


def behind(verdict: FitVerdict) -> Iterator[str]:
    """Yield sentences on the verdict: further reasons, the resource that gives first.

    The last one is about load that replayer itself could not send in time, if there was any.
    """
    yield from verdict.reasons[1:]
    if verdict.first:
        yield f"first to give: {verdict.proof or verdict.first}"
    elif verdict.proof:
        yield f"what gives first is {verdict.proof}"
    if verdict.prediction:
        yield verdict.prediction
    if verdict.not_offered:
        yield f"not offered: {verdict.not_offered}"


def changed(change: Remedy) -> str:
    """Return a remedy in words; a prediction is marked as such."""
    return f"{change.words} (prediction)" if change.predicted else change.words


RECOMMENDED_HEADINGS = ("a machine should have", "", "of")


def recommended_rows(sizes: Iterable[RecommendedSize]) -> list[list[str]]:
    """Return a row for each recommended size, in the columns of RECOMMENDED_HEADINGS."""
    return [[one.resource, one.shown, sanitize(one.words)] for one in sizes]


def margin_words(wanted: Requirement) -> str:
    """Return the growth and headroom that a requirement has."""
    return f"growth {wanted.growth:g}, headroom {wanted.headroom:.0%}"


def _recommended(verdict: FitVerdict) -> Iterator[RenderableType]:
    if verdict.recommendation:
        yield ""
        yield line("a size that would fit, in cores as at the source", "bold")
        yield NumberTable(RECOMMENDED_HEADINGS, recommended_rows(verdict.recommendation), left=3)
    if verdict.confidence is not None:
        yield ""
        yield line(f"confidence in the profile: {verdict.confidence.words}", "bold")
        yield bullets((sanitize(words), "") for words in verdict.confidence.reasons)


def _listed(heading: str, texts: Iterable[str]) -> Iterator[RenderableType]:
    listed = [(sanitize(text), "") for text in texts]
    if listed:
        yield ""
        yield line(heading, "bold")
        yield bullets(listed)


def _requirement(sizing: Sizing) -> Iterator[RenderableType]:
    yield indented((label, sanitize(words)) for label, words in facts(sizing))
    # Show only the time of day: the day is in `facts`, and in the other formats.
    rows = [[name, at[-8:], words] for name, at, words in need_rows(sizing.requirement)]
    yield NumberTable(NEED_HEADINGS, rows, left=3)


def facts(sizing: Sizing) -> list[tuple[str, str]]:
    """Return pairs of label and text about the requirement as a whole."""
    wanted = sizing.requirement
    work = wanted.work
    cost = wanted.cpu_seconds_per_transaction
    pairs = [
        ("window", _window(wanted)),
        ("statements", rate(sizing)),
        ("", _two_rates(sizing)),
        ("mix", _mix(wanted, sizing)),
        ("objective", f"{sizing.objective}, from each statement's intended start"),
        (
            "working set",
            f"{show_size(wanted.working_set_bytes)}: {wanted.working_set_method}"
            if wanted.working_set_bytes
            else wanted.working_set_method,
        ),
        ("hit ratio", "" if work.hit_ratio is None else f"{work.hit_ratio:.2%} at the source"),
        ("CPU", "" if cost is None else f"{show_duration(cost)} a transaction at the source"),
        ("target", sizing.target),
    ]
    return [(label, words) for label, words in pairs if words]


def _two_rates(sizing: Sizing) -> str:
    """Return why the load's rate is not the one that the source counted; "" where they are near."""
    counted = sizing.requirement.need("statements")
    rate_there = None if counted is None else counted.meanwhile
    made = sizing.rate / sizing.requirement.factor
    if not rate_there or not made or 1 / _NEAR <= rate_there / made <= _NEAR:
        return ""
    return (
        f"the source counted {show_count(rate_there)}/s: BEGIN, COMMIT and statements of more or "
        f"fewer rows; one of the load's does the work of {three(rate_there / made)} of them"
    )


def _window(wanted: Requirement) -> str:
    length = show_duration(wanted.window)
    if wanted.percentile < 100:
        return f"p{wanted.percentile:g} of windows of {length}, by {wanted.leading}"
    begin, end = usage.clock(wanted.begin), usage.clock(wanted.end)
    return f"the busiest {length} by {wanted.leading}: {begin} to {end[-8:]}"


def rate(sizing: Sizing) -> str:
    """Return the required rate of statements as a product: measured rate, growth and headroom."""
    wanted = sizing.requirement
    terms = [f"{show_count(sizing.rate / wanted.factor)}/s"]
    terms += [f"{wanted.growth:g} growth"] if wanted.growth != 1 else []
    terms += [f"{1 + wanted.headroom:g} headroom"] if wanted.headroom else []
    product = " x ".join(terms)
    return product if len(terms) == 1 else f"{product} = {show_count(sizing.rate)}/s"


def _mix(wanted: Requirement, sizing: Sizing) -> str:
    total = sizing.rate / wanted.factor
    work = wanted.work
    compute = sizing.compute / wanted.factor
    parts = {
        "reads of a row": work.point,
        f"reads of {work.work_unit} rows": work.range,
        "updates" if work.update_rows == 1 else f"updates of {work.update_rows} rows": work.update,
        "inserts": work.insert,
        "scans": max(0.0, total - compute - work.point - work.range - work.update - work.insert),
        "CPU alone": compute,
    }
    shares = [(name, amount / total) for name, amount in parts.items() if total]
    return ", ".join(f"{share:.3g} {name}" for name, share in _percent(shares))


def _percent(shares: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    return ((f"% {name}", 100 * share) for name, share in shares if share > 1e-6)


NEED_HEADINGS = ("needed", "most at", "as arithmetic")


def need_rows(wanted: Requirement) -> list[list[str]]:
    """Return a row for each needed resource, in the columns of NEED_HEADINGS, with arithmetic."""
    return [
        [_titled(need.title, need.unit), usage.clock(need.begin), need.arithmetic]
        for need in wanted.needs
    ]


def _titled(name: str, unit: str) -> str:
    return f"{name}, MB" if unit == "MB/s" else name


RESOURCE_HEADINGS = ("resource", "verdict", "by", "required", "here", "times")


def resource_rows(verdict: FitVerdict) -> list[list[str]]:
    """Return a row for each resource with its verdict, in the columns of RESOURCE_HEADINGS."""
    return [
        [
            sanitize(row.resource),
            row.fit.value,
            _by(row),
            required(row),
            here(row),
            times(row),
        ]
        for row in verdict.rows
    ]


def _by(row: ResourceRow) -> str:
    """Return the source of a row's figures: `measured`, `predicted`, or "-" if unknown."""
    return row.known or "-"


def times(row: ResourceRow) -> str:
    """Return the multiple of the requirement that the machine has, with its interval."""
    if row.multiple is None:
        return "-"
    if row.low is None:
        return three(row.multiple)
    high = "-" if row.high is None else three(row.high)
    return f"{three(row.multiple)} ({three(row.low)} to {high})"


def _resources(verdict: FitVerdict) -> Iterator[RenderableType]:
    rows = resource_rows(verdict)
    if not rows:
        return
    yield ""
    yield line("resource by resource", "bold")
    yield NumberTable(RESOURCE_HEADINGS, rows, left=3)
    yield bullets((words, "dim") for words in sources(verdict))


def sources(verdict: FitVerdict) -> Iterator[str]:
    """Yield the origin of each resource's figures, if it is not the load itself."""
    for row in verdict.rows:
        if row.kind != "load":
            yield f"{sanitize(row.resource)}: {sanitize(row.proof)}"
        elif row.here is not None and row.proof != "measured under the load":
            yield f"{sanitize(row.resource)}: of the {sanitize(row.proof.removeprefix('the '))}"


# The load curve


def trials(run: Run) -> list[Mapping[str, Any]]:
    """Return the rows of a run's trials, the lowest rate first; [] without a capacity step."""
    step = last(run, "capacity")
    rows = step.tables.get("trials", ()) if step is not None else ()
    return sorted(rows, key=lambda row: (row["multiple"], row["p99_s"] or float("inf")))


def _curve(one: SizingSummary) -> Iterator[RenderableType]:
    rows = trials(one.run)
    if not rows:
        return
    goal = max(goals(one.sizing.objective), key=lambda goal: goal.percent)
    yield ""
    yield line(f"load curve: the bar is p99, its | {show_duration(goal.seconds)}", "bold")
    yield NumberTable(
        CURVE_HEADINGS,
        [[*curve_row(row, one), _bar(row, goal.seconds)] for row in rows],
        left=2,
    )
    ended = {row["ended"] for row in rows}
    yield line("; ".join(f"{word}: {ENDS[word]}" for word in ENDS if word in ended), "dim")


ENDS = {
    "held": "sustained within the objective",
    "failed": "not within the objective, or not sustained",
    "not offered": "replayer's own clients could not send so much",
    "void": "others on this machine disturbed it, so it does not count",
}
"""An end of a trial -> its meaning."""
CURVE_HEADINGS = ("", "ended", "times", "asked/s", "done/s", "p50", "p99", "p99")


def curve_row(row: Mapping[str, Any], one: SizingSummary) -> list[str]:
    """Return a trial as texts, in the columns of CURVE_HEADINGS without the last one."""
    return [
        _mark(row, one),
        sanitize(row["ended"]),
        three(row["multiple"]),
        show_count(round(row["asked_per_second"], 1)),
        show_count(round(row["throughput_per_second"], 1)),
        *("-" if row[key] is None else show_duration(row[key]) for key in ("p50_s", "p99_s")),
    ]


def _bar(row: Mapping[str, Any], goal: float) -> str:
    """Return a trial's p99 as a bar; the objective is at its middle."""
    half = _BAR // 2
    share = _BAR if row["p99_s"] is None else round(half * row["p99_s"] / goal)
    filled = "#" * max(1, min(_BAR, share))
    bar = filled.ljust(_BAR, ".")
    return f"{bar[:half]}|{bar[half:]}"


def _mark(row: Mapping[str, Any], one: SizingSummary) -> str:
    multiple = float(row["multiple"])
    if math.isclose(multiple, 1, rel_tol=1e-6):
        return "required"
    step = last(one.run, "capacity")
    accepted = step.value("capacity.multiple") if step is not None else None
    if accepted is not None and math.isclose(multiple, accepted, rel_tol=1e-5):
        return "highest"
    return ""


# Other forms

_CSV = (
    *("resource", "verdict", "unit", "required", "here", "multiple", "low", "high", "proof"),
    "known",
)


def as_csv(one: SizingSummary) -> str:
    """Return CSV with a row for the total, then one for each resource."""
    return csv.written(_csv(one))


def _csv(one: SizingSummary) -> Iterator[Sequence[object]]:
    verdict = one.verdict
    yield _CSV
    total = (verdict.multiple, verdict.low, verdict.high)
    yield ("total", verdict.fit.value, "1/s", one.sizing.rate, "", *map(_blank, total),
           "; ".join(verdict.reasons), "")  # fmt: skip
    for row in verdict.rows:
        numbers = (row.required, row.here, row.multiple, row.low, row.high)
        yield (row.resource, row.fit.value, row.unit, *map(_blank, numbers), row.proof,
               row.known)  # fmt: skip


def _blank(value: float | None) -> object:
    return "" if value is None else value


def as_markdown(one: SizingSummary) -> str:
    """Return the verdict as Markdown, e.g. for a ticket."""
    return "\n\n".join(_markdown(one)) + "\n"


def _markdown(one: SizingSummary) -> Iterator[str]:
    verdict = one.verdict
    yield f"**{markdown.plain(headline(verdict))}**"
    yield _bulleted([title(one), *behind(verdict)])
    pairs = [[label, words] for label, words in facts(one.sizing)]
    yield markdown.table(["what is required", ""], pairs)
    yield markdown.table(NEED_HEADINGS, need_rows(one.sizing.requirement))
    if verdict.rows:
        yield markdown.table(RESOURCE_HEADINGS, resource_rows(verdict))
        yield _bulleted(sources(verdict))
    rows = trials(one.run)
    if rows:
        yield markdown.table(CURVE_HEADINGS[:-1], [curve_row(row, one) for row in rows])
    if verdict.recommendation:
        sizes = recommended_rows(verdict.recommendation)
        yield markdown.table(RECOMMENDED_HEADINGS, sizes)
    if verdict.confidence is not None:
        words = f"confidence in the profile: {verdict.confidence.words}"
        yield _bulleted([words, *verdict.confidence.reasons])
    for heading, texts in lists(verdict):
        if texts:
            yield f"**{heading}**\n\n{_bulleted(texts)}"


def lists(verdict: FitVerdict) -> list[tuple[str, list[str]]]:
    """Return the lists that follow a verdict: heading and items of each."""
    return [
        ("What would change the answer", [changed(change) for change in verdict.changes]),
        ("Seen at the source", list(verdict.source_notes)),
        ("Not tested", list(verdict.not_tested)),
        ("Otherwise than at the source", list(verdict.unproven)),
    ]


def _bulleted(texts: Iterable[str]) -> str:
    return "\n".join(f"- {markdown.plain(text)}" for text in texts)
