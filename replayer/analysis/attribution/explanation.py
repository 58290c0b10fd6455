"""Explanations why a step's metric differs, from the parts of its account of time on both sides.

Parts are in seconds per operation.  A part is reported as moved only if a rank test shows it, and
only for a step of which a metric was itself shown to differ.  The test is corrected for all parts
of the step whose values differ enough to matter (Westfall and Young, as for the metrics).
A part is called likely moved if it would count without the correction, and moved by at least a
quarter of the difference; if it moved by at least half, a one-sided test is enough.  A part that
moved only as much as all parts did is called likely moved at most, if some parts moved by more.
If a part was not shown to move, this does not mean that it is unchanged.  It is called unchanged
only if its confidence interval lies within a margin.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from statistics import median

import numpy as np

from replayer.analysis.attribution import known_causes
from replayer.analysis.attribution.known_causes import KERNEL, KERNELS
from replayer.analysis.differences import multiple_testing, statistics, steadiness
from replayer.analysis.differences.environment import Difference
from replayer.analysis.differences.samples import Key, Samples, Side, Unit, places
from replayer.model import Account, Better, Measurement, Noun, Spent, Status, StepResult
from replayer.units import show_with_noun

MARGIN = 0.02
"""A part is unchanged if its interval lies within this share of the whole time of an operation."""
LEAST = 0.005
"""A part that moved by less than this share of an operation's time is not reported as moved."""
_MATTERS = 0.1
"""A part is tested only if its values spread by at least this share of the shift of the whole time.

A smaller part cannot be the reason.  The spread is taken over the values of both sides together:
this choice does not use from which side a value is, so the test stays valid."""
QUARTER = 0.25
"""A part that moved by this share of the difference is one of its reasons."""
_HALF = 0.5
"""A part that moved by this share of the difference is its main reason."""
_LEAST_COMMON = 3
"""Least number of parts from which the movement that all parts have in common is computed."""
_WORK, _WORK_UNIT = "sessions.operations", "work unit"
_SAME_BLOCKS = 0.02
"""The blocks in a work unit count as equal on both sides if they differ by at most this share."""
WHOLE = "whole"
RESIDUE = "not accounted for"
_PARTS = (*(part.value for part in Spent), KERNEL, RESIDUE)


class PartChange(StrEnum):
    """The verdict on one part of an account of time: whether it differs between two sides."""

    MOVED = "moved"
    UNCHANGED = "unchanged"
    LIKELY = "likely moved"
    """The part moved by at least a quarter of the difference and would count as moved by itself; it
    does not count after the correction for all parts, or if only other parts stand out."""
    UNCLEAR = "unclear"
    """Nothing was shown, which does not mean that nothing changed."""


class AccountPart(Noun):
    """One part of an account of time on both sides, in seconds of a session's time per operation.

    `base` and `other` are medians over units.  `shift` is the median of the differences between
    each unit of the other side and each unit of the base.  [low, high] is its 95 percent interval.
    `p` is corrected for all parts of the step that can matter.  Interval and `p` are None if there
    are too few units for them; `p` also if no value varies, or if the part cannot matter.
    `needed` is the number of units on each side that would show a shift of this size, in four of
    five comparisons.  It is None if there are so many already, or if it is impractically large.
    """

    part: str
    base: float
    other: float
    shift: float
    low: float | None
    high: float | None
    p: float | None
    change: PartChange
    needed: int | None = None


