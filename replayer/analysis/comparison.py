"""Two groups of runs -> is there a difference, how large, and can it be believed."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from replayer.analysis import statistics
from replayer.analysis.difference import Difference, Sort, differences
from replayer.analysis.samples import Key, Samples, Side, Unit, unit_of
from replayer.errors import Impossible
from replayer.model import Better, Measurement, Noun
from replayer.watch import calibration

_EMULATED = "QEMU TCG"
"""In the model that qemu gives a processor which it runs without KVM."""
THRESHOLD = 0.02
"""A difference below this share is of no practical interest, unless --threshold says otherwise."""


class Verdict(StrEnum):
    """What a comparison says of one metric."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"


class Group(Noun):
    """One side of a comparison and how much of it counts."""

    name: str
    runs: tuple[str, ...]
    boots: int
    """Different boot ids; 0 if they are not known."""


class Row(Noun):
    """One metric of one step on both sides.

    `ratio` is other / base of the medians over units, None where a median is not above zero;
    [low, high] is its 95 percent interval, None as well where a side has one value.  `p` is of a
    rank test, `p_holm` corrected for all metrics of the comparison.  `more` is how many further
    units of each side would settle it.
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
    """How many metrics could have come out as better or worse, and so are corrected for."""
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]


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
    found = differences(base.runs, other.runs, asked=by, allowed=allowed)
    _refuse_unlike(base.name, other.name, found)
    unit = unit_of(base.runs, other.runs)
    kept = Samples.of(base, unit), Samples.of(other, unit)
    rows, family = _rows(*kept, threshold=threshold, metrics=metrics)
    warnings = [warning for side in kept for warning in side.warnings] + _one_sided(*kept)
    return Comparison(
        base=_group(base),
        other=_group(other),
        by=by,
        unit=unit,
        worth=_worth(unit, *(len(side.units) for side in kept)),
        threshold=threshold,
        family=family,
        rows=rows,
        differences=tuple(found),
        warnings=(*_emulated(base, other), *warnings, *_control(base, other)),
    )


def _refuse_shared(base: Side, other: Side) -> None:
    shared = {run.id for run in base.runs} & {run.id for run in other.runs}
    if shared:
        raise Impossible(
            f"the run {min(shared)} is on both sides of the comparison, which tells nothing: "
            f"name two different groups"
        )


def _refuse_unlike(base: str, other: str, found: Iterable[Difference]) -> None:
    refused = [one for one in found if one.sort is Sort.REFUSED]
    if not refused:
        return
    told = [
        f"{one.key} is {' or '.join(one.base)} in {base} and {' or '.join(one.other)} in {other}"
        for one in refused[:4]
    ]
    rest = f", and {len(refused) - 4} more" if len(refused) > 4 else ""
    keys = " ".join(f"--allow {one.key}" for one in refused[:4])
    raise Impossible(
        f"these runs did not do the same work: {'; '.join(told)}{rest}; "
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
        "the intervals",
        Unit.REPEAT: "all from one run of each side, so what changes from run to run or boot to "
        "boot is not in the intervals, and another run may well say otherwise",
    }
    return f"Each {unit.value} counts once, {base} against {other}: {scope[unit]}."


def _rows(
    base: Samples, other: Samples, *, threshold: float, metrics: Sequence[str]
) -> tuple[tuple[Row, ...], int]:
    keys = [key for key in base.kinds if key in other.kinds and _wanted(key[1], metrics)]
    if not keys:
        what = f"metric like {' or '.join(metrics)}" if metrics else "metric"
        raise Impossible(
            f"there is no {what} in common: {base.name} has {_some(base.kinds)}, "
            f"{other.name} has {_some(other.kinds)}"
        )
    _refuse_other_units(keys, base, other)
    drafts = [_draft(key, base, other) for key in keys]
    tested = [number for number, (row, _) in enumerate(drafts) if row.p is not None]
    corrected = dict(
        zip(tested, statistics.holm([drafts[number][0].p or 0.0 for number in tested]), strict=True)
    )
    rows = tuple(
        _judge(
            row.model_copy(update={"p_holm": corrected.get(number)}),
            found,
            threshold=threshold,
            # With more units all of these will be tested, and corrected for.
            family=sum(one.better is not Better.NEITHER and _varies(one) for one, _ in drafts),
        )
        for number, (row, found) in enumerate(drafts)
    )
    return rows, len(tested)


def _refuse_other_units(keys: Iterable[Key], base: Samples, other: Samples) -> None:
    for key in keys:
        below, above = base.kinds[key], other.kinds[key]
        if (below.unit, below.better) != (above.unit, above.better):
            raise Impossible(
                f"{below.metric} is in {below.unit!r} ({below.better.value} is better) in "
                f"{base.name} and in {above.unit!r} ({above.better.value} is better) in "
                f"{other.name}: choose other metrics with --metric"
            )


def _wanted(metric: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(metric, pattern) for pattern in patterns)


def _some(kinds: Mapping[Key, Measurement]) -> str:
    names = list(dict.fromkeys(metric for _, metric in kinds))
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "") if names else "none at all"


def _draft(key: Key, base: Samples, other: Samples) -> tuple[Row, statistics.Ratio | None]:
    """Return a row without its verdict, and the ratio in it."""
    kind = base.kinds[key]
    samples = base.sample(key), other.sample(key)
    below, above = (statistics.medians(sample) for sample in samples)
    directed = kind.better is not Better.NEITHER
    found = statistics.ratio(*samples) if directed else None
    # What could not come out as different however it came out is no part of the family: values
    # that are all the same, and too few of them.
    several = min(len(below), len(above)) > 1
    possible = statistics.smallest_p(len(below), len(above)) <= statistics.ALPHA
    row = Row(
        step=key[0],
        metric=key[1],
        unit=kind.unit,
        better=kind.better,
        base=float(statistics.median(below)),
        other=float(statistics.median(above)),
        base_values=tuple(below.tolist()),
        other_values=tuple(above.tolist()),
        ratio=found.value if found else None,
        low=found.low if found and several else None,
        high=found.high if found and several else None,
        p=None,
        p_holm=None,
        verdict=None,
    )
    if directed and possible and _varies(row):
        row = row.model_copy(update={"p": statistics.rank_test(below, above)})
    return row, found


def _varies(row: Row) -> bool:
    values = (*row.base_values, *row.other_values)
    return min(values) < max(values)


def _judge(row: Row, found: statistics.Ratio | None, *, threshold: float, family: int) -> Row:
    """Return the row with its verdict; `unclear` unless something was shown."""
    if row.better is Better.NEITHER:
        return row
    n, m = len(row.base_values), len(row.other_values)
    note = "" if found else "no ratio: a median is zero or below"
    note = "one value: more runs needed" if min(n, m) < 2 else note
    if statistics.smallest_p(n, m) <= statistics.ALPHA:
        if _alike(row, threshold):
            return row.model_copy(update={"verdict": Verdict.SAME, "note": note})
        direction = _direction(row)
        if direction and row.p_holm is not None and row.p_holm <= statistics.ALPHA:
            return row.model_copy(update={"verdict": direction, "note": note})
    return row.model_copy(
        update={
            "verdict": Verdict.UNCLEAR,
            "note": note,
            "more": _more(found, n, m, threshold=threshold, family=family),
        }
    )


def _alike(row: Row, threshold: float) -> bool:
    if row.p is None:
        return row.base == row.other
    if row.low is None or row.high is None:
        return False
    return 1 / (1 + threshold) <= row.low and row.high <= 1 + threshold


def _direction(row: Row) -> Verdict | None:
    """Return better or worse if the interval leaves no doubt of the direction, else None."""
    if row.low is not None and row.high is not None and row.low <= 1 <= row.high:
        return None
    if row.base == row.other:
        return None
    improved = (row.other > row.base) == (row.better is Better.MORE)
    return Verdict.BETTER if improved else Verdict.WORSE


def _more(
    found: statistics.Ratio | None, n: int, m: int, *, threshold: float, family: int
) -> int | None:
    """Return how many further units of each side would settle it, None if nobody would run them."""
    if found is None or min(n, m) < 2:
        # One value says nothing of how much the next may differ.
        return None
    needed = statistics.units_to_settle(found, n, m, threshold=threshold, family=family)
    return None if needed is None else max(1, needed - min(n, m))


def _one_sided(base: Samples, other: Samples) -> list[str]:
    """Return a sentence for each side that measured something which the other did not."""
    said = []
    for one, two in ((base, other), (other, base)):
        only = {key: m for key, m in one.kinds.items() if key not in two.kinds}
        if only:
            said.append(f"only {one.name} has {_some(only)}")
    return said


def _emulated(base: Side, other: Side) -> list[str]:
    """Return what is to be said if runs are from a processor that a program imitates."""
    models = {str(run.host.get("cpu.model", "")) for side in (base, other) for run in side.runs}
    emulated = sorted(model for model in models if _EMULATED in model)
    if not emulated:
        return []
    return [f"the processor is emulated ({emulated[0]}): these figures say nothing about hardware"]


def _control(base: Side, other: Side) -> list[str]:
    """Return what is to be said about the CPU and memory measurements around every run."""
    said = []
    for side in (base, other):
        for run in side.runs:
            for name, share in calibration.moved(run.control).items():
                said.append(
                    f"{side.name}: {run.id}: the {name} control moved by {share:+.1%} from before "
                    f"to after the run, more than its own noise: the machine changed meanwhile"
                )
    for name in calibration.NAMES:
        below, above = (
            calibration.medians(name, [run.control for run in side.runs]) for side in (base, other)
        )
        change = calibration.differs(below, above)
        if change:
            said.append(
                f"the {name} control, which no disk or database takes part in, is {change:+.1%} in "
                f"{other.name}: part of every difference may come from there"
            )
    return said


def _controls(name: str, side: Side) -> list[float]:
    return calibration.medians(name, [run.control for run in side.runs])
