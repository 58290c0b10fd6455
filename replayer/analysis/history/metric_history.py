"""Series of metrics over all stored runs, their changes, and what else changed at the same time."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

import numpy as np

from replayer.analysis.attribution import known_causes
from replayer.analysis.differences import environment, statistics
from replayer.analysis.differences.environment import MISSING, Difference, Sort
from replayer.analysis.differences.level_changes import Changes
from replayer.analysis.history import boot_units, change_points, few_boots
from replayer.errors import ReplayerError
from replayer.model import Better, Noun, Run
from replayer.results import store
from replayer.results.measured_runs import MeasuredRun, MeasuredValue
from replayer.results.metrics_cache import MetricsCache

_BESIDE = 5
"""The number of runs on each side of a change whose facts are compared."""
_COMPARED = 400
"""The most units on each side from which the size of a change is computed, by all their pairs."""
_MOST_ALIKE = 0.95
_Place = tuple[str, str, str, str, str]
_Load = Callable[[str], Run | None]
"""A function that returns the run with this id; None if its file cannot be read."""


class HistoryPoint(Noun):
    """One run in the history of a metric: its id, start, boot, and the value of the metric."""

    run: str
    when: float
    """The start in seconds since 1970."""
    value: float
    fact: str
    """The value of the fact that the user selected; "" if the run does not have it."""
    boot: str


class HistoryLevel(Noun):
    """The runs between two neighbouring changes of a metric's level: median, and number of runs."""

    median: float
    runs: int
    boots: int
    """The number of boots of these runs; 0 if the boot of a run is not known."""

    @property
    def has_few_boots(self) -> bool:
        """Return whether the runs are of so few boots that a boot alone may move their level."""
        return 0 < self.boots < change_points.SHORTEST


class HistoryChange(Noun):
    """A change of the level of a metric at one of the stored runs, and what changed with it."""

    at: int
    """The index of the first point after the change."""
    run: str
    """The id of the first run after the change."""
    when: float
    before: HistoryLevel
    after: HistoryLevel
    share: float | None
    """The change as a share of the level before, such as -0.18; None without a positive level."""
    low: float | None
    high: float | None
    """The 95 percent interval of `share`; None if there are too few runs."""
    worse: bool | None
    """True if it is for the worse; None for a change of 0, or a metric without good direction."""
    facts: tuple[Difference, ...] = ()
    """The facts that changed at the same time: first the selected one, then known causes."""
    in_boot: bool = False
    """True if the change is between two runs of one boot, so that no other boot is its cause."""
    is_proven: bool = True
    """False if there are too few boots for a proof; it is larger than their spread explains."""

    @property
    def may_be_boots(self) -> bool:
        """Return whether another boot alone may have caused the change: a side has few boots."""
        few = self.before.has_few_boots or self.after.has_few_boots
        return not self.is_proven or (few and not self.in_boot)


class MetricHistory(Noun):
    """All stored values of one metric of the same work, by one engine on one machine, and changes.

    The points are sorted by the start of their runs.
    """

    name: str
    unit: str
    better: Better
    workload: str
    work: str
    """The settings of the workload that the user changed."""
    engine: str
    machine: str
    points: tuple[HistoryPoint, ...]
    changes: tuple[HistoryChange, ...] = ()
    boots: int = 0
    """The number of boots if each counts as one value, as they differ; else 0."""
    needed: int = 0
    """The fewest runs, or boots if these count as one value, that can show a change."""
    later: int = 0
    """The number of runs of the same work, engine and machine since the last point."""

    @property
    def is_unclear(self) -> bool:
        """Return whether no change is named, and too few runs or boots could have shown one."""
        return not self.changes and (self.boots or len(self.points)) < self.needed

    @property
    def is_short(self) -> bool:
        """Return whether there are too few runs, less than six, to find any change."""
        return len(self.points) < 2 * change_points.SHORTEST

    @property
    def is_worse(self) -> bool:
        """Return whether the newest change is for the worse; False if the level never changed."""
        return bool(self.changes and self.changes[-1].worse)


