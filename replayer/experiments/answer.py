"""The findings of an experiment: effects, what they explain of a difference, and what is open."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from replayer.analysis.differences.doubts import find_other_reads, leave_out_other_reads
from replayer.analysis.differences.samples import Samples, Side, Unit
from replayer.analysis.differences.statistics import ALPHA
from replayer.errors import Impossible
from replayer.experiments.effects import EffectEstimate, EffectTable, estimate_effects
from replayer.experiments.experiment import ExperimentPlan, name_metric
from replayer.lazy_import import load
from replayer.model import Better, Noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.analysis.differences.samples import Key
    from replayer.experiments.design import FactorialDesign, Floats
    from replayer.model import Measurement, Run

SHOWN, NOTHING, OPEN = "shown", "nothing", "open"
"""Verdicts on an effect: shown to differ from 0; shown to be too small to matter; neither."""


class Share(Noun):
    """A relative change (-0.1 is 10 percent less) and its 95 percent interval, if there is one."""

    change: float
    low: float | None = None
    high: float | None = None


class Effect(Noun):
    """The effect of a factor, or the interaction of two, on one metric.

    The effect of a factor is the change of the metric from the factor's first to its second level.
    It is an average over the levels of the other factors.  An interaction is the further change
    when both factors are at their second levels, over what each does alone, which is with the other
    one at its first level.  The effects of the two factors are averages, and not what each does
    alone: for two that do nothing alone and double the metric together, they are 41 % each, and the
    interaction is 100 %.
    """

    factors: tuple[str, ...]
    aliases: tuple[tuple[str, ...], ...] = ()
    """Other interactions that the design cannot separate from this one."""
    metric: str
    unit: str
    better: Better
    share: Share
    p: float
    """The p value, corrected for the number of all effects and metrics."""
    verdict: str
    """`shown` (it differs from 0), `nothing` (it is too small to matter) or `open` (neither)."""
    settled: bool
    """True if the 95 percent interval is as narrow as the experiment's plan wants it."""
    sure: bool = True
    """False if the cause may be another interaction, as the design mixes the two."""

    @property
    def interaction(self) -> bool:
        """Return whether the effect is an interaction of two factors."""
        return len(self.factors) > 1

    @property
    def title(self) -> str:
        """Return the name of the factor, or of the interaction of two factors, such as `a x b`.

        If the design cannot separate several interactions, all of them are named: `a x b or c x d`.
        """
        return " or ".join(" x ".join(names) for names in (self.factors, *self.aliases))


class Explained(Noun):
    """The difference of two groups of runs in one metric, and how much of it the factors explain.

    `gap` is the difference, `together` what all factors explain, and `left` what they do not.
    """

    metric: str
    gap: Share
    together: Share
    left: Share


class Cell(Noun):
    """The mean of a metric at one pair of levels of two factors, to plot their interaction."""

    factors: tuple[str, str]
    metric: str
    levels: tuple[str, str]
    value: float


class ExperimentAnswer(Noun):
    """All that an experiment found; the metrics are in the order of the workload's steps.

    A block is one run of each combination of the factors' levels.  `block_runs` is the number of
    runs of a block, `blocks` the number of complete blocks, and `blocks_to_settle` the number that
    makes the effect of each factor as exact as the plan wants it.  `settled` is True if it is so
    already.  `cells` has the means that show clear interactions.
    """

    plan: ExperimentPlan
    design: str
    block_runs: int
    blocks: int
    runs: int
    metrics: tuple[str, ...]
    effects: tuple[Effect, ...]
    explained: tuple[Explained, ...]
    cells: tuple[Cell, ...]
    settled: bool
    blocks_to_settle: int
    notes: tuple[str, ...]
    unreached: tuple[str, ...] = ()
    """Sentences on settings whose factors had no effect, as a step sets them itself."""

    def of_metric(self, metric: str) -> tuple[Effect, ...]:
        """Return the effects of all factors and interactions on one metric."""
        return tuple(effect for effect in self.effects if effect.metric == metric)


