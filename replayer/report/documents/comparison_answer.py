"""The answer of a comparison on one screen: what differs, where the time went, what to do next."""

import math
from collections.abc import Iterator, Sequence

from replayer.analysis.differences.comparison import LIKELY, SHOWN, Comparison, MetricRow
from replayer.analysis.differences.finding import (
    first_rows,
    has_too_few,
    name_row,
    show_values,
    suspects,
    units_to_show,
)
from replayer.analysis.differences.metric_names import name_fact, name_ratio
from replayer.analysis.differences.metric_verdicts import MetricVerdict
from replayer.analysis.differences.samples import Unit
from replayer.report.document import Facts, Part, Table
from replayer.report.documents import explanation as words_why
from replayer.report.documents import ratio_chart
from replayer.report.documents.verdict_words import MOST_MORE, name_verdict, tone_of
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence, Tone
from replayer.units import show, show_with_noun

_MOST_ROWS = 8
_MOST_UNCLEAR = 4
"""The most rows to show if no metric differs: these are leading metrics."""
_MOST_SUSPECTS = 4
_MOST_NAMED = 3
_MOST_WARNINGS = 3
_BAR = 6
"""Characters of a bar to the left and to the right of its middle."""
_SHORTEST_SCALE = math.log(1.1)
"""The scale of the bars goes to this log ratio at least, so that small changes have short bars."""
_OFTEN = 1.995
"""Ratios from here on are shown with two digits, such as 2.6."""


def answer(comparison: Comparison, asked: str = "", *, full: bool = False) -> list[Part]:
    """Return the parts of the answer: scope, what differs, remarks, and the next commands.

    `asked` is the command line that makes the comparison. `full` is true if the report has all
    details; if not, the answer names the option `--full`.
    """
    metrics = _metrics(comparison)
    more = "" if full else " (--full)"
    names = (sanitize(side.name)[:16] for side in (comparison.base, comparison.other))
    table = Table(
        ("", *names, "times", "95 % interval", "verdict"),
        [_row(row, comparison) for row in metrics],
        numbers=range(1, 4),
        bars=[*_bars(metrics)] if any(row.verdict and row.ratio for row in metrics) else (),
        bar="better │ worse",
        tones=[*map(tone_of, metrics)],
    )
    chart = ratio_chart.intervals(comparison, metrics)
    rest = _rest(comparison, metrics)
    return [
        Sentence(_scope(comparison)),
        *([chart] if chart else []),
        table,
        *([Sentence(f"{rest}{more}", Tone.QUIET)] if rest else []),
        Facts([*_remarks(comparison, more)]),
        Facts([*_next(asked, full=full)]),
    ]


def _metrics(comparison: Comparison) -> list[MetricRow]:
    """Return the metrics that the answer shows: those that differ, then those that likely differ.

    If there are none, return the leading metrics that have a verdict: the first of each step, then
    the others, and last those of steps that only prepare others.  In both cases only the first few
    are returned.
    """
    rows = [*first_rows(comparison, SHOWN), *first_rows(comparison, LIKELY)]
    if rows:
        return rows[:_MOST_ROWS]
    leading = [row for row in comparison.rows if row.leading and row.verdict]
    first = {row.step: row for row in reversed(leading)}
    leading.sort(key=lambda row: (row.step in comparison.once, row is not first[row.step]))
    return leading[:_MOST_UNCLEAR]


def _scope(comparison: Comparison) -> str:
    """Return a sentence on the scope: how many runs and boots were compared.

    It also has the limits of the answer, such as `these boots only`.
    """
    sides = comparison.base, comparison.other
    runs = sum(len(side.runs) for side in sides)
    each = " + ".join(str(len(side.runs)) for side in sides)
    begin = f"{runs} runs, {each}"
    if comparison.unit is Unit.BOOT:
        boots = f"{begin}, in {' + '.join(str(side.boots) for side in sides)} boots"
        if comparison.turns:
            return f"{boots} that took turns"
        return f"{boots} that did not take turns: what differs holds for these boots only"
    if comparison.unit is Unit.RUN:
        boots = "of one boot each" if all(side.boots == 1 for side in sides) else "of unknown boots"
        return f"{begin}, {boots}: what differs holds for these runs, not yet for another boot"
    return f"one run of each side, {begin}: it holds for these two runs only"


