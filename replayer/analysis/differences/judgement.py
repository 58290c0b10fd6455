"""The judgement of a comparison: from the values of a metric on both sides to its verdict.

A metric is better or worse if a rank test shows it, corrected for all metrics of the comparison.
It may be called likely better or worse if the test shows it only without this correction.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from replayer.analysis.differences import multiple_testing, statistics, steadiness
from replayer.analysis.differences.cautions import list_some
from replayer.analysis.differences.metric_verdicts import (
    MetricRow,
    MetricVerdict,
    family_sizes,
    judged_rows,
    without_repeats,
)
from replayer.analysis.differences.samples import (
    Key,
    Order,
    Samples,
    Unit,
    common,
    is_unlike,
    order_of,
)
from replayer.errors import Impossible
from replayer.model import Better

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

_WHOLES = {"sessions.riops": "sessions.operations"}
"""Metric of a part of the work -> metric of all work: missed blocks are a part of work units."""
_SAME_PART = 0.02


@dataclass(frozen=True)
class _Draft:
    """A metric's row in a comparison before its verdict, and the values to judge.

    There is one value per unit (boot, run or repeat) and side, with the drift removed.  `says` is
    the key of the metric that this one only repeats; if it repeats none, its own key.  `order` is
    the order of the units that have a value; None if it is not known.
    """

    key: Key
    row: MetricRow
    ratio: statistics.Ratio | None
    values: tuple[statistics.Floats, statistics.Floats]
    says: Key
    order: Order | None


@dataclass(frozen=True)
class _Rules:
    """The rules for the verdicts of one comparison: what it needs to call a metric better or worse.

    `threshold` is the share below which a difference does not matter.
    """

    threshold: float
    unit: Unit
    still: bool
    """True if no control differs between the sides."""
    likely: float
    """The largest uncorrected p value at which a metric is likely to differ."""
    judged: tuple[_Draft, ...]
    """The metrics for which p values are corrected as soon as there are enough units."""
    unjudged: Mapping[str, str]
    """Name of a step -> why its metrics are unclear in any case."""

    def weak(self, draft: _Draft) -> bool:
        """Return whether a verdict is only valid for these runs, and not for other boots.

        This is so if the units are not boots, or if the boots of both sides did not take turns.
        """
        return self.unit is not Unit.BOOT or draft.order is None or not draft.order.turns

    def refused(self, draft: _Draft) -> str:
        """Return why a difference does not count because the sides did not take turns.

        Return "" if the difference counts, as it does if the sides took turns.
        """
        order = draft.order
        if order is None or order.turns:
            return ""
        if not self.still:
            return f"{order.fault}, and a control differs too: take turns"
        level = statistics.ALPHA / max(1, len(self.judged))
        known = tuple(side[np.isfinite(side)] for side in draft.values)
        if not steadiness.beyond_drift((known[0], known[1]), order.places, level):
            return f"{order.fault}, and a drift could make it: take turns"
        return ""

    def family(self, draft: _Draft) -> tuple[int, float]:
        """Return the number of metrics corrected together, and their part of the 5 percent.

        They are the metric's family: the leading metrics are one family, the others another.  The 5
        percent are the accepted risk of a difference by chance.
        """
        counts = family_sizes(one.row for one in self.judged)
        which = 0 if draft.row.leading else 1
        return counts[which], multiple_testing.shares(*counts)[which]


def judge_rows(
    base: Samples,
    other: Samples,
    *,
    unit: Unit,
    threshold: float,
    metrics: Sequence[str],
    still: bool,
    unjudged: Mapping[str, str],
) -> tuple[tuple[MetricRow, ...], int]:
    """Return the rows of all common metrics with their verdicts, and the number of tested metrics.

    `unit` is what counts as one sample.  `threshold` is the share below which a difference does not
    matter.  `metrics` are patterns of names; none means all.  `still` is True if no control differs
    between the sides.  `unjudged` is name of a step -> why its metrics are unclear in any case.
    Raises Impossible if there is no common metric, or if units differ.
    """
    keys = [key for key in base.kinds if key in other.kinds and is_wanted(key, metrics)]
    if not keys:
        what = f"metric like {' or '.join(metrics)}" if metrics else "metric"
        raise Impossible(
            f"there is no {what} in common: {base.name} has {list_some(base.kinds)}, "
            f"{other.name} has {list_some(other.kinds)}; `replayer list metrics` lists them"
        )
    _refuse_other_units(keys, base, other)
    base, other = _aligned(keys, base, other)
    order = order_of(unit, base, other)
    drafts = {key: _draft(key, base, other, order, unjudged) for key in keys}
    plain = [draft.row for draft in drafts.values()]
    # A metric that is tested is judged, unless it repeats one that has too few units for a test.
    tested = _drafts_of(without_repeats(row for row in plain if row.p is not None), drafts)
    corrected = _corrected(tested, drafts)
    rules = _Rules(
        threshold=threshold,
        unit=unit,
        still=still,
        likely=multiple_testing.likely_up_to(
            [one.row.p for one in tested if one.row.p is not None]
        ),
        # With more units, all of these metrics will be tested, and count for the correction.
        judged=tuple(_drafts_of(judged_rows(plain, unjudged), drafts)),
        unjudged=unjudged,
    )
    rows = tuple(
        _judge(
            replace(draft, row=draft.row.model_copy(update={"p_holm": corrected.get(key)})), rules
        )
        for key, draft in drafts.items()
    )
    return rows, len(tested)


def _drafts_of(rows: Iterable[MetricRow], drafts: Mapping[Key, _Draft]) -> list[_Draft]:
    """Return the drafts (metrics before their verdict) of some rows."""
    return [drafts[row.step, row.metric] for row in rows]


def _corrected(tested: Sequence[_Draft], drafts: Mapping[Key, _Draft]) -> dict[Key, float]:
    """Return (step, metric) -> corrected p value of every metric that was tested.

    The p values are corrected for the metrics `tested`.  A metric in `drafts` that only repeats
    another one gets the corrected value of that one.  No value is below the uncorrected one.
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
        pairs = [(*side.mixed[key], side, side) for side in (base, other) if key in side.mixed]
        pairs += [(base.kinds[key], other.kinds[key], base, other)]
        for below, above, one, two in pairs:
            if is_unlike(below, above):
                begin, end = ("", "") if one is not two else ("some results of ", "others of ")
                raise Impossible(
                    f"{below.metric} is in {below.unit!r} ({below.better.value} is better) in "
                    f"{begin}{one.name} and in {above.unit!r} ({above.better.value} is better) in "
                    f"{end}{two.name}: choose other metrics with --metric"
                )


