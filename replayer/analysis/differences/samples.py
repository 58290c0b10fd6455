"""What counts of a group of runs: its boots, runs or repeats, and the values measured in each."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import numpy as np

from replayer.analysis.differences import statistics, steadiness
from replayer.model import Better, Measurement, Run, Status, StepResult


class Unit(StrEnum):
    """What counts as one: the largest thing of which there are several."""

    BOOT = "boot"
    RUN = "run"
    REPEAT = "repeat"


@dataclass(frozen=True)
class Side:
    """A named group of runs."""

    name: str
    runs: tuple[Run, ...]


Key = tuple[str, str]
"""A step's name and a metric."""
Measured = Callable[[StepResult], Iterable[Measurement]]
"""What is taken of a step's result."""
_APART = 0.75
"""Of two groups whose units interleave, one is the later in about half of all pairs."""


def unit_of(base: Sequence[Run], other: Sequence[Run]) -> Unit:
    """Return the largest thing of which one side has several."""
    boots = [[run.host.get("boot.id") for run in side] for side in (base, other)]
    if all(all(side) for side in boots) and max(len(set(side)) for side in boots) > 1:
        return Unit.BOOT
    return Unit.RUN if max(len(base), len(other)) > 1 else Unit.REPEAT


@dataclass(frozen=True)
class Samples:
    """What counts of one side: unit -> key -> values, and what has to be said about it."""

    name: str
    units: tuple[Mapping[Key, tuple[float, ...]], ...]
    kinds: Mapping[Key, Measurement]
    warnings: tuple[str, ...]
    starts: tuple[float, ...]
    """When each unit began, in seconds; not a number where it is not known."""

    @classmethod
    def of(cls, side: Side, unit: Unit, measured: Measured | None = None) -> "Samples":
        """Sort the values of one side's runs into units; its measurements unless told otherwise."""
        measured = measured or _measurements
        kinds: dict[Key, Measurement] = {}
        warnings: dict[str, list[str]] = {}
        parts: dict[object, list[Mapping[Key, list[float]]]] = {}
        starts: dict[object, float] = {}
        for run in side.runs:
            steps, remarks = counted(run)
            for repeats in _by_repeat(steps) if unit is Unit.REPEAT else [steps]:
                values, bad = _values(repeats, kinds, measured)
                remarks += bad
                name = run.host["boot.id"] if unit is Unit.BOOT else len(parts)
                parts.setdefault(name, []).append(values)
                starts[name] = min(_instant(run.started), starts.get(name, math.inf))
            for sentence in remarks:
                warnings.setdefault(sentence, []).append(run.id)
        sentences = tuple(f"{side.name}: {_whose(ids)}: {words}" for words, ids in warnings.items())
        units = tuple(map(_merge, parts.values()))
        return cls(side.name, units, kinds, sentences, tuple(starts.values()))

    def values(self, key: Key) -> statistics.Floats:
        """Return one value of a metric for each unit, the median; NaN where a unit has none."""
        return statistics.medians([unit.get(key, (math.nan,)) for unit in self.units])

    def leading(self) -> set[Key]:
        """Return the metrics that the steps are run for: those that say so, else one of each."""
        steps: dict[str, list[Measurement]] = {}
        for (step, _), kind in self.kinds.items():
            steps.setdefault(step, []).append(kind)
        return {(step, metric) for step, kinds in steps.items() for metric in leading(kinds)}


@dataclass(frozen=True)
class Order:
    """In which order the units of two sides were measured."""

    places: tuple[statistics.Floats, statistics.Floats]
    """Each unit's place in the order of time, side by side."""

    @property
    def later(self) -> float:
        """Return in which share of all pairs the unit of the other side came after the base's."""
        return steadiness.interleaved(*self.places)

    @property
    def turns(self) -> bool:
        """Tell whether the sides took turns, so that a drift is none of what they differ by."""
        return 1 - _APART < self.later < _APART


def order_of(unit: Unit, base: Samples, other: Samples) -> Order | None:
    """Return the order of the units; None where it is not known, as that of repeats."""
    starts = np.array([*base.starts, *other.starts])
    if unit is Unit.REPEAT or not np.isfinite(starts).all():
        return None
    ranks = statistics.ranks(starts)
    return Order((ranks[: len(base.starts)], ranks[len(base.starts) :]))


def places(unit: Unit, base: Samples, other: Samples) -> tuple[statistics.Floats, ...] | None:
    """Return each unit's place in the order of time, side by side.

    None if the sides do not interleave, so that nothing tells a drift from what they differ by.
    """
    order = order_of(unit, base, other)
    return order.places if order is not None and order.turns else None