def analyse(
    plan: ExperimentPlan,
    design: FactorialDesign,
    blocks: Sequence[Sequence[Run]],
    unreached: tuple[str, ...] = (),
) -> ExperimentAnswer:
    """Return the findings from the runs of complete blocks: each has one run of each combination.

    `unreached` are sentences on settings that no run got, because a step sets them itself.  A block
    with a run that did not read as most did is left out, if enough others remain.  Raises
    Impossible if no metric can be judged.
    """
    kept, remarks = _whole_blocks(plan, blocks)
    if len(kept) < min(design.least_blocks(), len(blocks)):
        kept, remarks = list(blocks), []
    metrics, values, notes = _values(plan, kept)
    names = [name_metric(key) for key in metrics]
    table = estimate_effects(design, values, names)
    kinds = dict(zip(names, metrics.values(), strict=True))
    mixed = design.partly_aliased()
    effects = tuple(
        _effect(one, kinds[one.metric], plan.within, mixed=mixed) for one in table.estimates
    )
    return ExperimentAnswer(
        plan=plan,
        design=design.title,
        block_runs=design.size,
        blocks=table.blocks,
        runs=table.runs,
        metrics=tuple(names),
        effects=effects,
        explained=tuple(_explained(plan, table, name) for name in names if name in plan.gaps),
        cells=tuple(_cells(plan, design, effects, values, names)),
        settled=table.settled(plan.within),
        blocks_to_settle=table.blocks_to_settle(plan.within),
        notes=(*plan.notes, *remarks, *notes),
        unreached=unreached,
    )


def is_settled(
    plan: ExperimentPlan, design: FactorialDesign, blocks: Sequence[Sequence[Run]]
) -> bool:
    """Return whether these complete blocks make all effects as exact as the plan wants them.

    It is False while too few blocks count, and at least half of them do.  Raises Impossible as
    `analyse` does.
    """
    kept, _ = _whole_blocks(plan, blocks)
    if len(kept) < design.least_blocks() and 2 * len(kept) >= len(blocks):
        return False
    return analyse(plan, design, blocks).settled


def check_metrics(plan: ExperimentPlan, runs: Sequence[Run]) -> None:
    """Raise Impossible if there is no metric to judge of which all these runs have a usable value.

    It is called after each run of the first block, so that no further runs are made in vain.  Runs
    that did not read as most did do not matter if they are less than half.
    """
    others, _ = find_other_reads(_judged(plan, runs))
    few = 2 * len(others) < len(runs)
    _values(plan, [[run for run in runs if not (few and run.id in others)]])


def _whole_blocks(
    plan: ExperimentPlan, blocks: Sequence[Sequence[Run]]
) -> tuple[list[Sequence[Run]], list[str]]:
    """Return the blocks without a run that did not read as most, and why others are left out.

    A block is left out as a whole, so that each combination has as many runs.
    """
    others, remarks = find_other_reads(_judged(plan, [run for block in blocks for run in block]))
    kept = [block for block in blocks if not any(run.id in others for run in block)]
    left_out = f"with their blocks, {len(blocks) - len(kept)} of {len(blocks)}"
    return kept, [f"{why}, {left_out}" for why in remarks.values()]


def _judged(plan: ExperimentPlan, runs: Sequence[Run]) -> list[Run]:
    """Return the runs with only the steps whose metrics are judged."""
    samples = _samples(runs)
    kinds = {key: kind for one in samples for key, kind in one.kinds.items()}
    names = {step for step, _ in _chosen(plan.metrics, kinds, samples)}
    return [
        run.model_copy(update={"steps": tuple(one for one in run.steps if one.name in names)})
        for run in runs
    ]


def _values(
    plan: ExperimentPlan, blocks: Sequence[Sequence[Run]]
) -> tuple[dict[Key, Measurement], Floats, list[str]]:
    """Return the metrics to judge, their values, and remarks on metrics that are left out.

    The array of values has the shape blocks x combinations x metrics.  A metric is left out if it
    is missing, or not above zero, in one of the runs.  A result that did not read as requested is
    missing, unless those of all runs reached the same.  Raises Impossible if none is left.
    """
    runs = [run for block in blocks for run in block]
    samples = _samples(runs)
    kinds = {key: kind for one in samples for key, kind in one.kinds.items()}
    wanted = _chosen(plan.metrics, kinds, samples)
    counted, remarks = leave_out_other_reads(runs)
    kept = _samples(counted)
    steps = dict.fromkeys(step for step, _ in wanted)
    columns, notes = {}, [remarks[step] for step in steps if step in remarks]
    for key in wanted:
        column = np.array([one.values(key)[0] for one in kept])
        if not np.isfinite(column).all():
            notes.append(f"{name_metric(key)} is not in every run, and is left out")
        elif not (column > 0).all():
            notes.append(f"{name_metric(key)} is not above zero in every run, and is left out")
        else:
            columns[key] = column
    if not columns:
        raise Impossible(
            "no metric can be judged: there is none that every run has, with a value above zero "
            f"({'; '.join(notes) or 'no leading metric'})",
            _remedy(plan, runs),
        )
    shape = (len(blocks), len(blocks[0]), len(columns))
    values = np.stack(list(columns.values()), axis=-1).reshape(shape)
    return {key: kinds[key] for key in columns}, values, notes


