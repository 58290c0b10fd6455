"""The HTML page of a sizing verdict: one file that opens from disk and needs no network."""

import re
from collections.abc import Iterable, Iterator, Sequence

from replayer.load.objective import goals
from replayer.report.pages.charts import Chart, Trace, word
from replayer.report.pages.markup import Drawn, document, escaped, figures, identified, table
from replayer.report.terminal import sizing as report
from replayer.report.terminal.sizing import SizingSummary
from replayer.sizing.findings import last

_PERCENTILES = (("p50_s", "p50"), ("p95_s", "p95"), ("p99_s", "p99"))
_LEAST_MS = 0.01


def page(one: SizingSummary, beside: str = "") -> str:
    """Return the HTML page of a verdict; `beside` is HTML that comes first."""
    drawn = identified(("curve", chart) for chart in _charts(one))
    body = [
        *([beside] if beside else []),
        *_resources(one),
        *_curve(one, drawn),
        *recommended(one),
        *_requirement(one),
        *(_listed(heading, texts) for heading, texts in report.lists(one.verdict) if texts),
    ]
    return document(report.title(one), head=_head(one), body=body, drawn=drawn, series=[])


def _head(one: SizingSummary) -> str:
    lines = [f'<p class="verdict">{escaped(report.headline(one.verdict))}</p>']
    lines += [f"<p>{escaped(words)}</p>" for words in report.behind(one.verdict)]
    lines.append(f'<p class="quiet">run {escaped(one.run.id)}, {escaped(one.run.started)}</p>')
    return "\n".join(lines)


def recommended(one: SizingSummary) -> Iterator[str]:
    """Yield the recommended size and the stars of the profile, as HTML."""
    verdict = one.verdict
    if verdict.recommendation:
        words = f"A size that would fit, with {report.margin_words(one.sizing.requirement)}"
        yield f"<h2>{escaped(words)}</h2>"
        yield table(
            report.RECOMMENDED_HEADINGS,
            report.recommended_rows(verdict.recommendation),
            numbers=[1],
        )
    if verdict.confidence is not None:
        words = f"Confidence in the profile: {verdict.confidence.words}"
        yield _listed(starred(words), verdict.confidence.reasons)


def starred(words: str) -> str:
    """Return words with the stars of a page in place of those of a terminal."""
    return _STARS.sub(lambda match: match[0].translate(_DRAWN), words)


_STARS = re.compile(r"[*-]+(?= \d of \d stars)")
_DRAWN = {ord("*"): "\u2605", ord("-"): "\u2606"}


def _listed(heading: str, texts: Iterable[str]) -> str:
    items = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return f"<h2>{escaped(heading)}</h2><ul>{items}</ul>"


def _resources(one: SizingSummary) -> Iterator[str]:
    rows = report.resource_rows(one.verdict)
    if not rows:
        return
    yield "<h2>Resource by resource</h2>"
    yield table(report.RESOURCE_HEADINGS, rows, numbers=range(3, 6))
    for words in report.sources(one.verdict):
        yield f'<p class="quiet">{escaped(words)}</p>'


def _requirement(one: SizingSummary) -> Iterator[str]:
    yield "<h2>What is required</h2>"
    yield table(["", ""], report.facts(one.sizing))
    rows = report.need_rows(one.sizing.requirement)
    yield table(report.NEED_HEADINGS, rows, numbers=[2])


def _curve(one: SizingSummary, drawn: Sequence[Drawn]) -> Iterator[str]:
    rows = report.trials(one.run)
    if not rows:
        return
    yield "<h2>Load curve</h2>"
    yield from figures(drawn, "curve")
    yield "<details><summary>Every trial</summary>"
    rows_of_text = [report.curve_row(row, one) for row in rows]
    yield table(report.CURVE_HEADINGS[:-1], rows_of_text, numbers=range(2, 7))
    yield "</details>"


def _charts(one: SizingSummary) -> Iterator[Chart]:
    """Yield charts: response time by rate, with required rate, objective and knee; hit ratio."""
    rows = [row for row in report.trials(one.run) if row["p50_s"] is not None]
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
    yield {
        "id": "curve",
        "title": "Response time by rate, of the rates that were sustained",
        "traces": traces,
        "layout": {"x": "statements a second", "y": "ms", "log_y": True},
    }
    step = last(one.run, "buffers")
    curve = step.tables.get("buffers", ()) if step is not None else ()
    if curve:
        yield {
            "id": "buffers",
            "title": "Blocks found, by the size of the buffers",
            "traces": [
                straight(
                    "measured",
                    [row["buffers_bytes"] / (1 << 20) for row in curve],
                    [100 * row["hit_share"] for row in curve],
                    color=0,
                )
            ],
            "layout": {"x": "MiB", "y": "%", "log_x": True},
        }


def _marks(one: SizingSummary) -> Iterator[tuple[str, float, int]]:
    """Yield (name, statements a second, colour) of the rates that are marked in the chart."""
    yield "required", one.sizing.rate, 4
    step = last(one.run, "capacity")
    accepted = step.value("capacity.multiple") if step is not None else None
    if accepted is not None:
        yield "highest sustained (knee)", accepted * one.sizing.rate, 5


def straight(
    name: str, x: Sequence[float], y: Sequence[float], *, color: int, dash: int = 0
) -> Trace:
    """Return a trace of points with a line through them; with a `dash` of 1 or 2 only the line."""
    return {
        "type": "scatter",
        "mode": "lines" if dash else "lines+markers",
        "name": word(name),
        "x": list(x),
        "y": list(y),
        "color": color,
        "dash": dash,
    }