def _aligned(keys: Iterable[Key], base: Samples, other: Samples) -> tuple[Samples, Samples]:
    """Return both sides, with the same good direction of each common metric.

    If a metric has no good direction on one side (more is neither better nor worse), it has none on
    both.  A part of the work, such as missed blocks, has none either if its share of the whole work
    differs between the sides: with larger buffers fewer blocks are missed, and more work is done.
    """
    kinds = {key: common(base.kinds[key], other.kinds[key]) for key in keys}
    for key, kind in list(kinds.items()):
        whole = key[0], _WHOLES.get(key[1], "")
        if not _is_same_part(key, whole, base, other):
            kinds[key] = kind.model_copy(update={"better": Better.NEITHER})
            if whole in kinds:
                kinds[whole] = kinds[whole].model_copy(update={"says": ""})
    below, above = ({**side.kinds, **kinds} for side in (base, other))
    return replace(base, kinds=below), replace(other, kinds=above)


def _is_same_part(part: Key, whole: Key, base: Samples, other: Samples) -> bool:
    """Return whether a part of the work has the same share of the whole work on both sides.

    Return True if a side does not have values of both.
    """
    if whole not in base.kinds or whole not in other.kinds:
        return True
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [side.values(part) / side.values(whole) for side in (base, other)]
    known = [share[np.isfinite(share)] for share in shares]
    if not all(share.size for share in known):
        return True
    below, above = map(statistics.median, known)
    return abs(above - below) <= _SAME_PART * max(below, above)


