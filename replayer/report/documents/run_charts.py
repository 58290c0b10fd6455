"""The charts of runs on a page: repeats, latencies, origins of blocks, time series, and others.

A step can define more charts in the module `display` of its folder.  A colour that is a verdict is
"worse" (red) or "better" (green); no colour number is red or green.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from replayer import registry
from replayer.analysis.differences.samples import Side
from replayer.model import Better, Measurement, Run, Series, Status, StepResult
from replayer.report.document import Curve, Figure, RepeatSeries, SeriesChoice
from replayer.report.documents import collector_columns, percentiles
from replayer.report.documents.step_layout import UNLIKE_A_STEPS
from replayer.run import display
from replayer.units import show_with_noun

_MOST_NUMBERS = 200_000
"""The most numbers in all series of a page: each takes up to 2.7 bytes, and a page must stay under
1.6 MB."""
_ELSE = ("diskstats.rkB/s", "cpu.%usr")
"""The columns to overlay if a step has no series of measurements."""
_FEWEST_SECONDS = 2
_MOST_SECONDS = 3600
_FEW = 12
"""Up to this number of repeats, each repeat has a tick on the axis."""
_MANY = 200
"""Above this number of repeats, no line connects them."""
_IMPORTED = "iostat."
"""The prefix of columns that another tool recorded."""
_SPREAD = (0.1, 0.9)
"""The quantiles of several runs between which the band of a second is drawn."""


def done(side: Side, step: str = "") -> Iterator[tuple[Run, StepResult]]:
    """Yield (run, result) of a side's finished steps; only steps of that name unless it is ""."""
    for run in side.runs:
        for result in run.steps:
            if result.status is Status.DONE and step in ("", result.name):
                yield run, result


def step_names(sides: Iterable[Side]) -> list[str]:
    """Return the names of all finished steps, each once, in the order of the runs."""
    return list(dict.fromkeys(result.name for side in sides for _, result in done(side)))


def leading(results: Sequence[StepResult]) -> Measurement | None:
    """Return the metric that represents a step: the first one of which more is better.

    If there is none, it is the first of which less is better.  Returns None if there is neither.
    `results` are the step's repeats; only the first one is searched.
    """
    known = [m for m in results[0].measurements if m.better is not Better.NEITHER]
    rates = [m for m in known if m.better is Better.MORE]
    return next(iter([*rates, *known]), None)


def repeats(sides: Sequence[Side]) -> Iterator[tuple[str, Figure]]:
    """Yield (step's name, chart): a point for each repeat of a step, at its main metric's value.

    The main metric is the first of which more is better, else the first of which less is better.
    Each side has its own colour.  A step of which no side has two points has no chart.
    """
    for name in step_names(sides):
        results = [result for side in sides for _, result in done(side, name)]
        metric = leading(results)
        if metric is None:
            continue
        curves = [
            curve
            for number, side in enumerate(sides)
            if (curve := _repeats(side, number, name, metric)).x
        ]
        most = max((len(curve.x) for curve in curves), default=0)
        if most > 1:
            yield (
                name,
                Figure(
                    f"repeats-{name}",
                    f"{name}: {metric.metric} of every repeat",
                    curves,
                    x="repeat",
                    y="per second" if metric.unit == "1/s" else metric.unit,
                    axes={"zero": True, **({"every_x": 1} if most <= _FEW else {})},
                ),
            )


def _repeats(side: Side, number: int, name: str, metric: Measurement) -> Curve:
    points = [
        (f"{run.id}, repeat {result.repeat}", value)
        for run, result in done(side, name)
        if (value := result.value(metric.metric)) is not None
    ]
    return Curve(
        side.name,
        list(range(1, len(points) + 1)),
        [value for _, value in points],
        kind="both" if len(points) <= _MANY else "points",
        color=number,
        texts=[text for text, _ in points],
    )


