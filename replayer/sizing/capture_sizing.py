"""A capture -> the highest speed at which this machine keeps up with it.

The busiest window of the capture is replayed at one speed after the other.  Speeds are multiples of
the required speed, which is growth times (1 + headroom).  A speed is sustained if three conditions
hold: the lag of starts does not grow; no more statements fail than in the log or at a lower speed;
the response times keep to an objective, where there is one.  At the end, more of the capture is
replayed at the required speed, to find what fails only after a long time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, ValidationError

from replayer.analysis.capacity import capacity_search
from replayer.analysis.capacity.capacity_search import Capacity, SearchLimits, SearchTrial
from replayer.analysis.differences import divergence
from replayer.capture.archive import ArchiveReader
from replayer.capture.block import ActionColumns, Integers
from replayer.errors import Impossible
from replayer.load.objective import goals
from replayer.model import Noun, Run, Status, StepResult, StepSpec, Workload
from replayer.results import stored_histogram
from replayer.sizing import replayed, what_if
from replayer.sizing.findings import Loaded, Remedy, ResourceRow, show_multiple
from replayer.sizing.replayed import Used
from replayer.sizing.sizing_plan import NAME, spec_of
from replayer.sizing.target import Fit
from replayer.sizing.verdict import WAIT, FitVerdict
from replayer.units import show_count, show_duration, three, write_duration

_WARM_UP, _TRIAL, HOLD = "warm-up", "trial", "hold"
_SECOND = 10**9
_SHORTEST = 2.0
"""Seconds that the replay of the window takes at least.  This limits the speeds that are tried."""
_LONGEST = 400 * 86_400
"""Seconds of the longest capture.  The statements of each second are counted in an array."""
_MOST = 16.0
_LATE = 0.25
"""Seconds of lag at the end; a larger lag may have grown."""
_PART = 5
"""Number of equal parts of a replay: the lags in the first and in the last one are compared."""
_MORE_ERRORS = 0.001
"""Share of the statements that may fail by chance, in addition to those that are expected to."""
_DISTURBED = 0.1
"""Share of the time of all processors that other programs use, above which a failure is void."""
_MOST_VOID = 2
"""Void trials in a row after which a search waits for a quiet machine."""
_SLOWER = 2.0
"""The default objective is so many times the source's own p99."""
_LEAST_P99 = 0.02
"""Seconds of the shortest default objective; a sizing by a profile has the same default."""
_ALMOST = 0.999
"""Share of a multiple, to allow for rounding errors."""


