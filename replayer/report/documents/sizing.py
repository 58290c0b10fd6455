"""The report of a test of a machine against a profile: whether the source's database fits on it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from replayer.analysis.profiles import usage
from replayer.load.objective import goals
from replayer.model import Run
from replayer.report.document import (
    Bullets,
    Curve,
    Document,
    Facts,
    Figure,
    Part,
    Section,
    Table,
    blank,
)
from replayer.run.display import Sentence, Tone
from replayer.run.time_promise import about
from replayer.sizing.findings import Remedy, ResourceRow, here, last, required
from replayer.sizing.recommendation import RecommendedSize
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import Requirement
from replayer.sizing.sizing_plan import SizingPlan
from replayer.sizing.target import Fit
from replayer.sizing.verdict import FitVerdict
from replayer.units import show_count, show_duration, show_rate, show_size, show_times, three

TONES = {Fit.FITS: Tone.GOOD, Fit.DOES_NOT_FIT: Tone.BAD, Fit.UNCLEAR: Tone.UNCLEAR}
RESOURCE_HEADINGS = ("resource", "verdict", "by", "required", "here", "times")
_CURVE_HEADINGS = ("", "ended", "times", "asked/s", "done/s", "p50", "p99")
_PERCENTILES = (("p50_s", "p50"), ("p95_s", "p95"), ("p99_s", "p99"))
_LEAST_MS = 0.01
_NEAR = 1.1
"""Two rates are treated as equal if their ratio is smaller than this."""
_BAR = 20
"""The number of characters of a bar; the objective is at its middle."""

_ENDS = {
    "held": "sustained within the objective",
    "failed": "not within the objective, or not sustained",
    "not offered": "replayer's own clients could not send so much",
    "void": "others on this machine disturbed it, so it does not count",
}
"""End of a trial -> its meaning."""
CSV = (
    *("resource", "verdict", "unit", "required", "here", "multiple", "low", "high", "proof"),
    "known",
)
"""The headings of the CSV; the values are in the row's unit, with no thousands' marks."""


class SizingSummary(NamedTuple):
    """The content of a report on a machine that was tested with the load of a profile."""

    sizing: Sizing
    run: Run
    verdict: FitVerdict


def beginning(
    sizing: Sizing, plan: SizingPlan, refutations: Sequence[str] = ()
) -> Iterator[Section]:
    """Yield the requirement and the plan with its duration, to show before the run starts.

    If `refutations` has sentences, nothing will be run: they show that the database cannot fit.
    """
    yield _requirement(sizing, f"What is required · {sizing.source}", is_main=True)
    if sizing.judgements:
        # They follow from the target's known limits, without a run.
        judged = [(f"{one.title}: {one.fit.value}: {one.words}", one) for one in sizing.judgements]
        texts = [Bullets([text], TONES.get(one.fit, Tone.PLAIN)) for text, one in judged]
        yield Section(f"Limits by --target · {sizing.target}", texts, is_main=True)
    if refutations:
        sentences = [Sentence(f"{Fit.DOES_NOT_FIT.value}: {words}") for words in refutations]
        title = "What will be done · nothing: arithmetic alone refutes it"
        yield Section(title, sentences, is_main=True)
        return
    steps = [
        (f"{number}.", f"{stage.words} ({about(stage.seconds)})")
        for number, stage in enumerate(plan.stages, 1)
    ]
    notes = [*sizing.requirement.notes, *sizing.unproven]
    if notes:
        title = "What this leaves out or takes for granted"
        yield Section(title, [Bullets(notes, Tone.QUIET)], is_main=True)
    title = f"What will be done · {about(plan.seconds)}"
    yield Section(title, [Facts(steps)], is_main=True)


def document(one: SizingSummary) -> Document:
    """Return the report on whether the database of a profile fits on the tested machine."""
    verdict = one.verdict
    remedies = [changed(change) for change in verdict.changes]
    return Document(
        title(one),
        Sentence(verdict.headline, TONES.get(verdict.fit, Tone.PLAIN)),
        [
            _requirement(one.sizing, "What is required"),
            *resources(verdict, RESOURCE_HEADINGS, resource_rows(verdict), sources(verdict)),
            *_curve(one),
            *listed("What would change the answer", remedies),
            *fitting_size(verdict.recommendation, "in cores as at the source"),
            *_confidence(verdict),
            *listed("Seen at the source", verdict.source_notes),
            *listed("Not tested", verdict.not_tested),
            *listed("Otherwise than at the source", verdict.unproven),
        ],
        lead=list(behind(verdict)),
        is_answer_last=True,
        made=f"run {one.run.id}, {one.run.started}",
        data=[CSV, *_data(one)],
    )


def title(one: SizingSummary) -> str:
    """Return the title of the report: source of the profile, host and server."""
    return " · ".join(filter(None, ("size", one.sizing.source, *place(one.run))))


def place(run: Run) -> tuple[str, str]:
    """Return (host, server) of a run; the server is "" without an engine."""
    server = f"{run.engine.name} {run.engine.version}" if run.engine else ""
    return str(run.host.get("host.name") or "this machine"), server


def behind(verdict: FitVerdict) -> Iterator[str]:
    """Yield sentences that support the verdict: reasons, the limiting resource, a prediction.

    The first reason is left out, because the headline has it.  The last sentence is about the load
    that replayer itself could not send in time, if there was any.
    """
    yield from verdict.reasons[1:]
    if verdict.first:
        yield f"limiting resource: {verdict.proof or verdict.first}"
    elif verdict.proof:
        yield f"the limiting resource is {verdict.proof}"
    if verdict.prediction:
        yield verdict.prediction
    if verdict.not_offered:
        yield f"not offered: {verdict.not_offered}"


def changed(change: Remedy) -> str:
    """Return the words of a remedy (a change that may make the database fit).

    If its effect is predicted and not measured, the words end in `(prediction)`.
    """
    return f"{change.words} (prediction)" if change.predicted else change.words


def fitting_size(sizes: Sequence[RecommendedSize], how: str) -> Iterator[Section]:
    """Yield a section with the size of a machine that would fit, if `sizes` is not empty.

    `how` completes its heading, such as `with growth 1, headroom 0%`.
    """
    rows = [(one.resource, one.shown, one.words) for one in sizes]
    if rows:
        table = Table(("a machine should have", "", "of"), rows)
        yield Section(f"A size that would fit, {how}", [table])


def margin_words(wanted: Requirement) -> str:
    """Return the growth and the headroom of a requirement, such as `growth 1.5, headroom 30%`."""
    return f"growth {wanted.growth:g}, headroom {wanted.headroom:.0%}"


def _confidence(verdict: FitVerdict) -> Iterator[Section]:
    if verdict.confidence is not None:
        words = f"Confidence in the profile: {verdict.confidence.words}"
        yield Section(words, [Bullets(verdict.confidence.reasons)])


def listed(heading: str, texts: Sequence[str]) -> Iterator[Section]:
    """Yield a section with the heading and a list of the sentences; nothing without sentences."""
    if texts:
        yield Section(heading, [Bullets(texts)])


def _requirement(sizing: Sizing, heading: str, *, is_main: bool = False) -> Section:
    # The day of the window is in the facts.
    day = usage.clock(sizing.requirement.begin).partition(" ")[0]
    rows = [
        (
            f"{need.title}, MB" if need.unit == "MB/s" else need.title,
            usage.clock(need.begin).removeprefix(f"{day} "),
            need.arithmetic,
        )
        for need in sizing.requirement.needs
    ]
    parts: list[Part] = [Facts(facts(sizing)), Table(("needed", "most at", "as arithmetic"), rows)]
    return Section(heading, parts, is_main=is_main, on_page=1)


def facts(sizing: Sizing) -> list[tuple[str, str]]:
    """Return pairs of label and text about the requirement as a whole, as far as it is known."""
    wanted = sizing.requirement
    work = wanted.work
    cost = wanted.cpu_seconds_per_transaction
    pairs = [
        ("window", _window(wanted)),
        ("statements", _rate(sizing)),
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
    """Return the reason why the load's rate of statements differs from the source's count.

    It is "" if the two rates are similar, or if one of them is not known.
    """
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


def _rate(sizing: Sizing) -> str:
    """Return the required statements a second as text, with the factors of growth and headroom.

    For example, `400/s x 1.5 growth x 1.3 headroom = 780/s`.  A factor of 1 is left out.
    """
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


def resource_rows(verdict: FitVerdict) -> list[list[str]]:
    """Return a row for each resource with its verdict, in the columns of RESOURCE_HEADINGS."""
    return [
        [
            row.resource,
            row.fit.value,
            row.known or "-",
            required(row),
            here(row),
            times(row),
        ]
        for row in verdict.rows
    ]


def times(row: ResourceRow) -> str:
    """Return the machine's amount of a resource as a multiple of the required, with its interval.

    It is "-" if this is not known.
    """
    if row.multiple is None:
        return "-"
    if row.low is None:
        return show_times(row.multiple)
    high = "-" if row.high is None else show_times(row.high)
    return f"{show_times(row.multiple)} ({show_times(row.low)} to {high})"


def resources(
    verdict: FitVerdict,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Iterable[str],
) -> Iterator[Section]:
    """Yield a section with a table of the resources, and `notes` below it.

    `rows` are the rows of the table.  Nothing is yielded if the verdict has no resources.
    """
    if verdict.rows:
        table = Table(headings, rows, numbers=range(3, len(headings)))
        yield Section("Resource by resource", [table, Bullets(list(notes), Tone.QUIET)])


def sources(verdict: FitVerdict) -> Iterator[str]:
    """Yield a sentence on the origin of each resource's figures.

    Resources whose figures were measured under the load itself are left out.
    """
    for row in verdict.rows:
        if row.kind != "load":
            yield f"{row.resource}: {row.proof}"
        elif row.here is not None and row.proof != "measured under the load":
            yield f"{row.resource}: of the {row.proof.removeprefix('the ')}"


# The load curve


def _trials(run: Run) -> list[Mapping[str, Any]]:
    """Return a row for each trial of a run (each rate that was tried), the lowest rate first.

    The list is empty if the run has no capacity step.
    """
    step = last(run, "capacity")
    rows = step.tables.get("trials", ()) if step is not None else ()
    return sorted(rows, key=lambda row: (row["multiple"], row["p99_s"] or float("inf")))


def _curve(one: SizingSummary) -> Iterator[Section]:
    rows = _trials(one.run)
    if not rows:
        return
    goal = max(goals(one.sizing.objective), key=lambda goal: goal.percent)
    ended = {row["ended"] for row in rows}
    table = Table(
        _CURVE_HEADINGS,
        [_trial(row, one) for row in rows],
        numbers=range(2, len(_CURVE_HEADINGS)),
        bars=[_bar(row, goal.seconds) for row in rows],
        bar=f"p99, | is {show_duration(goal.seconds)}",
    )
    legend = "; ".join(f"{word}: {_ENDS[word]}" for word in _ENDS if word in ended)
    parts: list[Part] = [*_charts(one), table, Sentence(legend, Tone.QUIET)]
    yield Section("Load curve", parts)


def _trial(row: Mapping[str, Any], one: SizingSummary) -> list[str]:
    """Return a trial as a row of texts, in the columns of _CURVE_HEADINGS."""
    return [
        _mark(row, one),
        row["ended"],
        show_times(row["multiple"]),
        show_rate(row["asked_per_second"]),
        show_rate(row["throughput_per_second"]),
        *("-" if row[key] is None else show_duration(row[key]) for key in ("p50_s", "p99_s")),
    ]


def _bar(row: Mapping[str, Any], goal: float) -> str:
    """Return a trial's p99 as a bar; the middle of the bar is the objective, `goal` seconds."""
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