class RunHistory(Noun):
    """The history, over stored runs, of all metrics that the user selected.

    `fact` is the key of the fact that is shown for each run.  `runs` is the number of runs used.
    """

    fact: str
    runs: int
    series: tuple[MetricHistory, ...]

    @property
    def newest(self) -> tuple[MetricHistory, HistoryChange] | None:
        """Return the metric that changed last, with its newest change; None if no metric changed.

        Of several changes at the same time, the largest by share is returned.  A change without a
        share counts as the largest.
        """
        changes = [(one, change) for one in self.series for change in one.changes[-1:]]
        return max(changes, key=lambda pair: (pair[1].when, _size(pair[1].share)), default=None)


def _size(share: float | None) -> float:
    return math.inf if share is None else abs(share)


def trace(
    runs: Sequence[MeasuredRun],
    fact: str,
    *,
    metrics: Sequence[str] = (),
    threshold: float = 0.0,
    warn: Callable[[str], None] = lambda _: None,
) -> RunHistory:
    """Return the history of metrics over stored runs, which are sorted by their start.

    `fact` is the key of the fact whose value is in the field `fact` of the runs, such as
    host.kernel.release.  It is listed first among the facts that changed together with a metric.
    `metrics` are patterns of names, with or without the name of the step; by default, the main
    metrics of each step, which are marked as leading, are used.  Changes by less than the share
    `threshold` are left out.  `warn` gets a sentence if runs were left out.
    """
    meant = _meant(runs, metrics)
    known = [run for run in meant if run.values]
    if known and len(known) < len(runs):
        warn(f"{len(runs) - len(known)} runs have no such measurement that can be read")
    series = list(_series(known, metrics, warn))
    family = sum(not one.is_short for one in series)
    where = {run.id: run.path for run in known}
    # Metrics of one run change together, and a file is large.
    load = functools.cache(lambda run: _loaded(where[run]))
    traced = (
        _with_changes(one, load, fact, threshold, family).model_copy(
            update={"later": _count_later(one, meant)}
        )
        for one in series
    )
    # Those that are short now are searched, too, as soon as they have more runs.
    needed = change_points.enough(len(series))
    counted = tuple(
        one.model_copy(update={"needed": needed}) if one.is_unclear else one for one in traced
    )
    return RunHistory(fact=fact, runs=len(known), series=counted)


def _count_later(one: MetricHistory, runs: Sequence[MeasuredRun]) -> int:
    """Return the number of runs of the same work, engine and machine since the last point.

    `runs` are all runs, with or without the metric, sorted by their start.
    """
    place = (one.workload, one.work, one.engine, one.machine)
    same = [run.id for run in runs if (run.workload, run.work, run.engine, run.machine) == place]
    return len(same) - 1 - same.index(one.points[-1].run)


def _meant(runs: Sequence[MeasuredRun], metrics: Sequence[str]) -> Sequence[MeasuredRun]:
    """Return the runs with the values of all metrics whose names match one of the patterns.

    The main metrics of each run are known already.  Only if a pattern matches none of these, the
    values of all metrics that match a pattern are read from the files of the runs.
    """
    leading = {value.name for run in runs for value in run.values}
    if all(any(_is_meant(name, [pattern]) for name in leading) for pattern in metrics):
        return runs
    caches: dict[Path, MetricsCache] = {}
    found = []
    for run in runs:
        folder = run.path.parent
        if folder not in caches:
            caches[folder] = MetricsCache(folder, lambda name: _is_meant(name, metrics))
        found.append(replace(run, values=caches[folder].values(run.path)))
    for cache in caches.values():
        cache.save()
    return found


