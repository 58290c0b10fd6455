"""Names of metrics and facts in a reader's words: `RIOPS`, `p99`, `cgroup CPU limit`."""

import re

_ACRONYMS = {
    word.lower(): word
    for word in ("CPU", "RIOPS", "IOPS", "WAL", "NUMA", "SMT", "MHz", "KiB", "I/O", "ID")
} | {"kb": "KiB", "io": "I/O", "fs": "file system", "mhz": "MHz", "smt": "SMT"}
_PERCENTILE = re.compile(r"^p(\d\d)(\d*)$")
_SPLIT = re.compile(r"[._]")
_PLACES = ("host.", "engine.settings.", "workload.")
"""Beginnings of facts that name the place of a fact, and not the fact."""


def name_metric(metric: str) -> str:
    """Return a metric's name in words, without its step: `sessions.latency.p999` is `p99.9`."""
    _, _, rest = metric.partition(".")
    parts = (rest or metric).split(".")
    if len(parts) > 1 and parts[-2] == "latency" and _PERCENTILE.match(parts[-1]):
        parts = parts[-1:]
    return " ".join(_word(part) for part in _SPLIT.split(".".join(parts)))


def name_fact(key: str) -> str:
    """Return a fact's name in words: `host.cgroup.cpu_limit` is `cgroup CPU limit`.

    A setting of a server keeps its own name, by which its documentation knows it.
    """
    place = next((one for one in _PLACES if key.startswith(one)), "")
    rest = key.removeprefix(place)
    return rest if place == "engine.settings." else " ".join(map(_word, _SPLIT.split(rest)))


def _word(part: str) -> str:
    percentile = _PERCENTILE.match(part)
    if percentile:
        whole, nines = percentile.groups()
        return f"p{whole}.{nines}" if nines else f"p{whole}"
    return _ACRONYMS.get(part, part)
