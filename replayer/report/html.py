"""The page of runs and their comparison: one file that opens from disk and asks no network."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from replayer.analysis.client_hosts import bound_words
from replayer.analysis.comparison import Comparison, Row
from replayer.analysis.difference import Sort, facts
from replayer.analysis.samples import Side
from replayer.report import charts, client_hosts, flames, replays
from replayer.report import why as words_why
from replayer.report.comparison import SORTS, explained, limits, sentence, values, verdict
from replayer.report.markup import Drawn, document, escaped, figures, identified, table, watched
from replayer.units import show

_MOST_RUNS = 200
_DIFFERENCE = "difference {}"
"""The section of the page that the chart of a step's difference stands in, by number."""
_STATEMENT = 400
"""Characters of a statement's normalised text."""


def page(sides: Sequence[Side], comparison: Comparison | None, refused: str = "") -> str:
    """Return the page of some groups of runs; `refused` is why two of them are not compared."""
    series, size = charts.series(sides)
    steps = list(flames.steps(sides))
    differing = flames.differing(comparison, steps) if comparison else []
    graphs, left = flames.flames(steps)
    drawn = identified(
        [
            *((_DIFFERENCE.format(number), one.chart) for number, one in enumerate(differing)),
            *(("time", chart) for chart in flames.accounts(steps)),
            *(("flames", chart) for chart in graphs),
            *_charts(sides, comparison),
        ]
    )
    body = [
        *_comparison(comparison, refused, drawn),
        *_why(comparison, differing, drawn),
        *_replays(comparison, drawn),
        *_measurements(sides, drawn),
        *_time(steps, drawn, left),
        *_client_hosts(sides),
        *_series(series, size),
        *_sections(drawn),
        *_runs(sides),
    ]
    return document(
        _title(sides),
        head=_head(sides, comparison),
        body=body,
        drawn=drawn,
        series=series,
    )


def _charts(sides: Sequence[Side], comparison: Comparison | None) -> Iterator[Drawn]:
    forest = charts.intervals(comparison) if comparison else None
    if forest:
        yield "comparison", forest
    yield from (("repeats", chart) for chart in charts.repeats(sides))
    yield from (("latency", chart) for chart in charts.latencies(sides))
    for chart in (charts.ledgers(sides), *charts.of_steps(sides)):
        if chart:
            yield "replay" if chart["id"].startswith("replay") else "more", chart


def _title(sides: Sequence[Side]) -> str:
    return " and ".join(side.name for side in sides[:3]) + (" and others" if len(sides) > 3 else "")


def _head(sides: Sequence[Side], comparison: Comparison | None) -> str:
    many = sum(len(side.runs) for side in sides)
    workloads = sorted({run.workload.name for side in sides for run in side.runs})
    runs = f"{many} run{'' if many == 1 else 's'} of {', '.join(workloads)}"
    lines = [f'<p class="quiet">{escaped(runs)}</p>']
    if comparison:
        lines.insert(0, f'<p class="verdict">{escaped(sentence(comparison))}</p>')
        lines.append(f"<p>{escaped(comparison.worth)}</p>")
    return "\n".join(lines)


def _comparison(
    comparison: Comparison | None, refused: str, drawn: Sequence[Drawn]
) -> Iterator[str]:
    if refused:
        yield f"<h2>Comparison</h2><p>Not compared: {escaped(refused)}</p>"
    if comparison is None:
        return
    yield "<h2>What else differs</h2>"
    yield from _differences(comparison)
    if comparison.warnings:
        yield "<h2>Attention</h2>"
        yield f"<ul>{''.join(f'<li>{escaped(words)}</li>' for words in comparison.warnings)}</ul>"
    yield "<h2>Comparison</h2>"
    yield from figures(drawn, "comparison")
    names = (comparison.base.name, comparison.other.name)
    yield table(
        ["step", "metric", *names, "ratio", "95 % interval", "p", "verdict"],
        [_row(row) for row in comparison.rows],
        numbers=range(2, 7),
    )
    yield "".join(f'<p class="quiet">{escaped(words)}</p>' for words in explained(comparison))


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


def _why(
    comparison: Comparison | None, differing: Sequence[flames.Differing], drawn: Sequence[Drawn]
) -> Iterator[str]:
    """Yield which parts of the accounts moved, and what the processors did differently."""
    if comparison is None or not (comparison.why or differing):
        return
    yield "<h2>Why</h2>"
    if not comparison.why:
        yield "<p>No metric was shown to differ, so that no part of an account is named.</p>"
    for why in comparison.why:
        section = words_why.section(why, comparison)
        yield f'<p class="verdict">{escaped(section.sentence)}</p>'
        yield "".join(f"<p>may explain: {escaped(cause)}</p>" for cause in section.may_explain)
        if why.parts:
            rows = words_why.rows(why)
            yield table(words_why.headings(comparison, why), rows, numbers=range(1, 6))
    yield "".join(f'<p class="quiet">{escaped(one)}</p>' for one in words_why.explained(comparison))
    for number, one in enumerate(differing):
        yield from figures(drawn, _DIFFERENCE.format(number))
        yield f"<p>{escaped(one.legend)}</p>"
        yield table(one.headings, one.rows, numbers=range(2, 5))


