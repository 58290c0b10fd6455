"""Counters of /proc/interrupts and /proc/softirqs: a line per source, a column per CPU."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

FILE = "proc/interrupts"

Table = Mapping[str, Mapping[str, int]]
"""Source of interrupts -> processor, such as `CPU0` -> number of interrupts so far."""

_QUEUE = re.compile(
    r"([-_.:]?(q|tx-?rx|tx|rx|queue|comp|req|input|output|msix)[-_.]?\d+|[-.]\d+)$",
    re.IGNORECASE,
)


def table(text: bytes) -> dict[str, dict[str, int]]:
    """Return source -> processor -> count, from the text of /proc/interrupts or /proc/softirqs.

    Only lines with a counter for each processor are used. The other lines (`ERR`, `MIS`) are left
    out: they do not count interrupts of processors.
    """
    head, *lines = text.decode("ascii", "replace").splitlines() or [""]
    names = head.split()
    sources: dict[str, dict[str, int]] = {}
    for line in lines:
        label, _, rest = line.partition(":")
        words = rest.split(None, len(names))
        counts = words[: len(names)]
        if len(counts) < len(names) or not all(map(str.isdigit, counts)):
            continue
        described = words[len(names)] if len(words) > len(names) else ""
        source = sources.setdefault(_source(label.strip(), described), dict.fromkeys(names, 0))
        for name, count in zip(names, counts, strict=True):
            source[name] += int(count)
    return sources


def quietest(text: bytes, among: Collection[int]) -> int:
    """Return the processor of `among` with the fewest interrupts of devices so far.

    `text` is that of /proc/interrupts. If several processors have equally few, the lowest number is
    returned.
    """
    head, *lines = text.decode("ascii", "replace").splitlines() or [""]
    names = head.split()
    had = dict.fromkeys(among, 0)
    for line in lines:
        label, _, rest = line.partition(":")
        if not label.strip().isdigit():
            continue
        for name, count in zip(names, rest.split(), strict=False):
            number = int(name.removeprefix("CPU"))
            if number in had and count.isdigit():
                had[number] += int(count)
    return min(sorted(had), key=lambda number: had[number])


def rates(clocks: Sequence[int], tables: Sequence[Table]) -> dict[str, list[float]]:
    """Return the columns `<source>/s` and `%busiest`: one value per interval between two readings.

    `clocks` are the times of the readings in ns, `tables` their counters. `%busiest` is the largest
    share of all interrupts that one processor had. A source that never had an interrupt has no
    column. A source that is missing in the first reading of an interval counts from 0. A processor
    that is missing there came online meanwhile. Its counts are those since the start of the
    machine, so they are left out.
    """
    columns: dict[str, list[float]] = {"%busiest": []}
    sources = sorted(
        {name for one in tables for name, counts in one.items() if any(counts.values())}
    )
    for (begin, end), (before, after) in zip(pairwise(clocks), pairwise(tables), strict=True):
        each: dict[str, int] = {}
        online = {name for counts in before.values() for name in counts}
        for source in sources:
            moved = _moved(before.get(source, {}), after.get(source, {}), online)
            rate = sum(moved.values()) / ((end - begin) / 1e9)
            columns.setdefault(f"{source}/s", []).append(rate)
            for processor, many in moved.items():
                each[processor] = each.get(processor, 0) + many
        whole = sum(each.values())
        columns["%busiest"].append(100 * max(each.values()) / whole if whole else 0.0)
    return columns


def _moved(
    before: Mapping[str, int], after: Mapping[str, int], online: Collection[str]
) -> dict[str, int]:
    return {
        name: max(0, many - before.get(name, 0)) for name, many in after.items() if name in online
    }


def _source(label: str, described: str) -> str:
    """Return the name of a line's source: the label, such as `LOC`, or the name of a device.

    A device's line has a number as label, and a description that ends with the handler's name. The
    number of a queue is removed from that name, so that all queues of a device are one source.
    """
    if not label.isdigit() or not described:
        return label
    handler = described.split(",", maxsplit=1)[0].rsplit(maxsplit=1)[-1]
    name, at, place = handler.partition("@")
    return (_QUEUE.sub("", name) or name) + at + place