class CaptureRequirement(Noun):
    """The speed at which a machine must replay a capture; it is stored in the run's result."""

    capture: str
    """The capture's file."""
    source: str
    """The server on which it was captured."""
    growth: float
    headroom: float
    begin: float
    """Second of the capture at which the window begins."""
    window: float
    """Seconds of the capture that each trial replays."""
    statements: int
    """Statements in the window."""
    objective: str = ""
    """Response times to keep to; "" where lag and errors alone decide."""
    by_capture: float | None = None
    """The p99 of the captured durations in the window, in seconds; None if the objective does not
    follow from it."""
    hold: tuple[float, float] | None = None
    """The part of the capture that is replayed last, at the required speed: its begin and end in
    seconds of the capture; None if there is no such part."""
    by: str = ""
    """The user who sized the machine; "" where the system does not name it."""
    keys: dict[str, Any] = Field(default_factory=dict)
    """Keys of the step replay, as the user gave them."""
    kind: Literal["capture"] = "capture"

    @property
    def required(self) -> float:
        """Return the required speed, as a multiple of the captured one."""
        return self.growth * (1 + self.headroom)

    @property
    def rate(self) -> float:
        """Return how many statements a second the window has at the required speed."""
        return self.required * self.statements / self.window

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Return the requirement of a run; None for a run that sized nothing by a capture.

        Raise Impossible for a requirement that cannot be read.
        """
        if run.sizing is None or run.sizing.get("kind") != "capture":
            return None
        try:
            return cls.model_validate(run.sizing)
        except ValidationError as error:
            raise Impossible(
                f"the requirement of the run {run.id} cannot be read: run `replayer size` again"
            ) from error


@dataclass(frozen=True, slots=True)
class SpeedOptions:
    """The user's options of a sizing by a capture; `window` and `hold` are in seconds.

    `growth` is a factor, and `headroom` a share: 0.3 is 30 %.
    """

    growth: float = 1.0
    headroom: float = 0.0
    window: float = 60.0
    objective: str | None = None
    """Response times to keep to; "" for none; None to derive them from those in the capture."""
    hold: float = 600.0
    keys: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)


def planned(file: str, options: SpeedOptions) -> tuple[CaptureRequirement, Workload]:
    """Return the requirement of the capture in `file`, and the workload that begins the search.

    Raise Impossible for a file that is not a capture, or has too little in it.
    """
    if options.growth <= 0 or options.headroom < 0 or options.window < 1:
        raise Impossible("--growth is above 0, --headroom 0% or more, --window 1s or longer")
    with ArchiveReader(Path(file)) as reader:
        summary = reader.summary
        if summary.span_ns > _LONGEST * _SECOND:
            raise Impossible(
                f"{file} goes over {show_duration(summary.span_ns / _SECOND)}: the clock of its "
                f"log was wrong for a part of it, and the rest is to be converted alone"
            )
        database = options.keys.get("database", "")
        begin, statements = _busiest(_starts(reader, database), options.window)
        span = summary.span_ns / _SECOND
        window = min(options.window, span)
        took = _p99(reader, database, begin, window) if options.objective is None else None
    if window < _SHORTEST or not statements:
        raise Impossible(
            f"{file} has {statements:,} statements in {show_duration(span)}: a capture to size by "
            f"has at least {show_duration(_SHORTEST)} of a load"
        )
    source = " ".join(w for w in (summary.source.engine, summary.source.server_version) if w)
    speed = CaptureRequirement(
        capture=file,
        source=source,
        growth=options.growth,
        headroom=options.headroom,
        begin=begin,
        window=window,
        statements=statements,
        objective=options.objective or ("" if took is None else _objective(took)),
        by_capture=took,
        keys=dict(options.keys),
    )
    speed = speed.model_copy(update={"hold": _held_part(speed, span, options.hold)})
    steps = (_step(speed, _WARM_UP, speed.required, speed.begin, speed.begin + window),)
    workload = Workload(
        name=NAME, source=file, description="", comment="", settings=options.settings, steps=steps
    )
    return speed, workload


def _statements(reader: ArchiveReader, database: str) -> Iterator[ActionColumns]:
    """Yield the statements of a capture, those of one `database` only, or all of them for ""."""
    if not database:
        for columns in reader.columns():
            yield columns[np.flatnonzero(columns.statement >= 0)]
        return
    known: set[int] = set()
    for block in reader.blocks():
        known.update(one.number for one in block.sessions if one.database == database)
        columns = block.columns
        wanted = np.isin(columns.session, np.fromiter(known, np.int64))
        yield columns[np.flatnonzero(wanted & (columns.statement >= 0))]


def _starts(reader: ArchiveReader, database: str) -> Integers:
    """Return how many statements of a `database` ("" for all) start in each second of a capture."""
    length = reader.summary.span_ns // _SECOND + 1
    counts = np.zeros(length, np.int64)
    for columns in _statements(reader, database):
        seconds = np.clip(columns.start_ns // _SECOND, 0, length - 1)
        counts += np.bincount(seconds, minlength=length)
    return counts


def _p99(reader: ArchiveReader, database: str, begin: float, window: float) -> float | None:
    """Return the p99, in seconds, of the logged durations of statements in a part of a capture.

    The part begins at second `begin` and lasts `window` seconds.  Return None without durations.
    """
    least, most = begin * _SECOND, (begin + window) * _SECOND
    took = [np.zeros(0, np.int64)]
    for columns in _statements(reader, database):
        inside = (columns.start_ns >= least) & (columns.start_ns < most)
        took.append(columns.duration_ns[inside & (columns.duration_ns >= 0)])
    known = np.concatenate(took)
    return float(np.percentile(known, 99)) / _SECOND if len(known) else None


def _objective(took: float) -> str:
    """Return the default objective, as `p99=20ms`, for a source with a p99 of `took` seconds."""
    milliseconds = max(_LEAST_P99, _SLOWER * took) * 1e3
    return f"p99={math.ceil(milliseconds)}ms"


def _busiest(counts: Integers, window: float) -> tuple[float, int]:
    """Return (second at which the busiest `window` seconds begin, number of statements in them).

    A part of a second in `window` counts as a whole one.  `counts` is the number of statements in
    each second of the capture.
    """
    length = min(len(counts), max(1, math.ceil(window)))
    sums = np.convolve(counts, np.ones(length, np.int64), "valid")
    first = int(np.argmax(sums))
    return float(first), int(sums[first])


def _held_part(speed: CaptureRequirement, span: float, hold: float) -> tuple[float, float] | None:
    """Return (begin, end), in seconds of the capture, of the part for the last, longer replay.

    The capture lasts `span` seconds, this replay about `hold`.  Return None if it is too short.
    """
    length = min(span, hold * speed.required)
    if length <= 1.5 * speed.window:
        return None
    begin = min(max(0.0, speed.begin + speed.window / 2 - length / 2), span - length)
    return math.floor(begin), math.floor(begin) + length


def _step(
    speed: CaptureRequirement, name: str, times: float, begin: float, until: float
) -> StepSpec:
    table = {"verify": "none", **speed.keys}
    own = {"step": "replay", "name": name, "file": speed.capture, "speed": times}
    part = {"from": write_duration(begin), "until": write_duration(until)}
    return spec_of({**table, **own, **part})


# The search


class SpeedTrial(NamedTuple):
    """One replay of the capture's busiest window at a multiple of the required speed."""

    multiple: float
    ended: SearchTrial
    reason: str
    step: StepResult
    void: bool = False
    """True if it failed while other programs disturbed it: it does not count and is run again."""


