"""Watchers of the kernel: one file each, copied while a step runs and parsed afterwards.

A collector module has a docstring, `FILES` (paths below the host's root, such as
`proc/stat`) and `parse(samples, device) -> Columns`.  What it saw is in the report and on the page
as `SHEET` and `PANEL` say; without them all of its columns are, and the first of them drawn.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Sample(NamedTuple):
    """One copy of a collector's files: the clock in nanoseconds (monotonic) and their bytes."""

    clock_ns: int
    texts: tuple[bytes, ...]


Columns = Mapping[str, Sequence[float]]
"""sysstat's own column name -> one value per interval between two samples."""


class Sheet(NamedTuple):
    """The line of a report: averages over the measured window."""

    title: str
    """`{device}` and `{time}` stand for the data's device and the length of the window."""
    columns: str
    """Separated by blanks."""


class Panel(NamedTuple):
    """What the page draws over time; panels of one title are one, the first with a line has it."""

    title: str
    lines: tuple[tuple[str, str], ...]
    """(column, what it is called)."""
    stacked: bool = False
    order: int = 9
    """From top to bottom."""


class Collector(Protocol):
    """What the sampler needs of a collector module."""

    FILES: tuple[str, ...]

    def parse(self, samples: Sequence[Sample], device: str | None) -> Columns:
        """Turn n samples into n - 1 values per column; `device` is the data's block device."""
        ...