def _remedy(plan: ExperimentPlan, runs: Sequence[Run]) -> str:
    """Return what to do about runs that did not read as most did; "" if there are none."""
    others, _ = find_other_reads(_judged(plan, runs))
    if not others:
        return ""
    return (
        f"--resume measures runs again that `replayer runs delete` removed; those that do not "
        f"count are, in the folder {plan.id}: {', '.join(sorted(others))}"
    )


def _samples(runs: Sequence[Run]) -> list[Samples]:
    return [Samples.of(Side("", (run,)), Unit.RUN) for run in runs]


def _chosen(
    patterns: Sequence[str], kinds: dict[Key, Measurement], samples: Sequence[Samples]
) -> list[Key]:
    """Return the (step, metric) pairs to judge, in the order of the steps.

    These match one of the `patterns`, which may have wildcards.  Without patterns they are the
    leading metrics: the main metrics of each step.  A metric of which neither more nor less is
    better is never judged.  Raises Impossible if no metric matches.
    """
    judged = [key for key, kind in kinds.items() if kind.better is not Better.NEITHER]
    if not patterns:
        leads = set().union(*(one.leading() for one in samples))
        return [key for key in judged if key in leads]
    chosen = [
        key
        for key in judged
        if any(fnmatchcase(word, one) for one in patterns for word in (key[1], name_metric(key)))
    ]
    if not chosen:
        there = ", ".join(sorted({key[1] for key in judged})[:8]) or "none"
        raise Impossible(f"no metric matches {' or '.join(patterns)} (there are: {there}, …)")
    return chosen


def _effect(one: EffectEstimate, kind: Measurement, within: float, *, mixed: bool) -> Effect:
    # Half of the difference between a factor's effects at the other one's levels: shown is all.
    scale = 2 if one.term.interaction else 1
    value, low, high = (scale * end for end in (one.value, one.low, one.high))
    share = Share(change=math.expm1(value), low=math.expm1(low), high=math.expm1(high))
    reach = math.log1p(within)
    nothing = -reach <= low <= 0 <= high <= reach
    return Effect(
        factors=one.term.factors,
        aliases=one.term.aliases,
        metric=one.metric,
        unit=kind.unit,
        better=kind.better,
        share=share,
        p=one.p,
        verdict=SHOWN if one.named else NOTHING if nothing else OPEN,
        settled=(high - low) / 2 <= reach,
        sure=not (one.term.aliases or (mixed and one.term.interaction)),
    )


def _explained(plan: ExperimentPlan, table: EffectTable, metric: str) -> Explained:
    """Return how much of the difference of two sides all factors explain together, and the rest.

    `metric` is the metric to judge.  When all factors go from their first to their second levels,
    the metric's logarithm changes by the sum of the main effects: an interaction of two factors
    adds the same at both ends.
    """
    gap = plan.gaps[metric]
    mains = [one for one in table.of_metric(metric) if not one.term.interaction]
    value = sum(one.value for one in mains)
    reach = table.width * math.sqrt(sum(one.error**2 for one in mains))
    if gap.error is None or gap.free < 1:
        return Explained(
            metric=metric,
            gap=Share(change=math.expm1(gap.value)),
            together=_share(value, reach),
            left=Share(change=math.expm1(gap.value - value)),
        )
    own = float(load("scipy.stats").t.ppf(1 - ALPHA / 2, gap.free)) * gap.error
    return Explained(
        metric=metric,
        gap=_share(gap.value, own),
        together=_share(value, reach),
        left=_share(gap.value - value, math.hypot(own, reach)),
    )


def _share(value: float, reach: float) -> Share:
    low, high = math.expm1(value - reach), math.expm1(value + reach)
    return Share(change=math.expm1(value), low=low, high=high)


def _cells(
    plan: ExperimentPlan,
    design: FactorialDesign,
    effects: Sequence[Effect],
    values: Floats,
    names: Sequence[str],
) -> list[Cell]:
    """Return mean values that show the interactions, for each interaction with a clear effect.

    There are four for each: one for each pair of levels of the two factors.  Each is the geometric
    mean of the metric in the runs with these levels.
    """
    levels = {one.name: (one.first, one.second) for one in plan.factors}
    cells = []
    for effect in effects:
        if not effect.interaction or effect.verdict != SHOWN:
            continue
        first, second = effect.factors
        column = values[:, :, names.index(effect.metric)]
        for one in (-1, 1):
            for two in (-1, 1):
                inside = (design.column([first]) == one) & (design.column([second]) == two)
                cells.append(
                    Cell(
                        factors=(first, second),
                        metric=effect.metric,
                        levels=(levels[first][(one + 1) // 2], levels[second][(two + 1) // 2]),
                        value=float(np.exp(np.log(column[:, inside]).mean())),
                    )
                )
    return cells
