"""The disk space and memory that a step's data needs, as the step estimates it before it runs."""

from collections.abc import Iterable

from replayer.model import StepSpec
from replayer.run import step_plugin
from replayer.run.step_plugin import Footprint


def estimate(spec: StepSpec, block_size: int) -> Footprint | None:
    """Return the estimated sizes of a step's data, on disk and in memory; None if it makes none.

    `block_size` is that of the database, in bytes.
    """
    return step_plugin.load(spec.step).footprint(spec, block_size)


def disk_bytes(footprints: Iterable[Footprint]) -> int:
    """Return the estimated bytes on disk of several steps; data that steps share counts once."""
    disk: dict[object, int] = {}
    for one in footprints:
        disk[one.data] = max(one.disk_bytes, disk.get(one.data, 0))
    return sum(disk.values())
