"""One self-contained page: opens from disk, asks no network, and shows runs and their comparison.

Text that a run brought along is escaped wherever it stands: as markup, inside the data of the
page's script, and in what the plotting library would take for tags.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources, util
from itertools import chain, count
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from replayer import __version__
from replayer.analysis.comparison import Comparison, Row
from replayer.analysis.difference import Sort, facts
from replayer.analysis.samples import Side
from replayer.errors import ReplayerError
from replayer.report import charts
from replayer.report.comparison import SORTS, explained, limits, sentence, values, verdict
from replayer.report.words import clean
from replayer.units import show

_MOST_RUNS = 200
_LONG = 48
"""Characters from which on a cell of a table may be broken into lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")


def page(sides: Sequence[Side], comparison: Comparison | None, refused: str = "") -> str:
    """Return the page of some groups of runs; `refused` is why two of them are not compared."""
    series, size = charts.series(sides)
    drawn = _identified(_charts(sides, comparison))
    body = [
        *_comparison(comparison, refused, drawn),
        *_measurements(sides, drawn),
        *_series(series, size),
        *_sections(drawn),
        *_runs(sides),
    ]
    template = Template(_part("page.html"))
    return template.substitute(
        title=_text(_title(sides)),
        style=_part("page.css"),
        head=_head(sides, comparison),
        body="\n".join(body),
        foot=f"replayer {_text(__version__)}",
        plotly=_plotly(),
        data=_json({"charts": [one for _, one in drawn], "series": series}),
        script=_part("page.js"),
    )


Drawn = tuple[str, charts.Chart]
"""The section that a chart stands in, and the chart."""


def _charts(sides: Sequence[Side], comparison: Comparison | None) -> Iterator[Drawn]:
    forest = charts.intervals(comparison) if comparison else None
    if forest:
        yield "comparison", forest
    yield from (("repeats", chart) for chart in charts.repeats(sides))
    yield from (("latency", chart) for chart in charts.latencies(sides))
    for chart in (charts.ledgers(sides), *charts.of_steps(sides)):
        if chart:
            yield "more", chart


def _identified(drawn: Iterable[Drawn]) -> list[Drawn]:
    """Give each chart an id that is the same as markup and in the script, and no other's.

    What a step is called may be anything; of its name letters, digits and dashes remain.
    """
    seen: set[str] = set()
    charts_with_ids = []
    for section, chart in drawn:
        plain = _UNSAFE.sub("-", chart["id"])
        identity = next(one for one in chain([plain], _numbered(plain)) if one not in seen)
        seen.add(identity)
        charts_with_ids.append((section, {**chart, "id": identity}))
    return charts_with_ids


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}--{number}" for number in count(2))


def _title(sides: Sequence[Side]) -> str:
    return " and ".join(side.name for side in sides[:3]) + (" and others" if len(sides) > 3 else "")


def _head(sides: Sequence[Side], comparison: Comparison | None) -> str:
    many = sum(len(side.runs) for side in sides)
    workloads = sorted({run.workload.name for side in sides for run in side.runs})
    runs = f"{many} run{'' if many == 1 else 's'} of {', '.join(workloads)}"
    lines = [f'<p class="quiet">{_text(runs)}</p>']
    if comparison:
        lines.insert(0, f'<p class="verdict">{_text(sentence(comparison))}</p>')
        lines.append(f"<p>{_text(comparison.worth)}</p>")
    return "\n".join(lines)


def _comparison(
    comparison: Comparison | None, refused: str, drawn: Sequence[Drawn]
) -> Iterator[str]:
    if refused:
        yield f"<h2>Comparison</h2><p>Not compared: {_text(refused)}</p>"
    if comparison is None:
        return
    yield "<h2>What else differs</h2>"
    yield from _differences(comparison)
    if comparison.warnings:
        yield "<h2>Attention</h2>"
        yield f"<ul>{''.join(f'<li>{_text(words)}</li>' for words in comparison.warnings)}</ul>"
    yield "<h2>Comparison</h2>"
    yield from _figures(drawn, "comparison")
    names = (comparison.base.name, comparison.other.name)
    yield _table(
        ["step", "metric", *names, "ratio", "95 % interval", "p", "verdict"],
        [_row(row) for row in comparison.rows],
        numbers=range(2, 7),
    )
    yield "".join(f'<p class="quiet">{_text(words)}</p>' for words in explained(comparison))


def _row(row: Row) -> list[str]:
    return [
        row.step,
        row.metric,
        show(row.base, row.unit),
        show(row.other, row.unit),
        "" if row.ratio is None else f"{row.ratio:.3f}",
        limits(row),
        "" if row.p_holm is None else f"{row.p_holm:.3f}",
        verdict(row),
    ]


