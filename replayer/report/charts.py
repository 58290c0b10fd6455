"""The charts of a page, as data: what each shows, in Plotly's terms but without any style.

A chart is `{id, title, note, traces, layout}`.  `color` and `dash` of a trace are numbers that the
page's script turns into the palette of its light or dark theme.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

from replayer import registry
from replayer.analysis.comparison import Comparison, Row, Verdict
from replayer.analysis.samples import Side
from replayer.model import Better, Measurement, Run, Series, Status, StepResult
from replayer.report import packed, watching
from replayer.report.words import clean
from replayer.results import histogram
from replayer.run import display
from replayer.units import show

Chart = dict[str, Any]
Trace = dict[str, Any]

PERCENTILES = (
    *(0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.95, 99.99),
    99.999,
)
_MOST_NUMBERS = 200_000
"""Of all series of a page: each takes up to 2.7 bytes, and a page is to stay under 1.6 MB."""
_FEW = 12
"""Repeats up to which each has a tick of its own on the axis."""
_IMPORTED = "iostat."
"""What begins the columns of a series that another tool recorded."""
_SYMBOLS = {
    Verdict.BETTER: 0,
    Verdict.WORSE: 1,
    Verdict.SAME: 2,
    Verdict.UNCLEAR: 3,
    Verdict.DIFFERS: 4,
    Verdict.ALIKE: 2,
}
_COLORS = {
    Verdict.BETTER: 2,
    Verdict.WORSE: 1,
    Verdict.SAME: 0,
    Verdict.UNCLEAR: 5,
    Verdict.DIFFERS: 3,
    Verdict.ALIKE: 0,
}


def needs(column: str) -> bool:
    """Tell whether a column of a series is drawn."""
    return watching.is_drawn(column)


def word(text: object) -> str:
    """Return text that Plotly shows as it is: nothing in it is a tag or steers anything."""
    return escape(clean(text), quote=False)


def done(side: Side, step: str = "") -> Iterator[tuple[Run, StepResult]]:
    """Yield the finished steps of a side, of that name or all."""
    for run in side.runs:
        for result in run.steps:
            if result.status is Status.DONE and step in ("", result.name):
                yield run, result


def step_names(sides: Iterable[Side]) -> list[str]:
    """Return the names of all finished steps, in order."""
    return list(dict.fromkeys(result.name for side in sides for _, result in done(side)))


def leading(results: Sequence[StepResult]) -> Measurement | None:
    """Return the metric that a step is known by: its first rate, else its first time."""
    known = [m for m in results[0].measurements if m.better is not Better.NEITHER]
    rates = [m for m in known if m.better is Better.MORE]
    return next(iter([*rates, *known]), None)


def repeats(sides: Sequence[Side]) -> Iterator[tuple[str, Chart]]:
    """Yield steps with the chart of their leading metric: one point a repeat, a colour a side.

    A chart of one point is none.
    """
    for name in step_names(sides):
        results = [result for side in sides for _, result in done(side, name)]
        metric = leading(results)
        if metric is None:
            continue
        traces: list[Trace] = []
        for number, side in enumerate(sides):
            points = [
                (f"{word(run.id)}, repeat {result.repeat}", value)
                for run, result in done(side, name)
                if (value := result.value(metric.metric)) is not None
            ]
            if points:
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "markers+lines" if len(points) <= 200 else "markers",
                        "name": word(side.name),
                        "x": list(range(1, len(points) + 1)),
                        "y": [value for _, value in points],
                        "text": [text for text, _ in points],
                        "color": number,
                    }
                )
        most = max((len(trace["x"]) for trace in traces), default=0)
        if most > 1:
            chart = _chart(
                f"repeats-{word(name)}",
                f"{word(name)}: {word(metric.metric)} of every repeat",
                traces,
                x="repeat",
                y=_unit(metric.unit),
                zero=True,
            )
            if most <= _FEW:
                chart["layout"]["every_x"] = 1
            yield name, chart


def intervals(comparison: Comparison) -> Chart | None:
    """Return the ratios of all metrics with their intervals on one axis."""
    rows = [row for row in comparison.rows if row.ratio is not None and row.low is not None]
    if not rows:
        return None
    rows.reverse()
    traces = []
    for verdict in Verdict:
        chosen = [row for row in rows if row.verdict is verdict]
        if chosen:
            traces.append(_interval_trace(chosen, verdict))
    chart = _chart(
        "intervals",
        f"{word(comparison.other.name)} / {word(comparison.base.name)}: ratios and 95 % intervals",
        traces,
        x=f"ratio (shaded: within {comparison.threshold * 100:g} %)",
        y="",
    )
    chart["layout"] |= {
        "height": 160 + 26 * len(rows),
        "range_x": _range(rows),
        "band": [1 / (1 + comparison.threshold), 1 + comparison.threshold],
        "categories": [word(row.title) for row in rows],
    }
    return chart


def _range(rows: Sequence[Row]) -> list[float]:
    """Return an axis on which every ratio is seen; an interval without end goes out of it."""
    low, high = min(row.low or 0.0 for row in rows), max(row.high or 0.0 for row in rows)
    furthest = max(1.0, *(row.ratio or 0.0 for row in rows))
    ends = max(0.0, min(low, 0.97)), min(max(high, 1.03), 2 * furthest)
    room = 0.03 * (ends[1] - ends[0])
    return [ends[0] - room, ends[1] + room]


def _interval_trace(rows: Sequence[Row], verdict: Verdict) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": verdict.value,
        "x": [row.ratio for row in rows],
        "y": [word(row.title) for row in rows],
        "text": [
            f"{verdict.value}: {row.ratio:.3f} ({row.low:.3f} to {row.high:.3f}), "
            f"{word(show(row.base, row.unit))} and {word(show(row.other, row.unit))}"
            for row in rows
        ],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [_gap(row.high, row.ratio) for row in rows],
            "arrayminus": [_gap(row.ratio, row.low) for row in rows],
        },
        "color": _COLORS[verdict],
        "symbol": _SYMBOLS[verdict],
    }


def _gap(above: float | None, below: float | None) -> float:
    return (above or 0.0) - (below or 0.0)


def latencies(sides: Sequence[Side]) -> Iterator[tuple[str, Chart]]:
    """Yield the steps that have histograms with latency by percentile, repeats added up."""
    for name in step_names(sides):
        traces = []
        kinds = {
            kind for side in sides for _, result in done(side, name) for kind in result.latency
        }
        for dash, kind in enumerate(sorted(kinds)):
            for number, side in enumerate(sides):
                values = _percentiles(_payloads(side, name, kind))
                if values:
                    traces.append(
                        {
                            "type": "scatter",
                            "mode": "lines+markers",
                            "name": f"{word(side.name)} {word(kind)}",
                            "x": [_nines(p) for p in PERCENTILES],
                            "y": values,
                            "text": [f"p{p:g}" for p in PERCENTILES],
                            "color": number,
                            "dash": dash,
                        }
                    )
        if traces:
            chart = _chart(
                f"latency-{word(name)}",
                f"{word(name)}: latency by percentile",
                traces,
                x="percentile",
                y="ms",
            )
            chart["layout"] |= {
                "log_y": True,
                "ticks_x": [[_nines(p), f"{p:g}"] for p in (0, 50, 90, 99, 99.9, 99.99, 99.999)],
            }
            yield name, chart


def _payloads(side: Side, name: str, kind: str) -> list[str]:
    """Return the histograms of one kind of operation of one step."""
    return [r.latency[kind].payload for _, r in done(side, name) if kind in r.latency]


def _nines(percentile: float) -> float:
    """Return where a percentile is on an axis that gives each further nine the same room."""
    return -math.log10(1 - percentile / 100)


def _percentiles(payloads: Iterable[str]) -> list[float]:
    """Return milliseconds at each of PERCENTILES, of all histograms added up; none if empty."""
    total = histogram.merged(payloads)
    if total is None or not total.get_total_count():
        return []
    values = total.get_percentile_to_value_dict(PERCENTILES)
    return [values.get(p, 0) / 1e6 for p in PERCENTILES]


def ledgers(sides: Sequence[Side]) -> Chart | None:
    """Return where the blocks came from, per second: medians of each step and side."""
    layers = {"shared buffers": [], "page cache": [], "device": []}  # type: dict[str, list[float]]
    names, verdicts = [], []
    for name in step_names(sides):
        for side in sides:
            known = [result.ledger for _, result in done(side, name) if result.ledger is not None]
            if not known:
                continue
            names.append(f"{word(name)}, {word(side.name)}")
            verdicts.append(" | ".join(sorted({ledger.verdict.value for ledger in known})))
            layers["shared buffers"].append(median(ledger.buffer_hits for ledger in known))
            layers["page cache"].append(median(ledger.page_cache_hits or 0 for ledger in known))
            layers["device"].append(median(ledger.device_reads or 0 for ledger in known))
    if not names:
        return None
    traces = [
        {
            "type": "bar",
            "name": layer,
            "x": names,
            "y": values,
            "text": verdicts,
            "color": number,
            "pattern": number,
        }
        for number, (layer, values) in enumerate(layers.items())
    ]
    chart = _chart("ledger", "The ledger: where the blocks came from", traces, y="blocks/s")
    chart["layout"]["stack"] = True
    return chart


def of_steps(sides: Sequence[Side]) -> Iterator[tuple[str, Chart]]:
    """Yield the charts that steps have of their own, as their displays give them.

    Each with the name of the first step of its kind, whose place is theirs.
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
        yield from ((name, _drawn(chart, sides)) for chart in shown.charts(results))


