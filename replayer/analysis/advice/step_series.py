"""Single numbers from a step's time series, by which warnings judge the step."""

import math
import statistics

from replayer.model import StepResult

_STILL_SECONDS = 3.0
"""Seconds without a sample; a machine that is only busy is sampled late, but hardly so late."""


def count_late(step: StepResult) -> int:
    """Return the number of samples of a step's series that came late.

    A sample is late if its interval is over 1.5 times as long as the median interval.  The last
    interval does not count.  Returns 0 if there are fewer than three intervals.
    """
    lengths = _lengths(step)
    if len(lengths) < 3:
        return 0
    usual = statistics.median(lengths)
    # The last interval may contain the rest of the window, so it does not count.
    return sum(length > usual * 1.5 + 0.01 for length in lengths[:-1])


def longest_gap(step: StepResult) -> float:
    """Return the seconds of the longest interval between samples, if it is far too long; else 0.

    Only intervals of the step's series in its measured window count. Far too long is at least 3
    seconds, and three times as long as the median. Of one or two intervals there is no median: they
    should last a second.
    """
    intervals, lengths = _intervals(step), _lengths(step)
    first, last = (step.series.window if step.series else None) or (0.0, math.inf)
    longest = max(
        (end - begin for begin, end in intervals if begin < last and end > first), default=0
    )
    usual = statistics.median(lengths) if len(lengths) > 2 else 1.0
    return longest if longest >= max(_STILL_SECONDS, 3 * usual) else 0.0


def has_column(step: StepResult, name: str) -> bool:
    """Return whether the column `name`, such as `cpu.%idle`, of the step's series has a value."""
    return bool(_column(step, name))


def average(step: StepResult, name: str) -> float:
    """Return the mean of the column `name`, such as `cpu.%idle`, of the step's series.

    It is in the column's unit; 0 without values.
    """
    values = _column(step, name)
    return statistics.fmean(values) if values else 0.0


def idle_percent(step: StepResult) -> float | None:
    """Return the mean idle time, in percent, of the processors that replayer may use.

    Time of waiting for I/O counts as idle.  Returns None if it is not known.
    """
    for names in (("allowed_cpu.%idle",), ("cpu.%idle", "cpu.%iowait")):
        if has_column(step, names[0]):
            return sum(average(step, name) for name in names)
    return None


def _intervals(step: StepResult) -> list[tuple[float, float]]:
    ends = step.series.seconds if step.series else ()
    return list(zip((0.0, *ends), ends, strict=False))


def _lengths(step: StepResult) -> list[float]:
    return [end - begin for begin, end in _intervals(step)]


def _column(step: StepResult, name: str) -> list[float]:
    values = step.series.columns.get(name, ()) if step.series else ()
    return [value for value in values if value is not None]
