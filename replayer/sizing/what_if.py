"""Changes that would turn a verdict around: another objective, less growth, more of a resource.

Measured changes and arithmetic are marked as such, all others as predictions.
"""

import math
from collections.abc import Iterator, Sequence

from replayer.load import resources
from replayer.load.objective import goals
from replayer.model import Run, Status, StepResult
from replayer.sizing.findings import Loaded, Remedy, ResourceRow, last, show_multiple
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit
from replayer.units import show_duration, show_size, three

_ALL_FOUND = 0.001
"""Share of blocks that are missed: below it more memory changes nothing."""
_MORE_MEMORY = 2.0
_PERCENT = 99
"""The percentile of response times that a trial's row has."""


def changes(
    sizing: Sizing,
    run: Run,
    step: StepResult | None,
    load: Loaded,
    loaded: Sequence[ResourceRow],
    *,
    rows: Sequence[ResourceRow],
) -> Iterator[Remedy]:
    """Yield changes that would alter the verdict, with the measured or calculated ones first.

    Changes whose effect is only predicted follow.  `step` is the result of the search for the
    highest rate (None if there was none), `load` that result in short, `loaded` the resources that
    this load used, and `rows` all that the verdict has.
    """
    yield from _floor(sizing, run)
    if step is not None:
        yield from _objective(sizing, step, load)
    yield from margins(sizing.requirement.growth, sizing.requirement.headroom, load, rows)
    yield from more_of_the_first(load, loaded)
    yield from _memory(sizing, run, load, loaded)


def _floor(sizing: Sizing, run: Run) -> Iterator[Remedy]:
    """Yield a remedy if an objective is shorter than one flush of the log takes on the device."""
    work = sizing.requirement.work
    own = (sizing.rate - sizing.compute) / sizing.requirement.factor
    writing = (work.update + work.insert) / max(1e-9, own)
    floor = _flush_seconds(run)
    for goal in goals(sizing.objective) if floor else ():
        if goal.seconds < floor and writing > 1 - goal.percent / 100:
            yield Remedy(
                words=(
                    f"the objective {goal.words} is below what the device takes for one flush of "
                    f"the log, {show_duration(floor)}, and {writing:.0%} of the statements wait "
                    f"for one: no rate keeps to it here, ask for more than that"
                ),
                predicted=False,
            )


def _flush_seconds(run: Run) -> float:
    """Return the mean time of a flush of the log by the probe, in seconds; 0 if not probed."""
    for step in run.steps:
        for row in step.tables.get("pg_fsync", ()) if step.status is Status.DONE else ():
            return float(row["usecs_per_op"]) / 1e6
    return 0.0


def _objective(sizing: Sizing, step: StepResult, load: Loaded) -> Iterator[Remedy]:
    """Yield a remedy: the objective that failed trials at the required rate would have met, if any.

    `step` has the table of trials.  Nothing is yielded for other percentiles than the 99th, or if
    the trials failed for another reason than it.
    """
    wanted = goals(sizing.objective)
    if load.fit is Fit.FITS or any(goal.percent != _PERCENT for goal in wanted):
        return
    times = [
        row["p99_s"]
        for row in step.tables.get("trials", ())
        if math.isclose(row["multiple"], 1, rel_tol=1e-3) and row["ended"] == "failed"
    ]
    if times and None not in times and min(times) > min(goal.seconds for goal in wanted):
        yield Remedy(
            words=(
                f"the required rate was sustained with p99 {show_duration(max(times))}: an "
                f"objective above that would be kept to"
            ),
            predicted=False,
        )


def margins(
    growth: float, headroom: float, load: Loaded, rows: Sequence[ResourceRow]
) -> Iterator[Remedy]:
    """Yield a remedy for each margin, headroom or growth, without which the database would fit.

    `growth` is a factor: 1.5 means 50 % more load.  `headroom` is a share: 0.3 is 30 %.  `load` is
    the result with both margins, and `rows` are the resources.  If it fits already, or if the rate
    was sustained but could not be held, nothing is yielded: only the search has measured another
    rate.  Nothing is yielded either if a resource would still be in the way.
    """
    if load.fit is Fit.FITS or load.low is None or load.low >= 1:
        return
    deciding = [
        row for row in rows if row.decides and row.kind != "load" and row.fit is not Fit.NOT_TESTED
    ]
    for name, factor in (
        (f"the headroom of {headroom:.0%}", 1 + headroom),
        (f"the growth of {growth:g}", growth),
    ):
        if factor > 1 and load.low * factor >= 1 and all(_fits(row, factor) for row in deciding):
            allowed = [row.multiple for row in deciding if row.grows and row.multiple is not None]
            times = three(min([load.multiple or load.low, *allowed]) * factor)
            yield Remedy(
                words=f"without {name} it fits: {times} times what is then required",
                predicted=False,
            )