class Why(Noun):
    """The explanation why metrics of a step differ: the parts of its account of time that moved."""

    step: str
    metrics: tuple[str, ...]
    """The step's metrics that were shown to differ, the leading ones first."""
    kind: str = ""
    """The verb of the step, such as walk."""
    operation: str = ""
    whole: AccountPart | None = None
    """All time of a session per operation."""
    parts: tuple[AccountPart, ...] = ()
    """First the parts that moved and those that likely did, by size; then the others, in an
    account's order."""
    may_explain: tuple[Difference, ...] = ()
    """Differences of the environment that are known to move these parts."""
    windows: tuple[int, int] = (0, 0)
    """The number of accounts of each side."""
    open: tuple[int, int] = (0, 0)
    """The number of accounts that do not close."""
    unsure: tuple[int, int] = (0, 0)
    """The number of accounts that close only by the kernel's counters, without confirmation."""
    could_show: bool = True
    """True if a shift of any single part by a quarter of the difference would have been shown with
    a chance of 80 percent."""
    reason: str = ""
    """The reason why parts cannot be compared; "" if they can."""

    @property
    def moved(self) -> tuple[AccountPart, ...]:
        """Return the parts of the account that were shown to differ between the sides."""
        return tuple(part for part in self.parts if part.change is PartChange.MOVED)

    @property
    def explained(self) -> bool:
        """Return whether a part was shown to move in the same direction as the time per operation.

        The residue, which is the time in no part, does not count.
        """
        return any(self._explains(part) for part in self.moved)

    @property
    def likely(self) -> tuple[AccountPart, ...]:
        """Return the parts of the account that likely moved, those with the largest shift first."""
        return tuple(part for part in self.parts if part.change is PartChange.LIKELY)

    @property
    def largest(self) -> AccountPart | None:
        """Return the part of the account that contributes most to the change of the whole time.

        It is the part with the largest shift in the same direction, whether a test showed it or
        not.  None if no part shifted in this direction.
        """
        explaining = [part for part in self.parts if self._explains(part)]
        return max(explaining, key=lambda part: abs(part.shift), default=None)

    def _explains(self, part: AccountPart) -> bool:
        way = self.whole.shift if self.whole else 0.0
        return part.shift * way > 0 and part.part != RESIDUE


def why(
    base: Side,
    other: Side,
    unit: Unit,
    *,
    metrics: Mapping[str, Sequence[str]],
    differences: Sequence[Difference] = (),
) -> tuple[Why, ...]:
    """Return an explanation of each step whose metrics differ: the parts of its account that moved.

    `unit` is what counts as one sample.  `metrics` is step -> its metrics that were shown to
    differ.  `differences` are those of the environment, among which causes are looked up.  A step
    is left out if neither side has an account of it: results of older versions have none.
    """
    in_work_units = {step for step in metrics if not _same_blocks(base, other, step)}
    below, above = (
        {
            step: [_account(one, in_work_units) for one in _with_account(side, step)]
            for step in metrics
        }
        for side in (base, other)
    )
    accounts = {step: (below[step], above[step]) for step in metrics}
    known = {step: sides for step, sides in accounts.items() if any(sides)}
    if not known:
        return ()
    split = {step: _can_be_split(sides) for step, sides in known.items()}

    def measured(step: StepResult) -> Iterator[Measurement]:
        if step.name in known and step.account is not None:
            yield from _measured(_account(step, in_work_units), split=split[step.name])

    kept = Samples.of(base, unit, measured), Samples.of(other, unit, measured)
    begun = [
        Why(
            step=step,
            metrics=tuple(metrics[step]),
            kind=_kind(base, step),
            operation=[*sides[0], *sides[1]][0].operation,
            windows=_count(sides, lambda _: True),
            open=_count(sides, lambda account: not account.closes),
            unsure=_count(sides, lambda account: account.rests_on_one),
            reason=_missing(sides, (base, other)),
        )
        for step, sides in known.items()
    ]
    return tuple(one if one.reason else _judged(one, kept, unit, differences) for one in begun)


_Accounts = tuple[Sequence[Account], Sequence[Account]]


def _with_account(side: Side, step: str) -> list[StepResult]:
    return [
        one
        for run in side.runs
        for one in run.steps
        if one.name == step and one.status is Status.DONE and one.account is not None
    ]


def _account(step: StepResult, in_work_units: Collection[str]) -> Account:
    """Return a step's account, converted to times per work unit if `in_work_units` has its name."""
    assert step.account is not None, "steps without an account are left out"
    return _per_work_unit(step, step.account) if step.name in in_work_units else step.account


def _blocks(step: StepResult) -> float | None:
    """Return the operations (blocks) of a step's account per work unit; None if not known."""
    rate = step.value(_WORK)
    if not rate or step.account is None or not step.account.seconds:
        return None
    blocks = step.account.operations / step.account.seconds / rate
    # A file may hold any numbers.
    return blocks if 0 < blocks < math.inf else None


