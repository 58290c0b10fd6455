"""The report of a machine sized by a capture: on a terminal, as CSV, as Markdown or as a page.

It answers whether the machine keeps up with the capture.  A terminal gets at most 100 columns.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from replayer.analysis.capacity.capacity_search import SearchTrial
from replayer.load.objective import goals
from replayer.model import Run
from replayer.report.pages.charts import Chart, Trace
from replayer.report.pages.markup import document, escaped, figures, identified, table
from replayer.report.pages.sizing_page import straight
from replayer.report.sanitize import sanitize
from replayer.report.terminal import sizing
from replayer.report.terminal.tables import NumberTable, bullets, indented, line
from replayer.report.writers import csv_writer as csv
from replayer.report.writers import markdown_writer as markdown
from replayer.run.time_promise import about
from replayer.sizing import capture_sizing
from replayer.sizing.capture_sizing import CaptureRequirement, SpeedTrial
from replayer.sizing.speed_search import estimate
from replayer.sizing.verdict import FitVerdict
from replayer.units import show_count, show_duration, three

_PERCENTILES = ("p50", "p95", "p99")
_SPEED = "times the required speed"
RESOURCES = (*sizing.RESOURCE_HEADINGS, "busy")
_BUSY = "busy: at the highest speed that held"
_HEADINGS = ("times", "ended", "asked/s", "done/s", "p99", "lag p99", "why")


class SpeedSummary(NamedTuple):
    """The content of a report on a machine that was sized by a capture."""

    speed: CaptureRequirement
    run: Run
    verdict: FitVerdict


def summary(run: Run) -> SpeedSummary | None:
    """Return the summary of a run that sized a machine by a capture; None for any other run."""
    wanted = CaptureRequirement.of(run)
    return None if wanted is None else SpeedSummary(wanted, run, capture_sizing.judge(wanted, run))


def beginning(wanted: CaptureRequirement) -> Group:
    """Return the requirement and the plan of the run, to show before it starts."""
    length = show_duration(wanted.window / wanted.required)
    stages = [f"warm up, then search the highest speed: some 8 replays of up to {length}"]
    if wanted.keys.get("restore"):
        stages[0] += ", with the data restored before each, which takes what it takes"
    if wanted.hold is not None:
        held = show_duration((wanted.hold[1] - wanted.hold[0]) / wanted.required)
        stages.append(f"hold the required speed for {held}, if it is sustained")
    return Group(
        _rule(f"what is required · {sanitize(wanted.capture)}"),
        indented((label, sanitize(words)) for label, words in capture_sizing.facts(wanted)),
        _rule(f"what will be done · {about(estimate(wanted))}"),
        indented((f"{number}.", words) for number, words in enumerate(stages, 1)),
    )


def render(one: SpeedSummary) -> Group:
    """Return the verdict for the terminal, with the answer at its end."""
    verdict = one.verdict
    parts: list[RenderableType] = [
        _rule(title(one)),
        line("what is required", "bold"),
        indented((label, sanitize(words)) for label, words in capture_sizing.facts(one.speed)),
    ]
    resources = resource_rows(verdict)
    if resources:
        parts += [
            "",
            line("resource by resource", "bold"),
            NumberTable(RESOURCES, resources, left=2),
        ]
        parts.append(bullets((words, "dim") for words in sources(verdict)))
    rows = trial_rows(one)
    if rows:
        parts += ["", line("the trials, the slowest first", "bold"), NumberTable(_HEADINGS, rows)]
    for heading, texts in lists(verdict):
        if texts:
            parts += ["", line(heading.lower(), "bold")]
            parts.append(bullets((sanitize(words), "") for words in texts))
    parts += ["", line(sizing.headline(verdict), sizing.STYLES[verdict.fit])]
    return Group(*parts, *(line(sanitize(words)) for words in sizing.behind(verdict)))


def lists(verdict: FitVerdict) -> list[tuple[str, list[str]]]:
    """Return the lists that follow a verdict: heading and items of each."""
    return [
        ("What would change the answer", [sizing.changed(one) for one in verdict.changes]),
        ("What this leaves open", list(verdict.unproven)),
    ]


def sources(verdict: FitVerdict) -> Iterator[str]:
    """Yield a sentence for the origin of each figure of the resources."""
    yield _BUSY
    yield from sizing.sources(verdict)


def resource_rows(verdict: FitVerdict) -> list[list[str]]:
    """Return a row per resource: its verdict, and its use at the highest speed that held."""
    return [
        [*words, "-" if row.busy is None else f"{row.busy:.0%}"]
        for words, row in zip(sizing.resource_rows(verdict), verdict.rows, strict=True)
    ]


def _rule(text: str) -> Rule:
    return Rule(Text(text, style="bold"), align="left", style="dim")


def title(one: SpeedSummary) -> str:
    """Return the title of the report: capture, source, host and server."""
    host = sanitize(one.run.host.get("host.name") or "this machine")
    engine = one.run.engine
    server = f"{engine.name} {engine.version}" if engine else ""
    words = ("size", one.speed.capture, one.speed.source, host, server)
    return " · ".join(sanitize(word) for word in words if word)


def trial_rows(one: SpeedSummary) -> list[list[str]]:
    """Return a row of text per trial, the slowest first."""
    trials = sorted(capture_sizing.trials(one.speed, one.run), key=lambda trial: trial.multiple)
    return [_trial(one.speed, trial) for trial in trials]


def _trial(wanted: CaptureRequirement, trial: SpeedTrial) -> list[str]:
    step = trial.step
    done, p99, lag = (
        step.value(f"replay.{name}") for name in ("statements", "response.p99", "lag.p99")
    )
    return [
        three(trial.multiple),
        "void" if trial.void else trial.ended.value,
        show_count(round(trial.multiple * wanted.rate, 1)),
        "-" if done is None else show_count(round(done, 1)),
        "-" if p99 is None else show_duration(p99),
        "-" if lag is None else show_duration(lag),
        sanitize(trial.reason),
    ]


def as_csv(one: SpeedSummary) -> str:
    """Return CSV with a row for the total, then one per trial, then one per resource."""
    verdict = one.verdict
    rows: list[Sequence[object]] = [
        _HEADINGS,
        ("" if verdict.multiple is None else verdict.multiple, verdict.fit.value, one.speed.rate,
         "", "", "", "; ".join(verdict.reasons)),
    ]  # fmt: skip
    resources = [[], RESOURCES, *resource_rows(verdict)] if verdict.rows else []
    return csv.written([*rows, *trial_rows(one), *resources])


def as_markdown(one: SpeedSummary) -> str:
    """Return the verdict as Markdown, e.g. for a ticket."""
    return "\n\n".join(_markdown(one)) + "\n"


def _markdown(one: SpeedSummary) -> Iterator[str]:
    verdict = one.verdict
    yield f"**{markdown.plain(sizing.headline(verdict))}**"
    words = [title(one), *sizing.behind(verdict)]
    yield "\n".join(f"- {markdown.plain(text)}" for text in words)
    pairs = [[label, text] for label, text in capture_sizing.facts(one.speed)]
    yield markdown.table(["what is required", ""], pairs)
    if rows := resource_rows(verdict):
        yield markdown.table(RESOURCES, rows)
    if rows := trial_rows(one):
        yield markdown.table(_HEADINGS, rows)
    for heading, texts in lists(verdict):
        if texts:
            items = "\n".join(f"- {markdown.plain(text)}" for text in texts)
            yield f"**{heading}**\n\n{items}"


def page(one: SpeedSummary, beside: str = "") -> str:
    """Return the HTML page of a verdict, with charts of response time and lag by speed.

    `beside` is HTML that comes first, such as a table of several verdicts.
    """
    verdict = one.verdict
    drawn = identified(("curve", chart) for chart in _charts(one))
    head = [f'<p class="verdict">{escaped(sizing.headline(verdict))}</p>']
    head += [f"<p>{escaped(words)}</p>" for words in sizing.behind(verdict)]
    head.append(f'<p class="quiet">run {escaped(one.run.id)}, {escaped(one.run.started)}</p>')
    body = [beside] if beside else []
    if rows := resource_rows(verdict):
        body += ["<h2>Resource by resource</h2>", table(RESOURCES, rows, numbers=range(2, 6))]
        body += [f'<p class="quiet">{escaped(words)}</p>' for words in sources(verdict)]
    if rows := trial_rows(one):
        body += ["<h2>Load curve</h2>", *figures(drawn, "curve")]
        body += ["<details><summary>Every trial</summary>"]
        body += [table(_HEADINGS, rows, numbers=[0, 2, 3, 4, 5]), "</details>"]
    body += ["<h2>What is required</h2>", table(["", ""], capture_sizing.facts(one.speed))]
    for heading, texts in lists(verdict):
        if texts:
            items = "".join(f"<li>{escaped(words)}</li>" for words in texts)
            body.append(f"<h2>{heading}</h2><ul>{items}</ul>")
    return document(title(one), head="\n".join(head), body=body, drawn=drawn, series=[])


def _charts(one: SpeedSummary) -> Iterator[Chart]:
    """Yield charts: response time by speed, for speeds that held; lag by speed, for all trials."""
    trials = sorted(capture_sizing.trials(one.speed, one.run), key=lambda trial: trial.multiple)
    held = [trial for trial in trials if trial.ended is SearchTrial.HELD]
    times = [_of(held, f"replay.response.{p}", p, n) for n, p in enumerate(_PERCENTILES)]
    if points := [seconds for trace in times for seconds in trace["y"]]:
        marks = list(_marks(one, min(points), max(points)))
        for goal in goals(one.speed.objective) if one.speed.objective else ():
            ends = [0.0, trials[-1].multiple]
            name = f"objective {goal.words}"
            marks.append(straight(name, ends, [goal.seconds * 1e3] * 2, color=3, dash=1))
        yield {
            "id": "curve",
            "title": "Response time by speed, of the speeds that were kept up with",
            "traces": [*times, *marks],
            "layout": {"x": _SPEED, "y": "ms", "log_y": True},
        }
    lags = [
        _of(trials, f"replay.lag.{side}.p99", f"p99, {words}", number)
        for number, (side, words) in enumerate((("server", "the server's"), ("client", "our own")))
    ]
    if points := [seconds for trace in lags for seconds in trace["y"]]:
        yield {
            "id": "lag",
            "title": "Lag of starts by speed, of all trials",
            "traces": [*lags, *_marks(one, min(points), max(points))],
            "layout": {"x": _SPEED, "y": "ms"},
        }


def _of(trials: Sequence[SpeedTrial], metric: str, name: str, color: int) -> Trace:
    """Return a trace of a measurement: ms of each trial, by multiple of the required speed."""
    known = [(trial.multiple, trial.step.value(metric)) for trial in trials]
    points = [(multiple, 1e3 * value) for multiple, value in known if value is not None]
    return straight(name, [x for x, _ in points], [y for _, y in points], color=color)


def _marks(one: SpeedSummary, low: float, high: float) -> Iterator[Trace]:
    """Yield vertical lines from `low` to `high`: the required speed and the highest sustained."""
    yield straight("required", [1.0] * 2, [low, high], color=4, dash=2)
    if one.verdict.multiple is not None:
        ends = [one.verdict.multiple] * 2
        yield straight("highest sustained (knee)", ends, [low, high], color=5, dash=2)


Side = tuple[str, FitVerdict]
"""The name of the source that a machine was sized by, and the verdict."""


def beside(sides: Sequence[Side]) -> Group:
    """Return a table of verdicts on one machine, a column for each source."""
    sheet = NumberTable(*_side_by_side(sides), left=1 + len(sides))
    return Group("", line("beside each other", "bold"), sheet)


def beside_on_page(sides: Sequence[Side]) -> str:
    """Return the same table for a page, as HTML."""
    return f"<h2>Beside each other</h2>{table(*_side_by_side(sides))}"


def beside_as_markdown(sides: Sequence[Side]) -> str:
    """Return the same table as Markdown."""
    return f"**Beside each other**\n\n{markdown.table(*_side_by_side(sides))}\n"


def _side_by_side(sides: Sequence[Side]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows: a column for each side, a row for each item of their verdicts."""
    verdicts = [verdict for _, verdict in sides]
    rows = [
        ["verdict", *(one.fit.value for one in verdicts)],
        ["times what is required", *(_times(one) for one in verdicts)],
        ["first to give", *(sanitize(one.first) or "unclear" for one in verdicts)],
        ["held", *(sanitize(one.held or "-") for one in verdicts)],
    ]
    names = dict.fromkeys(row.resource for one in verdicts for row in one.rows)
    rows += [[sanitize(name), *(_resource(one, name) for one in verdicts)] for name in names]
    return ["", *(sanitize(name) for name, _ in sides)], rows


def _resource(one: FitVerdict, name: str) -> str:
    """Return a resource's multiple of the requirement, and its verdict; "-" if it is unknown."""
    row = next((row for row in one.rows if row.resource == name), None)
    return "-" if row is None else f"{sizing.times(row)}, {row.fit.value}"


def _times(one: FitVerdict) -> str:
    if one.multiple is None or one.low is None:
        return "-"
    high = "-" if one.high is None else three(one.high)
    return f"{three(one.multiple)} ({three(one.low)} to {high})"
