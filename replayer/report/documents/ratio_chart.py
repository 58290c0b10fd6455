"""The chart of a comparison: the ratio of each metric with its interval, on a log axis.

The ratio of a metric of which more is better is inverted, so that right is always worse: a rate
that halves and a time that doubles are both at 2.
"""

import math
from collections.abc import Sequence

from replayer.analysis.differences.comparison import (
    LIKELY,
    SHOWN,
    Comparison,
    MetricRow,
    MetricVerdict,
)
from replayer.analysis.differences.finding import name_row
from replayer.analysis.differences.metric_names import name_ratio
from replayer.model import Better
from replayer.report.document import Curve, Figure
from replayer.report.documents.verdict_words import name_verdict
from replayer.report.sanitize import sanitize
from replayer.units import show

_FAR = 3.0
"""The axis extends at most this many times as far from 1 as four fifths of the ratios do."""
_LEAST_END = math.log(1.06)
"""The axis extends at least this far to both sides of 1, as a natural logarithm."""
_ROOM = 0.05
_SMALLEST = 1e-6
_TICKS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000, 10_000, 100_000, 1e6)
_NARROWEST = 0.1
"""Two ticks are at least this share of the axis apart."""
_WORSE, _BETTER, _LIKELY, _SAME, _UNCLEAR = "worse", "better", "likely", "the same", "unclear"
_KINDS: dict[str, tuple[int | str, int]] = {
    _WORSE: ("worse", 1),
    _BETTER: ("better", 0),
    _LIKELY: (1, 4),
    _SAME: (0, 2),
    _UNCLEAR: (5, 3),
}
"""Kind of verdict -> its colour and symbol."""


def intervals(comparison: Comparison, chosen: Sequence[MetricRow] | None = None) -> Figure | None:
    """Return a chart of ratios with their intervals, the worst on top; None if there is no ratio.

    `chosen` are the rows to show; None for all metrics with a verdict.  One extreme metric must not
    stretch the axis, so values beyond the axis are marks at its edge.
    """
    wanted = comparison.rows if chosen is None else chosen
    rows = [row for row in wanted if row.ratio and row.low is not None and row.verdict]
    if not rows:
        return None
    rows.sort(key=_place, reverse=True)
    titles = _titles(rows, comparison)
    ends = _range(rows)
    inside = [row for row in rows if ends[0] <= _logarithm(row.ratio, row) <= ends[1]]
    curves = [
        _interval_curve([row for row in inside if _kind(row) == kind], kind, titles)
        for kind in _KINDS
        if any(_kind(row) == kind for row in inside)
    ]
    marks = _marks(rows, ends)
    if marks:
        curves.append(_beyond(marks, ends, titles))
    return _figure(comparison, curves, [titles[_key(row)] for row in rows], ends, chosen is None)


def _figure(
    comparison: Comparison,
    curves: list[Curve],
    titles: list[str],
    ends: tuple[float, float],
    whole: bool,  # noqa: FBT001
) -> Figure:
    base, other = comparison.base.name, comparison.other.name
    return Figure(
        "ratios" if whole else "answer",
        f"{other} against {base}: right is worse (95 % intervals; shaded: within "
        f"{comparison.threshold * 100:g} %)",
        curves,
        x=f"times worse than {base}",
        axes={
            "height": 150 + 28 * len(titles),
            "log_x": True,
            "range_x": [end / math.log(10) for end in ends],
            "ticks_x": _ticks(ends),
            "band": [1 / (1 + comparison.threshold), 1 + comparison.threshold],
            "categories": titles,
        },
    )


_Key = tuple[str, str]


def _key(row: MetricRow) -> _Key:
    return row.step, row.metric


def _titles(rows: Sequence[MetricRow], comparison: Comparison) -> dict[_Key, str]:
    """Return (step, metric) -> its name on the axis; no two metrics have the same name."""
    names = {_key(row): sanitize(name_row(row, comparison)) for row in rows}
    known = list(names.values())
    return {
        key: name if known.count(name) == 1 else f"{name} ({sanitize(key[1])})"
        for key, name in names.items()
    }


def _kind(row: MetricRow) -> str:
    if row.verdict in SHOWN:
        return _WORSE if row.worse else _BETTER
    if row.verdict in LIKELY:
        return _LIKELY
    return _UNCLEAR if row.verdict is MetricVerdict.UNCLEAR else _SAME


def _place(row: MetricRow) -> tuple[int, float]:
    """Return a sort key: worse, better, likely, unclear, same; in each, large changes first."""
    order = (_WORSE, _BETTER, _LIKELY, _UNCLEAR, _SAME)
    return order.index(_kind(row)), -abs(_logarithm(row.ratio, row))


def _logarithm(ratio: float | None, row: MetricRow) -> float:
    """Return the natural logarithm of a ratio, with its sign set so that more is worse."""
    value = math.log(max(ratio or 0.0, _SMALLEST))
    return -value if row.better is Better.MORE else value


