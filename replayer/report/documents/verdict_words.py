"""The words for verdicts of a comparison, such as worse or likely better, and their tones."""

from replayer.analysis.differences.comparison import (
    LIKELY,
    SHOWN,
    Comparison,
    MetricRow,
    MetricVerdict,
)
from replayer.analysis.differences.metric_names import name_ratio
from replayer.analysis.differences.samples import Unit
from replayer.run.display import Tone

MOST_MORE = 50
"""The most further samples that are suggested: more than this is not practical."""


def name_verdict(row: MetricRow) -> str:
    """Return the verdict on a metric with its direction, such as `worse in these runs`.

    It is "" if the metric has no verdict.
    """
    if row.verdict is None:
        return ""
    if row.worse is None:
        return row.verdict.value
    way = "worse" if row.worse else "better"
    return row.verdict.value.replace("differs", way)


def verdict(row: MetricRow, unit: Unit = Unit.RUN) -> str:
    """Return the verdict on a metric in words; if it is uncertain, with the samples to decide it.

    `unit` is the kind of sample, such as a run.  Returns "" if the metric has no verdict.
    """
    words = name_verdict(row)
    few = min(len(row.base_values), len(row.other_values))
    possible = row.more is not None and row.more <= MOST_MORE
    if row.verdict in LIKELY:
        shown = f"; {few + (row.more or 0)} {unit.value}s a side can show it" if possible else ""
        return f"{words}{shown}"
    if row.verdict is not MetricVerdict.UNCLEAR or (row.note and row.more is None):
        return words
    if possible:
        return f"unclear, ~{row.more} more"
    unknown = row.ratio is None or few < 2
    return "unclear" if unknown else f"unclear, cannot be settled by more {unit.value}s"


def judged(row: MetricRow, comparison: Comparison) -> str:
    """Return the verdict on a metric in words, with notes that explain it in parentheses."""
    words = verdict(row, comparison.unit)
    same = f"the same fact as {row.says.partition('.')[2]}" if row.says and row.verdict else ""
    own = f"own interval {_interval(row)}" if row.alone else ""
    notes = "; ".join(filter(None, (own, row.note, same)))
    return f"{words} ({notes})" if notes else words


def limits(row: MetricRow) -> str:
    """Return the 95 percent interval of a metric's ratio; an end of 1,000 or more is "over 1,000".

    It is "" if there is no interval, or if it excludes 1 although the verdict is unclear: it would
    contradict the verdict.  Then `judged` has the interval in its notes instead.
    """
    return "" if row.alone else _interval(row)


def _interval(row: MetricRow) -> str:
    if row.low is None or row.high is None:
        return ""
    return " to ".join(map(name_ratio, (row.low, row.high)))


def tone_of(row: MetricRow) -> Tone:
    """Return the tone of the verdict on a metric: good or bad only if a difference was shown.

    It is unclear if a difference is likely, and plain for any other verdict.
    """
    if row.verdict in SHOWN and row.worse is not None:
        return Tone.BAD if row.worse else Tone.GOOD
    return Tone.UNCLEAR if row.verdict in LIKELY else Tone.PLAIN