def _same_blocks(base: Side, other: Side, step: str) -> bool:
    """Return whether a step's work unit has as many blocks on both sides; True if not known.

    Up to 2 percent of difference are allowed.  If fewer blocks are missed, the time per block may
    grow although the work is done faster.
    """
    blocks = [list(map(_blocks, _with_account(side, step))) for side in (base, other)]
    known = [[one for one in side if one is not None] for side in blocks]
    if not all(known) or known != blocks:
        return True
    below, above = map(median, known)
    return abs(above - below) <= _SAME_BLOCKS * max(below, above)


def _per_work_unit(step: StepResult, account: Account) -> Account:
    blocks = _blocks(step)
    assert blocks is not None, "of a step without work units, blocks are compared"
    return account.model_copy(
        update={
            "operation": _WORK_UNIT,
            "operations": account.operations / blocks,
            "session": {part: seconds * blocks for part, seconds in account.session.items()},
            "residue": account.residue * blocks,
            "cpu": {
                whose: {part: seconds * blocks for part, seconds in parts.items()}
                for whose, parts in account.cpu.items()
            },
        }
    )


def _kind(side: Side, step: str) -> str:
    """Return the kind of the step with this name, such as `walk`; "" if there is no such step."""
    return next((one.step for run in side.runs for one in run.steps if one.name == step), "")


def _count(sides: _Accounts, is_so: Callable[[Account], bool]) -> tuple[int, int]:
    return len(list(filter(is_so, sides[0]))), len(list(filter(is_so, sides[1])))


def _is_split(account: Account) -> bool:
    """Return whether an account divides the kernel's time into parts, as it does with a profile."""
    return bool(KERNELS - {Spent.KERNEL} & account.session.keys())


def _can_be_split(sides: _Accounts) -> bool:
    """Return whether enough accounts of each side divide the kernel's time to compare the parts."""
    least = statistics.units_to_show(1.0, 1)
    return all(sum(map(_is_split, accounts)) >= min(least, len(accounts)) for accounts in sides)


def _missing(sides: _Accounts, named: tuple[Side, Side]) -> str:
    """Return the reason why the accounts of two sides cannot be compared; "" if they can.

    `sides` are the accounts, and `named` the sides to which they belong.
    """
    for accounts, side in zip(sides, named, strict=True):
        if not accounts:
            return f"{side.name} has no account of where the time went"
        if not any(account.session for account in accounts):
            return f"{side.name} has no account of its sessions' time"
    operations = [sorted({account.operation for account in accounts}) for accounts in sides]
    if operations[0] != operations[1] or len(operations[0]) > 1:
        both = [
            f"{' and '.join(one)} in {side.name}"
            for one, side in zip(operations, named, strict=True)
        ]
        return f"the accounts are of other operations: {', '.join(both)}"
    return ""


def _measured(account: Account, *, split: bool) -> Iterator[Measurement]:
    """Yield a measurement for each part of an account, absent ones as 0, for residue and whole.

    All are seconds of a session's time per operation.  The residue is the time that is in no part.
    Without `split`, the parts of the kernel are added up as one.  With it, an account that has no
    profile yields no kernel parts, as they are not known.
    """
    if not account.operations > 0 or not account.session:
        return
    parts: dict[str, float] = dict.fromkeys(_PARTS, 0.0)
    for part, seconds in account.session.items():
        parts[KERNEL if part in KERNELS and not split else part.value] += seconds
    parts[RESIDUE] = account.residue
    parts[WHOLE] = sum(parts.values())
    unknown = KERNELS if split and not _is_split(account) else ()
    for name, seconds in parts.items():
        if name not in unknown:
            yield Measurement(metric=name, value=seconds, unit="s", better=Better.LESS)