def disturbance(speed: CaptureRequirement, run: Run) -> str:
    """Return a sentence on the programs that disturbed the run's last two replays; "" if none did.

    Disturbed (void) replays count in pairs: after an odd number of them in a row, return "" too.
    """
    done = trials(speed, run)
    void = list(takewhile(lambda trial: trial.void, reversed(done)))
    if not void or len(void) % _MOST_VOID:
        return ""
    last = void[:_MOST_VOID]
    most, programs = max(_others(trial.step) for trial in last), _programs(last[0].step)
    return f"others used {most:.0%} of the processors in {len(last)} trials in a row{programs}"


def _programs(step: StepResult) -> str:
    return (
        f" ({', '.join(step.foreign.programs)})" if step.foreign and step.foreign.programs else ""
    )


def _others(step: StepResult) -> float:
    return 0.0 if step.foreign is None else step.foreign.cpu_share or 0.0


def following(speed: CaptureRequirement) -> Callable[[Run], StepSpec | None]:
    """Return a function that returns the next step of an unfinished run, None at the end."""

    def of(run: Run) -> StepSpec | None:
        if any(step.status is not Status.DONE for step in run.steps):
            return None
        done = trials(speed, run)
        asked = _searched(speed, done)
        begin, until = speed.begin, speed.begin + speed.window
        if isinstance(asked, float):
            name = f"{_TRIAL}-{len(done) + 1}"
            return _step(speed, name, asked * speed.required, begin, until)
        held = (asked.accepted or 0.0) > 1 - 1e-6
        if not held or speed.hold is None or named(run, HOLD) is not None:
            return None
        return _step(speed, HOLD, speed.required, *speed.hold)

    return of


def _searched(speed: CaptureRequirement, done: Sequence[SpeedTrial]) -> float | Capacity:
    """Return the next multiple of the required speed to try, or the result of a complete search."""
    most = min(_MOST, max(1.0, speed.window / speed.required / _SHORTEST))
    steps = capacity_search.search_steps(SearchLimits(least=1 / 16, most=most, trials=30))
    multiple = next(steps)
    try:
        for trial in (one for one in done if not one.void):
            multiple = steps.send(trial.ended)
    except StopIteration as end:
        capacity: Capacity = end.value
        return capacity
    return multiple