def _time(steps: Sequence[flames.Step], drawn: Sequence[Drawn], left: int) -> Iterator[str]:
    """Yield where the time of each step went: bars of its parts, and flame graphs."""
    if not steps:
        return
    yield "<h2>Where the time went</h2>"
    yield from figures(drawn, "time")
    yield "<details><summary>All parts</summary>"
    for step in steps:
        shares = flames.parts(step)
        if shares:
            scale, rows = shares
            headings = [f"{step.name}, {scale.name} a {step.operation}"]
            headings += [one.side for one in step.sides]
            shown = [[part, *(f"{value:.3f}" for value in values)] for part, values in rows]
            yield table(headings, shown, numbers=range(1, len(headings)))
    yield "</details>"
    if any(kind == "flames" for kind, _ in drawn):
        yield f'<p class="quiet">{flames.COLORS}</p>'
        yield from figures(drawn, "flames")
    if left:
        yield f'<p class="quiet">and {left} more flame graphs, which this page has no room for</p>'


def _replays(comparison: Comparison | None, drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield what became of each fingerprint, below throughput and lag over time."""
    if any(kind == "replay" for kind, _ in drawn):
        yield "<h2>Replay</h2>"
        yield from figures(drawn, "replay")
    for section in replays.sections(comparison, width=_STATEMENT) if comparison else ():
        yield f"<h2>{escaped(section.title)}</h2>"
        yield "".join(f"<p>{escaped(words)}</p>" for words in section.sentences)
        for title, headings, rows in section.tables:
            yield f"<h3>{escaped(title)}</h3>"
            yield table(headings, rows, numbers=range(2, len(headings)))


def _differences(comparison: Comparison) -> Iterator[str]:
    rows = [
        [SORTS[one.sort], one.key, values(one.base), values(one.other)]
        for one in comparison.differences
        if one.sort is not Sort.NOISE
    ]
    headings = ["", "fact", comparison.base.name, comparison.other.name]
    yield table(headings, rows) if rows else "<p>Nothing that is known.</p>"
    noise = [one.key for one in comparison.differences if one.sort is Sort.NOISE]
    if noise:
        yield f'<p class="quiet">noise: {escaped(", ".join(noise))}</p>'


def _measurements(sides: Sequence[Side], drawn: Sequence[Drawn]) -> Iterator[str]:
    yield "<h2>Every repeat</h2>"
    yield from figures(drawn, "repeats")
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
    yield table(headings, rows, numbers=range(3, 7))
    yield "</details>"


def _client_hosts(sides: Sequence[Side]) -> Iterator[str]:
    """Yield each client host's share in the steps of each group's last run."""
    last = [side.runs[-1] for side in sides if side.runs]
    steps = [(run, step) for run in last for step in run.steps if client_hosts.rows(step)]
    if steps:
        yield "<h2>Client hosts</h2>"
    for run, step in steps:
        bound = bound_words(step, run)
        yield f"<h3>{escaped(f'{step.name}, {run.id}')}</h3>"
        yield f"<p>{escaped(client_hosts.title(step))}</p>"
        yield f'<p class="verdict">{escaped(bound)}</p>' if bound else ""
        yield table(client_hosts.HEADINGS, client_hosts.rows(step), numbers=range(1, 10))
        yield f'<p class="quiet">{escaped(client_hosts.start(step))}</p>'


def _series(series: Sequence[Any], size: int) -> Iterator[str]:
    if not series:
        return
    yield from watched("Second by second")
    if size > 1:
        words = f"Each point is the mean of {size} intervals, to keep the page small."
        yield f'<p class="quiet">{words}</p>'


def _sections(drawn: Sequence[Drawn]) -> Iterator[str]:
    for section, title in (("latency", "Latency"), ("more", "Ledger, build and walk")):
        if any(kind == section for kind, _ in drawn):
            yield f"<h2>{title}</h2>"
            yield from figures(drawn, section)


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
    yield table(["group", "run", "label", "workload", "ended", "started", "kernel"], rows)
    if len(runs) > _MOST_RUNS:
        yield f'<p class="quiet">and {len(runs) - _MOST_RUNS} more</p>'
    advice = dict.fromkeys(str(one) for _, run in runs for one in run.advice)
    if advice:
        yield "<h3>What to know about these numbers</h3>"
        yield f"<ul>{''.join(f'<li>{escaped(words)}</li>' for words in advice)}</ul>"
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
    return table(["fact", *(side.name for side in sides)], rows)
