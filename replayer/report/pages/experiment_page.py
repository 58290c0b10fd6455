"""The HTML page of an experiment: the answer, a chart of the effects, and plots of interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.experiments.answer import NOTHING, SHOWN
from replayer.report.pages.charts import word
from replayer.report.pages.markup import document, escaped, figures, identified, table
from replayer.report.terminal import experiment as report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replayer.experiments.answer import Effect, ExperimentAnswer
    from replayer.report.pages.charts import Chart, Trace
    from replayer.report.pages.markup import Drawn

_LEAST_PERCENT = 3.0
"""The axis of effects reaches so far to both sides, at least."""
_COLORS: dict[str, int | str] = {
    "worse": "worse",
    "better": "better",
    NOTHING: 0,
    "unclear": 5,
    "shown": 1,
}


def page(answer: ExperimentAnswer) -> str:
    """Return the HTML page of an experiment."""
    drawn = identified(_charts(answer))
    head = "\n".join(
        f'<p class="{"verdict" if number == 0 else "quiet"}">{escaped(words)}</p>'
        for number, words in enumerate(report.sentences(answer))
    )
    body = [part for metric in answer.metrics for part in _section(answer, metric, drawn)]
    body += [f'<p class="quiet">{escaped(words)}</p>' for words in report.explained(answer)]
    title = f"experiment {answer.plan.id}"
    return document(title, head=head, body=body, drawn=drawn, series=[])


def _section(answer: ExperimentAnswer, metric: str, drawn: Sequence[Drawn]) -> Iterator[str]:
    yield f"<h2>{escaped(metric)}</h2>"
    yield from figures(drawn, metric)
    rows = [report.row(answer, effect) for effect in report.listed(answer, metric)]
    yield table(report.HEADINGS, rows, numbers=(2, 3))


def _charts(answer: ExperimentAnswer) -> Iterator[Drawn]:
    for metric in answer.metrics:
        yield metric, _effects(answer, metric)
        pairs = dict.fromkeys(cell.factors for cell in answer.cells if cell.metric == metric)
        for pair in pairs:
            yield metric, _interaction(answer, metric, pair)


def _effects(answer: ExperimentAnswer, metric: str) -> Chart:
    """Return a chart of all listed effects with their intervals, in percent."""
    effects = report.listed(answer, metric)[::-1]
    ends = [100 * end for e in effects for end in (e.share.low or 0.0, e.share.high or 0.0)]
    low, high = min(-_LEAST_PERCENT, *ends), max(_LEAST_PERCENT, *ends)
    room = 0.04 * (high - low)
    kinds = dict.fromkeys(_kind(answer, e) for e in effects)
    within = 100 * answer.plan.within
    return {
        "id": f"effects-{metric}",
        "title": word(f"Effects on {metric}, with 95 % intervals ({_better(effects[0])})"),
        "traces": [
            _trace([e for e in effects if _kind(answer, e) == kind], kind) for kind in kinds
        ],
        "layout": {
            "x": f"% change from first to second level (shaded: within {within:g} %)",
            "y": "",
            "height": 160 + 26 * len(effects),
            "range_x": [low - room, high + room],
            "band": [-within, within],
            "categories": [word(e.title) for e in effects],
        },
    }


def _better(effect: Effect) -> str:
    return f"{effect.better.value} is better"


def _kind(answer: ExperimentAnswer, effect: Effect) -> str:
    first = report.verdict(answer, effect).split(",")[0]
    return first if first in _COLORS else SHOWN


def _trace(effects: Sequence[Effect], kind: str) -> Trace:
    values = [100 * e.share.change for e in effects]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": word(kind),
        "x": values,
        "y": [word(e.title) for e in effects],
        "text": [word(f"{report.size(e.share)} {report.interval(e.share)}") for e in effects],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [
                100 * (e.share.high or 0.0) - at for e, at in zip(effects, values, strict=True)
            ],
            "arrayminus": [
                at - 100 * (e.share.low or 0.0) for e, at in zip(effects, values, strict=True)
            ],
        },
        "color": _COLORS[kind],
        "symbol": 0,
    }


def _interaction(answer: ExperimentAnswer, metric: str, pair: tuple[str, str]) -> Chart:
    """Return a plot of two factors' interaction: parallel lines would be none."""
    cells = [cell for cell in answer.cells if cell.metric == metric and cell.factors == pair]
    unit = answer.of_metric(metric)[0].unit
    traces: list[Trace] = []
    for number, level in enumerate(dict.fromkeys(cell.levels[1] for cell in cells)):
        own = [cell for cell in cells if cell.levels[1] == level]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": word(f"{pair[1]} {level}"),
                "x": [word(f"{pair[0]} {cell.levels[0]}") for cell in own],
                "y": [cell.value for cell in own],
                "color": number,
            }
        )
    return {
        "id": f"interaction-{metric}-{pair[0]}-{pair[1]}",
        "title": word(f"{pair[0]} x {pair[1]}: lines that are not parallel act together"),
        "traces": traces,
        "layout": {"x": "", "y": word(f"{metric}, {unit}")},
    }
