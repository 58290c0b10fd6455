"""The leading metric of each step of a run, for lists of runs and for one line about a step."""

import math
from collections.abc import Iterable

from replayer.analysis.differences.samples import leading
from replayer.analysis.repeats import by_name, finished, medians
from replayer.model import Measurement, Run, StepResult

_MOST = 8


def leaders(run: Run) -> tuple[Measurement, ...]:
    """Return a measurement for each finished step of a run: its first leading metric, as a median.

    A leading metric is one that a step is run for, else its first rate, else its first time.  The
    median is over the step's repeats.  A step without such a metric is left out.  Steps that are
    measured in each repeat come first, then steps that run once.  At most eight are returned.
    """
    steps = by_name(finished(run.steps))
    chosen = [m for results in sorted(steps, key=_once) for m in _first(results)]
    return tuple(chosen[:_MOST])


def leader(step: StepResult) -> tuple[Measurement, ...]:
    """Return the first leading metric of one step, as a tuple of one; () if it has none.

    A leading metric is one that the step is run for, else its first rate, else its first time.
    """
    return tuple(_first([step]))


def _once(results: list[StepResult]) -> bool:
    return bool(results[0].spec.get("once"))


def _first(results: list[StepResult]) -> Iterable[Measurement]:
    """Yield the first leading metric of a step, with the median of its repeats, if it has one.

    `results` are the repeats of the step.  Values that are not finite do not count.
    """
    own = medians(results)
    names = leading(own)
    kind = next((m for m in own if m.metric in names), None)
    if kind is not None and math.isfinite(kind.value):
        yield kind
