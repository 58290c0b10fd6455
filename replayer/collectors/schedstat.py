"""Run queues of all processors together, from /proc/schedstat (the kernel's sched-stats.rst).

Averages over the interval: `waiting`, how many tasks waited for a processor; `running`, how many
ran. `timeslices/s`: how many times per second a task was given a processor. `waiting-busiest`:
`waiting` of the one processor with the most. `running`, `waiting` and `timeslices/s` come from the
7th, 8th and 9th number of each `cpu` line, which are the same in versions 14 to 17 of the file.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from replayer.collectors import Columns, Sample

FILES = ("proc/schedstat",)
SHEET = PANEL = None
"""Neither the report nor the page shows these columns: they are in the result file."""


class _Queue(NamedTuple):
    ran_ns: int
    waited_ns: int
    slices: int


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `waiting` -> one value per interval between two samples.

    `device` is not used.
    """
    del device
    read = [(sample.clock_ns, _queues(sample.texts[0])) for sample in samples]
    rows = [_row(before, after, last - first) for (first, before), (last, after) in pairwise(read)]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _queues(text: bytes) -> dict[bytes, _Queue]:
    lines = (line.split() for line in text.splitlines() if line.startswith(b"cpu"))
    return {words[0]: _Queue(*map(int, words[7:10])) for words in lines if len(words) > 9}


def _row(
    before: dict[bytes, _Queue], after: dict[bytes, _Queue], elapsed_ns: int
) -> dict[str, float]:
    moved = [
        _Queue(*(max(0, new - old) for new, old in zip(after[name], before[name], strict=True)))
        for name in after.keys() & before.keys()
    ]
    waited = [queue.waited_ns / elapsed_ns for queue in moved]
    return {
        "running": sum(queue.ran_ns for queue in moved) / elapsed_ns,
        "waiting": sum(waited),
        "waiting-busiest": max(waited, default=0.0),
        "timeslices/s": sum(queue.slices for queue in moved) / (elapsed_ns / 1e9),
    }
