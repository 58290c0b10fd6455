"""The keys of the step `ranges` in a workload file."""

from typing import Literal

from pydantic import Field

from replayer import units
from replayer.model import ReadOrigin, StepSpec


class Spec(StepSpec):
    """The keys of the step `ranges`, in which sessions read random ranges of the table's rows."""

    sessions: int = Field(8, ge=1, le=1024)
    """Sessions, each with one statement under way at a time."""
    work_unit: int = Field(255, ge=1, le=1_000_000)
    """Rows of one range, next to each other by the table's sort key."""
    run_time: units.Duration = Field(30.0, gt=0)
    """Seconds that are measured."""
    reads: Literal["cached", "physical"] = "cached"
    """`cached` finds the table in memory: the engine's buffers or the page cache.  `physical` reads
    it from the device: by direct I/O where the engine has it, else the engine's buffers are small
    and a cgroup bounds the page cache."""
    buffers: units.Size = Field(64 << 20, ge=16 << 20)
    """Bytes of the engine's own buffers for physical reads, if it has a setting for them."""
    page_cache: units.Size = Field(64 << 20, ge=16 << 20)
    """Bytes of page cache that a cgroup leaves to the engine for physical reads."""
    seed: int = Field(1, ge=0, le=1 << 31)
    """The same seed reads the same ranges in the same order."""

    @property
    def asked(self) -> ReadOrigin:
        """Return the origin that the key `reads` asks for: reads from the device or from memory."""
        return ReadOrigin(self.reads)
