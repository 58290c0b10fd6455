"""The report of a history of metrics: the newest change, then every metric with its changes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from statistics import median

from replayer.analysis.differences.environment import Difference, Sort
from replayer.analysis.history.metric_history import (
    HistoryChange,
    HistoryLevel,
    MetricHistory,
    RunHistory,
    show_day,
    show_values,
)
from replayer.report.document import (
    Bullets,
    Curve,
    Document,
    Figure,
    Part,
    Section,
    SparkLines,
    blank,
)
from replayer.report.sanitize import short
from replayer.run.display import Sentence, Tone
from replayer.units import show, show_with_noun

_MOST_FACTS, _MOST_LISTED = 6, 30
"""The most facts of a change: those that a terminal shows, and those that are in the report."""
_MOST_LINES = 60
"""The most vertical lines in one chart, each at a change of the fact that the user chose."""
_HEIGHT = 360
_TONES = {True: Tone.BAD, False: Tone.GOOD, None: Tone.PLAIN}
_WORDS = {True: "worse", False: "better", None: ""}
_CSV = (
    *("metric", "workload", "settings", "engine", "machine", "since", "change", "low", "high"),
    *("before", "after", "runs_before", "runs_after", "verdict"),
)


def document(history: RunHistory) -> Document:
    """Return the report of a history of metrics: the newest change, and a section per metric."""
    return Document(
        "history",
        Sentence(_headline(history)),
        [
            Section(title, [_metric(one) for one in group], is_main=True)
            for title, group in groupby(history.series, key=_work)
        ],
        lead=list(_remarks(history)),
        is_answer_last=True,
        made=f"A dotted line is where {history.fact} changed. Drag over a chart to zoom in.",
        data=[_CSV, *(_row(one, change) for one in history.series for change in one.changes)],
    )


def _headline(history: RunHistory) -> str:
    """Return the finding in one sentence: the newest change of a level, or that there is none.

    It has the number of metrics that are no longer measured, too.
    """
    newest = history.newest
    many = show_with_noun(len(history.series), "metric")
    ended = sum(one.later > 0 for one in history.series)
    lost = f"; not in the newest run: {ended} of {many}" if ended else ""
    if newest is None:
        few = sum(one.is_unclear for one in history.series)
        unclear = f"; unclear: {few} of {many}" if few else ""
        runs = show_with_noun(history.runs, "run")
        return f"no level changed that {runs} can show{unclear}{lost}"
    one, change = newest
    cause = f"; with it changed {_fact(change.facts[0])}" if change.facts else ""
    more = f" and {len(change.facts) - 1} more" if len(change.facts) > 1 else ""
    good = {None: "", True: ", which is worse", False: ", which is better"}[change.worse]
    when = show_day(change.when)
    kind = "newest change" if change.is_proven else "a change that is not proven"
    return f"{kind}: {one.name} {_size(change)} since {when}{good}{cause}{more}{lost}"


def _remarks(history: RunHistory) -> Iterator[str]:
    """Yield sentences about the whole history: how many runs it has, and what it cannot prove."""
    times = [point.when for one in history.series for point in one.points]
    changed = sum(bool(one.changes) for one in history.series)
    yield (
        f"{show_with_noun(history.runs, 'run')} from {show_day(min(times))} to "
        f"{show_day(max(times))} UTC; {changed} of "
        f"{show_with_noun(len(history.series), 'metric')} changed"
    )
    if any(change.facts for one in history.series for change in one.changes):
        yield (
            "What changed at the same time may be the cause and is not proven to be: "
            "`replayer ab` switches it on and off."
        )


def _work(one: MetricHistory) -> str:
    """Return the workload, its settings, engine and machine of a metric's history in one line."""
    words = (one.workload, one.work, one.engine, one.machine and f"on {one.machine}")
    return " · ".join(word for word in words if word)


def _size(change: HistoryChange) -> str:
    """Return a change as text in percent, with its sign.

    If the two levels have no ratio, the text is `from`, the old level, `to`, the new level.
    """
    if change.share is None:
        return f"from {change.before.median:.4g} to {change.after.median:.4g}"
    return f"{change.share:+.1%}"


def _interval(change: HistoryChange) -> str:
    """Return the 95 percent interval of a change; "" if it is not known."""
    if change.low is None or change.high is None:
        return ""
    return f"{change.low:+.1%} to {change.high:+.1%}"


def _now(one: MetricHistory) -> str:
    """Return the number of runs, and the metric's level: the median since its last change.

    Of a metric that the newest runs lack, the text has the time of the last run that has it.  If
    there are too few runs to find a change, the text has the number that is needed.
    """
    begin = one.changes[-1].at if one.changes else 0
    level = show(median(point.value for point in one.points[begin:]), one.unit)
    if one.is_short:
        few = f"; a change needs {one.needed}"
        return f"{show_with_noun(len(one.points), 'run')}, median {level}{few}"
    now = f"last {level} on {show_day(one.points[-1].when)}" if one.later else f"now {level}"
    return f"{show_with_noun(len(one.points), 'run')}, {now}"


def _end(one: MetricHistory) -> str:
    """Return how many runs since the last one with the metric lack it; "" if none does."""
    if not one.later:
        return ""
    return (
        f"; none of the {one.later} runs since has it"
        if one.later > 1
        else ("; the run since does not have it")
    )


def _facts(change: HistoryChange, most: int = _MOST_LISTED) -> list[str]:
    """Return a text for each fact that changed at the same time as a metric's level.

    Of more than `most` facts, the first ones are returned, and a text with the number of the rest.
    """
    words = [_fact(one) for one in change.facts[:most]]
    more = len(change.facts) - most
    return [*words, f"and {more} more facts"] if more > 0 else words


