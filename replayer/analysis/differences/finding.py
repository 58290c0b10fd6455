"""The finding of a comparison in one sentence: which side is slower, by how much, and a suspect.

The terminal, the page, Markdown and JSON all have this sentence.
"""

import math
from collections.abc import Iterable, Sequence

from replayer.analysis.attribution import known_causes
from replayer.analysis.differences import multiple_testing
from replayer.analysis.differences.comparison_result import Comparison
from replayer.analysis.differences.environment import MISSING, Difference
from replayer.analysis.differences.metric_names import (
    MOST_TIMES,
    name_fact,
    name_metric,
    name_ratio,
)
from replayer.analysis.differences.metric_verdicts import (
    LIKELY,
    SHOWN,
    THESE_RUNS,
    MetricRow,
    MetricVerdict,
    family_sizes,
    judged_rows,
)
from replayer.analysis.differences.samples import Unit
from replayer.analysis.differences.statistics import can_show
from replayer.errors import Impossible
from replayer.units import show_with_noun, three

_MOST_LEADING = 2
_MOST_OTHERS = 1
_MOST_SUSPECTS = 2
_TIMES = ("s", "IOPS")
"""A side is slower or faster in these units and in those that end in /s, else worse or better."""


def with_headline(comparison: Comparison) -> Comparison:
    """Return the comparison with its headline: one sentence with its result."""
    return comparison.model_copy(update={"headline": make_headline(comparison)})


def make_headline(comparison: Comparison) -> str:
    """Return the finding of a comparison in one sentence.

    It reports which side is slower, in which metrics, by how much, and a suspect; or that no
    difference was shown.
    """
    shown = first_rows(comparison, SHOWN)
    rows = shown or first_rows(comparison, LIKELY)
    if not rows:
        return f"{_nothing(comparison)}{_unjudged(comparison)}{_turns(comparison)}"
    judged = [row for row in comparison.rows if row.verdict in (SHOWN if shown else LIKELY)]
    named = _named(rows)
    facts = [_change(row, comparison, first=row is named[0]) for row in named]
    more = len(rows) - len(named)
    facts += [f"{more} more"] if more else []
    base, other = comparison.base.name, comparison.other.name
    likely = "" if shown else "likely "
    # A metric that lacks values in some boots may lack the turns that the others have.
    is_sure = comparison.decides and not any(row.verdict in THESE_RUNS for row in named)
    scope = "" if is_sure else " in these runs"
    begin = f"{other} is {likely}{_direction(judged)} than {base}{scope}: {', '.join(facts)}"
    ends = f"{_unjudged(comparison)}{_turns(comparison)}"
    return "; ".join(filter(None, (begin, _suspects(comparison)))) + ends


def first_rows(comparison: Comparison, verdicts: Iterable[MetricVerdict]) -> list[MetricRow]:
    """Return the metrics of a comparison that have one of these verdicts, the most important first.

    Leading metrics, for which a step is run, come first, then the others, each by the size of the
    change.  A metric that only repeats another one that has a row is left out.
    """
    wanted = frozenset(verdicts)
    rows = [row for row in comparison.rows if row.verdict in wanted]
    known = {(row.step, row.metric) for row in rows}
    facts = [row for row in rows if not row.says or (row.step, row.says) not in known]
    return sorted(facts, key=lambda row: (not row.leading, -_size(row)))


def suspects(comparison: Comparison) -> tuple[Difference, ...]:
    """Return the differences of the environment that may have caused the differences shown.

    They are taken from the explanations of where the time went.  Without any, they are all that are
    known to affect some part of the time.  Returns () if no metric differs.  If some have no value
    in common between the sides, only these are returned.
    """
    if not any(row.verdict in SHOWN | LIKELY for row in comparison.rows):
        return ()
    explained = [one for why in comparison.why for one in why.may_explain]
    if not any(why.parts for why in comparison.why):
        explained = list(known_causes.may_explain(comparison.differences, ()))
    known = tuple({one.key: one for one in explained}.values())
    # A fact that has the same value in runs of both sides explains less than one that parts them.
    return tuple(one for one in known if not set(one.base) & set(one.other)) or known


def has_too_few(comparison: Comparison) -> bool:
    """Return whether no metric was tested because each has too few units.

    Enough units whose values are all equal are not tested either, and more would not change that.
    Nor would it change that a step is not judged.
    """
    rows = [row for row in comparison.rows if row.step not in comparison.unjudged]
    enough = (can_show(len(row.base_values), len(row.other_values)) for row in rows)
    return bool(rows) and not comparison.family and not any(enough)


def units_to_show(comparison: Comparison) -> int:
    """Return the fewest units of each side with which one metric alone can be shown to differ."""
    counts = family_sizes(judged_rows(comparison.rows, comparison.unjudged))
    needed = multiple_testing.units_to_show(*counts)
    own = [units for units, count in zip(needed, counts, strict=True) if count]
    return min(own or needed)


def refuse_unjudged(comparison: Comparison) -> None:
    """Raise Impossible if a step is not judged, so that --fail-if-worse does not pass over it."""
    if reason := _unjudged(comparison):
        raise Impossible(
            f"--fail-if-worse needs results that count{reason}: measure again, or choose metrics "
            f"of other steps"
        )


def show_values(values: Sequence[str]) -> str:
    """Return the values that a fact has on one side as text, such as `256 | 512`.

    Of more than three values, the first three are shown.  One that is not known is `unknown`.
    """
    shown = ["unknown" if value == MISSING else value for value in values]
    return " | ".join(shown[:3]) + (f" | … {len(shown) - 3} more" if len(shown) > 3 else "")


