"""Watchers of the kernel: one file each, copied while a step runs and parsed afterwards.

A collector module has a docstring, `FILES` (paths below the host's root, such as
`proc/stat`) and `parse(samples, device) -> Columns`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Sample(NamedTuple):
    """One copy of a collector's files: the clock in nanoseconds (monotonic) and their bytes."""

    clock_ns: int
    texts: tuple[bytes, ...]


Columns = Mapping[str, Sequence[float]]
"""sysstat's own column name -> one value per interval between two samples."""


class Collector(Protocol):
    """What the sampler needs of a collector module."""

    FILES: tuple[str, ...]

    def parse(self, samples: Sequence[Sample], device: str | None) -> Columns:
        """Turn n samples into n - 1 values per column; `device` is the data's block device."""
        ...
