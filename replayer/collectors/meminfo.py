"""Use of memory, from /proc/meminfo, under the kernel's names, at the end of each interval.

The values are in kB, except HugePages_Total and HugePages_Free, which count pages.
"""

import math
import re
from collections.abc import Sequence

from replayer.collectors import Columns, Sample

FILES = ("proc/meminfo",)
SHEET = PANEL = None
"""Too many columns for the report and the page: they are in the result file."""

_NAMES = (
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Active(file)",
    "Inactive(file)",
    "AnonPages",
    "Mapped",
    "Shmem",
    "Slab",
    "SReclaimable",
    "PageTables",
    "Dirty",
    "Writeback",
    "Unevictable",
    "Mlocked",
    "SwapFree",
    "AnonHugePages",
    "HugePages_Total",
    "HugePages_Free",
)
_LINE = re.compile(rb"^([^:\n]+): +(\d+)", re.MULTILINE)


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column -> its value at the end of each interval between two samples.

    A name that this kernel does not have is left out. `device` is not used.
    """
    del device
    wanted = {name.encode(): name for name in _NAMES}
    rows = [
        {
            wanted[key]: float(value)
            for key, value in _LINE.findall(sample.texts[0])
            if key in wanted
        }
        for sample in samples[1:]
    ]
    present = [name for name in _NAMES if any(name in row for row in rows)]
    return {name: [row.get(name, math.nan) for row in rows] for name in present}
