"""The HTML page of runs and their comparison: one file, opens from disk, needs no network."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from string import ascii_lowercase
from typing import Any

from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.environment import facts
from replayer.analysis.differences.samples import Side
from replayer.model import Run
from replayer.report.documents import client_hosts, replays, statements
from replayer.report.pages import (
    charts,
    comparison_page,
    flames,
    ratio_chart,
    summary_page,
)
from replayer.report.pages.markup import (
    Drawn,
    document,
    escaped,
    figures,
    identified,
    navigation,
    table,
    watched,
)
from replayer.report.sanitize import short
from replayer.report.terminal import summary
from replayer.report.terminal.comparison import shortened, values
from replayer.report.terminal.comparison_answer import answer
from replayer.report.writers import page_writer
from replayer.units import show

_MOST_RUNS = 200
_STEP = "step {}"
"""The name of the page's section for a step's charts, with the step's name."""
_MOST_STATEMENTS, _STATEMENT = 200, 400
"""The most statements of a table, and characters of a statement's normalised text."""


def page(sides: Sequence[Side], comparison: Comparison | None, refused: str = "") -> str:
    """Return the HTML page of groups of runs; `refused` is the reason for no comparison."""
    sides, comparison = _named(sides, comparison)
    series, size = charts.series(sides)
    steps = list(flames.steps(sides))
    shown = comparison_page.differing(comparison) if comparison else frozenset()
    differing = flames.differing(comparison, steps, shown) if comparison else []
    graphs, left = flames.flames(steps)
    drawn = identified(
        [
            *(
                (comparison_page.DIFFERENCE.format(number), one.chart)
                for number, one in enumerate(differing)
            ),
            *_charts(sides, comparison),
            *((_STEP.format(name), chart) for name, chart in flames.accounts(steps)),
            *((_STEP.format(name), chart) for name, chart in graphs),
        ]
    )
    folded = frozenset(charts.step_names(sides)) - shown if comparison else frozenset()
    body = [
        *_comparison(comparison, refused, differing, drawn, flames.too_few(steps, shown)),
        *page_writer.show_parts(
            statements.sections(sides, most=_MOST_STATEMENTS, width=_STATEMENT)
        ),
        *_replays(comparison, drawn),
        *_runs(sides, comparison),
        *([] if comparison else [*_sections(drawn), *_series(series, size)]),
        *(['<h2 id="steps">Step by step</h2>'] if comparison else []),
        *_steps(sides, steps, drawn, left, folded),
        *page_writer.show_parts(client_hosts.sections(sides)),
        *([*_series(series, size), *_sections(drawn)] if comparison else []),
        *_everything(sides),
    ]
    return document(
        _title(sides),
        head="\n".join([navigation(body), *_head(sides, comparison, drawn)]),
        body=body,
        drawn=drawn,
        series=series,
    )


def _comparison(
    comparison: Comparison | None,
    refused: str,
    differing: Sequence[flames.Differing],
    drawn: Sequence[Drawn],
    left_out: Sequence[str],
) -> Iterator[str]:
    if refused:
        yield f"<h2>Comparison</h2><p>Not compared: {escaped(refused)}</p>"
    if comparison is not None:
        yield from comparison_page.warnings(comparison)
        yield from comparison_page.metrics(comparison, drawn)
        yield from comparison_page.why(comparison, differing, drawn, left_out)
        yield from comparison_page.environment(comparison)


def _runs(sides: Sequence[Side], comparison: Comparison | None) -> Iterator[str]:
    """Yield the summary of each side, below a comparison; without one it is the page's head."""
    if comparison:
        yield '<h2 id="runs">The runs</h2>'
        yield '<details class="printed"><summary>What each side measured</summary>'
        yield from summary_page.head(sides)
        yield "</details>"