def _row(row: MetricRow, comparison: Comparison) -> tuple[str, ...]:
    interval = "" if row.alone or row.low is None else " to ".join(map(_times, (row.low, row.high)))
    return (
        sanitize(name_row(row, comparison)),
        show(row.base, row.unit),
        show(row.other, row.unit),
        "" if row.ratio is None else _times(row.ratio),
        interval,
        _verdict(row, comparison),
    )


def _bars(rows: Sequence[MetricRow]) -> Iterator[str]:
    """Yield a bar of characters for each row, which begins in the middle of the column.

    It goes to the right if the metric got worse, and to the left if it got better.  Its length is
    the logarithm of the ratio; all rows have the same scale.
    """
    sizes = [0.0 if not row.ratio else abs(math.log(row.ratio)) for row in rows]
    longest = max([_SHORTEST_SCALE, *sizes])
    for row, size in zip(rows, sizes, strict=True):
        halves = round(2 * _BAR * size / longest)
        if row.worse is None or not row.verdict:
            halves = 0
        full, half = "█" * (halves // 2), halves % 2
        left = "" if row.worse else ("▐" if half else "") + full
        right = full + ("▌" if half else "") if row.worse else ""
        yield f"{left:·>{_BAR}}│{right:·<{_BAR}}"


def _times(value: float | None) -> str:
    if value is None:
        return ""
    if value < 0.1:
        return f"{value:.2g}"
    return name_ratio(value, 2 if value < _OFTEN else 1)


def _name(row: MetricRow, comparison: Comparison) -> str:
    """Return the verdict in a word, without "in these runs" if an earlier line has the scope."""
    word = name_verdict(row)
    return word if comparison.decides else word.removesuffix(" in these runs")


def _verdict(row: MetricRow, comparison: Comparison) -> str:
    """Return the verdict in a word; if it is unclear, with the number of runs that decide it."""
    word, unit = _name(row, comparison), comparison.unit
    more = _estimate(row)
    if more is None or row.verdict is not MetricVerdict.UNCLEAR:
        return word
    return f"{word}, ~{show_with_noun(more, f'more {unit.value}')}"


def _rest(comparison: Comparison, shown: Sequence[MetricRow]) -> str:
    """Return a text with the number of other metrics by verdict, such as `3 more: 2 same, 1 worse`.

    Metrics in `shown` are not counted, nor metrics that state the same fact as another metric.  It
    is "" if no metric is left.
    """
    names = {(row.step, row.metric) for row in comparison.rows}
    others = [
        row
        for row in comparison.rows
        if row.verdict and row not in shown and (row.step, row.says) not in names
    ]
    counts: dict[str, int] = {}
    for row in others:
        word = _name(row, comparison)
        counts[word] = counts.get(word, 0) + 1
    if not counts:
        return ""
    words = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(others)} more: {words}"