def _judged(
    begun: Why, kept: tuple[Samples, Samples], unit: Unit, differences: Sequence[Difference]
) -> Why:
    """Return the explanation `begun` with the verdicts on the parts of the step's account.

    `kept` are the samples of both sides, in which each part is a metric.  If there are too few
    units to show anything, the explanation gets the reason instead.
    """
    at = places(unit, *kept)
    values = {part: _values(kept, (begun.step, part), at) for part in (WHOLE, *_PARTS)}
    sizes = [int(np.isfinite(side).sum()) for side in values[WHOLE]]
    if not statistics.can_show(*sizes):
        return begun.model_copy(update={"reason": _too_few(sizes, unit)})
    whole = _part(WHOLE, values[WHOLE])
    used = [part for part in _PARTS if any(np.nansum(np.abs(side)) for side in values[part])]
    tested = [part for part in used if _can_matter(values[part], whole.shift)]
    ps = dict(zip(tested, _corrected([values[part] for part in tested]), strict=True))
    begun_parts = [_part(name, values[name], ps.get(name), len(tested)) for name in used]
    parts = [_judged_part(part, whole, values[part.part]) for part in begun_parts]
    parts = _without_common(parts, whole, values)
    parts.sort(key=_place)
    why = begun.model_copy(
        update={
            "whole": whole,
            "parts": tuple(parts),
            "could_show": _could_show([values[part] for part in tested], whole.shift),
        }
    )
    # If no part moved, list the known causes of all parts that were tested.
    named = [part.part for part in why.moved or why.likely] or tested
    explain = known_causes.may_explain(differences, named, begun.kind, begun.step)
    return why.model_copy(update={"may_explain": explain})


_Sides = tuple[statistics.Floats, statistics.Floats]


def _without_common(
    parts: list[AccountPart], whole: AccountPart, values: Mapping[str, _Sides]
) -> list[AccountPart]:
    """Return the parts; one that moved only as much as all parts is now `likely moved` at most.

    `values` is name of part -> its values in the units of both sides.  Noise of the machine makes
    all parts of a unit slower, and often makes a metric differ as well.  So if some parts moved by
    more than the common movement, only these stay moved.  The common movement of a unit is the
    median of the parts' ratios to their own medians: centred log-ratios (Aitchison, 1986) by a
    median.
    """
    moved = {part.part for part in parts if part.change is PartChange.MOVED}
    joined = {part.part: np.concatenate(values[part.part]) for part in parts}
    logs = [np.log(one / np.nanmedian(one)) for one in joined.values() if np.nanmin(one) > 0]
    if len(moved) < 2 or len(logs) < _LEAST_COMMON:
        return parts
    common = np.exp(np.nanmedian(logs, axis=0))
    beyond = set()
    for part in parts:
        if part.part in moved:
            own = joined[part.part] / common
            sides = own[: len(values[part.part][0])], own[len(values[part.part][0]) :]
            shift = statistics.shift(*map(_known, sides)).value
            p = _p(sides)
            if shift * part.shift > 0 and p is not None and p <= statistics.ALPHA:
                beyond.add(part.part)
    if not beyond:
        return parts
    return [
        part.model_copy(update={"change": _lesser_change(part, whole, values[part.part])})
        if part.part in moved - beyond
        else part
        for part in parts
    ]


def _place(part: AccountPart) -> tuple[int, float]:
    """Return a key to sort parts: first those that moved, then those that likely moved.

    These two kinds are sorted by the size of their shift.  The others keep their order.
    """
    ranks = {PartChange.MOVED: 0, PartChange.LIKELY: 1}
    return ranks.get(part.change, 2), -abs(part.shift) if part.change in ranks else 0.0


def _values(
    kept: tuple[Samples, Samples], key: Key, at: tuple[statistics.Floats, ...] | None
) -> _Sides:
    """Return a part's value in each unit of both sides, without drift if `at` is given.

    `kept` are the samples of both sides, and `key` is (step, part).  NaN is a unit without a value.
    `at` are the places of the units in the order of time; None if the sides did not take turns.
    """
    raw = kept[0].values(key), kept[1].values(key)
    return steadiness.without_drift(raw, at)[0] if at else raw


def _too_few(sizes: Sequence[int], unit: Unit) -> str:
    return (
        f"{show_with_noun(sizes[0], unit.value)} against {sizes[1]} can never show "
        f"which part moved: at least {statistics.units_to_show(1.0, 1)} of each can"
    )


def _known(values: statistics.Floats) -> statistics.Floats:
    return values[np.isfinite(values)]


def _p(sides: _Sides) -> float | None:
    """Return the p value of a rank test between the values of both sides; None if all are equal."""
    below, above = map(_known, sides)
    varies = np.ptp(np.concatenate([below, above])) > 0
    return statistics.rank_test(below, above) if varies else None


