"""The report of a test of a machine with a capture: how fast the machine can replay the capture."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from replayer.analysis.capacity.capacity_search import SearchTrial
from replayer.load.objective import goals
from replayer.model import Run
from replayer.report.document import Curve, Document, Facts, Figure, Part, Section, Table, blank
from replayer.report.documents import sizing
from replayer.report.documents.sizing import straight
from replayer.run.display import Sentence, Tone
from replayer.run.time_promise import about
from replayer.sizing import capture_sizing
from replayer.sizing.capture_sizing import CaptureRequirement, SpeedTrial
from replayer.sizing.speed_search import estimate
from replayer.sizing.verdict import FitVerdict
from replayer.units import show_duration, show_rate, show_times

_PERCENTILES = ("p50", "p95", "p99")
_SPEED = "times the required speed"
RESOURCE_HEADINGS = (*sizing.RESOURCE_HEADINGS, "busy")
_BUSY = "busy: at the highest speed that held"
_CSV = (*sizing.CSV, "busy", "p99_seconds", "lag_p99_seconds")
_MEASURED = ("statements", "response.p99", "lag.p99")
_HEADINGS = ("times", "ended", "asked/s", "done/s", "p99", "lag p99", "why")


class SpeedSummary(NamedTuple):
    """The content of a report on a machine that was tested by replays of a capture."""

    speed: CaptureRequirement
    run: Run
    verdict: FitVerdict


def summary(run: Run) -> SpeedSummary | None:
    """Return the content of the report on a run that tested a machine with a capture.

    Returns None for any other run.
    """
    wanted = CaptureRequirement.of(run)
    return None if wanted is None else SpeedSummary(wanted, run, capture_sizing.judge(wanted, run))


def beginning(wanted: CaptureRequirement) -> Iterator[Section]:
    """Yield the required speed of replays and the plan with its duration, before the run starts."""
    length = show_duration(wanted.window / wanted.required)
    stages = [f"warm up, then search the highest speed: some 8 replays of up to {length}"]
    if wanted.keys.get("restore"):
        stages[0] += ", with the data restored before each, which takes what it takes"
    if wanted.hold is not None:
        held = show_duration((wanted.hold[1] - wanted.hold[0]) / wanted.required)
        stages.append(f"hold the required speed for {held}, if it is sustained")
    facts = Facts(capture_sizing.facts(wanted))
    steps = Facts([(f"{number}.", words) for number, words in enumerate(stages, 1)])
    yield Section(f"What is required · {wanted.capture}", [facts], is_main=True)
    yield Section(f"What will be done · {about(estimate(wanted))}", [steps], is_main=True)


def document(one: SpeedSummary) -> Document:
    """Return the report on how fast a machine can replay a capture: verdict, charts by speed."""
    verdict = one.verdict
    notes = (_BUSY, *sizing.sources(verdict))
    facts = Facts(capture_sizing.facts(one.speed))
    remedies = [sizing.changed(change) for change in verdict.changes]
    return Document(
        title(one),
        Sentence(verdict.headline, sizing.TONES.get(verdict.fit, Tone.PLAIN)),
        [
            Section("What is required", [facts], on_page=1),
            *sizing.resources(verdict, RESOURCE_HEADINGS, resource_rows(verdict), notes),
            *_curve(one),
            *sizing.listed("What would change the answer", remedies),
            *sizing.listed("What this leaves open", verdict.unproven),
        ],
        lead=list(sizing.behind(verdict)),
        is_answer_last=True,
        made=f"run {one.run.id}, {one.run.started}",
        data=[_CSV, *_data(one)],
    )


def resource_rows(verdict: FitVerdict) -> list[list[str]]:
    """Return a row for each resource: its verdict, and its use at the highest sustained speed."""
    return [
        [*words, "-" if row.busy is None else f"{row.busy:.0%}"]
        for words, row in zip(sizing.resource_rows(verdict), verdict.rows, strict=True)
    ]


def title(one: SpeedSummary) -> str:
    """Return the title of the report: capture, source, host and server."""
    words = ("size", one.speed.capture, one.speed.source, *sizing.place(one.run))
    return " · ".join(filter(None, words))


def _curve(one: SpeedSummary) -> Iterator[Section]:
    if rows := _rows(one):
        parts: list[Part] = [*_charts(one), Table(_HEADINGS, rows, numbers=(0, 2, 3, 4, 5))]
        yield Section("The trials, the slowest first", parts)


def _trials(one: SpeedSummary) -> list[SpeedTrial]:
    """Return the run's trials (replays of the capture at different speeds), the slowest first."""
    return sorted(capture_sizing.trials(one.speed, one.run), key=lambda trial: trial.multiple)


def _rows(one: SpeedSummary) -> list[list[str]]:
    return [_row(one.speed, trial) for trial in _trials(one)]


def _row(wanted: CaptureRequirement, trial: SpeedTrial) -> list[str]:
    step = trial.step
    done, p99, lag = (step.value(f"replay.{name}") for name in _MEASURED)
    return [
        show_times(trial.multiple),
        _ended(trial),
        show_rate(trial.multiple * wanted.rate),
        "-" if done is None else show_rate(done),
        "-" if p99 is None else show_duration(p99),
        "-" if lag is None else show_duration(lag),
        trial.reason,
    ]


