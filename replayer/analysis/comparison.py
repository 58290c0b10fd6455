"""Two groups of runs -> is there a difference, how large, and can it be believed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

import numpy as np
from pydantic import Field

from replayer.analysis import family, statistics, steadiness
from replayer.analysis.difference import Difference, Sort, differences
from replayer.analysis.samples import (
    Key,
    Samples,
    Side,
    Unit,
    common,
    counted,
    places,
    take_turns,
    unit_of,
)
from replayer.analysis.why import Why, why
from replayer.errors import Impossible
from replayer.model import Better, Measurement, Noun
from replayer.watch import calibration

_EMULATED = "QEMU TCG"
"""In the model that qemu gives a processor which it runs without KVM."""
THRESHOLD = 0.02
"""A difference below this share is of no practical interest, unless --threshold says otherwise."""
_RARE = 0.01
"""The control is spoken of if it moves as much in at most this share of comparisons by chance."""


class Verdict(StrEnum):
    """What a comparison says of one metric."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    DIFFERS = "differs in these runs"
    """Runs of too few boots differ, which may be all that one boot and another differ by."""
    ALIKE = "same in these runs"


class Group(Noun):
    """One side of a comparison and how much of it counts."""

    name: str
    runs: tuple[str, ...]
    boots: int
    """Different boot ids; 0 if they are not known."""


class Row(Noun):
    """One metric of one step on both sides.

    `base` and `other` are medians over units.  `ratio` is the median of the ratios of each unit of
    the other to each of the base, None where a median is not above zero; [low, high] is its 95
    percent interval, None as well where so few units have none.  `p` is of a rank test, `p_holm`
    corrected, step by step as Holm does, for all metrics of the comparison.  `more` is how many
    further units of each side would settle it.  `drift` is the share by which the values moved from
    the first unit to the last; it was taken out of them for ratio, interval and p.
    """

    step: str
    metric: str
    unit: str
    better: Better
    base: float
    other: float
    base_values: tuple[float, ...]
    other_values: tuple[float, ...]
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict | None
    """None for a metric that has no good direction."""
    more: int | None = None
    note: str = ""
    leading: bool = False
    drift: float | None = None

    @property
    def title(self) -> str:
        """Return the metric, with the step's name before it if that says more."""
        plain = self.metric.split(".", 1)[0]
        return self.metric if self.step == plain else f"{self.step}: {self.metric}"

    @property
    def change(self) -> float | None:
        """Return the change as a share of the base, above 0 where it is for the worse."""
        if self.ratio is None:
            return None
        return 1 - self.ratio if self.better is Better.MORE else self.ratio - 1


class Comparison(Noun):
    """Two groups compared."""

    base: Group
    other: Group
    by: str
    unit: Unit
    worth: str
    threshold: float
    family: int
    """How many metrics could have come out as better or worse, and so are corrected for.  Metrics
    that repeat another in other words do not count."""
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    why: tuple[Why, ...] = Field(default=(), exclude_if=lambda why: not why)
    """For each step of which a metric was shown to differ; () without accounts."""


