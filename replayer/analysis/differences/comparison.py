"""Comparison of two groups of runs: which metrics differ, by how much, and how sure that is."""

from collections.abc import Iterable, Iterator, Sequence

from replayer.analysis.attribution.explanation import why
from replayer.analysis.differences import cautions
from replayer.analysis.differences.comparison_result import Comparison, Group
from replayer.analysis.differences.doubts import count_results
from replayer.analysis.differences.environment import Difference, Sort, differences
from replayer.analysis.differences.finding import with_headline
from replayer.analysis.differences.judgement import is_wanted, judge_rows
from replayer.analysis.differences.metric_verdicts import LIKELY, SHOWN, MetricRow, MetricVerdict
from replayer.analysis.differences.samples import Samples, Side, Unit, order_of, origin, unit_of
from replayer.errors import Impossible

__all__ = ["LIKELY", "SHOWN", "Comparison", "MetricRow", "MetricVerdict", "compare", "judged"]

THRESHOLD = 0.02
"""A difference below this share is of no practical interest; --threshold sets another share."""
_MOST_KEYS = 4
"""The most facts that a refusal names one by one."""
_KINDS = ("engine.settings.", "workload.", "data.")
"""Beginnings of keys of which many differ between two engines or workloads."""


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
    counted = count_results(base, other, by)
    base, other = counted.base, counted.other
    unlike = differences(base.runs, other.runs, asked=by, allowed=allowed)
    _refuse_unlike(base.name, other.name, unlike)
    unit = unit_of(base.runs, other.runs)
    kept = Samples.of(base, unit), Samples.of(other, unit)
    order = order_of(unit, *kept)
    rows, tested = judge_rows(
        *kept,
        unit=unit,
        threshold=threshold,
        metrics=metrics,
        still=cautions.controls_agree(base, other),
        unjudged=counted.unjudged,
    )
    chosen = {key[0] for side in kept for key in side.kinds if is_wanted(key, metrics)}
    warnings = cautions.warn_runs(*kept)
    warnings += [*cautions.warn_one_sided(*kept), *cautions.warn_unjudged(rows, base, other)]
    compared = Comparison(
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
            *cautions.warn_emulated(base, other),
            *cautions.warn_order(unit, *kept),
            *cautions.warn_versions(base.name, other.name, unlike),
            *counted.remarks,
            *warnings,
            *cautions.warn_controls(base, other),
        ),
        turns=order is not None and order.turns,
        unjudged={step: why for step, why in counted.unjudged.items() if step in chosen},
        once=tuple(dict.fromkeys(_find_once(base, other))),
        why=why(base, other, unit, metrics=_differing(rows), differences=unlike),
    )
    return with_headline(compared)


def judged(base: Side, other: Side, *, unit: Unit, threshold: float) -> tuple[MetricRow, ...]:
    """Return the metrics that both sides have, with their verdicts; () if there are none.

    `unit` is what counts as one sample.  `threshold` is the share below which a difference does not
    matter.
    """
    counted = count_results(base, other)
    base, other = counted.base, counted.other
    kept = Samples.of(base, unit), Samples.of(other, unit)
    if not kept[0].kinds.keys() & kept[1].kinds.keys():
        return ()
    still = cautions.controls_agree(base, other)
    rows, _ = judge_rows(
        *kept,
        unit=unit,
        threshold=threshold,
        metrics=(),
        still=still,
        unjudged=counted.unjudged,
    )
    return rows


def _differing(rows: Sequence[MetricRow]) -> dict[str, list[str]]:
    """Return name of a step -> its metrics that were shown to differ, the leading ones first."""
    differing = [row for row in rows if row.verdict in SHOWN]
    steps: dict[str, list[str]] = {row.step: [] for row in differing}
    for row in sorted(differing, key=lambda row: not row.leading):
        steps[row.step].append(row.metric)
    return steps


def _refuse_shared(base: Side, other: Side) -> None:
    known = {origin(run): run.id for run in base.runs}
    shared = sorted((known[origin(run)], run.id) for run in other.runs if origin(run) in known)
    if shared:
        one, copy = shared[0]
        name = f"the run {one}" if one == copy else f"the run {one}, as {copy} is a copy of it,"
        raise Impossible(
            f"{name} is on both sides of the comparison, which shows nothing: "
            f"name two different groups"
        )


def _refuse_unlike(base: str, other: str, unlike: Iterable[Difference]) -> None:
    refused = [one for one in unlike if one.sort is Sort.REFUSED]
    if not refused:
        return
    reasons = [
        f"{one.key} is {' or '.join(one.base)} in {base} and {' or '.join(one.other)} in {other}"
        for one in refused[:_MOST_KEYS]
    ]
    rest = f", and {len(refused) - _MOST_KEYS} more" if len(refused) > _MOST_KEYS else ""
    keys = " ".join(f"--allow {pattern}" for pattern in _patterns([one.key for one in refused]))
    raise Impossible(
        f"these runs did not do the same work: {'; '.join(reasons)}{rest}; "
        f"if they are to be compared nevertheless, allow that with {keys}"
    )


def _patterns(keys: Sequence[str]) -> list[str]:
    """Return values of the option --allow that allow differences in all of the facts `keys`.

    A few keys stay as they are; many are replaced by patterns.
    """
    if len(keys) <= _MOST_KEYS:
        return list(keys)
    kinds = [next((kind for kind in _KINDS if key.startswith(kind)), key) for key in keys]
    return [
        kind if kind == key else f"'{kind}*'"
        for kind, key in dict(zip(kinds, keys, strict=True)).items()
    ]


def _group(side: Side) -> Group:
    return Group(
        name=side.name,
        runs=tuple(run.id for run in side.runs),
        boots=len({run.host.get("boot.id") for run in side.runs} - {None, ""}),
    )


def _find_once(*sides: Side) -> Iterator[str]:
    """Yield the name of each result of a step that only prepares others."""
    for run in (run for side in sides for run in side.runs):
        yield from (step.name for step in run.steps if step.spec.get("once"))


def _worth(unit: Unit, base: int, other: int) -> str:
    """Return one sentence on the number of units, and on the variation that the intervals contain.

    `base` and `other` are the numbers of units of the sides.
    """
    scope = {
        Unit.BOOT: "what changes from boot to boot is in the intervals",
        Unit.RUN: "all from one boot or unknown boots, so what changes from boot to boot is not in "
        "the intervals, and these runs may differ by nothing else",
        Unit.REPEAT: "all from one run of each side, so what changes from run to run or boot to "
        "boot is not in the intervals, and another run may well say otherwise",
    }
    return f"Each {unit.value} counts once, {base} against {other}: {scope[unit]}."