def _remarks(comparison: Comparison, more: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of the remarks; the label is "" if it is the same as the one before.

    The labels are `likely`, `where` (the time went), `suspect`, `believe` (doubts) and `next`.
    `more` is the text that follows the number of remarks left out, such as ` (--full)`.
    """
    yield from _needed(comparison)
    several = len({row.step for row in comparison.rows}) > 1
    for number, why in enumerate(comparison.why):
        step = f"{sanitize(why.step)}: " if several else ""
        yield "" if number else "where", f"{step}{words_why.summarize(why, comparison)}"
    known = suspects(comparison)
    base, other = sanitize(comparison.base.name), sanitize(comparison.other.name)
    for number, one in enumerate(known[:_MOST_SUSPECTS]):
        words = (
            f"{name_fact(one.key)}: {show_values(one.base)} in {base}, "
            f"{show_values(one.other)} in {other}"
        )
        yield "" if number else "suspect", sanitize(words)
    if len(known) > _MOST_SUSPECTS:
        many = len(known) - _MOST_SUSPECTS
        yield "", f"and {many} more that are known to have an effect{more}"
    yield from _beliefs(comparison, more)
    if settling := _settling(comparison):
        yield "next", settling


def _settling(comparison: Comparison) -> str:
    """Return words on how to get a surer answer: more runs, or runs of both boots in alternation.

    It is "" if nothing would help.
    """
    if has_too_few(comparison):
        fewest, unit = units_to_show(comparison), comparison.unit.value
        how = f"replayer ab --runs {fewest}" if unit == Unit.RUN.value else "replayer plan"
        return f"at least {fewest} {unit}s of each side, in turns, as `{how}` makes them"
    rows = [row for row in comparison.rows if row.leading]
    unsettled = [
        row for row in first_rows(comparison, LIKELY | {MetricVerdict.UNCLEAR}) if row.leading
    ]
    known = [(row, more) for row in unsettled if (more := _estimate(row)) is not None]
    if known:
        most = max(more for _, more in known)
        many = f"{show_with_noun(most, f'more {comparison.unit.value}')} a side"
        each = "each leading metric that is not settled"
        all_ = len(known) == len(unsettled)
        which = each if all_ else _names([row for row, _ in known], comparison)
        return f"{many} may settle {which}{_without_estimate(unsettled, comparison)}"
    if comparison.unit is Unit.RUN and any(row.verdict in SHOWN for row in rows):
        return "to know whether it holds for other boots: `replayer plan` boots both in turns"
    return ""


def _needed(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield at most one remark: how many samples each side needs to prove the likely differences.

    It is a pair of the label "likely" and the text.  Nothing is yielded if no difference is likely,
    or if too many samples would be needed.
    """
    rows = first_rows(comparison, LIKELY)
    needed = [
        min(len(row.base_values), len(row.other_values)) + more
        for row in rows
        if (more := _estimate(row)) is not None
    ]
    if needed:
        least, most = min(needed), max(needed)
        many = f"{least}" if least == most else f"{least} to {most}"
        shown = f"alone it would count; {many} {comparison.unit.value}s a side may show it"
        yield "likely", f"{shown}{_without_estimate(rows, comparison)}"


def _estimate(row: MetricRow) -> int | None:
    """Return how many further samples on each side may settle a metric.

    None if they are too many, or not known, as from a single value.
    """
    return None if row.more is None or row.more > MOST_MORE else row.more


def _without_estimate(rows: Sequence[MetricRow], comparison: Comparison) -> str:
    """Return a clause that names those of some metrics that have no estimate; "" for none."""
    unknown = [row for row in rows if _estimate(row) is None]
    if not unknown:
        return ""
    number = f"no practical number of {comparison.unit.value}s"
    return f"; {number} is known for {_names(unknown, comparison)}"


def _names(rows: Sequence[MetricRow], comparison: Comparison) -> str:
    """Return the names of the first few metrics as text, and the number of the others."""
    names = [sanitize(name_row(row, comparison)) for row in rows[:_MOST_NAMED]]
    more = [f"{len(rows) - len(names)} more"] if len(rows) > len(names) else []
    *first, last = names + more
    return f"{', '.join(first)} and {last}" if first else last


def _beliefs(comparison: Comparison, more: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text) for the first few reasons to doubt the answer, then a line with the rest.

    The first label is "believe", the others are "".  The last line has the number of further
    doubts, followed by the text `more`; it is left out if there are none.
    """
    accounts = [
        f"{why.step}: {words}"
        for why in comparison.why
        for words in words_why.doubt(why, comparison)
    ]
    warnings = [*comparison.warnings, *accounts]
    for number, words in enumerate(warnings[:_MOST_WARNINGS]):
        yield "" if number else "believe", sanitize(words)
    if len(warnings) > _MOST_WARNINGS:
        yield "", f"and {len(warnings) - _MOST_WARNINGS} more to know{more}"


def _next(asked: str, *, full: bool) -> Iterator[tuple[str, str]]:
    if not asked:
        return
    if not full:
        yield "all of it", f"{asked} --full"
    yield "page", f"{asked} --html comparison.html"