def name_row(row: MetricRow, comparison: Comparison) -> str:
    """Return the name of a row's metric in words, after its step if the comparison has several."""
    several = len({one.step for one in comparison.rows}) > 1
    return f"{row.step} {name_metric(row.metric)}" if several else name_metric(row.metric)


def _size(row: MetricRow) -> float:
    return abs(math.log(row.ratio)) if row.ratio else 0.0


def _named(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return the rows that the headline names: at most two leading metrics, then one other.

    `rows` are sorted by importance.  Without leading metrics, they are two others.  If some metrics
    are better and some worse, the first of each direction come before the rest.
    """
    leading = [row for row in rows if row.leading][:_MOST_LEADING]
    others = [row for row in rows if not row.leading]
    named = leading + others[: _MOST_OTHERS if leading else _MOST_LEADING]
    ways = {bool(row.worse): row for row in reversed(rows)}
    firsts = [row for row in rows if len(ways) > 1 and row is ways[bool(row.worse)]]
    rest = (row for row in named if not any(row is one for one in firsts))
    return [*firsts, *rest][: len(named)]


def _change(row: MetricRow, comparison: Comparison, *, first: bool) -> str:
    """Return a metric's name and its ratio in words; with `first`, also the ratio's interval.

    Without a ratio, `better` or `worse` follows the name.
    """
    name = name_row(row, comparison)
    if row.ratio is None:
        return f"{name} {'worse' if row.worse else 'better'}"
    if first and row.low is not None and row.high is not None:
        return f"{name} {_ratio(row.ratio)} ({_ratio(row.low)} to {_ratio(row.high)})"
    return f"{name} {_ratio(row.ratio)} times"


def _ratio(value: float) -> str:
    if value < 0.1:
        return f"{value:.2g}"
    if value < 10:
        return name_ratio(value, 2 if value < 1.995 else 1)
    return three(value) if value < MOST_TIMES else name_ratio(value)


def name_direction(units: Iterable[str], *, worse: bool) -> str:
    """Return "slower" or "faster"; "worse" or "better" if a unit is neither a time nor a rate.

    `units` are those of metrics.  The first word of each pair is for `worse`.
    """
    timed = all(unit in _TIMES or unit.endswith("/s") for unit in units)
    if worse:
        return "slower" if timed else "worse"
    return "faster" if timed else "better"


def _direction(rows: Sequence[MetricRow]) -> str:
    """Return the direction in which metrics changed, such as `slower`.

    If they disagree, it is `both faster and slower`, or `both better and worse`.
    """
    units = [row.unit for row in rows]
    words = {one: name_direction(units, worse=one) for one in (True, False)}
    ways = {bool(row.worse) for row in rows}
    if len(ways) == 1:
        return words[ways.pop()]
    return f"both {words[False]} and {words[True]}"


def _nothing(comparison: Comparison) -> str:
    """Return a sentence that no difference was shown, with numbers of same and unclear metrics."""
    base, other = comparison.base.name, comparison.other.name
    verdicts = [row.verdict for row in first_rows(comparison, MetricVerdict)]
    same = sum(one in {MetricVerdict.SAME, MetricVerdict.ALIKE} for one in verdicts)
    is_sure = comparison.decides and MetricVerdict.ALIKE not in verdicts
    scope = "" if is_sure else " in these runs"
    if verdicts and same == len(verdicts):
        within = f"within {comparison.threshold * 100:g} %"
        each = "each of " if same > 1 else ""
        where = f"in {each}{show_with_noun(same, 'metric')}"
        return f"{other} is the same as {base} {within}{scope}, {where}"
    words = [f"{same} the same" if same else "", f"{len(verdicts) - same} unclear"]
    many = show_with_noun(len(verdicts), "metric")
    counts = f": {' and '.join(filter(None, words))} of {many}" if verdicts else ""
    begin = f"no difference between {base} and {other} was shown{counts}"
    if not has_too_few(comparison):
        return begin
    fewest = units_to_show(comparison)
    return f"{begin}; it takes {fewest} {comparison.unit.value}s of each to show one"


def _suspects(comparison: Comparison) -> str:
    known = suspects(comparison)
    if not known:
        return ""
    named = [
        f"{name_fact(one.key)} {show_values(one.base)} / {show_values(one.other)}"
        for one in known[:_MOST_SUSPECTS]
    ]
    more = f" and {len(known) - len(named)} more" if len(known) > len(named) else ""
    return f"suspect{'' if len(known) == 1 else 's'}: {', '.join(named)}{more}"


def _unjudged(comparison: Comparison) -> str:
    """Return which step is not judged and why, and the names of other such steps; "" for none."""
    steps = list(comparison.unjudged)
    if not steps:
        return ""
    more = f", nor is {', '.join(steps[1:])}" if len(steps) > 1 else ""
    return f"; {steps[0]} is not judged ({comparison.unjudged[steps[0]]}){more}"


def _turns(comparison: Comparison) -> str:
    """Return a warning if the boots of the two sides did not take turns; "" if they did.

    Without turns, the machine may have changed between one side and the other.  A difference is
    then shown for these runs only.  A comparison in another unit than boots has no warning.
    """
    if comparison.unit is not Unit.BOOT or comparison.turns:
        return ""
    return "; their boots did not take turns, so that is all it shows"