def compare(
    base: Side,
    other: Side,
    *,
    by: str = "",
    allowed: Sequence[str] = (),
    threshold: float = THRESHOLD,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Compare two groups of runs.

    `metrics` are patterns such as sessions.*; none means all.  Raises Impossible when the groups
    share a run, have no metric in common, or did different work and that is not `allowed`.
    """
    _refuse_shared(base, other)
    unlike = differences(base.runs, other.runs, asked=by, allowed=allowed)
    _refuse_unlike(base.name, other.name, unlike)
    unit = unit_of(base.runs, other.runs)
    kept = Samples.of(base, unit), Samples.of(other, unit)
    rows, tested = _rows(*kept, unit=unit, threshold=threshold, metrics=metrics)
    warnings = [warning for side in kept for warning in side.warnings]
    warnings += [*_one_sided(*kept), *_unjudged(rows, base, other)]
    return Comparison(
        base=_group(base),
        other=_group(other),
        by=by,
        unit=unit,
        worth=_worth(unit, *(len(side.units) for side in kept)),
        threshold=threshold,
        family=tested,
        rows=rows,
        differences=tuple(unlike),
        warnings=(
            *_emulated(base, other),
            *_one_after_the_other(unit, *kept),
            *warnings,
            *_control(base, other),
        ),
        why=why(base, other, unit, metrics=_differing(rows), differences=unlike),
    )


def _differing(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return step -> its metrics that were shown to differ, the leading ones first."""
    shown = (Verdict.BETTER, Verdict.WORSE, Verdict.DIFFERS)
    differing = [row for row in rows if row.verdict in shown]
    steps: dict[str, list[str]] = {row.step: [] for row in differing}
    for row in sorted(differing, key=lambda row: not row.leading):
        steps[row.step].append(row.metric)
    return steps


def _refuse_shared(base: Side, other: Side) -> None:
    shared = {run.id for run in base.runs} & {run.id for run in other.runs}
    if shared:
        raise Impossible(
            f"the run {min(shared)} is on both sides of the comparison, which tells nothing: "
            f"name two different groups"
        )


def _refuse_unlike(base: str, other: str, unlike: Iterable[Difference]) -> None:
    refused = [one for one in unlike if one.sort is Sort.REFUSED]
    if not refused:
        return
    reasons = [
        f"{one.key} is {' or '.join(one.base)} in {base} and {' or '.join(one.other)} in {other}"
        for one in refused[:4]
    ]
    rest = f", and {len(refused) - 4} more" if len(refused) > 4 else ""
    keys = " ".join(f"--allow {one.key}" for one in refused[:4])
    raise Impossible(
        f"these runs did not do the same work: {'; '.join(reasons)}{rest}; "
        f"if they are to be compared nevertheless, say so with {keys}"
    )


def _group(side: Side) -> Group:
    return Group(
        name=side.name,
        runs=tuple(run.id for run in side.runs),
        boots=len({run.host.get("boot.id") for run in side.runs} - {None, ""}),
    )


def _worth(unit: Unit, base: int, other: int) -> str:
    """Return what the numbers stand for, in one sentence."""
    scope = {
        Unit.BOOT: "what changes from boot to boot is in the intervals",
        Unit.RUN: "all from one boot or unknown boots, so what changes from boot to boot is not in "
        "the intervals, and these runs may differ by nothing else",
        Unit.REPEAT: "all from one run of each side, so what changes from run to run or boot to "
        "boot is not in the intervals, and another run may well say otherwise",
    }
    return f"Each {unit.value} counts once, {base} against {other}: {scope[unit]}."


@dataclass(frozen=True)
class _Draft:
    """A row without its verdict, and what it is judged by: a value a unit, without drift."""

    key: Key
    row: Row
    ratio: statistics.Ratio | None
    values: tuple[statistics.Floats, statistics.Floats]
    says: Key

    @property
    def judged(self) -> bool:
        """Tell whether its metric could come out as different, with more units if not with these.

        Values that are all the same could not.
        """
        return self.row.better is not Better.NEITHER and _varies(self.row)


def _rows(
    base: Samples, other: Samples, *, unit: Unit, threshold: float, metrics: Sequence[str]
) -> tuple[tuple[Row, ...], int]:
    keys = [key for key in base.kinds if key in other.kinds and _wanted(key[1], metrics)]
    if not keys:
        what = f"metric like {' or '.join(metrics)}" if metrics else "metric"
        raise Impossible(
            f"there is no {what} in common: {base.name} has {_some(base.kinds)}, "
            f"{other.name} has {_some(other.kinds)}"
        )
    _refuse_other_units(keys, base, other)
    base, other = _aligned(keys, base, other)
    at = places(unit, base, other)
    drafts = {key: _draft(key, base, other, at) for key in keys}
    judged = _members([draft for draft in drafts.values() if draft.judged])
    tested = _members([draft for draft in drafts.values() if draft.row.p is not None])
    corrected = _corrected(tested, drafts)
    rows = tuple(
        _scoped(
            _judge(
                draft.row.model_copy(update={"p_holm": corrected.get(key)}),
                draft.ratio,
                threshold=threshold,
                # With more units all of these will be tested, and corrected for.
                family_=_family_of(draft, judged),
            ),
            unit,
        )
        for key, draft in drafts.items()
    )
    return rows, len(tested)


def judged(base: Side, other: Side, *, unit: Unit, threshold: float) -> tuple[Row, ...]:
    """Return the metrics that both sides have, with their verdicts; () where they have none."""
    kept = Samples.of(base, unit), Samples.of(other, unit)
    if not kept[0].kinds.keys() & kept[1].kinds.keys():
        return ()
    return _rows(*kept, unit=unit, threshold=threshold, metrics=())[0]


def _members(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts without those that repeat another one of them in other words."""
    keys = {draft.key for draft in drafts}
    return [draft for draft in drafts if draft.says == draft.key or draft.says not in keys]


def _corrected(tested: Sequence[_Draft], drafts: Mapping[Key, _Draft]) -> dict[Key, float]:
    """Return the p of every metric that was tested, corrected for all of them."""
    if not tested:
        return {}
    values = np.array([np.concatenate(draft.values) for draft in tested])
    leading = [draft.row.leading for draft in tested]
    ps = family.corrected(values, len(tested[0].values[0]), leading)
    own = {draft.key: p for draft, p in zip(tested, ps, strict=True)}
    return {
        key: max(draft.row.p, own[key if key in own else draft.says])
        for key, draft in drafts.items()
        if draft.row.p is not None
    }


def _family_of(draft: _Draft, judged: Sequence[_Draft]) -> tuple[int, float]:
    """Return how many metrics a metric is corrected for, and which part of the 5 percent is theirs.

    The leading ones are for themselves, and so are the others.
    """
    leading = sum(one.row.leading for one in judged)
    counts = leading, len(judged) - leading
    which = 0 if draft.row.leading else 1
    return counts[which], family.shares(*counts)[which]


def _refuse_other_units(keys: Iterable[Key], base: Samples, other: Samples) -> None:
    for key in keys:
        below, above = base.kinds[key], other.kinds[key]
        opposed = below.better is not above.better and Better.NEITHER not in {
            below.better,
            above.better,
        }
        if below.unit != above.unit or opposed:
            raise Impossible(
                f"{below.metric} is in {below.unit!r} ({below.better.value} is better) in "
                f"{base.name} and in {above.unit!r} ({above.better.value} is better) in "
                f"{other.name}: choose other metrics with --metric"
            )


def _aligned(keys: Iterable[Key], base: Samples, other: Samples) -> tuple[Samples, Samples]:
    """Return the sides with one direction for what both have, none where it says nothing in one.

    Such as the blocks that were missed, where the server's own buffers had nearly all in one.
    """
    kinds = {key: common(base.kinds[key], other.kinds[key]) for key in keys}
    below, above = ({**side.kinds, **kinds} for side in (base, other))
    return replace(base, kinds=below), replace(other, kinds=above)


def _unjudged(rows: Iterable[Row], *sides: Side) -> list[str]:
    """Return a sentence for each metric that says something in a part of the results only."""
    silent = [(side.name, _silent(side)) for side in sides]
    sentences = []
    for row in rows:
        counts = [(name, *known[row.step, row.metric]) for name, known in silent]
        if row.better is Better.NEITHER and any(number < of for _, number, of in counts):
            shares = ", ".join(f"{number} of {of} results of {name}" for name, number, of in counts)
            sentences.append(f"{row.metric} is not judged: it says nothing in {shares}")
    return sentences


def _silent(side: Side) -> Mapping[Key, tuple[int, int]]:
    """Return for each metric in how many results it has no good direction, and of how many."""
    directions: dict[Key, list[Better]] = {}
    for run in side.runs:
        for step in counted(run)[0]:
            for m in step.measurements:
                directions.setdefault((step.name, m.metric), []).append(m.better)
    return {key: (all_.count(Better.NEITHER), len(all_)) for key, all_ in directions.items()}


def _wanted(metric: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(metric, pattern) for pattern in patterns)


def _some(kinds: Mapping[Key, Measurement]) -> str:
    names = list(dict.fromkeys(metric for _, metric in kinds))
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "") if names else "none at all"


def _draft(
    key: Key, base: Samples, other: Samples, at: tuple[statistics.Floats, ...] | None
) -> _Draft:
    """Return a row without its verdict, and what it will be judged by."""
    kind = base.kinds[key]
    directed = kind.better is not Better.NEITHER
    raw = base.values(key), other.values(key)
    below, above = (values[np.isfinite(values)] for values in raw)
    values, drift = steadiness.without_drift(raw, at) if directed and at else (raw, None)
    alone = tuple(side[np.isfinite(side)] for side in values)
    ratio = statistics.ratio(*alone) if directed else None
    row = Row(
        step=key[0],
        metric=key[1],
        unit=kind.unit,
        better=kind.better,
        base=statistics.median(below),
        other=statistics.median(above),
        base_values=tuple(below.tolist()),
        other_values=tuple(above.tolist()),
        ratio=ratio.value if ratio else None,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        p=None,
        p_holm=None,
        verdict=None,
        leading=key in base.leading(),
        drift=drift,
    )
    # What could not come out as different however it came out is no part of the family: values
    # that are all the same, and too few of them.
    possible = statistics.smallest_p(len(below), len(above)) <= statistics.ALPHA
    if directed and possible and _varies(row):
        row = row.model_copy(update={"p": statistics.rank_test(*alone)})
    says = (key[0], kind.says) if kind.says else key
    return _Draft(key=key, row=row, ratio=ratio, values=values, says=says)


def _varies(row: Row) -> bool:
    values = (*row.base_values, *row.other_values)
    return min(values) < max(values)


def _judge(
    row: Row, ratio: statistics.Ratio | None, *, threshold: float, family_: tuple[int, float]
) -> Row:
    """Return the row with its verdict; `unclear` unless something was shown."""
    if row.better is Better.NEITHER:
        return row
    n, m = len(row.base_values), len(row.other_values)
    row = row.model_copy(update={"note": _note(row)})
    if min(n, m) > 1 and _alike(row, threshold):
        return row.model_copy(update={"verdict": Verdict.SAME})
    direction = _direction(row)
    if direction and row.p_holm is not None and row.p_holm <= statistics.ALPHA:
        return row.model_copy(update={"verdict": direction})
    more = _more(ratio, n, m, threshold=threshold, family_=family_)
    return row.model_copy(update={"verdict": Verdict.UNCLEAR, "more": more})


def _note(row: Row) -> str:
    if min(len(row.base_values), len(row.other_values)) < 2:
        return "one value: more runs needed"
    if row.ratio is None:
        return "no ratio: a median is zero or below"
    return f"a drift of {row.drift:+.1%} is taken out" if row.drift else ""


def _scoped(row: Row, unit: Unit) -> Row:
    """Return the row with a verdict that claims no more than its units can show.

    Runs of one boot tell nothing of the next, but values that never vary do.
    """
    weaker = {
        Verdict.BETTER: Verdict.DIFFERS,
        Verdict.WORSE: Verdict.DIFFERS,
        Verdict.SAME: Verdict.ALIKE,
    }
    if unit is Unit.BOOT or row.verdict not in weaker or not _varies(row):
        return row
    return row.model_copy(update={"verdict": weaker[row.verdict]})


def _alike(row: Row, threshold: float) -> bool:
    if not _varies(row):
        return True
    if row.low is None or row.high is None:
        return False
    return 1 / (1 + threshold) <= row.low and row.high <= 1 + threshold


def _direction(row: Row) -> Verdict | None:
    """Return better or worse if the interval leaves no doubt of the direction, else None."""
    if row.low is not None and row.high is not None and row.low <= 1 <= row.high:
        return None
    base, other = (row.base, row.other) if row.ratio is None else (1.0, row.ratio)
    if base == other:
        return None
    improved = (other > base) == (row.better is Better.MORE)
    return Verdict.BETTER if improved else Verdict.WORSE


def _more(
    ratio: statistics.Ratio | None, n: int, m: int, *, threshold: float, family_: tuple[int, float]
) -> int | None:
    """Return how many further units of each side would settle it, None if nobody would run them."""
    if ratio is None or min(n, m) < 2:
        # One value says nothing of how much the next may differ.
        return None
    members, share = family_
    needed = statistics.units_to_settle(
        ratio, n, m, threshold=threshold, family=members, share=share
    )
    return None if needed is None else max(1, needed - min(n, m))


def _one_after_the_other(unit: Unit, base: Samples, other: Samples) -> list[str]:
    """Return what is to be said if one side was measured before the other."""
    starts = np.array(base.starts), np.array(other.starts)
    many = min(len(side) for side in starts) > 1
    if unit is Unit.REPEAT or not many or not np.isfinite(np.concatenate(starts)).all():
        return []
    later = steadiness.interleaved(*starts)
    if take_turns(later):
        return []
    first, last = (base.name, other.name) if later > 0.5 else (other.name, base.name)
    how = "all" if later in {0.0, 1.0} else "most"
    return [
        (
            f"{how} {unit.value}s of {last} came after those of {first}, so whatever became faster "
            f"or slower meanwhile looks like a difference between them: take turns, such as A B B "
            f"A (`replayer plan`)"
        )
    ]


def _one_sided(base: Samples, other: Samples) -> list[str]:
    """Return a sentence for each side that measured something which the other did not."""
    sentences = []
    for one, two in ((base, other), (other, base)):
        only = {key: m for key, m in one.kinds.items() if key not in two.kinds}
        if only:
            sentences.append(f"only {one.name} has {_some(only)}")
    return sentences


def _emulated(base: Side, other: Side) -> list[str]:
    """Return what is to be said if runs are from a processor that a program imitates."""
    models = {str(run.host.get("cpu.model", "")) for side in (base, other) for run in side.runs}
    emulated = sorted(model for model in models if _EMULATED in model)
    if not emulated:
        return []
    return [f"the processor is emulated ({emulated[0]}): these figures say nothing about hardware"]


def _control(base: Side, other: Side) -> list[str]:
    """Return what is to be said about the CPU and memory measurements around every run."""
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


def _moved(name: str, shares: Sequence[float], runs: int) -> str:
    """Return in how many runs a control moved, "" for as few as do so by chance."""
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
    """Return that a control is not the same on both sides, "" if it may be."""
    below, above = (
        [calibration.values(name, run.control) for run in side.runs] for side in (base, other)
    )
    below, above = ([values for values in side if values] for side in (below, above))
    if not below or not above:
        return ""
    medians = statistics.medians(below), statistics.medians(above)
    change = statistics.median(medians[1]) / statistics.median(medians[0]) - 1
    # There are several controls, and each may move and may differ.
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
