"""The history of metrics in words: every metric with its changes, then the newest change of all."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from replayer.analysis.differences.environment import Difference, Sort
from replayer.analysis.history.change_points import SHORTEST
from replayer.analysis.history.metric_history import (
    HistoryChange,
    HistoryLevel,
    MetricHistory,
    RunHistory,
    show_day,
    show_values,
)
from replayer.report.sanitize import sanitize, short
from replayer.report.terminal.tables import INDENT, bullets, line, spark
from replayer.units import show

_MOST_FACTS = 6
_SPARK = 50
_STYLES = {"worse": "red", "better": "green", "": ""}
CHANGE_HEADINGS = ("since", "change", "95 %", "before", "after", "runs", "boots", "verdict")


def render(history: RunHistory) -> Iterator[RenderableType]:
    """Yield the report of a history, with the answer at its end."""
    for title, group in groupby(history.series, key=work):
        yield Rule(Text(title, style="bold"), align="left", style="dim")
        for one in group:
            yield from _metric(one)
        yield Text("")
    for words in remarks(history):
        yield Text(words)
    yield Text("")
    yield Text(headline(history), style="bold")


def headline(history: RunHistory) -> str:
    """Return the finding in one sentence: the newest change, or that there is none."""
    newest = history.newest
    if newest is None:
        return f"no level changed that {_count(history.runs, 'run')} can show"
    one, change = newest
    cause = f"; with it changed {_fact(change.facts[0])}" if change.facts else ""
    more = f" and {len(change.facts) - 1} more" if len(change.facts) > 1 else ""
    good = {None: "", True: ", which is worse", False: ", which is better"}[change.worse]
    when = show_day(change.when)
    return f"newest change: {sanitize(one.name)} {size(change)} since {when}{good}{cause}{more}"


def remarks(history: RunHistory) -> Iterator[str]:
    """Yield sentences about the whole history: its extent, and what it cannot show."""
    times = [point.when for one in history.series for point in one.points]
    changed = sum(bool(one.changes) for one in history.series)
    yield (
        f"{_count(history.runs, 'run')} from {show_day(min(times))} to {show_day(max(times))} UTC; "
        f"{changed} of {_count(len(history.series), 'metric')} changed"
    )
    if any(change.facts for one in history.series for change in one.changes):
        yield (
            "What changed at the same time may be the cause and is not proven to be: "
            "`replayer ab` switches it on and off."
        )


def work(one: MetricHistory) -> str:
    """Return the work, the engine and the machine of a series in one line."""
    words = (one.workload, one.work, one.engine, one.machine and f"on {one.machine}")
    return " · ".join(sanitize(word) for word in words if word)


def size(change: HistoryChange) -> str:
    """Return the size of a change, with its sign; its two levels if they have no ratio."""
    if change.share is None:
        return f"from {change.before.median:.4g} to {change.after.median:.4g}"
    return f"{change.share:+.1%}"


def interval(change: HistoryChange) -> str:
    """Return the 95 percent interval of a change; "" if it is not known."""
    if change.low is None or change.high is None:
        return ""
    return f"{change.low:+.1%} to {change.high:+.1%}"


def verdict(change: HistoryChange) -> str:
    """Return worse, better, or "" for a metric without a good direction."""
    return {None: "", True: "worse", False: "better"}[change.worse]


def boots(level: HistoryLevel) -> str:
    """Return the number of boots of a level; ? if it is not known."""
    return str(level.boots or "?")


def now(one: MetricHistory) -> str:
    """Return the number of runs and the level since the last change."""
    begin = one.changes[-1].at if one.changes else 0
    level = show(median(point.value for point in one.points[begin:]), one.unit)
    if one.is_short:
        few = f"; a change needs {2 * SHORTEST}"
        return f"{_count(len(one.points), 'run')}, median {level}{few}"
    return f"{_count(len(one.points), 'run')}, now {level}"


def facts(change: HistoryChange, most: int = _MOST_FACTS) -> list[str]:
    """Return what else changed at the same time, a sentence for each; of many, the first ones."""
    words = [_fact(one) for one in change.facts[:most]]
    more = len(change.facts) - most
    return [*words, f"and {more} more facts"] if more > 0 else words


def caution(change: HistoryChange) -> str:
    """Return why a change may be less than it seems; "" if nothing is known."""
    single = [
        side
        for side, level in (("before", change.before), ("after", change.after))
        if level.boots == 1
    ]
    if not single:
        return ""
    sides = " and ".join(single)
    return f"all runs {sides} it are of one boot: another boot alone may do this"


def _metric(one: MetricHistory) -> Iterator[RenderableType]:
    unchanged = "" if one.changes or one.is_short else ", no change"
    yield Text(f"{sanitize(one.name)}: {now(one)}{unchanged}")
    if one.changes:
        yield Padding(Text(_course(one), style="cyan"), (0, 0, 0, INDENT))
    for change in one.changes:
        yield line(
            _change(one, change), style={True: "red", False: "green", None: ""}[change.worse]
        )
        below = facts(change)
        items = [(f"with it changed {word}", "") for word in below[:1]]
        items += [(word, "") for word in below[1:]]
        items += [(caution(change), "yellow")] if caution(change) else []
        yield Padding(bullets(items), (0, 0, 0, INDENT))


def _course(one: MetricHistory) -> str:
    """Return the values as blocks, from the lowest value to the highest."""
    values = [point.value for point in one.points]
    low, high = min(values), max(values)
    # The lowest gets the lowest block, which is not that of 0.
    blocks = spark([value - low + (high - low) / 8 for value in values], _SPARK)
    return f"{blocks}  {show(low, one.unit)} to {show(high, one.unit)}"


def _change(one: MetricHistory, change: HistoryChange) -> str:
    around = interval(change)
    words = [
        f"{show_day(change.when)}  {size(change)}",
        f" ({around})" if around else "",
        f" {verdict(change)}" if verdict(change) else "",
        f": {_level(one, change.before)}, then {_level(one, change.after)}",
    ]
    return "".join(words)


def _level(one: MetricHistory, level: HistoryLevel) -> str:
    counted = f", {_count(level.boots, 'boot')}" if level.boots else ""
    return f"{show(level.median, one.unit)} ({_count(level.runs, 'run')}{counted})"


def _fact(one: Difference) -> str:
    sort = " (not the same work)" if one.sort is Sort.REFUSED and _is_work(one.key) else ""
    before, after = (_value(values) for values in (one.base, one.other))
    return f"{sanitize(one.key)} {before} -> {after}{sort}"


def _is_work(key: str) -> bool:
    """Return whether a fact is what was asked of the server, and not the server."""
    return not key.startswith("engine.")


def _value(values: Sequence[str]) -> str:
    return short(sanitize(show_values(values)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
