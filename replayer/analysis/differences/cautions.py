"""Warnings of a comparison: causes of a difference other than the one that is examined."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from replayer.analysis.differences import statistics
from replayer.analysis.differences.environment import Difference, Sort
from replayer.analysis.differences.metric_verdicts import MetricRow
from replayer.analysis.differences.samples import (
    Key,
    Order,
    Samples,
    Side,
    Unit,
    counted,
    kinds_of,
    order_of,
)
from replayer.model import Better, Measurement
from replayer.units import show_with_noun
from replayer.watch import calibration

_EMULATED = "QEMU TCG"
"""Part of the model name of a processor that qemu emulates without KVM."""
_RARE = 0.01
"""A control that moved is reported if chance does that in at most this share of comparisons."""


def warn_unjudged(rows: Iterable[MetricRow], *sides: Side) -> list[str]:
    """Return a sentence for each metric that is not judged, though some of its results might be.

    The reason is that some results have no good direction (more is neither better nor worse), or
    that the metric is another part of the work on each side.
    """
    silent = [(side.name, _silent(side)) for side in sides]
    sentences = []
    for row in rows:
        counts = [(name, *known[row.step, row.metric]) for name, known in silent]
        if row.better is not Better.NEITHER:
            continue
        if not any(number for _, number, _ in counts):
            sentences.append(f"{row.metric} is not judged: another part of the work each time")
        elif any(number < of for _, number, of in counts):
            shares = ", ".join(f"{number} of {of} results of {name}" for name, number, of in counts)
            sentences.append(f"{row.metric} is not judged: it has no good direction in {shares}")
    return sentences


def _silent(side: Side) -> Mapping[Key, tuple[int, int]]:
    """Return (step, metric) -> (number of results without a good direction, number of all results).

    A result has no good direction if more is neither better nor worse in it.
    """
    directions: dict[Key, list[Better]] = {}
    for run in side.runs:
        for step in counted(run)[0]:
            for m in kinds_of(step):
                directions.setdefault((step.name, m.metric), []).append(m.better)
    return {key: (all_.count(Better.NEITHER), len(all_)) for key, all_ in directions.items()}


def list_some(kinds: Mapping[Key, Measurement]) -> str:
    """Return the names of the first three metrics in `kinds` as text, with `…` if there are more.

    Returns `none at all` if there are none.
    """
    names = list(dict.fromkeys(metric for _, metric in kinds))
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "") if names else "none at all"


def warn_runs(base: Samples, other: Samples) -> list[str]:
    """Return the remarks on the runs of a comparison, each with the runs that it is about.

    For example, a repeat that does not count.  A remark that both sides have becomes one sentence,
    with the number of runs of each side.
    """
    sentences = []
    for words, ids in base.remarks.items():
        if words in other.remarks:
            counts = f"{_count(ids)} of {base.name}, {_count(other.remarks[words])} of {other.name}"
            sentences.append(f"{counts}: {words}")
        else:
            sentences.append(f"{base.name}: {_whose(ids)}: {words}")
    alone = (item for item in other.remarks.items() if item[0] not in base.remarks)
    return sentences + [f"{other.name}: {_whose(ids)}: {words}" for words, ids in alone]


def _count(runs: Sequence[str]) -> str:
    return show_with_noun(len(runs), "run")


def _whose(ids: Sequence[str]) -> str:
    """Return the ids of runs as text; of three or more, the first and the number of the others."""
    return ", ".join(ids) if len(ids) < 3 else f"{ids[0]} and {len(ids) - 1} more runs"


def warn_order(unit: Unit, base: Samples, other: Samples) -> list[str]:
    """Return a warning, in a list, if the sides did not take turns; else [].

    Then a change of the machine over time looks like a difference.  `unit` is what counts as one
    sample.  For repeats there is no warning.  If a side has a single unit, there is one only if so
    many units can show a difference.  If the order of boots is not known, the warning reports that.
    """
    sizes = len(base.units), len(other.units)
    many = min(sizes) > 1 or statistics.can_show(*sizes)
    if unit is Unit.REPEAT or not many:
        return []
    order = order_of(unit, base, other)
    if order is None and unit is Unit.BOOT:
        return [
            (
                "when the boots were measured is not known, so it is not known whether the sides "
                "took turns, and none is called better or worse"
            )
        ]
    if order is None or order.turns:
        return []
    none = ", and none is called better or worse" if unit is Unit.BOOT else ""
    return [
        (
            f"{_sequence(unit, order, base, other)}, so whatever became faster or slower meanwhile "
            f"looks like a difference between them{none}: take turns, such as A B B A "
            f"(`replayer plan`)"
        )
    ]


def _sequence(unit: Unit, order: Order, base: Samples, other: Samples) -> str:
    """Return how the units of sides that did not take turns followed each other, as a clause."""
    if not order.after:
        return f"{unit.value}s of {base.name} and of {other.name} were measured in long blocks"
    later = order.later
    first, last = (base.name, other.name) if later > 0.5 else (other.name, base.name)
    how = "all" if later in {0.0, 1.0} else "most"
    return f"{how} {unit.value}s of {last} came after those of {first}"


def warn_one_sided(base: Samples, other: Samples) -> list[str]:
    """Return a sentence for each side that has metrics which the other side does not have.

    They are metrics of steps that both sides have: a step without results is a doubt by itself.
    """
    both = {step for step, _ in base.kinds} & {step for step, _ in other.kinds}
    sentences = []
    for one, two in ((base, other), (other, base)):
        only = {key: m for key, m in one.kinds.items() if key not in two.kinds and key[0] in both}
        if only:
            sentences.append(f"only {one.name} has {list_some(only)}")
    return sentences


def warn_emulated(base: Side, other: Side) -> list[str]:
    """Return a warning, in a list, if runs are from an emulated processor; else []."""
    models = {str(run.host.get("cpu.model", "")) for side in (base, other) for run in side.runs}
    emulated = sorted(model for model in models if _EMULATED in model)
    if not emulated:
        return []
    return [f"the processor is emulated ({emulated[0]}): these figures say nothing about hardware"]


def warn_versions(base: str, other: str, differences: Iterable[Difference]) -> list[str]:
    """Return a warning, in a list, if other versions of replayer made the runs of the sides.

    `base` and `other` are the names of the sides.  There is none if the groups were formed by the
    version, or if each side has runs of the same versions.
    """
    return [
        f"replayer {', '.join(one.base)} made the runs of {base}, and {', '.join(one.other)} those "
        f"of {other}: they may measure in another way"
        for one in differences
        if one.key == "replayer.version" and one.sort is not Sort.ASKED and one.base != one.other
    ]


def warn_controls(base: Side, other: Side) -> list[str]:
    """Return warnings if controls changed during runs, or differ between the sides.

    Controls are measurements of CPU and memory before and after each run.  They show whether the
    machine itself changed.
    """
    runs = [run for side in (base, other) for run in side.runs]
    moves = [calibration.moved(run.control) for run in runs]
    return [
        sentence
        for name in calibration.NAMES
        for sentence in (
            _moved(name, [one[name] for one in moves if name in one], len(runs)),
            _slower(name, base, other),
        )
        if sentence
    ]


def controls_agree(base: Side, other: Side) -> bool:
    """Return whether no control differs between the sides.

    Controls are measurements of CPU and memory before and after each run.
    """
    return not any(_slower(name, base, other) for name in calibration.NAMES)


def _moved(name: str, shares: Sequence[float], runs: int) -> str:
    """Return a sentence if the control `name` changed during more runs than by chance, else "".

    A control is a measurement of CPU or memory before and after each run.  `shares` has its change,
    as a share, for each run in which it changed; `runs` is the number of all runs.
    """
    by_chance = sum(
        math.comb(runs, k) * calibration.FALSE**k * (1 - calibration.FALSE) ** (runs - k)
        for k in range(len(shares), runs + 1)
    )
    if not shares or by_chance > _RARE:
        return ""
    most = max(shares, key=abs)
    return (
        f"the {name} control moved from before to after {len(shares)} of {runs} runs, by up to "
        f"{most:+.1%}, more than its own noise: the machine changed meanwhile"
    )


def _slower(name: str, base: Side, other: Side) -> str:
    """Return a sentence if the control `name` differs between the sides, else "".

    A control is a measurement of CPU or memory before and after each run.
    """
    below, above = (
        [calibration.values(name, run.control) for run in side.runs] for side in (base, other)
    )
    below, above = ([values for values in side if values] for side in (below, above))
    if not below or not above:
        return ""
    medians = statistics.medians(below), statistics.medians(above)
    change = statistics.median(medians[1]) / statistics.median(medians[0]) - 1
    # There are several controls, and each has two tests: it may move, and it may differ.
    if statistics.smallest_p(len(below), len(above)) <= _RARE / 2:
        differs = statistics.rank_test(*medians) <= _RARE / 2
    else:
        pooled = np.concatenate(below), np.concatenate(above)
        differs = pooled[0].max() < pooled[1].min() or pooled[1].max() < pooled[0].min()
    if not differs or abs(change) <= calibration.FLOOR:
        return ""
    return (
        f"the {name} control, which no disk or database takes part in, is {change:+.1%} in "
        f"{other.name}: part of every difference may come from there"
    )
