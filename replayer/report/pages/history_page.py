"""The HTML page of a history: each metric over time, its levels, and where a fact changed."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from replayer.analysis.history.metric_history import MetricHistory, RunHistory, show_day
from replayer.report.pages.charts import Chart, Trace, word
from replayer.report.pages.markup import Drawn, document, escaped, figures, identified, table
from replayer.report.terminal import history as report
from replayer.units import show

_MOST_LINES = 60
"""The most lines for changes of the fact in one chart."""
_HEIGHT = 360


def page(history: RunHistory) -> str:
    """Return the page of a history as HTML."""
    drawn = identified(_drawn(history))
    return document(
        "history",
        head=_head(history),
        body=_body(history, drawn),
        drawn=drawn,
        series=[],
    )


def _head(history: RunHistory) -> str:
    lines = [f'<p class="verdict">{escaped(report.headline(history))}</p>']
    lines += [f'<p class="quiet">{escaped(words)}</p>' for words in report.remarks(history)]
    words = f"A dotted line is where {history.fact} changed. Drag over a chart to zoom in."
    return "\n".join([*lines, f'<p class="quiet">{escaped(words)}</p>'])


def _drawn(history: RunHistory) -> Iterator[Drawn]:
    for number, one in enumerate(history.series):
        if len(one.points) > 1:
            yield f"metric-{number}", _chart(one, number)


def _body(history: RunHistory, drawn: Sequence[Drawn]) -> Iterator[str]:
    title = ""
    for number, one in enumerate(history.series):
        if report.work(one) != title:
            title = report.work(one)
            yield f"<h2>{escaped(title)}</h2>"
        yield from figures(drawn, f"metric-{number}")
        yield f'<p class="quiet">{escaped(f"{one.name}: {report.now(one)}")}</p>'
        if one.changes:
            yield table(report.CHANGE_HEADINGS, _rows(one), numbers=range(1, 7))
            yield from _facts(one)


def _rows(one: MetricHistory) -> Iterator[list[str]]:
    for change in one.changes:
        before, after = change.before, change.after
        yield [
            show_day(change.when),
            report.size(change),
            report.interval(change),
            show(before.median, one.unit),
            show(after.median, one.unit),
            f"{before.runs} → {after.runs}",
            f"{report.boots(before)} → {report.boots(after)}",
            report.verdict(change),
        ]


def _facts(one: MetricHistory) -> Iterator[str]:
    for change in reversed(one.changes):
        words = report.facts(change, most=30)
        if report.caution(change):
            words.append(report.caution(change))
        if words:
            items = "".join(f"<li>{escaped(text)}</li>" for text in words)
            yield f"<h3>{escaped(f'Changed with it, {show_day(change.when)}')}</h3><ul>{items}</ul>"


def _chart(one: MetricHistory, number: int) -> Chart:
    times = [_milliseconds(point.when) for point in one.points]
    runs: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "runs",
        "x": times,
        "y": [point.value for point in one.points],
        "text": [word(f"{point.run}  {point.fact}") for point in one.points],
        "hovertemplate": "%{text}<br>%{y:.5g}<extra></extra>",
        "color": 0,
    }
    return {
        "id": f"history-{number}",
        "title": word(one.name),
        "traces": [runs, _levels(one, times)],
        "layout": {
            "x": "",
            "y": word(one.unit),
            "zero": False,
            "date_x": True,
            "height": _HEIGHT,
            "lines_x": [
                [times[at], word(one.points[at].fact)] for at in _new_facts(one)[-_MOST_LINES:]
            ],
        },
    }


def _levels(one: MetricHistory, times: Sequence[float]) -> Trace:
    """Return the median between two changes as a line over its runs, with gaps between them."""
    bounds = [0, *(change.at for change in one.changes), len(times)]
    medians = [one.changes[0].before.median] if one.changes else []
    medians += [change.after.median for change in one.changes]
    x: list[float | None] = []
    y: list[float | None] = []
    for (begin, end), level in zip(pairwise(bounds), medians, strict=False):
        x += [times[begin], times[end - 1], None]
        y += [level, level, None]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "level",
        "x": x,
        "y": y,
        "color": 1,
        "width": 3,
    }


def _new_facts(one: MetricHistory) -> list[int]:
    """Return the index of each point whose fact differs from that of the point before."""
    points = one.points
    return [
        number
        for number, (before, point) in enumerate(pairwise(points), start=1)
        if point.fact != before.fact and point.fact
    ]


def _milliseconds(when: float) -> float:
    """Return a time as Plotly has dates: milliseconds since 1970, to the second."""
    return 1000.0 * int(datetime.fromtimestamp(when, UTC).timestamp())