def _drawn(chart: display.Chart, sides: Sequence[Side]) -> Chart:
    """Return a step's chart as the page draws it; its texts are made harmless here."""
    traces = [_traced(trace, sides) for trace in chart.traces]
    drawn = _chart(chart.name, word(chart.title), traces, x=chart.x, y=chart.y, zero=chart.zero)
    if chart.log_x:
        drawn["layout"]["log_x"] = True
    return drawn


def _traced(trace: display.Trace, sides: Sequence[Side]) -> Trace:
    drawn: Trace = {
        "type": "bar" if trace.kind == "bar" else "scatter",
        "name": word(" ".join(filter(None, (sides[trace.side].name, trace.name)))),
        "x": [word(value) if isinstance(value, str) else value for value in trace.x],
        "y": list(trace.y),
        "color": trace.side,
    }
    if trace.kind == "bar":
        return {**drawn, "pattern": trace.side}
    texts = [word(text) for text in trace.texts]
    return {**drawn, "mode": "lines+markers", "text": texts, "dash": trace.style}


def series(sides: Sequence[Side]) -> tuple[list[dict[str, Any]], int]:
    """Return every series packed, and how many intervals were averaged into one point.

    An entry is `{run, side, step, repeat, times, panels, marks, window}`; a panel is
    `{title, unit, stacked, lines: [{name, low, step, data}]}`.
    """
    chosen = [
        (side, run, result, result.series)
        for side in sides
        for run, result in done(side)
        if result.series is not None and result.series.seconds
    ]
    numbers = sum(
        len(one.seconds) * sum(len(lines) for _, _, lines in _panels(one, result))
        for *_, result, one in chosen
    )
    size = max(1, -(-numbers // _MOST_NUMBERS))
    return [_entry(side, run, result, one, size) for side, run, result, one in chosen], size


def _entry(side: Side, run: Run, result: StepResult, one: Series, size: int) -> dict[str, Any]:
    # A point stands at the end of the last interval in it, as a single interval does.
    ends = [*one.seconds[size - 1 :: size]]
    if len(one.seconds) % size:
        ends.append(one.seconds[-1])
    return {
        "side": word(side.name),
        "run": word(run.id),
        "step": word(result.name),
        "repeat": result.repeat,
        "times": packed.times(ends),
        "window": one.window,
        "marks": [[mark.at, word(mark.kind), word(mark.text)] for mark in one.marks],
        "panels": [
            {
                "title": title,
                "stacked": stacked,
                "lines": [
                    {"name": word(name), **packed.column(packed.binned(values, size))}
                    for name, values in lines
                ],
            }
            for title, stacked, lines in _panels(one, result)
        ],
    }


Column = Sequence[float | None]
Line = tuple[str, Column]


def _panels(one: Series, result: StepResult) -> list[tuple[str, bool, list[Line]]]:
    """Return what is drawn of a series, from top to bottom: title, stacked or not, lines."""
    columns = one.columns
    own = [
        name for name in columns if not watching.is_kernels(name) and not name.startswith(_IMPORTED)
    ]
    metric = leading([result])
    own.sort(key=lambda name: metric is None or name != metric.metric)
    drawn: dict[str, tuple[bool, dict[str, Column]]]
    drawn = {"per second": (False, {name: columns[name] for name in own[:2]})}
    if not any(name.startswith("diskstats.") for name in columns):
        drawn |= _imported(columns)
    for collector, panel in watching.panels(one):
        _, lines = drawn.setdefault(panel.title, (panel.stacked, {}))
        for column, title in panel.lines:
            if f"{collector}.{column}" in columns:
                lines.setdefault(title, columns[f"{collector}.{column}"])
    return [
        (title, stacked, list(lines.items())) for title, (stacked, lines) in drawn.items() if lines
    ]


def _imported(columns: Mapping[str, Column]) -> dict[str, tuple[bool, dict[str, Column]]]:
    """Return the panel of the devices that another tool recorded."""
    device = {
        name.removeprefix(_IMPORTED): values
        for name, values in columns.items()
        if name.startswith(_IMPORTED) and name.endswith((".r/s", ".w/s"))
    }
    return {"device, per second": (False, device)}


def _unit(unit: str) -> str:
    return {"1/s": "per second", "": ""}.get(unit, word(unit))


def _chart(
    identity: str, title: str, traces: list[Trace], *, x: str = "", y: str = "", zero: bool = False
) -> Chart:
    return {
        "id": identity,
        "title": title,
        "traces": traces,
        "layout": {"x": x, "y": y, "zero": zero},
    }
