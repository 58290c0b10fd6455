"""The verdict on one metric of a comparison, with the figures that it rests on."""

from collections.abc import Container, Iterable
from enum import StrEnum

from pydantic import Field

from replayer.model import Better, Noun


class MetricVerdict(StrEnum):
    """The verdict of a comparison on one metric, for the other side against the base."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNCLEAR = "unclear"
    DIFFERS = "differs in these runs"
    """These runs differ, but other boots might not: there are too few boots, or one side was
    measured after the other."""
    ALIKE = "same in these runs"
    """These runs are the same, but other boots might not be: as for `differs in these runs`.

    All values are equal, or an interval shows it."""
    LIKELY_BETTER = "likely better"
    """The metric would count as better if it were the only one; corrected for all metrics, it does
    not.  On average at most one in five of the metrics called likely does not differ."""
    LIKELY_WORSE = "likely worse"
    LIKELY_DIFFERS = "likely differs in these runs"


LIKELY = frozenset(
    {MetricVerdict.LIKELY_BETTER, MetricVerdict.LIKELY_WORSE, MetricVerdict.LIKELY_DIFFERS}
)
SHOWN = frozenset({MetricVerdict.BETTER, MetricVerdict.WORSE, MetricVerdict.DIFFERS})
THESE_RUNS = frozenset({MetricVerdict.DIFFERS, MetricVerdict.ALIKE, MetricVerdict.LIKELY_DIFFERS})
"""Verdicts on the compared runs only, which another boot might not confirm."""


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
    says: str = Field(default="", exclude_if=lambda metric: not metric)
    """Another metric of the step that is the same fact, such as walk.throughput of walk.iops."""

    @property
    def title(self) -> str:
        """Return the metric's name, with the step's name before it unless it begins with that."""
        plain = self.metric.split(".", 1)[0]
        return self.metric if self.step == plain else f"{self.step}: {self.metric}"

    @property
    def change(self) -> float | None:
        """Return the change of the metric as a share of the base, above 0 if it is for the worse.

        None without a ratio.
        """
        if self.ratio is None:
            return None
        return 1 - self.ratio if self.better is Better.MORE else self.ratio - 1

    @property
    def worse(self) -> bool | None:
        """Return whether a difference of the metric that was shown, or is likely, is for the worse.

        None if no difference is claimed, or if there is no ratio and both medians are equal.
        """
        if self.verdict not in SHOWN | LIKELY:
            return None
        if self.ratio is not None:
            return (self.change or 0.0) > 0
        if self.other == self.base:
            return None
        return (self.other < self.base) == (self.better is Better.MORE)

    @property
    def varies(self) -> bool:
        """Return whether the values of both sides are not all equal."""
        values = (*self.base_values, *self.other_values)
        return min(values) < max(values)

    @property
    def alone(self) -> bool:
        """Return whether the interval of the ratio excludes 1 although the verdict is unclear."""
        if self.verdict is not MetricVerdict.UNCLEAR or self.low is None or self.high is None:
            return False
        return not self.low <= 1 <= self.high


def without_repeats(rows: Iterable[MetricRow]) -> list[MetricRow]:
    """Return the rows of metrics that do not only repeat another one of `rows`.

    A metric that repeats one that itself repeats another one is returned as well.
    """
    all_ = list(rows)
    repeated = {(row.step, row.metric) for row in all_ if not row.says}
    return [row for row in all_ if not row.says or (row.step, row.says) not in repeated]


def judged_rows(rows: Iterable[MetricRow], unjudged: Container[str]) -> list[MetricRow]:
    """Return the rows for which p values are corrected as soon as there are enough units.

    These could be shown to differ.  Left out are metrics whose values are all equal, those without
    a good direction, those that only repeat another one, and those of the steps `unjudged`.
    """
    return without_repeats(
        row
        for row in rows
        if row.better is not Better.NEITHER and row.varies and row.step not in unjudged
    )


def family_sizes(judged: Iterable[MetricRow]) -> tuple[int, int]:
    """Return the numbers of leading and of other metrics, which are a family each.

    `judged` are the rows for which p values are corrected.
    """
    leading = [row.leading for row in judged]
    return sum(leading), len(leading) - sum(leading)
