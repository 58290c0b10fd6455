"""Comparison of two groups of runs: which metrics differ, by how much, and how sure that is."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase

import numpy as np
from pydantic import Field

from replayer.analysis.attribution.explanation import Why, why
from replayer.analysis.differences import multiple_testing, statistics, steadiness
from replayer.analysis.differences.environment import Difference, Sort, differences
from replayer.analysis.differences.samples import (
    Key,
    Order,
    Samples,
    Side,
    Unit,
    common,
    counted,
    order_of,
    unit_of,
)
from replayer.errors import Impossible
from replayer.model import Better, Measurement, Noun
from replayer.watch import calibration

_EMULATED = "QEMU TCG"
"""Part of the model name of a processor that qemu emulates without KVM."""
THRESHOLD = 0.02
"""A difference below this share is of no practical interest; --threshold sets another share."""
_RARE = 0.01
"""A control is reported if it would move so much by chance in at most this share of comparisons."""


class MetricVerdict(StrEnum):
    """The verdict of a comparison on one metric."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    DIFFERS = "differs in these runs"
    """The runs differ, but perhaps only by chance of the boot, or by the time of measurement: there
    are too few boots, or one side came after the other."""
    ALIKE = "same in these runs"
    """The runs are the same, but too few boots, or their order, do not show more than that."""
    LIKELY_BETTER = "likely better"
    """Alone, it would count as better; with the correction for all metrics it does not.  On average
    at most one in five of the metrics called likely does not differ."""
    LIKELY_WORSE = "likely worse"
    LIKELY_DIFFERS = "likely differs in these runs"


LIKELY = frozenset(
    {MetricVerdict.LIKELY_BETTER, MetricVerdict.LIKELY_WORSE, MetricVerdict.LIKELY_DIFFERS}
)
SHOWN = frozenset({MetricVerdict.BETTER, MetricVerdict.WORSE, MetricVerdict.DIFFERS})
_LIKELY_OF = {
    MetricVerdict.BETTER: MetricVerdict.LIKELY_BETTER,
    MetricVerdict.WORSE: MetricVerdict.LIKELY_WORSE,
}
_WEAKER = {
    MetricVerdict.BETTER: MetricVerdict.DIFFERS,
    MetricVerdict.WORSE: MetricVerdict.DIFFERS,
    MetricVerdict.SAME: MetricVerdict.ALIKE,
    MetricVerdict.LIKELY_BETTER: MetricVerdict.LIKELY_DIFFERS,
    MetricVerdict.LIKELY_WORSE: MetricVerdict.LIKELY_DIFFERS,
}
"""Verdict -> the weaker verdict if a comparison can only judge these runs."""


class Group(Noun):
    """One side of a comparison: its runs and the number of their boots."""

    name: str
    runs: tuple[str, ...]
    boots: int
    """The number of different boot ids; 0 if they are not known."""


class MetricRow(Noun):
    """One metric of one step on both sides.

    `base` and `other` are medians over units.  `ratio` is the median of the ratios of each unit of
    the other side to each unit of the base; None if a median is not above zero.  [low, high] is its
    95 percent interval; None also if there are too few units for one.  `p` is the p value of a rank
    test.  `p_holm` is this value corrected for all metrics of the comparison, step by step, as in
    Holm's method.  `more` is the number of further units on each side that would settle the
    verdict, or show the difference if it is likely.  `drift` is the share by which the values moved
    from the first unit to the last; it is removed from them for ratio, interval and p.
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
    verdict: MetricVerdict | None
    """None for a metric without a good direction."""
    more: int | None = None
    note: str = ""
    leading: bool = False
    drift: float | None = None

    @property
    def title(self) -> str:
        """Return the metric, with the step's name before it unless the metric begins with it."""
        plain = self.metric.split(".", 1)[0]
        return self.metric if self.step == plain else f"{self.step}: {self.metric}"

    @property
    def change(self) -> float | None:
        """Return the change as a share of the base, above 0 if it is for the worse.

        None without a ratio.
        """
        if self.ratio is None:
            return None
        return 1 - self.ratio if self.better is Better.MORE else self.ratio - 1


