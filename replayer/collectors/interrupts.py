"""Interrupts a second by source, of all processors together, from /proc/interrupts.

A device's queues are one column (`nvme0/s`, `virtio1/s`), the processors' own have the kernel's
short names: `LOC/s` local timers, `RES/s` rescheduling, `CAL/s` function calls, `TLB/s` shootdowns.
What never came is no column.  `%busiest` is the share of all of them that the processor had which
had most.
"""

from collections.abc import Sequence

from replayer.collectors import Columns, Sample
from replayer.machine import interrupts

FILES = (interrupts.FILE,)
SHEET = PANEL = None
"""Too many columns for either: they are in the result file."""


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return one value per interval and column."""
    del device
    tables = [interrupts.table(sample.texts[0]) for sample in samples]
    return interrupts.rates([sample.clock_ns for sample in samples], tables)
