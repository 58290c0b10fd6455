"""Why a step's metric differs: the parts of its account on both sides, in seconds per operation.

A part is named only where a rank test shows it, corrected for all parts of the step (Westfall and
Young, as the metrics are), and only for a step of which a metric was itself shown to differ.  What
was not shown is not called unchanged: that is a part whose interval lies within a margin.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

import numpy as np

from replayer.analysis import causes, family, statistics, steadiness
from replayer.analysis.difference import Difference
from replayer.analysis.samples import Key, Samples, Side, Unit, places
from replayer.model import Account, Better, Measurement, Noun, Spent, Status, StepResult

MARGIN = 0.02
"""A part is unchanged if its interval lies within this share of the whole time of an operation."""
LEAST = 0.005
"""A part that moved by less than this share of it is of no interest."""
WHOLE = "whole"
RESIDUE = "not accounted for"
KERNEL = "kernel"
"""What the kernel's parts are together, where there are accounts without a profile."""
_KERNELS = frozenset(
    {
        *(Spent.ENTRY, Spent.COPY, Spent.PAGE_CACHE, Spent.FILE_SYSTEM, Spent.BLOCK),
        *(Spent.SCHEDULER, Spent.FAULTS, Spent.NETWORK, Spent.LOCKING, Spent.KERNEL),
    }
)
_PARTS = (*(part.value for part in Spent), KERNEL, RESIDUE)


class Change(StrEnum):
    """What is said of one part."""

    MOVED = "moved"
    UNCHANGED = "unchanged"
    UNCLEAR = "unclear"
    """Nothing was shown, which is not the same as no change."""


class Part(Noun):
    """One part of an account on both sides, in seconds of a session's time per operation.

    `base` and `other` are medians over units; `shift` is the median of the differences of each unit
    of the other to each of the base, [low, high] its 95 percent interval, and `p` is corrected for
    all parts of the step; None where so few units have none, or where no value varies.
    """

    part: str
    base: float
    other: float
    shift: float
    low: float | None
    high: float | None
    p: float | None
    change: Change


class Why(Noun):
    """Which parts of a step's account moved, where a metric of the step was shown to differ."""

    step: str
    metrics: tuple[str, ...]
    """Those of the step that were, the leading ones first."""
    operation: str = ""
    whole: Part | None = None
    """All of a session's time per operation."""
    parts: tuple[Part, ...] = ()
    """Those that moved first, by size; the others in an account's order."""
    may_explain: tuple[Difference, ...] = ()
    windows: tuple[int, int] = (0, 0)
    """How many accounts each side has."""
    open: tuple[int, int] = (0, 0)
    """How many of them do not close."""
    unsure: tuple[int, int] = (0, 0)
    """And how many close by the kernel's counters, which nothing else bears out."""
    reason: str = ""
    """Why nothing can be said of any part; "" if it can."""

    @property
    def moved(self) -> tuple[Part, ...]:
        """Return the parts that were shown to move."""
        return tuple(part for part in self.parts if part.change is Change.MOVED)

    @property
    def explained(self) -> bool:
        """Tell whether a part moved the same way as the whole; a residue explains nothing."""
        way = self.whole.shift if self.whole else 0.0
        return any(part.shift * way > 0 and part.part != RESIDUE for part in self.moved)


def why(
    base: Side,
    other: Side,
    unit: Unit,
    *,
    metrics: Mapping[str, Sequence[str]],
    differences: Sequence[Difference] = (),
) -> tuple[Why, ...]:
    """Return why the metrics of some steps differ: step -> its metrics that were shown to.

    Nothing is said of a step of which neither side has an account, as in results of before there
    were any.
    """
    accounts = {step: (_accounts(base, step), _accounts(other, step)) for step in metrics}
    known = {step: sides for step, sides in accounts.items() if any(sides)}
    if not known:
        return ()
    split = {step: _can_be_split(sides) for step, sides in known.items()}

    def measured(step: StepResult) -> Iterator[Measurement]:
        if step.name in known and step.account is not None:
            yield from _measured(step.account, split=split[step.name])

    kept = Samples.of(base, unit, measured), Samples.of(other, unit, measured)
    begun = [
        Why(
            step=step,
            metrics=tuple(metrics[step]),
            operation=_both(sides)[0].operation,
            windows=_count(sides, lambda _: True),
            open=_count(sides, lambda account: not account.closes),
            unsure=_count(sides, lambda account: account.rests_on_one),
            reason=_missing(sides, (base, other)),
        )
        for step, sides in known.items()
    ]
    return tuple(one if one.reason else _judged(one, kept, unit, differences) for one in begun)


_Accounts = tuple[Sequence[Account], Sequence[Account]]


def _accounts(side: Side, step: str) -> list[Account]:
    return [
        one.account
        for run in side.runs
        for one in run.steps
        if one.name == step and one.status is Status.DONE and one.account is not None
    ]


def _both(sides: _Accounts) -> list[Account]:
    return [*sides[0], *sides[1]]


def _count(sides: _Accounts, is_so: Callable[[Account], bool]) -> tuple[int, int]:
    return len(list(filter(is_so, sides[0]))), len(list(filter(is_so, sides[1])))


