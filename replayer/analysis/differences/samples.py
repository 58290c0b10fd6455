"""Samples of a group of runs: its units (boots, runs or repeats), and the values of each unit."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from replayer.analysis.differences import statistics, steadiness
from replayer.model import Better, Measurement, Run, Status, StepResult
from replayer.results import run_listing


class Unit(StrEnum):
    """The kind of unit that counts as one sample in a comparison.

    A comparison uses the largest of these kinds of which a side has several.
    """

    BOOT = "boot"
    RUN = "run"
    REPEAT = "repeat"


@dataclass(frozen=True)
class Side:
    """A named group of runs, which is one side of a comparison."""

    name: str
    runs: tuple[Run, ...]


def origin(run: Run) -> tuple[object, ...]:
    """Return a key that identifies the measurement of a run; copies of its file have the same key.

    A copy has it even with another id, label or value: the key consists of the boot and the times
    of all steps, which no two runs share.  Without a boot id or steps, it is the run's id.
    """
    boot = run.host.get("boot.id")
    if not boot or not run.steps:
        return (run.id,)
    return (boot, run.started, *((one.name, one.started, one.elapsed) for one in run.steps))


def without_copies(runs: Iterable[Run]) -> list[Run]:
    """Return the runs without those that are copies of an earlier one in `runs`.

    Copies are known by their boot and the times of their steps, even if they have other ids.
    """
    first: dict[tuple[object, ...], Run] = {}
    for run in runs:
        first.setdefault(origin(run), run)
    return list(first.values())


Key = tuple[str, str]
"""(name of a step, metric)."""
Measured = Callable[[StepResult], Iterable[Measurement]]
"""A function that returns the values to compare from a step's result."""
_OWN = ("*.client_cpu", "walk.*.user")
"""Metrics about replayer itself.

They follow from other metrics: half the throughput costs the client half the processor time."""
_APART = 0.75
"""One of two sides is after the other if it is the later one in this share of all pairs of units.

If units interleave well, each side is the later one in about half of the pairs."""


def unit_of(base: Sequence[Run], other: Sequence[Run]) -> Unit:
    """Return the unit of a comparison, which is what counts as one sample: boot, run or repeat.

    It is the largest of these of which a side has several.  It is the boot only if the boot of
    every run is known.
    """
    boots = [[run.host.get("boot.id") for run in side] for side in (base, other)]
    if all(all(side) for side in boots) and max(len(set(side)) for side in boots) > 1:
        return Unit.BOOT
    return Unit.RUN if max(len(base), len(other)) > 1 else Unit.REPEAT


@dataclass(frozen=True)
class Samples:
    """The samples of one side of a comparison: the values of each metric, grouped by unit.

    A unit is what counts as one sample: a boot, a run or a repeat.  There are also remarks on runs.
    """

    name: str
    units: tuple[Mapping[Key, tuple[float, ...]], ...]
    """For each unit: key -> values that were measured in it."""
    kinds: Mapping[Key, Measurement]
    remarks: Mapping[str, tuple[str, ...]]
    """Sentence of a warning -> the ids of the runs that it is about."""
    starts: tuple[float, ...]
    """The start of each unit in seconds since 1970; NaN if it is not known."""
    mixed: Mapping[Key, tuple[Measurement, Measurement]] = field(default_factory=dict)
    """Metrics whose unit or good direction is not the same in all results -> two such results."""

    @classmethod
    def of(cls, side: Side, unit: Unit, measured: Measured | None = None) -> "Samples":
        """Return the samples of one side: the values of its runs, grouped by unit.

        `measured` returns the values of a step; by default these are its measurements.
        """
        measured = measured or kinds_of
        kinds: dict[Key, Measurement] = {}
        mixed: dict[Key, tuple[Measurement, Measurement]] = {}
        warnings: dict[str, list[str]] = {}
        parts: dict[object, list[Mapping[Key, list[float]]]] = {}
        starts: dict[object, float] = {}
        for run in side.runs:
            steps, remarks = counted(run)
            for repeats in _by_repeat(steps) if unit is Unit.REPEAT else [steps]:
                values, bad = _values(repeats, kinds, mixed, measured)
                remarks += bad
                name = run.host["boot.id"] if unit is Unit.BOOT else len(parts)
                parts.setdefault(name, []).append(values)
                starts[name] = min(_instant(run.started), starts.get(name, math.inf))
            for sentence in remarks:
                warnings.setdefault(sentence, []).append(run.id)
        about = {words: tuple(ids) for words, ids in warnings.items()}
        units = tuple(map(_merge, parts.values()))
        return cls(side.name, units, kinds, about, tuple(starts.values()), mixed)

    def values(self, key: Key) -> statistics.Floats:
        """Return one value of a metric for each unit (boot, run or repeat): its median in the unit.

        It is NaN if the unit has no value of the metric.
        """
        return statistics.medians([unit.get(key, (math.nan,)) for unit in self.units])

    def leading(self) -> set[Key]:
        """Return (step, metric) of all leading metrics, for which the steps are run."""
        steps: dict[str, list[Measurement]] = {}
        for (step, _), kind in self.kinds.items():
            steps.setdefault(step, []).append(kind)
        return {(step, metric) for step, kinds in steps.items() for metric in leading(kinds)}