def trials(speed: CaptureRequirement, run: Run) -> list[SpeedTrial]:
    """Return the trials (replays of the window at one speed) of a run, in their order."""
    steps = [step for step in run.steps if step.name.startswith(f"{_TRIAL}-")]
    failing = min((_failing(step) for step in run.steps if step.name == _WARM_UP), default=0.0)
    made: list[SpeedTrial] = []
    for step in steps:
        if step.status is not Status.DONE:
            continue
        multiple = float(step.spec["speed"]) / speed.required
        slower = [_failing(one.step) for one in made if one.multiple < multiple]
        ended, reason = _ended(speed, step, min([failing, *slower]))
        void = ended is not SearchTrial.HELD and _others(step) > _DISTURBED
        made.append(SpeedTrial(multiple, ended, reason, step, void))
    return made


def _ended(speed: CaptureRequirement, step: StepResult, failing: float) -> tuple[SearchTrial, str]:
    """Return how a replay ended, and why if it failed; a share `failing` of statements may fail."""
    share = divergence.ran(step.replayed)
    if share < divergence.LEAST_RAN:
        return SearchTrial.FAILED, f"only {share:.1%} of the work ran"
    allowed = max(failing, _logged(step)) + _MORE_ERRORS
    if _failing(step) > allowed:
        return SearchTrial.FAILED, f"{_failing(step):.2%} of the statements failed"
    late = {side: _grown(step, f"replay.lag_{side}") for side in ("server", "client")}
    if max(late.values()) > 0:
        words = f"starts were {show_duration(max(late.values()))} late in the end, and ever later"
        mine = late["client"] > late["server"]
        return (SearchTrial.NOT_OFFERED, words) if mine else (SearchTrial.FAILED, words)
    over = _missed(speed, step)
    return (SearchTrial.FAILED, over) if over else (SearchTrial.HELD, "")


def _failing(step: StepResult) -> float:
    """Return the share of the executions that failed in the replay."""
    done = sum(one.executions for one in step.replayed)
    return sum(sum(one.errors.values()) for one in step.replayed) / max(1, done)


def _logged(step: StepResult) -> float:
    """Return the share of the replayed executions that had failed at the source, by its log."""
    done = sum(one.executions for one in step.replayed)
    return sum(sum(one.logged_errors.values()) for one in step.replayed) / max(1, done)