def _corrected(parts: Sequence[_Sides]) -> list[float | None]:
    """Return the p value of each part, corrected for all parts that vary; None for the others.

    `parts` has the values of each part in the units of both sides.
    """
    own = [_p(sides) for sides in parts]
    tested = [number for number, p in enumerate(own) if p is not None]
    if not tested:
        return own
    rows = np.array([np.concatenate(parts[number]) for number in tested])
    together = multiple_testing.corrected(rows, len(parts[0][0]), [True] * len(tested))
    for number, p in zip(tested, together, strict=True):
        own[number] = max(own[number] or 0.0, p)
    return own


def _can_matter(sides: _Sides, whole: float) -> bool:
    """Return whether a part's values spread enough to explain some of the shift `whole`.

    `whole` is the difference of the time per operation between the sides, in seconds.  The spread
    over both sides must be at least a tenth of it.
    """
    known = np.concatenate([_known(side) for side in sides])
    return bool(np.ptp(known) >= _MATTERS * abs(whole))


def _could_show(tested: Sequence[_Sides], whole: float) -> bool:
    """Return whether a shift by a quarter of `whole` would have been shown in every tested part.

    `tested` has each part's values on both sides.  `whole` is the difference of the time per
    operation between the sides, in seconds.
    """
    return all(_units(sides, QUARTER * abs(whole), len(tested)) for sides in tested)


def _units(sides: _Sides, gap: float, family_: int) -> bool:
    """Return whether there are enough units to show a shift of `gap` in four of five comparisons.

    `sides` are the values of a part in the units of both sides.  `gap` is in seconds per operation.
    `family_` is the number of parts for which p values are corrected.
    """
    below, above = map(_known, sides)
    error = statistics.shift(below, above).error
    needed = statistics.units_to_differ(gap, error, below.size, above.size, family=family_)
    return needed is not None and needed <= min(below.size, above.size)


def _part(name: str, sides: _Sides, p: float | None = None, family_: int = 1) -> AccountPart:
    """Return the part `name` with its statistics; its verdict is `unclear` until it is judged.

    `sides` are its values in the units of both sides.  `p` is its corrected p value.  `family_` is
    the number of parts for which p values are corrected.
    """
    below, above = map(_known, sides)
    shift = statistics.shift(below, above)
    needed = statistics.units_to_differ(
        abs(shift.value), shift.error, below.size, above.size, family=family_
    )
    return AccountPart(
        part=name,
        base=statistics.median(below),
        other=statistics.median(above),
        shift=shift.value,
        low=shift.low,
        high=shift.high,
        p=_p(sides) if name == WHOLE else p,
        change=PartChange.UNCLEAR,
        needed=needed if needed is not None and needed > min(below.size, above.size) else None,
    )


def _judged_part(part: AccountPart, whole: AccountPart, sides: _Sides) -> AccountPart:
    """Return a part with its verdict: moved, likely moved, unchanged or unclear.

    `whole` is the whole time of an operation, and `sides` are the part's values on both sides.
    """
    apart = part.low is not None and part.high is not None and not part.low <= 0 <= part.high
    shown = apart and part.p is not None and part.p <= statistics.ALPHA
    moved = shown and abs(part.shift) >= LEAST * whole.base
    change = PartChange.MOVED if moved else _lesser_change(part, whole, sides)
    return part.model_copy(update={"change": change})


def _lesser_change(part: AccountPart, whole: AccountPart, sides: _Sides) -> PartChange:
    """Return the verdict on a part that was not shown to move: likely, unchanged or unclear.

    `whole` is the whole time of an operation, and `sides` are the part's values on both sides.
    """
    if part.low is None or part.high is None:
        return PartChange.UNCLEAR
    # A part that moved in the other direction, or by little, is not a reason.
    of_whole = part.shift / whole.shift if whole.shift and part.part != RESIDUE else 0.0
    if part.p is not None and of_whole >= QUARTER and abs(part.shift) >= LEAST * whole.base:
        # The direction of a reason is known, so a test for one side suffices for the main reason.
        sides_ = 2 if of_whole >= _HALF else 1
        alone = _p(sides)
        if alone is not None and alone <= sides_ * statistics.ALPHA:
            return PartChange.LIKELY
    within = max(abs(part.low), abs(part.high)) <= MARGIN * whole.base
    return PartChange.UNCHANGED if within else PartChange.UNCLEAR