@dataclass(frozen=True)
class Order:
    """The order of time in which the units (boots or runs) of two sides were measured.

    Each unit has a place in the common order of both sides, from 1.
    """

    places: tuple[statistics.Floats, statistics.Floats]
    """For each side: the place of each unit in the common order of time, from 1."""

    @property
    def later(self) -> float:
        """Return the share of all pairs of units in which the unit of the other side came later.

        A pair is a unit of the base side and one of the other side.  The share is 0.5 for the order
        A B B A, and 0 or 1 if one side was measured after the other.
        """
        return steadiness.interleaved(*self.places)

    @property
    def after(self) -> bool:
        """Return whether all or most units of one side came after those of the other side."""
        return not 1 - _APART < self.later < _APART

    @property
    def fault(self) -> str:
        """Return how the order falls short of turns, as a clause of a sentence."""
        if self.after:
            return "one side came after the other"
        return "each side was measured in long blocks"

    def among(self, known: Sequence[NDArray[np.bool_]]) -> "Order":
        """Return the order of those units of both sides that are `known`, as some may lack values.

        `known` has an array for each side: True for each unit that counts.
        """
        if all(map(np.all, known)):
            return self
        below, above = (at[here] for at, here in zip(self.places, known, strict=True))
        ranks = statistics.ranks(np.concatenate((below, above)))
        return Order((ranks[: below.size], ranks[below.size :]))

    @cached_property
    def turns(self) -> bool:
        """Return whether the sides took turns, as in A B B A, but not in A A B B B B A A.

        In the second order neither side is the later one.  But a state of the machine that lasts
        for some units makes the sides differ more often than independent noise does.
        """
        return not self.after and steadiness.block_noise(*self.places) <= 1


def order_of(unit: Unit, base: Samples, other: Samples) -> Order | None:
    """Return the order in which the units of both sides were measured.

    None if the start of a unit is not known, or if the units are repeats of a single run.
    """
    starts = np.array([*base.starts, *other.starts])
    if unit is Unit.REPEAT or not np.isfinite(starts).all():
        return None
    ranks = statistics.ranks(starts)
    return Order((ranks[: len(base.starts)], ranks[len(base.starts) :]))


def places(unit: Unit, base: Samples, other: Samples) -> tuple[statistics.Floats, ...] | None:
    """Return for each side the place of each unit, from 1, in the common order of time.

    None if the order is not known, or if the sides did not take turns.  Then a drift over time
    cannot be separated from a difference.
    """
    order = order_of(unit, base, other)
    return order.places if order is not None and order.turns else None


def _instant(text: str) -> float:
    """Return an ISO 8601 time in seconds since 1970; NaN if `text` is not such a time."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return math.nan


def _by_repeat(steps: Iterable[StepResult]) -> list[list[StepResult]]:
    repeats: dict[int, list[StepResult]] = {}
    for step in steps:
        repeats.setdefault(step.repeat, []).append(step)
    return list(repeats.values())


def kinds_of(step: StepResult) -> list[Measurement]:
    """Return a step's measurements, without a good direction for those about replayer itself.

    So no comparison calls these better or worse.
    """
    return [
        m.model_copy(update={"better": Better.NEITHER}) if is_own(m.metric) else m
        for m in step.measurements
    ]


def is_own(metric: str) -> bool:
    """Return whether a metric is about replayer's own work, which no comparison judges."""
    return any(fnmatchcase(metric, pattern) for pattern in _OWN)


def _values(
    steps: Iterable[StepResult],
    kinds: dict[Key, Measurement],
    mixed: dict[Key, tuple[Measurement, Measurement]],
    measured: Measured,
) -> tuple[dict[Key, list[float]], list[str]]:
    """Return (step, metric) -> values of `steps`, and a sentence for each value that is not finite.

    `measured` returns the values of one step.  The unit and the direction of each metric are added
    to `kinds`, and to `mixed` if they are not those of an earlier step.
    """
    values: dict[Key, list[float]] = {}
    remarks = []
    for step in steps:
        for m in measured(step):
            key = (step.name, m.metric)
            if math.isfinite(m.value):
                before = kinds.get(key, m)
                if is_unlike(before, m):
                    mixed.setdefault(key, (before, m))
                kinds[key] = common(before, m)
                values.setdefault(key, []).append(m.value)
            else:
                remarks.append(
                    f"{m.metric} of repeat {step.repeat} is {m.value} and does not count"
                )
    return values, remarks