def _is_split(account: Account) -> bool:
    """Tell whether an account knows what the kernel did, as it does with a profile."""
    return bool(_KERNELS - {Spent.KERNEL} & account.session.keys())


def _can_be_split(sides: _Accounts) -> bool:
    """Tell whether enough windows of both sides had a profile to tell what the kernel did."""
    least = statistics.units_to_show(1.0, 1)
    return all(sum(map(_is_split, accounts)) >= min(least, len(accounts)) for accounts in sides)


def _missing(sides: _Accounts, named: tuple[Side, Side]) -> str:
    """Return why two sides' accounts cannot be compared, "" if they can."""
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
    """Yield the parts of a session's time, those that it has nothing of as 0, and all together.

    Of an account without a profile among others with one, the kernel's parts are not known.
    """
    if not account.operations > 0 or not account.session:
        return
    parts: dict[str, float] = dict.fromkeys(_PARTS, 0.0)
    for part, seconds in account.session.items():
        parts[KERNEL if part in _KERNELS and not split else part.value] += seconds
    parts[RESIDUE] = account.residue
    parts[WHOLE] = sum(parts.values())
    unknown = _KERNELS if split and not _is_split(account) else ()
    for name, seconds in parts.items():
        if name not in unknown:
            yield Measurement(metric=name, value=seconds, unit="s", better=Better.LESS)


def _judged(
    begun: Why, kept: tuple[Samples, Samples], unit: Unit, differences: Sequence[Difference]
) -> Why:
    """Return what is said of a step's parts."""
    at = places(unit, *kept)
    values = {part: _values(kept, (begun.step, part), at) for part in (WHOLE, *_PARTS)}
    sizes = [int(np.isfinite(side).sum()) for side in values[WHOLE]]
    if statistics.smallest_p(*sizes) > statistics.ALPHA:
        return begun.model_copy(update={"reason": _too_few(sizes, unit)})
    whole_seconds = statistics.median(_known(values[WHOLE][0]))
    used = [part for part in _PARTS if any(np.nansum(np.abs(side)) for side in values[part])]
    ps = _corrected([values[part] for part in used])
    parts = [_part(name, values[name], p, whole_seconds) for name, p in zip(used, ps, strict=True)]
    whole = _part(WHOLE, values[WHOLE], _p(values[WHOLE]), whole_seconds)
    parts.sort(key=lambda part: -abs(part.shift) if part.change is Change.MOVED else math.inf)
    why = begun.model_copy(update={"whole": whole, "parts": tuple(parts)})
    named = [part.part for part in why.moved]
    return why.model_copy(update={"may_explain": causes.may_explain(differences, named)})


_Sides = tuple[statistics.Floats, statistics.Floats]


def _values(
    kept: tuple[Samples, Samples], key: Key, at: tuple[statistics.Floats, ...] | None
) -> _Sides:
    """Return a part's value of each unit on both sides, without its drift."""
    raw = kept[0].values(key), kept[1].values(key)
    return steadiness.without_drift(raw, at)[0] if at else raw


def _too_few(sizes: Sequence[int], unit: Unit) -> str:
    return (
        f"{sizes[0]} {unit.value}{'' if sizes[0] == 1 else 's'} against {sizes[1]} can never show "
        f"which part moved: at least {statistics.units_to_show(1.0, 1)} of each can"
    )


def _known(values: statistics.Floats) -> statistics.Floats:
    return values[np.isfinite(values)]


def _p(sides: _Sides) -> float | None:
    """Return the p of the rank test, None where no value varies."""
    below, above = map(_known, sides)
    varies = np.ptp(np.concatenate([below, above])) > 0
    return statistics.rank_test(below, above) if varies else None


def _corrected(parts: Sequence[_Sides]) -> list[float | None]:
    """Return each part's p corrected for all of them that vary; None for those that do not."""
    own = [_p(sides) for sides in parts]
    tested = [number for number, p in enumerate(own) if p is not None]
    if not tested:
        return own
    rows = np.array([np.concatenate(parts[number]) for number in tested])
    together = family.corrected(rows, len(parts[0][0]), [True] * len(tested))
    for number, p in zip(tested, together, strict=True):
        own[number] = max(own[number] or 0.0, p)
    return own


def _part(name: str, sides: _Sides, p: float | None, whole: float) -> Part:
    below, above = map(_known, sides)
    shift = statistics.shift(below, above)
    return Part(
        part=name,
        base=statistics.median(below),
        other=statistics.median(above),
        shift=shift.value,
        low=shift.low,
        high=shift.high,
        p=p,
        change=_change(shift, p, whole),
    )


def _change(shift: statistics.Shift, p: float | None, whole: float) -> Change:
    if shift.low is None or shift.high is None:
        return Change.UNCLEAR
    shown = p is not None and p <= statistics.ALPHA and not shift.low <= 0 <= shift.high
    if shown and abs(shift.value) >= LEAST * whole:
        return Change.MOVED
    within = max(abs(shift.low), abs(shift.high)) <= MARGIN * whole
    return Change.UNCHANGED if within else Change.UNCLEAR
