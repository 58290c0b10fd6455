"""Interrupts per second by source, of all processors together, from /proc/interrupts.

The queues of a device are one column (`nvme0/s`, `virtio1/s`). The processors' own interrupts have
the kernel's short names: `LOC/s` local timers, `RES/s` rescheduling, `CAL/s` function calls,
`TLB/s` shootdowns. A source without interrupts has no column. `%busiest` is the share of all
interrupts that went to the processor with the most.
"""

from collections.abc import Sequence

from replayer.collectors import Columns, Sample
from replayer.machine import interrupts

FILES = (interrupts.FILE,)
SHEET = PANEL = None
"""Too many columns for the report and the page: they are in the result file."""


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `nvme0/s` -> one value per interval between two samples.

    `device` is not used.
    """
    del device
    tables = [interrupts.table(sample.texts[0]) for sample in samples]
    return interrupts.rates([sample.clock_ns for sample in samples], tables)
