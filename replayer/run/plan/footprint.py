"""The room that a step's data takes, as the step reports it before it runs."""

from collections.abc import Iterable
from typing import NamedTuple

from replayer.model import StepSpec
from replayer.run import step_plugin


class Footprint(NamedTuple):
    """The data of one step; two steps on the same data take its room once."""

    data: object
    """Identifies the data: equal values mean the same data."""
    disk_bytes: int
    """Most bytes on disk, including what is written next to the data meanwhile."""
    cached_bytes: int = 0
    """The bytes of it that are to stay in the page cache."""


def of(spec: StepSpec, block_size: int) -> Footprint | None:
    """Return what a step reports about the room of its data; None if it makes none."""
    return step_plugin.load(spec.step).footprint(spec, block_size)


def disk_bytes(footprints: Iterable[Footprint]) -> int:
    """Return the bytes on disk of the data of several steps, about."""
    disk: dict[object, int] = {}
    for one in footprints:
        disk[one.data] = max(one.disk_bytes, disk.get(one.data, 0))
    return sum(disk.values())
