"""Idle time of the processors that replayer may use, if a cpuset or taskset allows it only some.

`%idle` is the share of their time in which they had no work, or waited for I/O. If all processors
may be used, there is no column: %idle and %iowait of `cpu` are of the same processors.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from replayer.collectors import Columns, Sample
from replayer.machine import processors

FILES = (processors.FILE, processors.STATUS, processors.OFFLINE)
SHEET = PANEL = None
"""Warnings and probes use it; a diagram of all processors is that of `cpu`."""


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return `%idle` -> one percentage per interval between two samples.

    The result is {} if all processors were allowed all the time. `device` is not used.
    """
    del device
    times = [processors.ticks(sample.texts[0]) for sample in samples]
    texts = [[text.decode("utf-8", "replace") for text in one.texts[1:]] for one in samples]
    allowed = [
        processors.restricted([status], one, offline)
        for (status, offline), one in zip(texts, times, strict=True)
    ]
    if not any(allowed):
        return {}
    readings = pairwise(zip(times, allowed, strict=True))
    return {
        "%idle": [
            _idle(processors.together(first, here), processors.together(last, here))
            if here == before
            else math.nan
            for (first, before), (last, here) in readings
        ]
    }


def _idle(before: dict[str, int], after: dict[str, int]) -> float:
    """Return the idle percentage between two readings; nan if no time passed."""
    spent = {state: max(0, after[state] - before[state]) for state in processors.STATES}
    total = sum(spent.values())
    return 100 * (spent["idle"] + spent["iowait"]) / total if total else math.nan
