"""Processor time by state, from /proc/stat, in the columns of `mpstat`.

Percentages of the time of all processors together, computed as sysstat does: guest time is
subtracted from %usr and %nice, in which the kernel includes it. `%busiest` is the busiest single
processor: 100 minus its idle and iowait share.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from replayer.collectors import Columns, Panel, Sample
from replayer.machine import processors

FILES = (processors.FILE,)
SHEET = None
"""The report shows vmstat's line instead, which is shorter."""
PANEL = Panel(
    "CPU, %",
    (
        ("%usr", "user"),
        ("%nice", "user, niced"),
        ("%guest", "guests"),
        ("%gnice", "guests, niced"),
        ("%sys", "system"),
        ("%irq", "interrupts"),
        ("%soft", "soft interrupts"),
        ("%steal", "stolen by the hypervisor"),
        ("%iowait", "waiting for I/O"),
    ),
    stacked=True,
    order=2,
)

_ORDER = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `%usr` -> one percentage per interval between two samples.

    `device` is not used.
    """
    del device
    times = [processors.ticks(sample.texts[0]) for sample in samples]
    rows = [_row(before, after) for before, after in pairwise(times)]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def shares(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    """Return state -> percentage of the time between two readings; all nan if no time passed.

    `before` and `after` are state -> ticks since boot. Those of idle and iowait may decrease a
    little (proc(5)); such a decrease counts as 0.
    """
    spent = {state: max(0, after[state] - before[state]) for state in processors.STATES}
    total = sum(spent.values())
    return {state: 100 * spent[state] / total if total else math.nan for state in _ORDER}


def _row(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]]) -> dict[str, float]:
    together = shares(before["cpu"], after["cpu"])
    single = [
        shares(before[name], after[name]) for name in after if name != "cpu" and name in before
    ]
    busy = [100 - one["idle"] - one["iowait"] for one in single if not math.isnan(one["idle"])]
    return {f"%{state}": share for state, share in together.items()} | {
        "%busiest": max(busy, default=math.nan)
    }