def is_unlike(one: Measurement, other: Measurement) -> bool:
    """Return whether values of a metric cannot be put together: other units, opposed directions."""
    opposed = one.better is not other.better and Better.NEITHER not in {one.better, other.better}
    return one.unit != other.unit or opposed


def common(one: Measurement, other: Measurement) -> Measurement:
    """Return the measurement `one`, without a good direction if either of the two has none.

    Both are of the same metric.
    """
    if other.better is Better.NEITHER:
        return one.model_copy(update={"better": Better.NEITHER})
    return one


def _merge(runs: Sequence[Mapping[Key, list[float]]]) -> dict[Key, tuple[float, ...]]:
    """Return (step, metric) -> values of a unit such as a boot, from the values of all its runs.

    If one run has the metric, they are all values of this run.  If several have it, they are one
    median for each run.
    """
    merged: dict[Key, tuple[float, ...]] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        having = [run[key] for run in runs if key in run]
        one_run = len(having) == 1
        merged[key] = tuple(having[0]) if one_run else tuple(statistics.medians(having).tolist())
    return merged


def counted(run: Run) -> tuple[list[StepResult], list[str]]:
    """Return the steps of a run that count, and sentences about the steps that do not count.

    Repeats before a step's leading metric (for which it is run) became steady stay in the file, and
    do not count.  If it never became steady, all repeats count, and a sentence reports it.
    """
    remarks: dict[str, list[str]] = {}
    if run.status is not Status.DONE:
        remarks[f"it is {run_listing.state(run)}: only its finished steps count"] = []
    kept: list[StepResult] = []
    for name in dict.fromkeys(step.name for step in run.steps):
        done = [s for s in run.steps if s.name == name and s.status is Status.DONE]
        part = settled(done)
        for words in (*unsettled(part, len(done)), *_unsteady(done)):
            remarks.setdefault(words, []).append(name)
        kept += done[part.start or 0 :]
    return kept, [f"{', '.join(names)} {words}".strip() for words, names in remarks.items()]


def settled(repeats: Sequence[StepResult]) -> steadiness.Steady:
    """Return the steady part of a step's repeats, judged by its first leading metric.

    All repeats count if the metric lacks a value in one of them.
    """
    metric = _first(repeats[0].measurements) if repeats else ""
    values = [value for step in repeats if (value := step.value(metric)) is not None]
    return steadiness.steady(values) if len(values) == len(repeats) else steadiness.Steady(0)


def unsettled(part: steadiness.Steady, repeats: int) -> Iterator[str]:
    """Yield sentences about the repeats of a step, unless all of them are steady.

    `part` is the steady part of the repeats, and `repeats` their number.
    """
    if part.start is None:
        yield f"never settled in {repeats} repeats (by slope or deviation): all of them count"
    elif part.start:
        yield f"warmed up in the first {part.start} of {repeats} repeats, which do not count"
    if part.left:
        yield "settled and did not stay so to the last repeat"


def _unsteady(repeats: Sequence[StepResult]) -> Iterator[str]:
    """Yield sentences with the number of repeats of a step within which its rate was not steady.

    There is one sentence for not steady, and one for perhaps not steady.
    """
    rates = [step.steady for step in repeats if step.steady is not None]
    for settled, what in ((False, "not steady"), (None, "perhaps not steady")):
        reasons = [rate.words for rate in rates if rate.settled is settled]
        if reasons:
            yield f"{what} within {len(reasons)} of {len(repeats)} repeats ({reasons[0]})"


def leading(measurements: Iterable[Measurement]) -> set[str]:
    """Return the names of the leading metrics of one step, for which the step is run.

    `measurements` are those of the step.  They are the ones that are declared as such; if there is
    none, the first suitable metric.
    """
    kinds = list(measurements)
    return {kind.metric for kind in kinds if kind.leading} or {_first(kinds)} - {""}


def _first(measurements: Iterable[Measurement]) -> str:
    """Return the name of the first leading metric of a step; "" if there is none.

    It is the first declared one, else the first of which more is better, else the first with any
    good direction.
    """
    known = [m for m in measurements if m.better is not Better.NEITHER and not m.says]
    declared = [m for m in known if m.leading]
    rates = [m for m in known if m.better is Better.MORE]
    return next((m.metric for m in (*declared, *rates, *known)), "")