def _grown(step: StepResult, column: str) -> float:
    """Return the lag of a replay's starts at its end, in seconds, if it grew; else 0.

    `column` is the name of the series with the lags.
    """
    values = step.series.columns.get(column, ()) if step.series is not None else ()
    lags = [lag for lag in values if lag is not None]
    if not lags:
        return 0.0
    size = max(1, len(lags) // _PART)
    early, late = median(lags[:size]), median(lags[-size:])
    return late if late > _LATE and late > 2 * early else 0.0


def _missed(speed: CaptureRequirement, step: StepResult) -> str:
    """Return text on the goals of the objective that a replay's response times miss; "" if none."""
    stored = step.latency.get("response")
    times = None if stored is None else stored_histogram.merged([stored.payload])
    if not speed.objective or times is None:
        return ""
    over = []
    for goal in goals(speed.objective):
        seconds = times.get_value_at_percentile(goal.percent) / _SECOND
        if seconds > goal.seconds:
            p = f"p{goal.percent:g}"
            over.append(f"{p} {show_duration(seconds)} > {show_duration(goal.seconds)}")
    return ", ".join(over)


def named(run: Run, name: str) -> StepResult | None:
    """Return the run's step that has this name; None if there is none."""
    return next((step for step in run.steps if step.name == name), None)


# The verdict


def judge(speed: CaptureRequirement, run: Run) -> FitVerdict:
    """Return the verdict on a machine from a run that replays a capture; it may be unfinished."""
    every = trials(speed, run)
    done = [trial for trial in every if not trial.void]
    capacity = _searched(speed, done)
    if isinstance(capacity, float):
        capacity = _so_far(done)
    hold = named(run, HOLD)
    fit, words, held = _fit(speed, run, done, capacity, hold)
    used = _used(done, capacity)
    judged = used.judged
    load = Loaded(
        fit=fit,
        words=words,
        multiple=capacity.accepted,
        low=capacity.low if capacity.accepted is not None else None,
        high=None if math.isinf(capacity.high) else capacity.high,
        first=(judged.resource or "") if judged is not None else "",
        proof=judged.proof if judged is not None else "",
        held=held,
        not_offered=_not_offered(done),
    )
    rows = tuple(replayed.rows(used, speed.rate, load))
    return FitVerdict(
        fit=fit,
        reasons=(words, *((held,) if held else ())),
        multiple=load.multiple, low=load.low, high=load.high,
        first=load.first, proof=load.proof, held=held, rows=rows,
        changes=tuple(_changes(speed, load, rows)),
        not_offered=load.not_offered, not_tested=(),
        unproven=tuple(_unproven(speed, capacity)),
    )  # fmt: skip


def _changes(
    speed: CaptureRequirement, load: Loaded, rows: Sequence[ResourceRow]
) -> Iterator[Remedy]:
    yield from what_if.margins(speed.growth, speed.headroom, load, rows)
    yield from what_if.more_of_the_first(load, rows)


def _used(done: Sequence[SpeedTrial], capacity: Capacity) -> Used:
    """Return use of resources by all trials, by failed ones, and by the fastest that held."""
    failed = [one for one in done if one.ended is SearchTrial.FAILED]
    refused = capacity.refused or min((one.multiple for one in failed), default=math.inf)
    held = [one for one in done if one.ended is SearchTrial.HELD]
    highest = capacity.accepted or max((one.multiple for one in held), default=0.0)
    return Used(
        points=replayed.points([one.step for one in done]),
        refused=replayed.points([t.step for t in failed if t.multiple > _ALMOST * refused]),
        highest=replayed.points(
            [one.step for one in held if math.isclose(one.multiple, highest, rel_tol=1e-3)]
        ),
    )


def _so_far(done: Sequence[SpeedTrial]) -> Capacity:
    """Return the result of a search that is not complete: its trials, without a limit."""
    return Capacity(
        accepted=None,
        refused=None,
        low=0.0,
        high=math.inf,
        clear=False,
        disputed=(),
        not_offered=None,
        trials=tuple((one.multiple, one.ended) for one in done),
    )


def _fit(
    speed: CaptureRequirement,
    run: Run,
    done: Sequence[SpeedTrial],
    capacity: Capacity,
    hold: StepResult | None,
) -> tuple[Fit, str, str]:
    """Return verdict, reason, and the end of the last, longer replay (`hold`) in words, or ""."""
    if ended := _ended_early(speed, run, hold):
        return Fit.UNCLEAR, ended, ""
    if not done or capacity.accepted is None:
        return *_nothing_held(run, done, capacity), ""
    words = show_multiple(capacity.accepted, capacity.low, capacity.high)
    if capacity.high < 1:
        return Fit.DOES_NOT_FIT, words, ""
    if capacity.low < 1:
        return Fit.UNCLEAR, f"{words}, which contains what is required", ""
    held, fit = _held(speed, run, hold)
    return fit, f"{words}{_IF_HELD[fit]}", held


_IF_HELD = {
    Fit.FITS: "",
    Fit.DOES_NOT_FIT: " for a short time, but it could not be held",
    Fit.UNCLEAR: " for a short time, and it is unknown whether it can be held",
}


def _ended_early(speed: CaptureRequirement, run: Run, hold: StepResult | None) -> str:
    """Return why the search did not come to its end, "" if it did."""
    cut = next((step for step in run.steps if step.status is not Status.DONE), None)
    if cut is not None and cut is not hold:
        return f"the search was cut short: {cut.reason or cut.status.value}"
    if hold is not None:
        return ""
    if run.status is Status.INTERRUPTED:
        return f"the search was cut short: {run.error or run.status.value}"
    given_up = disturbance(speed, run)
    return f"the search was given up: {given_up}; {WAIT}" if given_up else ""


def _nothing_held(run: Run, done: Sequence[SpeedTrial], capacity: Capacity) -> tuple[Fit, str]:
    if not done:
        return Fit.UNCLEAR, f"nothing was replayed{f': {run.error}' if run.error else ''}"
    failed = [one for one in done if one.ended is SearchTrial.FAILED]
    if not failed:
        return Fit.UNCLEAR, "the speed could not be offered: see what was not offered"
    least = min(failed, key=lambda one: one.multiple)
    words = f"not even {show_multiple(least.multiple)} was kept up: {least.reason}"
    if capacity.disputed or any(one.ended is SearchTrial.HELD for one in done):
        return Fit.UNCLEAR, f"no speed was sustained for sure: {words}"
    return Fit.DOES_NOT_FIT, words


def _held(speed: CaptureRequirement, run: Run, hold: StepResult | None) -> tuple[str, Fit]:
    """Return how the hold (the last, longer replay) ended, in words, and the verdict by it."""
    if hold is None:
        if speed.hold is None:
            return "not held: the capture is hardly longer than that", Fit.FITS
        return f"not held: {run.error or run.status.value}", Fit.UNCLEAR
    lasted = show_duration(hold.value("replay.elapsed") or 0.0)
    if hold.status is not Status.DONE:
        return f"not held to its end: {hold.reason or hold.status.value}", Fit.UNCLEAR
    ended, reason = _ended(speed, hold, min(map(_failing, run.steps)))
    if ended is SearchTrial.HELD:
        return f"held for {lasted}", Fit.FITS
    words = f"not held for {lasted}: {reason}"
    if _others(hold) > _DISTURBED:
        others = f"others used {_others(hold):.0%} of the processors meanwhile{_programs(hold)}"
        return f"{words}, but {others}; {WAIT}", Fit.UNCLEAR
    return words, Fit.UNCLEAR if ended is SearchTrial.NOT_OFFERED else Fit.DOES_NOT_FIT


def _not_offered(done: Sequence[SpeedTrial]) -> str:
    rates = [one.multiple for one in done if one.ended is SearchTrial.NOT_OFFERED]
    if not rates:
        return ""
    return (
        f"{show_multiple(min(rates))} could not be sent in time: replayer itself "
        f"was late, so that the server may be able to do more"
    )


def _unproven(speed: CaptureRequirement, capacity: Capacity) -> Iterator[str]:
    if not speed.objective:
        yield "there is no objective for response times: only lag and errors decide"
    if not speed.keys.get("restore"):
        yield (
            "trials follow each other in one database: what changes data finds it as the trial "
            "before left it (--restore begins each from the same)"
        )
    if speed.required != 1:
        yield "a higher speed is the same clients in less time, which more clients may not be"
    if capacity.refused is None and capacity.accepted is not None:
        yield f"nothing failed up to {three(capacity.accepted)} times, the most that was tried"


def facts(speed: CaptureRequirement) -> list[tuple[str, str]]:
    """Return the facts of the requirement for a report: pairs of a label and a text."""
    begin, end = speed.begin, speed.begin + speed.window
    terms = [f"{show_count(speed.statements / speed.window)}/s"]
    terms += [f"{speed.growth:g} growth"] if speed.growth != 1 else []
    terms += [f"{1 + speed.headroom:g} headroom"] if speed.headroom else []
    product = " x ".join(terms)
    rate = product if len(terms) == 1 else f"{product} = {show_count(speed.rate)}/s"
    return [
        ("window", f"the busiest {show_duration(speed.window)}: second {begin:g} to {end:g}"),
        ("statements", rate),
        ("speed", f"{three(speed.required)} times the captured one"),
        ("objective", f"lag does not grow, errors do not rise{_times(speed)}"),
    ]


def _times(speed: CaptureRequirement) -> str:
    if not speed.objective:
        return ""
    words = f", {speed.objective} from each statement's intended start"
    if speed.by_capture is None:
        return words
    return f"{words} (there it was {show_duration(speed.by_capture)} from the actual one)"