def _ended(trial: SpeedTrial) -> str:
    return "void" if trial.void else trial.ended.value


def _data(one: SpeedSummary) -> Iterator[Sequence[object]]:
    """Yield the rows of the CSV: one for the total, one for each trial, one for each resource.

    A trial's `required` and `here` are the statements a second that were asked for and done.
    """
    verdict, rate = one.verdict, one.speed.rate
    yield ("total", verdict.fit.value, "1/s", rate, "", *blank(verdict.multiple), "", "",
           "; ".join(verdict.reasons), "", "", "", "")  # fmt: skip
    for trial in _trials(one):
        done, p99, lag = (trial.step.value(f"replay.{name}") for name in _MEASURED)
        yield ("trial", _ended(trial), "1/s", trial.multiple * rate,
               *blank(done, trial.multiple), "", "", trial.reason, "", "",
               *blank(p99, lag))  # fmt: skip
    for row in verdict.rows:
        yield (*sizing.resource_data(row), *blank(row.busy), "", "")


def _charts(one: SpeedSummary) -> Iterator[Figure]:
    """Yield two charts by speed: response times, and the lag (delay) of the starts of statements.

    The first has only the speeds that the machine kept up with, the second has all trials.  A chart
    without any point is left out.
    """
    trials = _trials(one)
    held = [trial for trial in trials if trial.ended is SearchTrial.HELD]
    times = [_of(held, f"replay.response.{p}", p, n) for n, p in enumerate(_PERCENTILES)]
    if points := [seconds for trace in times for seconds in trace.y]:
        marks = list(_marks(one, min(points), max(points)))
        for goal in goals(one.speed.objective) if one.speed.objective else ():
            ends = [0.0, trials[-1].multiple]
            name = f"objective {goal.words}"
            marks.append(straight(name, ends, [goal.seconds * 1e3] * 2, color=3, dash=1))
        yield Figure(
            "curve",
            "Response time by speed, of the speeds that were kept up with",
            [*times, *marks],
            x=_SPEED,
            y="ms",
            axes={"log_y": True},
        )
    lags = [
        _of(trials, f"replay.lag.{side}.p99", f"p99, {words}", number)
        for number, (side, words) in enumerate((("server", "the server's"), ("client", "our own")))
    ]
    if points := [seconds for trace in lags for seconds in trace.y]:
        curves = [*lags, *_marks(one, min(points), max(points))]
        yield Figure("lag", "Lag of starts by speed, of all trials", curves, x=_SPEED, y="ms")


def _of(trials: Sequence[SpeedTrial], metric: str, name: str, color: int) -> Curve:
    """Return a curve of a metric of the trials, in ms, by multiple of the required speed."""
    known = [(trial.multiple, trial.step.value(metric)) for trial in trials]
    points = [(multiple, 1e3 * value) for multiple, value in known if value is not None]
    return straight(name, [x for x, _ in points], [y for _, y in points], color=color)


def _marks(one: SpeedSummary, low: float, high: float) -> Iterator[Curve]:
    """Yield vertical lines at the required speed and at the highest sustained one, if any.

    The lines go from `low` to `high` on the vertical axis, both in milliseconds.
    """
    yield straight("required", [1.0] * 2, [low, high], color=4, dash=2)
    if one.verdict.multiple is not None:
        ends = [one.verdict.multiple] * 2
        yield straight("highest sustained (knee)", ends, [low, high], color=5, dash=2)


Side = tuple[str, FitVerdict]
"""(name of the profile or capture by which a machine was sized, verdict)."""


def line_up(sides: Sequence[Side]) -> Section:
    """Return a section with several verdicts on one machine, in a table with a column for each."""
    verdicts = [verdict for _, verdict in sides]
    rows = [
        ["verdict", *(one.fit.value for one in verdicts)],
        ["times what is required", *(_times(one) for one in verdicts)],
        ["limiting resource", *(one.first or "unclear" for one in verdicts)],
        ["held", *(one.held or "-" for one in verdicts)],
    ]
    names = dict.fromkeys(row.resource for one in verdicts for row in one.rows)
    rows += [[name, *(_resource(one, name) for one in verdicts)] for name in names]
    return Section(
        "Next to each other", [Table(["", *(name for name, _ in sides)], rows)], on_page=-1
    )


def _resource(one: FitVerdict, name: str) -> str:
    """Return the machine's amount of a resource as a multiple of the required, and the verdict.

    It is "-" if the verdict does not have this resource.
    """
    row = next((row for row in one.rows if row.resource == name), None)
    return "-" if row is None else f"{sizing.times(row)}, {row.fit.value}"


def _times(one: FitVerdict) -> str:
    if one.multiple is None or one.low is None:
        return "-"
    high = "-" if one.high is None else show_times(one.high)
    return f"{show_times(one.multiple)} ({show_times(one.low)} to {high})"
