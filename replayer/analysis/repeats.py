"""The repeats of a step as one: results by name, medians of measurements, and words with counts."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import median
from typing import TypeVar

from replayer.model import Measurement, Status, StepResult

Kind = TypeVar("Kind", bound=Hashable)


def by_name(steps: Iterable[StepResult]) -> list[list[StepResult]]:
    """Return the results grouped by the step's name, in the order of first appearance."""
    return [results for _, results in alike(steps, lambda step: step.name)]


def alike(
    results: Iterable[StepResult], key: Callable[[StepResult], Kind]
) -> list[tuple[Kind, list[StepResult]]]:
    """Return (key, results with that key) for each value of `key`, in order of first appearance."""
    groups: dict[Kind, list[StepResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return list(groups.items())


def finished(results: Iterable[StepResult]) -> list[StepResult]:
    """Return the results that were done; only they have numbers that count."""
    return [result for result in results if result.status is Status.DONE]


def medians(results: Sequence[StepResult]) -> tuple[Measurement, ...]:
    """Return each metric of a step once, with the median of the repeats that have it.

    The metrics are in the order of first appearance in `results`.  A value that is not finite
    counts only if the metric has no finite value.
    """
    values: dict[str, list[Measurement]] = {}
    for result in results:
        for measurement in result.measurements:
            values.setdefault(measurement.metric, []).append(measurement)
    return tuple(map(_middle, values.values()))


def _middle(same: Sequence[Measurement]) -> Measurement:
    finite = [one.value for one in same if math.isfinite(one.value)]
    return same[0].model_copy(update={"value": median(finite)}) if finite else same[0]


def repeats_of(results: Sequence[StepResult]) -> str:
    """Return the numbers of the repeats as words that follow a step's name: ` in repeats 1, 3`."""
    numbers = [str(result.repeat) for result in results]
    return f" in repeat{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def counted(words: Sequence[str]) -> str:
    """Return the word if all are the same, else the counts: `cold 9 of 10, lukewarm 1 of 10`."""
    different = list(dict.fromkeys(words))
    if len(different) == 1:
        return different[0]
    return ", ".join(f"{word} {words.count(word)} of {len(words)}" for word in different)


def in_part(text: str, count: int, total: int) -> str:
    """Return a text about `count` of `total` repeats; it names the numbers if these differ."""
    return text if count == total else f"{text} in {count} of {total}"