def _instant(text: str) -> float:
    """Return the seconds of a time as it stands in a result, not a number if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return math.nan


def _whose(ids: Sequence[str]) -> str:
    """Return the runs that a sentence is about, the first of many."""
    return ", ".join(ids) if len(ids) < 3 else f"{ids[0]} and {len(ids) - 1} more runs"


def _by_repeat(steps: Iterable[StepResult]) -> list[list[StepResult]]:
    repeats: dict[int, list[StepResult]] = {}
    for step in steps:
        repeats.setdefault(step.repeat, []).append(step)
    return list(repeats.values())


def _measurements(step: StepResult) -> Iterable[Measurement]:
    return step.measurements


def _values(
    steps: Iterable[StepResult], kinds: dict[Key, Measurement], measured: Measured
) -> tuple[dict[Key, list[float]], list[str]]:
    """Return the values of some steps by key, and what is said about those that are no numbers.

    What a metric is, is added to `kinds`.
    """
    values: dict[Key, list[float]] = {}
    remarks = []
    for step in steps:
        for m in measured(step):
            key = (step.name, m.metric)
            if math.isfinite(m.value):
                kinds[key] = common(kinds.get(key, m), m)
                values.setdefault(key, []).append(m.value)
            else:
                remarks.append(
                    f"{m.metric} of repeat {step.repeat} is {m.value} and does not count"
                )
    return values, remarks


def common(one: Measurement, other: Measurement) -> Measurement:
    """Return what a metric is where it was measured twice: without direction if one has none."""
    if other.better is Better.NEITHER:
        return one.model_copy(update={"better": Better.NEITHER})
    return one


def _merge(runs: Sequence[Mapping[Key, list[float]]]) -> dict[Key, tuple[float, ...]]:
    """Return a unit's values: all of its only run, or one of each of its runs, the median."""
    merged: dict[Key, tuple[float, ...]] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        having = [run[key] for run in runs if key in run]
        one_run = len(having) == 1
        merged[key] = tuple(having[0]) if one_run else tuple(statistics.medians(having).tolist())
    return merged


def counted(run: Run) -> tuple[list[StepResult], list[str]]:
    """Return the steps of a run that count, and what is to be said about those that do not.

    Repeats before a step's leading metric became steady are kept in the file but not counted; if it
    never did, all count, and it is said.
    """
    remarks: dict[str, list[str]] = {}
    if run.status is not Status.DONE:
        remarks[f"it is {run.status.value}: only its finished steps count"] = []
    kept: list[StepResult] = []
    for name in dict.fromkeys(step.name for step in run.steps):
        done = [s for s in run.steps if s.name == name and s.status is Status.DONE]
        part = settled(done)
        for words in (*unsettled(part, len(done)), *_unsteady(done)):
            remarks.setdefault(words, []).append(name)
        kept += done[part.start or 0 :]
    return kept, [f"{', '.join(names)} {words}".strip() for words, names in remarks.items()]


def settled(repeats: Sequence[StepResult]) -> steadiness.Steady:
    """Return from which repeat on a step's leading metric is steady."""
    metric = _first(repeats[0].measurements) if repeats else ""
    values = [value for step in repeats if (value := step.value(metric)) is not None]
    return steadiness.steady(values) if len(values) == len(repeats) else steadiness.Steady(0)


def unsettled(part: steadiness.Steady, repeats: int) -> Iterator[str]:
    """Yield what there is to say about repeats that are not all steady."""
    if part.start is None:
        yield f"never settled in {repeats} repeats (by slope or deviation): all of them count"
    elif part.start:
        yield f"warmed up in the first {part.start} of {repeats} repeats, which do not count"
    if part.left:
        yield "settled and did not stay so to the last repeat"


def _unsteady(repeats: Sequence[StepResult]) -> Iterator[str]:
    """Yield how many repeats say of themselves that they were not steady inside."""
    unsettled = [step.steady.words for step in repeats if step.steady and not step.steady.settled]
    if unsettled:
        yield f"not steady within {len(unsettled)} of {len(repeats)} repeats ({unsettled[0]})"


def leading(measurements: Iterable[Measurement]) -> set[str]:
    """Return the metrics of one step that lead: those that say so, else the first that may."""
    kinds = list(measurements)
    return {kind.metric for kind in kinds if kind.leading} or {_first(kinds)} - {""}


def _first(measurements: Iterable[Measurement]) -> str:
    """Return the first metric of a step that leads, or has a good direction, a rate before a time.

    It is "" if there is none.
    """
    known = [m for m in measurements if m.better is not Better.NEITHER and not m.says]
    declared = [m for m in known if m.leading]
    rates = [m for m in known if m.better is Better.MORE]
    return next((m.metric for m in (*declared, *rates, *known)), "")