def _named(
    sides: Sequence[Side], comparison: Comparison | None
) -> tuple[list[Side], Comparison | None]:
    """Return both with names that are short enough for a chart, and unique."""
    names: dict[str, str] = {}
    for side in sides:
        name = short(side.name)
        same = sum(name == other for other in names.values())
        names[side.name] = f"{name} ({len(names) + 1})" if same else name
    named = [Side(names[side.name], side.runs) for side in sides]
    return named, comparison and shortened(comparison, names)


def _charts(sides: Sequence[Side], comparison: Comparison | None) -> Iterator[Drawn]:
    if comparison:
        first = answer(comparison).metrics
        for section, rows in ((comparison_page.ANSWER, first), (comparison_page.ALL, None)):
            forest = ratio_chart.intervals(comparison, rows)
            if forest:
                yield section, forest
    yield from ((_STEP.format(name), chart) for name, chart in charts.overlays(sides))
    yield from ((_STEP.format(name), chart) for name, chart in charts.repeats(sides))
    for name, chart in charts.of_steps(sides):
        replay = chart["id"].startswith("replay")
        yield "replay" if replay else _STEP.format(name), chart
    yield from ((_STEP.format(name), chart) for name, chart in charts.latencies(sides))
    ledger = charts.ledgers(sides)
    if ledger:
        yield "more", ledger


def _title(sides: Sequence[Side]) -> str:
    return " and ".join(side.name for side in sides[:3]) + (" and others" if len(sides) > 3 else "")


def _head(
    sides: Sequence[Side], comparison: Comparison | None, drawn: Sequence[Drawn]
) -> Iterator[str]:
    runs = [run for side in sides for run in side.runs]
    workloads = ", ".join(sorted({run.workload.name for run in runs}))
    ended = summary.counted([run.status.value for run in runs]) if runs else "none"
    words = f"{len(runs)} run{'' if len(runs) == 1 else 's'} of {workloads}: {ended}"
    if comparison:
        yield from comparison_page.first_screen(comparison, drawn)
        yield f'<p class="quiet">{escaped(words)}. {escaped(comparison.worth)}</p>'
    else:
        yield from summary_page.head(sides)
        yield f'<p class="quiet">{escaped(words)}</p>'


def _steps(
    sides: Sequence[Side],
    watched: Sequence[flames.StepFlames],
    drawn: Sequence[Drawn],
    left: int,
    folded: frozenset[str],
) -> Iterator[str]:
    """Yield the section of each step: its charts, its account, and every measurement.

    The steps in `folded` are closed until a reader opens them.
    """
    profiled = [chart for _, chart in drawn if "frames" in chart]
    explained_ = False
    for number, name in enumerate(charts.step_names(sides)):
        yield _heading(name, number, folded=name in folded)
        section = _STEP.format(name)
        yield from figures([one for one in drawn if "frames" not in one[1]], section)
        graphs = [one for one in drawn if one[0] == section and "frames" in one[1]]
        yield from figures(graphs, section)
        if graphs and not explained_:
            explained_ = True
            yield f'<p class="quiet">{flames.COLORS}</p>'
        yield f"<details><summary>All measurements of {escaped(name)}</summary>"
        headings = ["metric", "group", "median", "least", "most", "n"]
        yield table(headings, _measurements(sides, name), numbers=range(2, 6))
        yield from _parts([step for step in watched if step.name == name])
        yield "</details>"
        yield "</details>" if name in folded else ""
    if profiled and left:
        yield f'<p class="quiet">and {left} more flame graphs, which this page has no room for</p>'


def _letters(number: int) -> str:
    """Return a number as letters, for an address in the page: `a` to `z`, then `ba`, `bb`."""
    first, last = divmod(number, len(ascii_lowercase))
    return (_letters(first) if first else "") + ascii_lowercase[last]