def _charts(one: SizingSummary) -> Iterator[Figure]:
    """Yield the charts: response time by rate, and hit ratio by the size of the buffers.

    The first has lines for the required rate, the objectives and the highest sustained rate.
    """
    rows = [row for row in _trials(one.run) if row["p50_s"] is not None]
    if not rows:
        return
    traces = [
        straight(
            name,
            [row["throughput_per_second"] for row in rows],
            [row[key] * 1e3 for row in rows],
            color=number,
        )
        for number, (key, name) in enumerate(_PERCENTILES)
    ]
    highest = max(row["p99_s"] * 1e3 for row in rows)
    right = max(one.sizing.rate, *(row["throughput_per_second"] for row in rows))
    for goal in goals(one.sizing.objective):
        level = goal.seconds * 1e3
        highest = max(highest, level)
        traces.append(straight(f"objective {goal.words}", [0, right], [level] * 2, color=3, dash=1))
    lowest = max(_LEAST_MS, min(row["p50_s"] * 1e3 for row in rows))
    for name, rate, color in _marks(one):
        traces.append(straight(name, [rate] * 2, [lowest, highest], color=color, dash=2))
    yield Figure(
        "curve",
        "Response time by rate, of the rates that were sustained",
        traces,
        x="statements a second",
        y="ms",
        axes={"log_y": True},
    )
    step = last(one.run, "buffers")
    measured = step.tables.get("buffers", ()) if step is not None else ()
    if curve := [row for row in measured if row["hit_share"] is not None]:
        sizes = [row["buffers_bytes"] / (1 << 20) for row in curve]
        shares = [100 * row["hit_share"] for row in curve]
        yield Figure(
            "buffers",
            "Blocks found, by the size of the buffers",
            [straight("measured", sizes, shares, color=0)],
            x="MiB",
            y="%",
            axes={"log_x": True},
        )


