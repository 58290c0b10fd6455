"""Repeated looks at a comparison while its runs are made, without more false alarms.

A look is a comparison of the runs so far, after which the trial may end.  Each look can find a
difference by chance.  So the 5 percent of a comparison are divided among the looks: look k gets
1/(k(k+1)) of them.  The last look, at a number of runs or a time that was fixed before, gets what
is left: 1/k.  The sum is never more than 5 percent, by Bonferroni's inequality (alpha spending, Lan
and DeMets, 1983).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from replayer.analysis.differences import multiple_testing, statistics
from replayer.analysis.differences.comparison import SHOWN, MetricRow, MetricVerdict
from replayer.analysis.differences.finding import with_headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replayer.analysis.differences.comparison import Comparison

GROWTH = 1.2
"""The number of runs at a look, divided by the number at the look before."""
EQUAL = frozenset({MetricVerdict.SAME, MetricVerdict.ALIKE})
_NORMAL = NormalDist()
_LIKELY_OF = {
    MetricVerdict.BETTER: MetricVerdict.LIKELY_BETTER,
    MetricVerdict.WORSE: MetricVerdict.LIKELY_WORSE,
    MetricVerdict.DIFFERS: MetricVerdict.LIKELY_DIFFERS,
}


def share(look: int, *, last: bool = False) -> float:
    """Return the part (0 to 1) of the 5 percent chance of a false alarm that one look may use.

    A look is a comparison of the runs so far, which may end a trial.  `look` is its number, from 1.
    `last` is True if no look follows.
    """
    return 1 / look if last else 1 / (look * (look + 1))


def first_look(leading: int, others: int) -> int:
    """Return the number of runs of each side at the first look: the fewest that can show anything.

    A look is a comparison of the runs so far.  `leading` is the number of leading metrics (the main
    ones, by which runs are judged), and `others` that of all other metrics.
    """
    part = multiple_testing.shares(leading, others)[0] * share(1)
    return statistics.units_to_show(part, max(1, leading), 3)


def next_look(runs: int) -> int:
    """Return the number of runs of each side for the next comparison; the last was at `runs`."""
    return max(runs + 1, math.floor(runs * GROWTH))


def at_look(comparison: Comparison, look: int, *, last: bool = False) -> Comparison:
    """Return the comparison with verdicts that take into account that it is one of several looks.

    `look` is the number of this look, from 1.  Some verdicts become weaker.  `last` is True if no
    look follows.
    """
    part = share(look, last=last)
    if part >= 1:
        return comparison
    rows = tuple(_weighed(row, part, comparison.threshold, look) for row in comparison.rows)
    return with_headline(comparison.model_copy(update={"rows": rows}))


def settled(comparison: Comparison) -> bool:
    """Return whether each leading metric was shown to differ or to be the same.

    Leading metrics are the main ones, by which runs are judged.  Returns False if there is none.
    """
    leading = [row for row in judged(comparison.rows) if row.leading]
    return bool(leading) and all(row.verdict in SHOWN | EQUAL for row in leading)


def judged(rows: Sequence[MetricRow]) -> list[MetricRow]:
    """Return the rows of a comparison that have a verdict.

    A metric has none if neither more nor less of it is better.
    """
    return [row for row in rows if row.verdict is not None]


def _weighed(row: MetricRow, part: float, threshold: float, look: int) -> MetricRow:
    """Return a row of a comparison, with a weaker verdict if its proof is too weak for this look.

    `part` is the part of the 5 percent chance of a false alarm that this look may use.
    """
    note = f"at look {look}, where it takes more than at a single one"
    if row.verdict in SHOWN and row.p_holm is not None and row.p_holm > part * statistics.ALPHA:
        return _with(row, _LIKELY_OF[row.verdict], note)
    if row.verdict in EQUAL and not _within(row, part, threshold):
        return _with(row, MetricVerdict.UNCLEAR, note)
    return row


def _with(row: MetricRow, verdict: MetricVerdict, note: str) -> MetricRow:
    note = "; ".join(filter(None, (note, row.note)))
    return row.model_copy(update={"verdict": verdict, "note": note})


def _within(row: MetricRow, part: float, threshold: float) -> bool:
    """Return whether the row's interval lies within the threshold, after it was made wider.

    It is made as wide as needed for `part` of the 5 percent chance of a false alarm.
    """
    if row.ratio is None or row.low is None or row.high is None or row.low == row.high:
        return True
    wider = _NORMAL.inv_cdf(1 - part * statistics.ALPHA / 2) / _NORMAL.inv_cdf(
        1 - statistics.ALPHA / 2
    )
    ends = [abs(math.log(end / row.ratio)) * wider for end in (row.low, row.high) if end > 0]
    centre = math.log(row.ratio)
    return (
        len(ends) == 2
        and centre - ends[0] >= -math.log1p(threshold)
        and centre + ends[1] <= math.log1p(threshold)
    )
