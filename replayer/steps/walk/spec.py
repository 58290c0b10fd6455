"""The keys of the step `walk` in a workload file."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from replayer.model import (
    StepSpec,
    Temperature,
)
from replayer.storage import file_reader
from replayer.tables import persons
from replayer.units import Size


class Spec(StepSpec):
    """The keys of the step `walk`, which reads all files of a table without the database."""

    threads: int = Field(50, ge=1, le=4096)
    """Threads that read files at the same time."""
    mode: Literal["read", "mmap", "direct"] = "read"
    """`read` copies through the page cache, `mmap` faults pages in, `direct` bypasses it."""
    # From 32k to 1M the MB/s were the same, and the CPU seconds of 1 GiB grew from 0.25 to 0.50, as
    # with fio. Below 128k more than a fifth of the CPU was replayer's own.
    block_size: Size = Field(128 << 10, ge=512, le=1 << 30)
    """Bytes of one read."""
    deal: Literal["auto", "files"] = "auto"
    """`files`: each thread takes whole files, as in MemSQL's script.  `auto`: the same, but if
    there are fewer files than threads, large files are divided into ranges."""
    cold: Temperature = Temperature.COLD
    """Temperature of the files when the reading begins.  cold: nothing is in memory, and
    replayer's own server is stopped; lukewarm: the same, but the server keeps running; hot: every
    file was read before."""
    table: str = persons.NAME
    """The table whose files are read: any of the database, with its schema unless that is
    replayer's own."""
    path: Path | None = None
    """A folder whose files are read instead of a table's, with all folders in it; nothing is
    written there."""

    @model_validator(mode="after")
    def _direct_blocks(self) -> Self:
        if self.mode == "direct" and self.block_size % file_reader.ALIGNMENT:
            raise ValueError(
                f"block_size must be a multiple of {file_reader.ALIGNMENT} bytes in direct mode"
            )
        return self