def _marks(one: SizingSummary) -> Iterator[tuple[str, float, int]]:
    """Yield (name, statements a second, colour) of each rate that is marked in the chart."""
    yield "required", one.sizing.rate, 4
    step = last(one.run, "capacity")
    accepted = step.value("capacity.multiple") if step is not None else None
    if accepted is not None:
        yield "highest sustained (knee)", accepted * one.sizing.rate, 5


def straight(
    name: str, x: Sequence[float], y: Sequence[float], *, color: int, dash: int = 0
) -> Curve:
    """Return a curve: points joined by a line; with a `dash` of 1 or 2, the line without points."""
    return Curve(name, x, y, "line" if dash else "both", color, style={"dash": dash})


def _data(one: SizingSummary) -> Iterator[Sequence[object]]:
    """Yield the rows of the CSV, without headings: one for the total, one for each resource."""
    verdict = one.verdict
    total = (verdict.multiple, verdict.low, verdict.high)
    yield ("total", verdict.fit.value, "1/s", one.sizing.rate, "", *blank(*total),
           "; ".join(verdict.reasons), "")  # fmt: skip
    yield from map(resource_data, verdict.rows)


def resource_data(row: ResourceRow) -> list[object]:
    """Return a resource's row of the CSV, in the columns of CSV."""
    numbers = (row.required, row.here, row.multiple, row.low, row.high)
    return [row.resource, row.fit.value, row.unit, *blank(*numbers), row.proof, row.known]