def _caution(change: HistoryChange) -> str:
    """Return a warning if the boots are too few for a proof, or those on one side of a change.

    Then the other boots alone may be the cause.  It is "" for any other change.
    """
    if not change.is_proven:
        boots = change.before.boots + change.after.boots
        return f"{boots} boots are too few to prove a change: another boot alone may do this"
    if not change.may_be_boots:
        return ""
    sides = [
        f"{side} it are of {'one boot' if level.boots == 1 else f'{level.boots} boots'}"
        for side, level in (("before", change.before), ("after", change.after))
        if level.has_few_boots
    ]
    return f"all runs {' and '.join(sides)}: another boot alone may do this" if sides else ""


def _metric(one: MetricHistory) -> Section:
    unchanged = "" if one.changes or one.is_short else ", no change"
    if one.is_unclear and not one.is_short:
        units = show_with_noun(one.boots, "boot") if one.boots else "these"
        are = "is" if one.boots == 1 else "are"
        unchanged = f"; {units} {are} too few to show a change, which needs {one.needed}"
    parts: list[Part] = [_chart(one)] if len(one.points) > 1 else []
    parts += [_course(one)] if one.changes else []
    for change in one.changes:
        parts.append(Sentence(_change(one, change), _TONES[change.worse]))
        if below := _facts(change):
            texts = [f"with it changed {below[0]}", *below[1:]]
            parts.append(Bullets(texts, most=_MOST_FACTS))
        if caution := _caution(change):
            parts.append(Bullets([caution], Tone.UNCLEAR))
    return Section(f"{one.name}: {_now(one)}{unchanged}{_end(one)}", parts)


def _row(one: MetricHistory, change: HistoryChange) -> Sequence[object]:
    before, after = change.before, change.after
    return (
        *(one.name, one.workload, one.work, one.engine, one.machine, show_day(change.when)),
        *blank(change.share, change.low, change.high),
        *(before.median, after.median, before.runs, after.runs, _WORDS[change.worse]),
    )


def _course(one: MetricHistory) -> SparkLines:
    """Return a metric's values, in the order of the runs, as a spark line.

    Its lowest bar is the lowest value, and not 0.  The text next to it has the lowest and the
    highest value.
    """
    values = [point.value for point in one.points]
    low, high = min(values), max(values)
    # The lowest gets the lowest block, which is not that of 0.
    raised = [value - low + (high - low) / 8 for value in values]
    return SparkLines([("", raised, f"{show(low, one.unit)} to {show(high, one.unit)}")])


def _change(one: MetricHistory, change: HistoryChange) -> str:
    around = _interval(change)
    words = [
        f"{show_day(change.when)}  {_size(change)}",
        f" ({around})" if around else "",
        f" {_WORDS[change.worse]}" if change.worse is not None else "",
        f": {_level(one, change.before)}, then {_level(one, change.after)}",
    ]
    return "".join(words)


def _level(one: MetricHistory, level: HistoryLevel) -> str:
    counted = f", {show_with_noun(level.boots, 'boot')}" if level.boots else ""
    return f"{show(level.median, one.unit)} ({show_with_noun(level.runs, 'run')}{counted})"


def _fact(one: Difference) -> str:
    sort = " (not the same work)" if one.sort is Sort.REFUSED and _is_work(one.key) else ""
    before, after = (short(show_values(values)) for values in (one.base, one.other))
    return f"{one.key} {before} -> {after}{sort}"


def _is_work(key: str) -> bool:
    """Return whether the fact named `key` is about the requested work, and not about the server.

    The names of the server's facts begin with `engine.`.
    """
    return not key.startswith("engine.")


def _chart(one: MetricHistory) -> Figure:
    """Return a chart of a metric's values over time, with a line for the level between two changes.

    Vertical lines show when the fact that the user selected changed, such as the kernel's release.
    """
    times = [_milliseconds(point.when) for point in one.points]
    values = [point.value for point in one.points]
    texts = [f"{point.run}  {point.fact}" for point in one.points]
    lines = [[times[at], one.points[at].fact] for at in _new_facts(one)[-_MOST_LINES:]]
    return Figure(
        "history",
        one.name,
        [Curve("runs", times, values, kind="points", texts=texts), _levels(one, times)],
        y=one.unit,
        axes={"zero": False, "date_x": True, "height": _HEIGHT, "lines_x": lines},
    )


def _levels(one: MetricHistory, times: Sequence[float]) -> Curve:
    """Return a curve of levels: between two changes, a line at the median of the runs' values.

    `times` has the time of each run, in milliseconds since 1970.  The curve is empty if the metric
    never changed.
    """
    bounds = [0, *(change.at for change in one.changes), len(times)]
    medians = [one.changes[0].before.median] if one.changes else []
    medians += [change.after.median for change in one.changes]
    x: list[float | None] = []
    y: list[float | None] = []
    for (begin, end), level in zip(pairwise(bounds), medians, strict=False):
        x += [times[begin], times[end - 1], None]
        y += [level, level, None]
    return Curve("level", x, y, kind="line", color=1, style={"width": 3})


def _new_facts(one: MetricHistory) -> list[int]:
    """Return the index of each point at which the fact that the user selected has a new value.

    An example of such a fact is the kernel's release.
    """
    return [
        number
        for number, (before, point) in enumerate(pairwise(one.points), start=1)
        if point.fact != before.fact and point.fact
    ]


def _milliseconds(when: float) -> float:
    """Return a time, in seconds since 1970, as milliseconds since 1970, cut to whole seconds."""
    return 1000.0 * int(datetime.fromtimestamp(when, UTC).timestamp())
