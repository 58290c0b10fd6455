"""The columns of `vmstat 1`, from /proc/stat, /proc/vmstat and /proc/meminfo.

The values are defined as in procps: r does not count the reading process; memory and bi, bo, si, so
are in KiB; cache includes reclaimable slab; us includes nice; sy includes interrupts. r, b and
memory are those at the end of each interval. The other columns are rates or shares over it.
"""

import os
import re
from collections.abc import Sequence
from itertools import pairwise

from replayer.collectors import CollectorColumns, Columns, Panel, Sample

FILES = ("proc/stat", "proc/vmstat", "proc/meminfo")
SHEET = CollectorColumns(
    "machine over {time}, as vmstat: memory and I/O in KiB, CPU in %",
    "r b swpd free buff cache si so bi bo in cs us sy id wa st",
)
PANEL = Panel(
    "CPU, %",
    (("us", "user"), ("sy", "system"), ("wa", "waiting for I/O")),
    stacked=True,
    order=2,
)

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_STAT = re.compile(rb"^(cpu|intr|ctxt|procs_running|procs_blocked) +([0-9 ]+)", re.MULTILINE)
_VMSTAT = re.compile(rb"^(pgpgin|pgpgout|pswpin|pswpout) (\d+)", re.MULTILINE)
_MEMINFO = re.compile(
    rb"^(MemFree|Buffers|Cached|SReclaimable|SwapTotal|SwapFree): +(\d+)", re.MULTILINE
)
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def parse(samples: Sequence[Sample], device: str | None) -> Columns:
    """Return name of column, such as `cs` -> one value per interval between two samples.

    `device` is not used.
    """
    del device
    read = [(sample.clock_ns, _numbers(sample.texts)) for sample in samples]
    rows = [
        _row(before, after, (last - first) / 1e9)
        for (first, before), (last, after) in pairwise(read)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _numbers(texts: Sequence[bytes]) -> dict[str, int]:
    """Return the kernel's name -> number, for all numbers from which the columns are calculated."""
    numbers: dict[str, int] = {}
    for key, value in _STAT.findall(texts[0]):
        if key == b"cpu":
            # Guest time, the ninth and tenth field, is part of user and nice already.
            ticks = [int(field) for field in value.split()[: len(_STATES)]]
            numbers |= zip(_STATES, ticks + [0] * (len(_STATES) - len(ticks)), strict=True)
        else:
            numbers[key.decode()] = int(value.split(None, 1)[0])
    for pattern, text in ((_VMSTAT, texts[1]), (_MEMINFO, texts[2])):
        numbers |= {key.decode(): int(value) for key, value in pattern.findall(text)}
    return numbers


def _row(before: dict[str, int], after: dict[str, int], seconds: float) -> dict[str, float]:
    def rate(name: str) -> float:
        return max(0, after.get(name, 0) - before.get(name, 0)) / seconds

    spent = {state: max(0, after[state] - before[state]) for state in _STATES}
    total = sum(spent.values()) or 1
    return {
        "r": max(0, after["procs_running"] - 1),
        "b": after["procs_blocked"],
        "swpd": after["SwapTotal"] - after["SwapFree"],
        "free": after["MemFree"],
        "buff": after["Buffers"],
        "cache": after["Cached"] + after.get("SReclaimable", 0),
        "si": rate("pswpin") * _PAGE_KB,
        "so": rate("pswpout") * _PAGE_KB,
        "bi": rate("pgpgin"),
        "bo": rate("pgpgout"),
        "in": rate("intr"),
        "cs": rate("ctxt"),
        "us": 100 * (spent["user"] + spent["nice"]) / total,
        "sy": 100 * (spent["system"] + spent["irq"] + spent["softirq"]) / total,
        "id": 100 * spent["idle"] / total,
        "wa": 100 * spent["iowait"] / total,
        "st": 100 * spent["steal"] / total,
    }