def _is_meant(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a metric's name matches one of the patterns; True if there are none.

    A pattern may contain `*`.  It is compared with the whole name, and with the name without its
    step, which is the part before the first dot.
    """
    plain = name.split(".", 1)[-1]
    return not patterns or any(
        fnmatchcase(name, pattern) or fnmatchcase(plain, pattern) for pattern in patterns
    )


def _series(
    runs: Sequence[MeasuredRun], metrics: Sequence[str], warn: Callable[[str], None]
) -> Iterator[MetricHistory]:
    """Yield a series of values for each metric of the same workload, settings, engine and machine.

    The metrics are those that match the patterns `metrics`, or all without patterns.  `warn` gets a
    sentence if values of a metric are not in the unit of its newest one.
    """
    found: dict[_Place, list[tuple[MeasuredRun, MeasuredValue]]] = {}
    for run in runs:
        for value in run.values:
            if _is_meant(value.name, metrics) and math.isfinite(value.value):
                place = (run.workload, run.work, run.engine, run.machine, value.name)
                found.setdefault(place, []).append((run, value))
    for (workload, work, engine, machine, name), pairs in found.items():
        kind = pairs[-1][1]
        if others := sum(own.unit != kind.unit for _, own in pairs):
            unit = kind.unit or "a plain number"
            warn(f"{others} runs have {name} in another unit than {unit}, and are left out of it")
        yield MetricHistory(
            name=name,
            unit=kind.unit,
            better=kind.better,
            workload=workload,
            work=work,
            engine=engine,
            machine=machine,
            points=tuple(
                HistoryPoint(
                    run=run.id, when=run.when, value=own.value, fact=run.fact, boot=run.boot
                )
                for run, own in pairs
                if own.unit == kind.unit
            ),
        )


def _with_changes(
    one: MetricHistory, load: _Load, fact: str, threshold: float, family: int
) -> MetricHistory:
    values = np.array([point.value for point in one.points])
    boots = [point.boot for point in one.points]
    places = [] if one.is_short else change_points.find(values, boots, family=family)
    starts = boot_units.starts(values, boots)
    units = boot_units.medians(values, starts)
    counted = len(units) if len(units) < len(values) else 0
    needed = change_points.enough(family)
    is_few = 0 < counted < needed
    if is_few and not places and (at := few_boots.suspected(units, family=family)) is not None:
        places = [starts[at]]
    places = _notable(values, places, threshold)
    bounds = [0, *places, len(values)]
    changes = [
        _change(one, (bounds[i], bounds[i + 1], bounds[i + 2]), starts, load, fact)
        for i in range(len(places))
    ]
    # Of few boots, a search that found a change drew no order like the real one by luck.
    changes = [
        change.model_copy(update={"is_proven": change.in_boot or not is_few}) for change in changes
    ]
    return one.model_copy(update={"changes": tuple(changes), "boots": counted, "needed": needed})


def _notable(values: statistics.Floats, places: list[int], threshold: float) -> list[int]:
    """Return the change points without those at which the level changes by less than `threshold`.

    `places` are the indices in `values` of the first value after each change.  A level is a median,
    and `threshold` is a share of the level before, such as 0.02.  The smallest change is removed
    first; then the levels between the others are computed again.
    """
    kept = list(places)
    while kept:
        parts = [float(np.median(part)) for part in np.split(values, kept)]
        moves = [
            abs(after / before - 1) if before > 0 and after > 0 else math.inf
            for before, after in pairwise(parts)
        ]
        least = min(range(len(moves)), key=moves.__getitem__)
        if moves[least] >= threshold:
            break
        del kept[least]
    return kept


def _change(
    one: MetricHistory,
    bounds: tuple[int, int, int],
    starts: Sequence[int],
    load: _Load,
    fact: str,
) -> HistoryChange:
    """Return the change at the second of three places in a history, from one change to the next.

    `starts` has the index of the first run of each unit: of a run, or of a boot where boots differ.
    """
    begin, at, end = bounds
    before, after = one.points[begin:at], one.points[at:end]
    boot = _boot_around(one, starts, at)
    if boot is not None:
        # Of one boot the runs are the units.
        starts = range(len(one.points))
        begin, end = max(begin, boot[0]), min(end, boot[1])
    sides = [_units(one, starts, begin, at)[-_COMPARED:], _units(one, starts, at, end)[:_COMPARED]]
    ratio = resembling_ratio(*sides)
    # Of skewed values, the medians may differ in the other direction than most pairs.
    move = ratio.value - 1 if ratio else statistics.median(sides[1]) - statistics.median(sides[0])
    return HistoryChange(
        at=at,
        run=after[0].run,
        when=after[0].when,
        before=_level(before),
        after=_level(after),
        share=None if ratio is None else move,
        low=None if ratio is None or ratio.low is None else ratio.low - 1,
        high=None if ratio is None or ratio.high is None else ratio.high - 1,
        worse=None
        if one.better is Better.NEITHER or not move
        else (move if one.better is Better.LESS else -move) > 0,
        facts=_changed(
            [load(point.run) for point in before[-_BESIDE:]],
            [load(point.run) for point in after[:_BESIDE]],
            fact,
        ),
        in_boot=boot is not None,
    )


def _boot_around(one: MetricHistory, starts: Sequence[int], at: int) -> tuple[int, int] | None:
    """Return the first run, and the one after the last, of the boot inside of which a change is.

    Return None for a change that another boot may have caused.  Where boots do not differ, they are
    not searched one by one, so only in a single boot a change is known to be inside.
    """
    boots = {point.boot for point in one.points}
    if len(boots) == 1 and "" not in boots:
        return 0, len(one.points)
    if at in starts:
        return None
    bounds = [*starts, len(one.points)]
    return next((first, last) for first, last in pairwise(bounds) if first < at < last)


def _units(one: MetricHistory, starts: Sequence[int], begin: int, end: int) -> list[float]:
    """Return the values of the units whose first run is in a part of a history, in their order."""
    values = np.array([point.value for point in one.points[begin:end]])
    firsts = boot_units.within(starts, begin, end)
    return [float(value) for value in boot_units.medians(values, firsts)]


def resembling_ratio(before: Sequence[float], after: Sequence[float]) -> statistics.Ratio | None:
    """Return the ratio of a metric's values after a change to those before it, with an interval.

    Both have one value per run, or per boot where boots differ, in order of time.  Return None
    unless both medians are above zero and no value is negative.  Each value may resemble the one
    before it, so dependent values prove less than as many independent ones.  With an
    autocorrelation `a`, the variance of their mean is (1 + a) / (1 - a) times as large (G. Box, G.
    Jenkins and G. Reinsel, *Time Series Analysis*).  The interval of the ratio is widened by the
    square root of this factor.
    """
    ratio = statistics.ratio(before, after)
    if ratio is None or ratio.low is None or ratio.high is None or ratio.low <= 0:
        return ratio
    values = np.array([*before, *after])
    is_after = np.arange(len(values)) >= len(before)
    found = float(Changes(values / values.mean(), is_after[None, :].astype(float)).alike[0])
    # Few runs show less of it than there is (F. Marriott and J. Pope, Biometrika 41, 1954).
    alike = min(_MOST_ALIKE, found + (1 + 3 * found) / len(values))
    wider = math.sqrt((1 + alike) / (1 - alike))
    low, high = (ratio.value * (end / ratio.value) ** wider for end in (ratio.low, ratio.high))
    return replace(ratio, low=low, high=high)


def _level(points: Sequence[HistoryPoint]) -> HistoryLevel:
    boots = {point.boot for point in points}
    return HistoryLevel(
        median=statistics.median([point.value for point in points]),
        runs=len(points),
        boots=0 if "" in boots else len(boots),
    )


def _changed(
    before: Sequence[Run | None], after: Sequence[Run | None], fact: str
) -> tuple[Difference, ...]:
    """Return the facts that have no value in common in the runs before and after a change.

    The fact with the key `fact` is first, then those known to change times.  None in `before` or
    `after` is a run that cannot be read.  Returns () if no run of a side can be read.
    """
    sides = [[run for run in runs if run is not None] for runs in (before, after)]
    if not all(sides):
        return ()
    found = [
        one
        for one in environment.differences(sides[0], sides[1], asked=fact)
        if one.sort is not Sort.NOISE and one.key != "label" and not set(one.base) & set(one.other)
    ]
    known = {one.key for one in known_causes.may_explain(found, ())}
    return tuple(sorted(found, key=lambda one: (one.key != fact, one.key not in known)))


def _loaded(path: Path) -> Run | None:
    try:
        return store.load(path, lambda _: False)
    except (ReplayerError, OSError):
        return None


def show_day(when: float) -> str:
    """Return a time, in seconds since 1970, as date and time of day in UTC."""
    return f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d %H:%M}"


def show_values(values: Sequence[str]) -> str:
    """Return the values of a fact on one side of a change as text, joined by "or".

    It is "not known" if no run has the fact.
    """
    return " or ".join(values) if values != (MISSING,) else "not known"