def latencies(sides: Sequence[Side]) -> Iterator[tuple[str, Figure]]:
    """Yield (step's name, chart of latency by percentile) for each step with latencies.

    The histograms of all repeats of a side are added up.
    """
    for name in step_names(sides):
        kinds = {
            kind for side in sides for _, result in done(side, name) for kind in result.latency
        }
        curves = []
        for dash, kind in enumerate(sorted(kinds)):
            for number, side in enumerate(sides):
                shares, values = percentiles.of(_payloads(side, name, kind))
                if values:
                    curves.append(
                        Curve(
                            f"{side.name} {kind}",
                            [_nines(p) for p in shares],
                            values,
                            color=number,
                            texts=[f"p{p:g}" for p in shares],
                            style={"dash": dash},
                        )
                    )
        if curves:
            ticks = [(_nines(p), f"{p:g}") for p in (0, 50, 90, 99, 99.9, 99.99, 99.999)]
            yield (
                name,
                Figure(
                    f"latency-{name}",
                    f"{name}: latency by percentile",
                    curves,
                    x="percentile, up to where ten operations took longer",
                    y="ms",
                    axes={"log_y": True, "ticks_x": ticks},
                ),
            )


def _payloads(side: Side, name: str, kind: str) -> list[str]:
    """Return the stored latency histograms of one kind of operation in the step `name`.

    They are those of all finished repeats on one side, encoded as in a result file.
    """
    return [r.latency[kind].payload for _, r in done(side, name) if kind in r.latency]


def _nines(percentile: float) -> float:
    """Return the place of a percentile on an axis where 90, 99, 99.9, ... have equal distances."""
    return -math.log10(1 - percentile / 100)


def ledgers(sides: Sequence[Side]) -> Figure | None:
    """Return a stacked chart of where each step's blocks came from, in blocks per second.

    The layers are the shared buffers, the page cache and the device, from the ledgers of the
    results.  Each bar is one step on one side, and shows medians.  Returns None if no result has a
    ledger.
    """
    layers = {"shared buffers": [], "page cache": [], "device": []}  # type: dict[str, list[float]]
    names, verdicts = [], []
    for name in step_names(sides):
        for side in sides:
            known = [result.ledger for _, result in done(side, name) if result.ledger is not None]
            if not known:
                continue
            alone = len(sides) == 1
            names.append(name if alone else f"{name}, {side.name}")
            verdicts.append(" | ".join(sorted({ledger.verdict.value for ledger in known})))
            layers["shared buffers"].append(median(ledger.buffer_hits for ledger in known))
            layers["page cache"].append(median(ledger.page_cache_hits or 0 for ledger in known))
            layers["device"].append(median(ledger.device_reads or 0 for ledger in known))
    if not names:
        return None
    curves = [
        Curve(
            layer,
            names,
            values,
            kind="bar",
            color=number,
            texts=verdicts,
            style={"pattern": number},
        )
        for number, (layer, values) in enumerate(layers.items())
    ]
    title = "The ledger: where the blocks came from"
    return Figure("ledger", title, curves, y="blocks/s", axes={"stack": True})


def of_steps(sides: Sequence[Side]) -> Iterator[tuple[str, Figure]]:
    """Yield (step's name, chart) for the charts that a step's module `display` defines.

    If several steps are of one kind, the name is that of the first: one chart shows all of them.
    """
    present = {result.step for side in sides for _, result in done(side)}
    for step in sorted(present):
        shown = registry.part("steps", step, "display")
        if shown is None or not hasattr(shown, "charts"):
            continue
        results = [
            [(run.id, result) for run, result in done(side) if result.step == step]
            for side in sides
        ]
        name = next(one.name for side in results for _, one in side)
        try:
            drawn = [_drawn(chart, sides) for chart in shown.charts(results)]
        except UNLIKE_A_STEPS:
            continue  # step_layout.of reports the error
        yield from ((name, chart) for chart in drawn)