def _heading(name: str, number: int, *, folded: bool) -> str:
    """Return the heading of a step's section; one that is folded begins with it."""
    if folded:
        return (
            f'<details class="printed step"><summary><h2>{escaped(name)}</h2> '
            f'<span class="quiet">no difference was shown</span></summary>'
        )
    return f'<h2 id="step-{_letters(number)}">{escaped(name)}</h2>'


def _parts(steps: Sequence[flames.StepFlames]) -> Iterator[str]:
    """Yield a table of the parts of a step's account."""
    for step in steps:
        shares = flames.parts(step)
        if shares:
            scale, rows = shares
            headings = [f"where the time went, {scale.name} a {step.operation}"]
            headings += [one.side for one in step.sides]
            shown = [[part, *(f"{value:.3f}" for value in values)] for part, values in rows]
            yield table(headings, shown, numbers=range(1, len(headings)))


def _replays(comparison: Comparison | None, drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield the charts of replays (throughput and lag over time), then tables of fingerprints."""
    if any(kind == "replay" for kind, _ in drawn):
        yield '<h2 id="replay">Replay</h2>'
        yield from figures(drawn, "replay")
    if comparison:
        yield from page_writer.show_parts(replays.sections(comparison, width=_STATEMENT))


def _measurements(sides: Sequence[Side], name: str) -> Iterator[list[str]]:
    """Yield a row for each metric and side of a step: median, minimum, maximum of the repeats."""
    metrics = {
        m.metric: m
        for side in sides
        for _, result in charts.done(side, name)
        for m in result.measurements
    }
    for metric, kind in metrics.items():
        for side in sides:
            values = [
                value
                for _, result in charts.done(side, name)
                if (value := result.value(metric)) is not None
            ]
            if values:
                shown = [show(v, kind.unit) for v in (median(values), min(values), max(values))]
                yield [metric, side.name, *shown, str(len(values))]


def _series(series: Sequence[Any], size: int) -> Iterator[str]:
    if not series:
        return
    yield from watched("Second by second")
    yield '<p class="quiet">Shaded: the measured window. Dotted lines: events of the server.</p>'
    if size > 1:
        words = f"Each point is the mean of {size} intervals, to keep the page small."
        yield f'<p class="quiet">{words}</p>'


def _sections(drawn: Sequence[Drawn]) -> Iterator[str]:
    if any(kind == "more" for kind, _ in drawn):
        yield '<h2 id="ledger-title">Where the blocks came from</h2>'
        yield from figures(drawn, "more")


def _everything(sides: Sequence[Side]) -> Iterator[str]:
    """Yield the details that few readers need, folded: runs, notes of the steps, every fact."""
    runs = [(side, run) for side in sides for run in side.runs]
    yield '<h2 id="everything">Everything else</h2>'
    yield f"<details><summary>Runs ({len(runs)})</summary>"
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
    yield "</details>"
    yield from _notes([run for _, run in runs])
    yield "<details><summary>The environment: every fact</summary>"
    yield _environment(sides)
    yield "</details>"


def _notes(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a table of the steps' notes, each once, with the steps that have it and how often."""
    of_step: dict[str, Counter[str]] = {}
    for run in runs:
        for step in run.steps:
            for note in (*step.notes, *(step.account.notes if step.account else ())):
                of_step.setdefault(note, Counter())[step.name] += 1
    if of_step:
        yield f"<details><summary>Notes of single steps ({len(of_step)})</summary>"
        rows = [
            [", ".join(f"{name} {times}x" for name, times in names.items()), note]
            for note, names in of_step.items()
        ]
        yield table(["of", "note"], rows)
        yield "</details>"


def _environment(sides: Sequence[Side]) -> str:
    """Return a table of every fact, with its values in each group."""
    known = [[facts(run) for run in side.runs] for side in sides]
    keys = sorted({key for side in known for one in side for key in one})
    rows = [
        [key, *(values(sorted({one.get(key, "-") for one in side})) for side in known)]
        for key in keys
    ]
    return table(["fact", *(side.name for side in sides)], rows)
