"""Names of metrics and facts in a reader's words: `RIOPS`, `p99`, `cgroup CPU limit`."""

import re
from collections.abc import Iterable

from replayer.analysis.differences.environment import step_setting

_ACRONYMS = {
    word.lower(): word
    for word in ("CPU", "RIOPS", "IOPS", "WAL", "NUMA", "SMT", "MHz", "KiB", "I/O", "ID")
} | {"kb": "KiB", "io": "I/O", "fs": "file system", "mhz": "MHz", "smt": "SMT"}
_PERCENTILE = re.compile(r"^p(\d\d)\.?(\d*)$")
_PART = re.compile(r"p?\d+\.\d+[^.]*|[^.]+")
"""A part of a name between two dots; the dot of a number such as 1.00MiB belongs to it."""
MOST_TIMES = 1000
"""Ratios from here on are not shown as numbers."""
_PLACES = ("host.", "engine.settings.", "workload.")
"""Beginnings of keys of facts that are left out of a fact's name in words."""


def name_metric(metric: str) -> str:
    """Return a metric's name in words, without its step: `sessions.latency.p999` is `p99.9`."""
    _, _, rest = metric.partition(".")
    parts = split_name(rest or metric)
    if len(parts) > 1 and parts[-2] == "latency" and _PERCENTILE.match(parts[-1]):
        parts = parts[-1:]
    return _in_words(parts)


def name_ratio(ratio: float | None, decimals: int = 3) -> str:
    """Return a ratio with so many decimals; from 1,000 on it is `over 1,000`, and without one "".

    The digits of a larger ratio mean nothing: it is one to almost zero, and cut at a million.
    """
    if ratio is None:
        return ""
    return f"{ratio:.{decimals}f}" if ratio < MOST_TIMES else f"over {MOST_TIMES:,}"


def split_name(name: str) -> list[str]:
    """Return the parts of a metric's or fact's name between its dots.

    `read.1.00MiB` has `read` and `1.00MiB`: the dot of a number does not divide.
    """
    return _PART.findall(name)


def name_fact(key: str) -> str:
    """Return a fact's name in words: `host.cgroup.cpu_limit` is `cgroup CPU limit`.

    A setting of a server keeps the name that it has in the server's documentation.
    """
    if own := step_setting(key):
        return "{}'s {}".format(*own)
    place = next((one for one in _PLACES if key.startswith(one)), "")
    rest = key.removeprefix(place)
    return rest if place == "engine.settings." else _in_words(split_name(rest))


def _in_words(parts: Iterable[str]) -> str:
    return " ".join(_word(word) for part in parts for word in part.split("_"))


def _word(part: str) -> str:
    percentile = _PERCENTILE.match(part)
    if percentile:
        whole, nines = percentile.groups()
        return f"p{whole}.{nines}" if nines else f"p{whole}"
    return _ACRONYMS.get(part, part)