def _drawn(chart: display.Chart, sides: Sequence[Side]) -> Figure:
    """Convert a chart, as the module `display` of a step defines it, to a figure."""
    axes = {"zero": chart.zero, **({"log_x": True} if chart.log_x else {})}
    curves = [_traced(trace, sides) for trace in chart.traces]
    return Figure(chart.name, chart.title, curves, x=chart.x, y=chart.y, axes=axes)


def _traced(trace: display.ChartTrace, sides: Sequence[Side]) -> Curve:
    is_bar = trace.kind == "bar"
    return Curve(
        " ".join(filter(None, (sides[trace.side].name, trace.name))),
        list(trace.x),
        list(trace.y),
        kind="bar" if is_bar else "both",
        color=trace.side,
        texts=() if is_bar else trace.texts,
        style={"pattern": trace.side} if is_bar else {"dash": trace.style},
    )


def series(sides: Sequence[Side]) -> Iterator[SeriesChoice]:
    """Yield one part, in which a reader selects the time series of a repeat; none without any.

    If all series together have very many points, neighbouring points are averaged.
    """
    chosen = [
        (side, run, result, result.series)
        for side in sides
        for run, result in done(side)
        if result.series is not None and result.series.seconds
    ]
    entries = [
        RepeatSeries(
            side.name,
            run.id,
            result.name,
            result.repeat,
            one.seconds,
            one.window,
            [(mark.at, mark.kind, mark.text) for mark in one.marks],
            _panels(one, result),
        )
        for side, run, result, one in chosen
    ]
    numbers = sum(
        len(one.seconds) * sum(len(lines) for _, _, lines in one.panels) for one in entries
    )
    if entries:
        yield SeriesChoice(entries, max(1, -(-numbers // _MOST_NUMBERS)))


Column = Sequence[float | None]
Line = tuple[str, Column]


def _panels(one: Series, result: StepResult) -> list[tuple[str, bool, list[Line]]]:
    """Return (title, True if stacked, lines) of each panel of a series, from top to bottom."""
    columns = one.columns
    own = [
        name
        for name in columns
        if not collector_columns.is_kernels(name) and not name.startswith(_IMPORTED)
    ]
    metric = leading([result])
    own.sort(key=lambda name: metric is None or name != metric.metric)
    drawn: dict[str, tuple[bool, dict[str, Column]]]
    drawn = {}
    for name in own[:2]:
        # Bytes are drawn on another axis: on theirs, operations are a line at 0.
        title = "bytes/s" if name.endswith("bytes") else "per second"
        drawn.setdefault(title, (False, {}))[1][name] = columns[name]
    if not any(name.startswith("diskstats.") for name in columns):
        drawn |= _imported(columns)
    for collector, panel in collector_columns.panels(one):
        _, lines = drawn.setdefault(panel.title, (panel.stacked, {}))
        for column, title in panel.lines:
            values = columns.get(f"{collector}.{column}")
            # In a stack, a line of zeros is only one more name in the legend.
            if values is not None and (any(values) or not panel.stacked):
                lines.setdefault(title, values)
    return [
        (title, stacked, list(lines.items())) for title, (stacked, lines) in drawn.items() if lines
    ]


def _imported(columns: Mapping[str, Column]) -> dict[str, tuple[bool, dict[str, Column]]]:
    """Return panel's title -> (False: not stacked, columns) for one panel of imported columns.

    They are the devices' reads and writes per second that another tool recorded.
    """
    device = {
        name.removeprefix(_IMPORTED): values
        for name, values in columns.items()
        if name.startswith(_IMPORTED) and name.endswith((".r/s", ".w/s"))
    }
    return {"device, 1/s": (False, device)}


def overlays(sides: Sequence[Side]) -> Iterator[tuple[str, Figure]]:
    """Yield (step's name, chart of one column second by second) for steps on two or more sides.

    Each side has a line, the median of all its windows.  If a side has several windows, it also has
    a band from their 10 % quantile to their 90 % quantile.
    """
    for name in step_names(sides):
        grouped = [[result for _, result in done(side, name)] for side in sides]
        column = _shared(grouped)
        if not column:
            continue
        curves = [
            curve
            for number, (side, results) in enumerate(zip(sides, grouped, strict=True))
            for curve in _overlaid(side.name, number, results, column)
        ]
        if len({curve.color for curve in curves}) > 1:
            title = f"{name}: {column} second by second, medians and spread of all runs"
            x = "seconds of the measured time"
            yield (
                name,
                Figure(f"overlay-{name}", title, curves, x=x, y=column, axes={"zero": True}),
            )


def _shared(grouped: Sequence[Sequence[StepResult]]) -> str:
    """Return the column to draw for a step: one that its results on every side have; "" if none.

    `grouped` has the results of each side.  The step's main metric is preferred, then the step's
    own columns, then two fixed columns: the device's bytes read, and the CPU time in user mode.
    """
    known = [
        set().union(*(one.series.columns for one in results if one.series)) for results in grouped
    ]
    shared = set.intersection(*known) if known else set()
    first = next((one for results in grouped for one in results), None)
    metric = leading([first]) if first else None
    wanted = [metric.metric] if metric else []
    own = sorted(name for name in shared if not collector_columns.is_kernels(name))
    return next((one for one in (*wanted, *own, *_ELSE) if one in shared), "")


def _overlaid(
    side: str, number: int, results: Sequence[StepResult], column: str
) -> Iterator[Curve]:
    seconds, rows = _by_second(results, column)
    if len(seconds) < _FEWEST_SECONDS:
        return
    if len(rows) > 1:
        hidden = {"legend": False, "width": 0, "hover": False}
        low, high = (_rounded(np.nanquantile(rows, share, axis=0)) for share in _SPREAD)
        for values, style in ((low, hidden), (high, {**hidden, "fill": "tonexty"})):
            yield Curve(side, seconds, values, kind="line", color=number, style=style)
    runs = show_with_noun(len(rows), "window")
    middle = _rounded(np.nanmedian(rows, axis=0))
    dash = {"dash": number}
    yield Curve(f"{side}, {runs}", seconds, middle, kind="line", color=number, style=dash)


def _by_second(results: Sequence[StepResult], column: str) -> tuple[list[int], NDArray[np.float64]]:
    """Return (seconds of the measured window, array with a row for each result) of one column.

    A row has a value for each of the seconds, which are whole.  A missing value is nan.  Windows
    may differ in length: only seconds for which at least half of the results have a value are kept.
    """
    rows = []
    for result in results:
        one = result.series
        if one is None or column not in one.columns:
            continue
        begin, end = one.window or (0.0, one.seconds[-1] if one.seconds else 0.0)
        at = np.array(one.seconds, dtype=float)
        values = np.array([np.nan if v is None else v for v in one.columns[column]], dtype=float)
        inside = (at > begin) & (at <= end + 0.5) & np.isfinite(values)
        grid = np.arange(1, min(_MOST_SECONDS, round(end - begin)) + 1)
        if inside.any() and len(grid):
            row = np.interp(grid, at[inside] - begin, values[inside], np.nan, np.nan)
            # Intervals end up to half a second off a whole second: the first and the last second
            # get the value of the first and the last interval.
            row[0] = values[inside][0] if np.isnan(row[0]) else row[0]
            row[-1] = values[inside][-1] if np.isnan(row[-1]) else row[-1]
            rows.append(row)
    longest = max(map(len, rows), default=0)
    table = np.full((len(rows), longest), np.nan)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    kept = 2 * np.isfinite(table).sum(axis=0) >= max(1, len(rows))
    return (np.flatnonzero(kept) + 1).tolist(), table[:, kept]


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
