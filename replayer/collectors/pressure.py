"""Pressure stall information, from /proc/pressure, in the columns of `sar -q ALL`.

`%scpu`, `%sio`, `%smem`: the share of each interval in which some task waited for the resource;
`%fio`, `%fmem`: the share in which all tasks waited. Columns that end with `-10` are the kernel's
own averages over ten seconds. The shares come from `total=`, which counts microseconds (see the
kernel's Documentation/accounting/psi.rst).
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from replayer.collectors import Columns, Sample

FILES = ("proc/pressure/cpu", "proc/pressure/io", "proc/pressure/memory")
SHEET = PANEL = None
"""Too many columns for the report and the page: they are in the result file."""

_NAMES = ("cpu", "io", "mem")
_LINE = re.compile(rb"^(some|full) avg10=([0-9.]+) .*total=(\d+)", re.MULTILINE)


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `%sio` -> one percentage per interval between two samples.

    `device` is not used.
    """
    del device
    read = [(sample.clock_ns, _numbers(sample.texts)) for sample in samples]
    columns: dict[str, list[float]] = {}
    for (first, before), (last, after) in pairwise(read):
        for name in after.keys() & before.keys():
            stalled = (after[name][1] - before[name][1]) * 1000
            columns.setdefault(name, []).append(100 * max(0, stalled) / (last - first))
            columns.setdefault(f"{name}-10", []).append(after[name][0])
    return {name: columns[name] for name in sorted(columns)}


def _numbers(texts: Sequence[bytes]) -> dict[str, tuple[float, int]]:
    """Return column, such as `%sio` -> (avg10 in percent, total in microseconds).

    `full` of the processor is left out: for a whole system the kernel defines it as 0.
    """
    return {
        f"%{kind[:1].decode()}{name}": (float(average), int(total))
        for name, text in zip(_NAMES, texts, strict=True)
        for kind, average, total in _LINE.findall(text)
        if (kind, name) != (b"full", "cpu")
    }
