"""Softirqs per second by kind, of all processors together, from /proc/softirqs.

The columns have the kernel's names, such as `NET_RX/s` and `BLOCK/s`. `%busiest` is the share of
all softirqs that ran on the processor with the most.
"""

from collections.abc import Sequence

from replayer.collectors import Columns, Sample
from replayer.machine import interrupts

FILES = ("proc/softirqs",)
SHEET = PANEL = None
"""Too many columns for the report and the page: they are in the result file."""


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `NET_RX/s` -> one value per interval between two samples.

    `device` is not used.
    """
    del device
    tables = [interrupts.table(sample.texts[0]) for sample in samples]
    return interrupts.rates([sample.clock_ns for sample in samples], tables)