def _differences(comparison: Comparison) -> Iterator[str]:
    rows = [
        [SORTS[one.sort], one.key, values(one.base), values(one.other)]
        for one in comparison.differences
        if one.sort is not Sort.NOISE
    ]
    headings = ["", "fact", comparison.base.name, comparison.other.name]
    yield _table(headings, rows) if rows else "<p>Nothing that is known.</p>"
    noise = [one.key for one in comparison.differences if one.sort is Sort.NOISE]
    if noise:
        yield f'<p class="quiet">noise: {_text(", ".join(noise))}</p>'


def _measurements(sides: Sequence[Side], drawn: Sequence[Drawn]) -> Iterator[str]:
    yield "<h2>Every repeat</h2>"
    yield from _figures(drawn, "repeats")
    rows = []
    for name in charts.step_names(sides):
        metrics = {
            m.metric: m
            for side in sides
            for _, result in charts.done(side, name)
            for m in result.measurements
        }
        for metric, kind in metrics.items():
            for side in sides:
                values = [
                    v
                    for _, result in charts.done(side, name)
                    if (v := result.value(metric)) is not None
                ]
                if values:
                    shown = [show(v, kind.unit) for v in (median(values), min(values), max(values))]
                    rows.append([name, metric, side.name, *shown, str(len(values))])
    yield "<details><summary>All measurements</summary>"
    headings = ["step", "metric", "group", "median", "least", "most", "n"]
    yield _table(headings, rows, numbers=range(3, 7))
    yield "</details>"


def _series(series: Sequence[Any], size: int) -> Iterator[str]:
    if not series:
        return
    yield "<h2>Second by second</h2>"
    yield (
        '<div class="choice"><button type="button" id="series-back">&#8592; before</button>'
        '<select id="series-choice" aria-label="which repeat"></select>'
        '<button type="button" id="series-on">next &#8594;</button></div>'
    )
    yield '<figure><div class="chart series" id="series"></div></figure>'
    if size > 1:
        words = f"Each point is the mean of {size} intervals, to keep the page small."
        yield f'<p class="quiet">{words}</p>'


def _sections(drawn: Sequence[Drawn]) -> Iterator[str]:
    for section, title in (("latency", "Latency"), ("more", "Ledger, build and walk")):
        if any(kind == section for kind, _ in drawn):
            yield f"<h2>{title}</h2>"
            yield from _figures(drawn, section)


def _figures(drawn: Sequence[Drawn], section: str) -> Iterator[str]:
    for kind, chart in drawn:
        if kind == section:
            # The chart's words are escaped already.
            yield (
                f"<figure><h3>{chart['title']}</h3>"
                f'<div class="chart" id="{chart["id"]}"></div></figure>'
            )


def _runs(sides: Sequence[Side]) -> Iterator[str]:
    runs = [(side, run) for side in sides for run in side.runs]
    yield "<h2>Runs</h2>"
    rows = [
        [
            side.name,
            run.id,
            run.label,
            run.workload.name,
            run.status.value,
            run.started,
            str(run.host.get("kernel.release") or ""),
        ]
        for side, run in runs[:_MOST_RUNS]
    ]
    yield _table(["group", "run", "label", "workload", "ended", "started", "kernel"], rows)
    if len(runs) > _MOST_RUNS:
        yield f'<p class="quiet">and {len(runs) - _MOST_RUNS} more</p>'
    advice = dict.fromkeys(str(one) for _, run in runs for one in run.advice)
    if advice:
        yield "<h3>What to know about these numbers</h3>"
        yield f"<ul>{''.join(f'<li>{_text(words)}</li>' for words in advice)}</ul>"
    yield "<details><summary>The environment: every fact</summary>"
    yield _environment(sides)
    yield "</details>"


def _environment(sides: Sequence[Side]) -> str:
    """Return a table of every fact with the values that each group has."""
    known = [[facts(run) for run in side.runs] for side in sides]
    keys = sorted({key for side in known for one in side for key in one})
    rows = [
        [key, *(values(sorted({one.get(key, "-") for one in side})) for side in known)]
        for key in keys
    ]
    return _table(["fact", *(side.name for side in sides)], rows)


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    right = set(numbers)

    def cell(tag: str, i: int, text: str) -> str:
        first = text.partition(",")[0]
        kind = (
            "number"
            if i in right
            else first
            if first in _KINDS
            else "long"
            if len(text) > _LONG
            else ""
        )
        return f"<{tag}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{_text(text)}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(headings))
    body = "".join(
        f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>\n" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


_KINDS = {"better", "worse", "same", "unclear"}


def _text(words: object) -> str:
    return escape(clean(words))


def _json(value: Any) -> str:
    """Return JSON in which no `<` can end the script that it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _part(name: str) -> str:
    return resources.files("replayer.report").joinpath("page", name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return Plotly's script, which travels inside its Python package; that is not imported."""
    package = util.find_spec("plotly")
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder, "package_data", "plotly.min.js")
        if path.is_file():
            # A `</script` inside a string of it would end the element.
            return path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    raise ReplayerError("the charts need the package plotly with its script: pip install plotly")