def _ends(row: MetricRow) -> tuple[float, float]:
    """Return the ends of a row's interval as logarithms, with signs set so that more is worse.

    If the interval excludes 1 although the verdict is unclear, it would mislead: then both ends are
    the ratio itself.
    """
    own = _logarithm(row.ratio, row)
    if row.alone:
        return own, own
    low, high = sorted(_logarithm(end, row) for end in (row.low, row.high))
    return low, high


def _range(rows: Sequence[MetricRow]) -> tuple[float, float]:
    """Return the ends of an axis that shows 1 and most of the rows' intervals.

    They are natural logarithms of ratios.
    """
    lows = sorted(_ends(row)[0] for row in rows)
    highs = sorted(_ends(row)[1] for row in rows)
    cut = len(rows) // 5
    # Ratios far beyond four fifths of the others would leave no room for these: cut them off.
    low = max(lows[0], -_FAR * max(_LEAST_END, -lows[cut]))
    high = min(highs[-1], _FAR * max(_LEAST_END, highs[-1 - cut]))
    low, high = min(low, -_LEAST_END), max(high, _LEAST_END)
    room = _ROOM * (high - low)
    return low - room, high + room


def _ticks(ends: tuple[float, float]) -> list[tuple[float, str]]:
    """Return (ratio, text) of the axis's ticks; there is always one at 1.

    `ends` are the ends of the axis, as natural logarithms of ratios.
    """
    least = _NARROWEST * (ends[1] - ends[0])
    chosen = [0.0]
    for tick in _TICKS:
        at = math.log(tick)
        if at - max(chosen) >= least:
            chosen.append(at)
    both = sorted({*chosen, *(-at for at in chosen)})
    return [
        (math.exp(at), f"{math.exp(abs(at)):.4g}" if at >= 0 else f"1/{math.exp(-at):.4g}")
        for at in both
        if ends[0] <= at <= ends[1]
    ]


def _interval_curve(rows: Sequence[MetricRow], kind: str, titles: dict[_Key, str]) -> Curve:
    places = [math.exp(_logarithm(row.ratio, row)) for row in rows]
    ends = [tuple(map(math.exp, _ends(row))) for row in rows]
    color, symbol = _KINDS[kind]
    error = {
        "type": "data",
        "symmetric": False,
        "array": [high - at for at, (_, high) in zip(places, ends, strict=True)],
        "arrayminus": [at - low for at, (low, _) in zip(places, ends, strict=True)],
    }
    return Curve(
        kind,
        places,
        [titles[_key(row)] for row in rows],
        kind="points",
        color=color,
        texts=[_in_words(row) for row in rows],
        style={"error_x": error, "symbol": symbol},
    )


def _marks(
    rows: Sequence[MetricRow], ends: tuple[float, float]
) -> list[tuple[bool, MetricRow, str]]:
    """Return (is right of the axis, row, text) for ratios and interval ends beyond the axis.

    `ends` are the ends of the axis, as natural logarithms of ratios.
    """
    marks = []
    for row in rows:
        own = _logarithm(row.ratio, row)
        if not ends[0] <= own <= ends[1]:
            marks.append((own > ends[1], row, f"{math.exp(own):.3g}"))
            continue
        low, high = _ends(row)
        if high > ends[1]:
            marks.append((True, row, f"to {math.exp(high):.3g}"))
        if low < ends[0]:
            marks.append((False, row, f"to {math.exp(low):.3g}"))
    return marks


def _beyond(
    marks: Sequence[tuple[bool, MetricRow, str]],
    ends: tuple[float, float],
    titles: dict[_Key, str],
) -> Curve:
    """Return a curve of marks at the edges of the axis, each with its text next to it.

    `marks` has (is right of the axis, row, text); `ends` are the ends of the axis, as natural
    logarithms of ratios; `titles` has (step, metric) -> name on the other axis.
    """
    room = 0.01 * (ends[1] - ends[0])
    return Curve(
        "beyond the axis",
        [math.exp(ends[1] - room if right else ends[0] + room) for right, _, _ in marks],
        [titles[_key(row)] for _, row, _ in marks],
        kind="points",
        color=5,
        texts=[text for _, _, text in marks],
        style={
            "mode": "markers+text",
            "hovertext": [_in_words(row) for _, row, _ in marks],
            "textposition": ["top left" if right else "top right" for right, _, _ in marks],
            "symbols": [8 if right else 7 for right, _, _ in marks],
        },
    )


def _in_words(row: MetricRow) -> str:
    """Return the verdict and the figures of a row as they were measured, not inverted."""
    return (
        f"{name_verdict(row)}: {name_ratio(row.ratio)} times "
        f"({name_ratio(row.low)} to {name_ratio(row.high)}), "
        f"{show(row.base, row.unit)} and {show(row.other, row.unit)}"
    )