class Comparison(Noun):
    """The result of comparing two groups of runs."""

    base: Group
    other: Group
    by: str
    unit: Unit
    worth: str
    threshold: float
    family: int
    """The number of metrics that could be better or worse, and for which p values are corrected.
    Metrics that only repeat another metric do not count."""
    rows: tuple[MetricRow, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    turns: bool = False
    """True if the sides are known to have taken turns, so that a change of the machine over time
    cannot make them differ."""
    why: tuple[Why, ...] = Field(default=(), exclude_if=lambda why: not why)
    """An explanation for each step of which a metric was shown to differ; () without accounts."""

    @property
    def decides(self) -> bool:
        """Return whether it can show better and worse, and not only a difference in these runs."""
        return self.unit is Unit.BOOT and self.turns


def compare(
    base: Side,
    other: Side,
    *,
    by: str = "",
    allowed: Sequence[str] = (),
    threshold: float = THRESHOLD,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Return the comparison of two groups of runs.

    `by` is the fact by which the groups were formed.  `allowed` are patterns of facts that may
    differ.  `threshold` is the share below which a difference does not matter.  `metrics` are
    patterns such as sessions.*; none means all.
    Raises Impossible if the groups share a run, have no metric in common, or did different work and
    that is not `allowed`.
    """
    _refuse_shared(base, other)
    unlike = differences(base.runs, other.runs, asked=by, allowed=allowed)
    _refuse_unlike(base.name, other.name, unlike)
    unit = unit_of(base.runs, other.runs)
    kept = Samples.of(base, unit), Samples.of(other, unit)
    order = order_of(unit, *kept)
    rows, tested = _rows(
        *kept, unit=unit, threshold=threshold, metrics=metrics, still=_still(base, other)
    )
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
        turns=order is not None and order.turns,
        why=why(base, other, unit, metrics=_differing(rows), differences=unlike),
    )


def _differing(rows: Sequence[MetricRow]) -> dict[str, list[str]]:
    """Return step -> its metrics that were shown to differ, the leading ones first."""
    differing = [row for row in rows if row.verdict in SHOWN]
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
    """Return one sentence about the meaning of the intervals."""
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
    """A row without a verdict, and the values for it: one per unit and side, without drift.

    `says` is the key of the metric that it only repeats, else its own key.
    """

    key: Key
    row: MetricRow
    ratio: statistics.Ratio | None
    values: tuple[statistics.Floats, statistics.Floats]
    says: Key

    @property
    def judged(self) -> bool:
        """Return whether its metric could be shown to differ, with these units or with more.

        It could not if all values are equal, or if the metric has no good direction.
        """
        return self.row.better is not Better.NEITHER and _varies(self.row)


@dataclass(frozen=True)
class _Rules:
    """The rules for the verdicts of one comparison."""

    threshold: float
    unit: Unit
    order: Order | None
    still: bool
    """True if no control differs between the sides."""
    likely: float
    """The largest uncorrected p value at which a metric is likely to differ."""
    judged: tuple[_Draft, ...]
    """The metrics for which p values are corrected as soon as there are enough units."""

    @property
    def weak(self) -> bool:
        """Return whether verdicts are only valid for these runs."""
        return self.unit is not Unit.BOOT or self.order is None or not self.order.turns

    def refused(self, draft: _Draft) -> str:
        """Return why a difference does not count, if one side came after the other.

        "" if it counts, or if the sides took turns.
        """
        if self.order is None or self.order.turns:
            return ""
        if not self.still:
            return "one side came after the other, and a control differs too: take turns"
        level = statistics.ALPHA / max(1, len(self.judged))
        if not steadiness.beyond_drift(draft.values, self.order.places, level):
            return "one side came after the other, and a drift could make it: take turns"
        return ""

    def family(self, draft: _Draft) -> tuple[int, float]:
        """Return the number of metrics in a metric's family, and their part of the 5 percent.

        The leading metrics are one family, the others another.
        """
        leading = sum(one.row.leading for one in self.judged)
        counts = leading, len(self.judged) - leading
        which = 0 if draft.row.leading else 1
        return counts[which], multiple_testing.shares(*counts)[which]


def _rows(
    base: Samples,
    other: Samples,
    *,
    unit: Unit,
    threshold: float,
    metrics: Sequence[str],
    still: bool,
) -> tuple[tuple[MetricRow, ...], int]:
    """Return the rows of all common metrics with their verdicts, and the number of tested metrics.

    Raises Impossible if there is no common metric, or if units differ between the sides.
    """
    keys = [key for key in base.kinds if key in other.kinds and _wanted(key[1], metrics)]
    if not keys:
        what = f"metric like {' or '.join(metrics)}" if metrics else "metric"
        raise Impossible(
            f"there is no {what} in common: {base.name} has {_some(base.kinds)}, "
            f"{other.name} has {_some(other.kinds)}"
        )
    _refuse_other_units(keys, base, other)
    base, other = _aligned(keys, base, other)
    order = order_of(unit, base, other)
    at = order.places if order is not None and order.turns else None
    drafts = {key: _draft(key, base, other, at) for key in keys}
    tested = _members([draft for draft in drafts.values() if draft.row.p is not None])
    corrected = _corrected(tested, drafts)
    rules = _Rules(
        threshold=threshold,
        unit=unit,
        order=order,
        still=still,
        likely=multiple_testing.likely_up_to(
            [one.row.p for one in tested if one.row.p is not None]
        ),
        # With more units, all of these metrics will be tested, and count for the correction.
        judged=tuple(_members([draft for draft in drafts.values() if draft.judged])),
    )
    rows = tuple(
        _judge(
            replace(draft, row=draft.row.model_copy(update={"p_holm": corrected.get(key)})), rules
        )
        for key, draft in drafts.items()
    )
    return rows, len(tested)


def judged(base: Side, other: Side, *, unit: Unit, threshold: float) -> tuple[MetricRow, ...]:
    """Return the metrics that both sides have, with their verdicts; () if there are none."""
    kept = Samples.of(base, unit), Samples.of(other, unit)
    if not kept[0].kinds.keys() & kept[1].kinds.keys():
        return ()
    still = _still(base, other)
    return _rows(*kept, unit=unit, threshold=threshold, metrics=(), still=still)[0]


def _members(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts without those that only repeat another one of them."""
    keys = {draft.key for draft in drafts}
    return [draft for draft in drafts if draft.says == draft.key or draft.says not in keys]


def _corrected(tested: Sequence[_Draft], drafts: Mapping[Key, _Draft]) -> dict[Key, float]:
    """Return key -> corrected p value of every metric that was tested.

    A metric that only repeats another one gets the corrected value of that one.
    """
    if not tested:
        return {}
    values = np.array([np.concatenate(draft.values) for draft in tested])
    leading = [draft.row.leading for draft in tested]
    ps = multiple_testing.corrected(values, len(tested[0].values[0]), leading)
    own = {draft.key: p for draft, p in zip(tested, ps, strict=True)}
    return {
        key: max(draft.row.p, own[key if key in own else draft.says])
        for key, draft in drafts.items()
        if draft.row.p is not None
    }


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
    """Return the sides with the same direction of each common metric.

    If a metric has no good direction on one side, it has none on both.  For example, missed blocks
    have none if nearly all blocks were in the server's own buffers.
    """
    kinds = {key: common(base.kinds[key], other.kinds[key]) for key in keys}
    below, above = ({**side.kinds, **kinds} for side in (base, other))
    return replace(base, kinds=below), replace(other, kinds=above)


def _unjudged(rows: Iterable[MetricRow], *sides: Side) -> list[str]:
    """Return a sentence for each metric that has a good direction in only a part of the results."""
    silent = [(side.name, _silent(side)) for side in sides]
    sentences = []
    for row in rows:
        counts = [(name, *known[row.step, row.metric]) for name, known in silent]
        if row.better is Better.NEITHER and any(number < of for _, number, of in counts):
            shares = ", ".join(f"{number} of {of} results of {name}" for name, number, of in counts)
            sentences.append(f"{row.metric} is not judged: it says nothing in {shares}")
    return sentences


def _silent(side: Side) -> Mapping[Key, tuple[int, int]]:
    """Return key -> (number of results without a good direction, number of all results)."""
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
    """Return a metric's draft: its row without a verdict, and the values for it.

    `at` are the places of both sides' units in the order of time; None if they took no turns.
    """
    kind = base.kinds[key]
    directed = kind.better is not Better.NEITHER
    raw = base.values(key), other.values(key)
    below, above = (values[np.isfinite(values)] for values in raw)
    values, drift = steadiness.without_drift(raw, at) if directed and at else (raw, None)
    alone = tuple(side[np.isfinite(side)] for side in values)
    ratio = statistics.ratio(*alone) if directed else None
    row = MetricRow(
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
    # A metric that could not be shown to differ in any case is not part of the family: one with
    # equal values only, or with too few of them.
    possible = statistics.smallest_p(len(below), len(above)) <= statistics.ALPHA
    if directed and possible and _varies(row):
        row = row.model_copy(update={"p": statistics.rank_test(*alone)})
    says = (key[0], kind.says) if kind.says else key
    return _Draft(key=key, row=row, ratio=ratio, values=values, says=says)


def _varies(row: MetricRow) -> bool:
    values = (*row.base_values, *row.other_values)
    return min(values) < max(values)


def _judge(draft: _Draft, rules: _Rules) -> MetricRow:
    """Return the row with its verdict: unclear unless a difference or equality was shown."""
    row = draft.row
    if row.better is Better.NEITHER:
        return row
    row = row.model_copy(update={"note": _note(row)})
    if min(len(row.base_values), len(row.other_values)) > 1 and _alike(row, rules.threshold):
        return _told(row, MetricVerdict.SAME, rules)
    direction = _direction(row)
    if direction is None or row.p is None or row.p > statistics.ALPHA:
        return _unclear(draft, row, rules)
    return _apart(draft, row, rules, direction)


def _apart(draft: _Draft, row: MetricRow, rules: _Rules, direction: MetricVerdict) -> MetricRow:
    """Return the row with its verdict; without the correction it counts as better or worse."""
    refused = rules.refused(draft)
    if refused:
        return row.model_copy(update={"verdict": MetricVerdict.UNCLEAR, "note": refused})
    if row.p_holm is not None and row.p_holm <= statistics.ALPHA:
        return _told(row, direction, rules)
    if row.p is not None and row.p <= rules.likely:
        row = row.model_copy(update={"more": _more(draft, rules, only_differs=True)})
        return _told(row, _LIKELY_OF[direction], rules)
    alone = f"alone it would count, among {len(rules.judged)} metrics not"
    row = row.model_copy(update={"note": "; ".join(filter(None, (alone, row.note)))})
    return _unclear(draft, row, rules)


def _unclear(draft: _Draft, row: MetricRow, rules: _Rules) -> MetricRow:
    more = _more(draft, rules)
    return row.model_copy(update={"verdict": MetricVerdict.UNCLEAR, "more": more})


def _told(row: MetricRow, verdict: MetricVerdict, rules: _Rules) -> MetricRow:
    """Return the row with a verdict that claims no more than its units can show.

    Runs of a single boot show nothing about the next boot; nor do runs of one side after those of
    the other.  Values that never vary do.
    """
    weaker = rules.weak and _varies(row)
    return row.model_copy(update={"verdict": _WEAKER[verdict] if weaker else verdict})


def _note(row: MetricRow) -> str:
    if min(len(row.base_values), len(row.other_values)) < 2:
        return "one value: more runs needed"
    if row.ratio is None:
        return "no ratio: a median is zero or below"
    return f"a drift of {row.drift:+.1%} is taken out" if row.drift else ""


def _alike(row: MetricRow, threshold: float) -> bool:
    if not _varies(row):
        return True
    if row.low is None or row.high is None:
        return False
    return 1 / (1 + threshold) <= row.low and row.high <= 1 + threshold


def _direction(row: MetricRow) -> MetricVerdict | None:
    """Return better or worse if the interval is on one side of 1, else None."""
    if row.low is not None and row.high is not None and row.low <= 1 <= row.high:
        return None
    base, other = (row.base, row.other) if row.ratio is None else (1.0, row.ratio)
    if base == other:
        return None
    improved = (other > base) == (row.better is Better.MORE)
    return MetricVerdict.BETTER if improved else MetricVerdict.WORSE


def _more(draft: _Draft, rules: _Rules, *, only_differs: bool = False) -> int | None:
    """Return the number of further units per side for a clear verdict; None if impractically large.

    With `only_differs`, the verdict must be that the sides differ.
    """
    ratio, n, m = draft.ratio, len(draft.row.base_values), len(draft.row.other_values)
    if ratio is None or min(n, m) < 2:
        # One value shows nothing of the spread.
        return None
    members, share = rules.family(draft)
    if only_differs:
        gap = abs(math.log(ratio.value))
        needed = statistics.units_to_differ(gap, ratio.error, n, m, family=members, share=share)
    else:
        needed = statistics.units_to_settle(
            ratio, n, m, threshold=rules.threshold, family=members, share=share
        )
    return None if needed is None else max(1, needed - min(n, m))


def _one_after_the_other(unit: Unit, base: Samples, other: Samples) -> list[str]:
    """Return a warning, in a list, if one side was measured before the other; else []."""
    sizes = len(base.units), len(other.units)
    many = min(sizes) > 1 or statistics.smallest_p(*sizes) <= statistics.ALPHA
    if unit is Unit.REPEAT or not many:
        return []
    order = order_of(unit, base, other)
    if order is None and unit is Unit.BOOT:
        return [
            (
                "when the boots were measured is not known, so nothing tells whether the sides "
                "took turns, and none is called better or worse"
            )
        ]
    if order is None or order.turns:
        return []
    later = order.later
    first, last = (base.name, other.name) if later > 0.5 else (other.name, base.name)
    how = "all" if later in {0.0, 1.0} else "most"
    none = ", and none is called better or worse" if unit is Unit.BOOT else ""
    return [
        (
            f"{how} {unit.value}s of {last} came after those of {first}, so whatever became faster "
            f"or slower meanwhile looks like a difference between them{none}: take turns, such as "
            f"A B B A (`replayer plan`)"
        )
    ]


def _one_sided(base: Samples, other: Samples) -> list[str]:
    """Return a sentence for each side that has metrics which the other side does not have."""
    sentences = []
    for one, two in ((base, other), (other, base)):
        only = {key: m for key, m in one.kinds.items() if key not in two.kinds}
        if only:
            sentences.append(f"only {one.name} has {_some(only)}")
    return sentences


def _emulated(base: Side, other: Side) -> list[str]:
    """Return a warning, in a list, if runs are from an emulated processor; else []."""
    models = {str(run.host.get("cpu.model", "")) for side in (base, other) for run in side.runs}
    emulated = sorted(model for model in models if _EMULATED in model)
    if not emulated:
        return []
    return [f"the processor is emulated ({emulated[0]}): these figures say nothing about hardware"]


def _control(base: Side, other: Side) -> list[str]:
    """Return warnings about the controls: CPU and memory measurements before and after each run."""
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


def _still(base: Side, other: Side) -> bool:
    """Return whether no control differs between the sides."""
    return not any(_slower(name, base, other) for name in calibration.NAMES)


def _moved(name: str, shares: Sequence[float], runs: int) -> str:
    """Return a sentence with the number of runs in which a control moved; "" if it may be chance.

    `shares` are the moves of the runs in which it moved, `runs` is the number of all runs.
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
    """Return a sentence if a control differs between the sides, else ""."""
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