def is_wanted(key: Key, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches a metric's name or a name that tables show for it.

    `key` is (step, metric).  Without patterns, it is True.  `sessions.latency.p99` of the step
    `cached` is also `latency.p99` and `cached.latency.p99`.
    """
    step, metric = key
    shown = metric.partition(".")[2]
    names = (metric, shown, f"{step}.{shown}")
    return not patterns or any(
        fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in patterns
    )


def _draft(
    key: Key,
    base: Samples,
    other: Samples,
    order: Order | None,
    unjudged: Container[str],
) -> _Draft:
    """Return a metric's draft: its row in a comparison without a verdict, and the values to judge.

    `key` is (step, metric).  `order` is the order of time of both sides' units; None if it is not
    known.  `unjudged` are the steps whose metrics are not tested.
    """
    kind = base.kinds[key]
    directed = kind.better is not Better.NEITHER
    raw = base.values(key), other.values(key)
    below, above = (values[np.isfinite(values)] for values in raw)
    own_order = order and order.among([np.isfinite(values) for values in raw])
    values, drift = raw, None
    if directed and order and own_order and own_order.turns:
        values, drift = steadiness.without_drift(raw, order.places)
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
        says=kind.says,
    )
    # A metric that could not be shown to differ in any case is not part of the family: one with
    # equal values only, or with too few of them.
    possible = statistics.can_show(len(below), len(above))
    if directed and possible and key[0] not in unjudged and row.varies:
        row = row.model_copy(update={"p": statistics.rank_test(*alone)})
    says = (key[0], kind.says) if kind.says else key
    return _Draft(key=key, row=row, ratio=ratio, values=values, says=says, order=own_order)


def _judge(draft: _Draft, rules: _Rules) -> MetricRow:
    """Return a metric's row with its verdict: unclear unless a difference or equality was shown.

    The verdict is None if the metric has no good direction.
    """
    row = draft.row
    if row.better is Better.NEITHER:
        return row
    if row.step in rules.unjudged:
        doubt = {"verdict": MetricVerdict.UNCLEAR, "note": rules.unjudged[row.step]}
        return row.model_copy(update=doubt)
    row = row.model_copy(update={"note": _note(row)})
    if min(len(row.base_values), len(row.other_values)) > 1 and _alike(row, rules.threshold):
        return _told(draft, row, MetricVerdict.SAME, rules)
    direction = _direction(row)
    if direction is None or row.p is None or row.p > statistics.ALPHA:
        return _unclear(draft, row, rules)
    return _apart(draft, row, rules, direction)


def _apart(draft: _Draft, row: MetricRow, rules: _Rules, direction: MetricVerdict) -> MetricRow:
    """Return the row, with its verdict, of a metric whose uncorrected p value is at most 5 percent.

    `direction` is the verdict, better or worse, if the difference counts.
    """
    refused = rules.refused(draft)
    if refused:
        return row.model_copy(update={"verdict": MetricVerdict.UNCLEAR, "note": refused})
    if row.p_holm is not None and row.p_holm <= statistics.ALPHA:
        return _told(draft, row, direction, rules)
    if row.p is not None and row.p <= rules.likely:
        row = row.model_copy(update={"more": _more(draft, rules, only_differs=True)})
        return _told(draft, row, _LIKELY_OF[direction], rules)
    alone = f"alone it would count, among {len(rules.judged)} metrics not"
    row = row.model_copy(update={"note": "; ".join(filter(None, (alone, row.note)))})
    return _unclear(draft, row, rules)


def _unclear(draft: _Draft, row: MetricRow, rules: _Rules) -> MetricRow:
    more = _more(draft, rules)
    return row.model_copy(update={"verdict": MetricVerdict.UNCLEAR, "more": more})


def _told(draft: _Draft, row: MetricRow, verdict: MetricVerdict, rules: _Rules) -> MetricRow:
    """Return a metric's row with a verdict that claims no more than its units can show.

    Runs of a single boot show nothing about the next boot, and runs of sides that did not take
    turns show nothing but these runs.  If no value varies, the verdict is only made weaker if there
    are too few units for an interval: a few equal values show no spread.
    """
    few = not statistics.critical_rank(len(row.base_values), len(row.other_values))
    weaker = few or (rules.weak(draft) and row.varies)
    return row.model_copy(update={"verdict": _WEAKER[verdict] if weaker else verdict})


def _note(row: MetricRow) -> str:
    if min(len(row.base_values), len(row.other_values)) < 2:
        return "one value: more runs needed"
    if row.ratio is None:
        return "no ratio: a median is zero or below"
    return f"a drift of {row.drift:+.1%} is taken out" if row.drift else ""


def _alike(row: MetricRow, threshold: float) -> bool:
    if not row.varies:
        return True
    if row.low is None or row.high is None:
        return False
    return 1 / (1 + threshold) <= row.low and row.high <= 1 + threshold


def _direction(row: MetricRow) -> MetricVerdict | None:
    """Return better or worse if the interval of a metric's ratio is on one side of 1, else None.

    Without an interval, the ratio decides, or else the medians; None if they are equal.
    """
    if row.low is not None and row.high is not None and row.low <= 1 <= row.high:
        return None
    base, other = (row.base, row.other) if row.ratio is None else (1.0, row.ratio)
    if base == other:
        return None
    improved = (other > base) == (row.better is Better.MORE)
    return MetricVerdict.BETTER if improved else MetricVerdict.WORSE


def _more(draft: _Draft, rules: _Rules, *, only_differs: bool = False) -> int | None:
    """Return the number of further units per side for a clear verdict; None if impractically large.

    It is None as well without a ratio, or if a side has only one value.  With `only_differs`, the
    verdict must be that the sides differ.
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
