"""Single numbers from a step's time series, by which warnings judge the step."""

import statistics

from replayer.model import StepResult


def count_late(step: StepResult) -> int:
    """Return the number of intervals of a series that are over 1.5 times as long as the median."""
    ends = step.series.seconds if step.series else ()
    lengths = [end - begin for begin, end in zip((0.0, *ends), ends, strict=False)]
    if len(lengths) < 3:
        return 0
    usual = statistics.median(lengths)
    # The last interval may contain the rest of the window, so it does not count.
    return sum(length > usual * 1.5 + 0.01 for length in lengths[:-1])


def has_column(step: StepResult, name: str) -> bool:
    """Return whether a column of the step's series has a value."""
    return bool(_column(step, name))


def average(step: StepResult, name: str) -> float:
    """Return the mean of a column of the step's series; 0 without values."""
    values = _column(step, name)
    return statistics.fmean(values) if values else 0.0


def _column(step: StepResult, name: str) -> list[float]:
    values = step.series.columns.get(name, ()) if step.series else ()
    return [value for value in values if value is not None]