def _fits(row: ResourceRow, factor: float) -> bool:
    """Return whether a resource fits if the required load is divided by `factor`."""
    if row.fit is Fit.FITS:
        return True
    least = row.multiple if row.low is None else row.low
    return row.grows and least is not None and least * factor >= 1


def more_of_the_first(load: Loaded, rows: Sequence[ResourceRow]) -> Iterator[Remedy]:
    """Yield a prediction: the multiple of the required rate if the limiting resource were larger.

    Nothing is yielded if it would change little or is not known.
    """
    if not load.first or load.multiple is None:
        return
    others = [
        row for row in rows if row.here is not None and row.decides is False and row.low is not None
    ]
    others = [row for row in others if row.resource != load.first and row.multiple is not None]
    if not others:
        return
    limit = min(others, key=lambda row: row.multiple or 0.0)
    if limit.multiple is not None and limit.multiple > 1.05 * load.multiple:
        yield Remedy(
            words=(
                f"more of {load.first}: at most {three(limit.multiple or 0.0)} times what is "
                f"required, where {limit.resource} gives"
            ),
            predicted=True,
        )


def _others(load: Loaded, rows: Sequence[ResourceRow]) -> list[ResourceRow]:
    """Return the rows of the resources that do not limit the load, where their supply is known."""
    return [
        row
        for row in rows
        if row.kind == "load" and row.multiple is not None and row.resource != load.first
    ]


def _memory(
    sizing: Sizing, run: Run, load: Loaded, rows: Sequence[ResourceRow]
) -> Iterator[Remedy]:
    """Yield a prediction for more memory, from the hits that were measured in smaller buffers.

    Only sizes count that were full: others would have found more later.
    """
    step = last(run, "buffers")
    curve = sorted(
        (row["buffers_bytes"], 1 - row["hit_share"])
        for row in (step.tables.get("buffers", ()) if step is not None else ())
        if row["full"] and row["hit_share"] is not None
    )
    if len(curve) < 2:
        return
    size, missed = curve[-1]
    less = missed_at(curve, _MORE_MEMORY * size, sizing.requirement.working_set_bytes)
    measured = ", ".join(f"{1 - m:.1%} with {show_size(s)}" for s, m in curve)
    words = (
        f"{_MORE_MEMORY:g} times the memory: {1 - less:.1%} of the blocks would be found in place "
        f"of {1 - missed:.1%}, by what was found with smaller buffers ({measured})"
    )
    yield Remedy(words=f"{words}{_gain(load, rows, missed, less)}", predicted=True)


def _gain(load: Loaded, rows: Sequence[ResourceRow], missed: float, less: float) -> str:
    if load.multiple is None or missed <= _ALL_FOUND:
        return ""
    if load.first not in {resources.READS, resources.READ_BYTES}:
        return f"; {load.first} limits first, so that this would not help" if load.first else ""
    bounds = [row.multiple for row in _others(load, rows) if row.multiple is not None]
    reads = load.multiple * missed / less if less > 0 else math.inf
    most = min([reads, *bounds])
    if not math.isfinite(most):
        return "; nothing else that is known limits it then"
    return f"; {show_multiple(load.multiple)} would become {show_multiple(most)} at most"


def missed_at(
    curve: Sequence[tuple[float, float]], size: float, working_set: float | None
) -> float:
    """Return the predicted share of blocks that buffers of `size` bytes would miss.

    `curve` has pairs of buffers in bytes and the share of blocks that they missed, for at least two
    sizes, smallest first.  On logarithmic scales, a straight line through the first and the last
    pair gives the prediction.  It is 0 for buffers that hold all data in use (`working_set` bytes).
    """
    (small, more), (large, fewer) = curve[0], curve[-1]
    if fewer <= 0 or (working_set is not None and size >= working_set):
        return 0.0
    power = max(0.0, math.log(more / fewer) / math.log(large / small)) if more > 0 else 0.0
    return float(fewer * (large / size) ** power)
