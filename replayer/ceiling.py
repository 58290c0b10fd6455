"""What a device was seen to do without a database, to stand beside what a database got of it."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from replayer.model import Fact, Run, Status
from replayer.units import show_count, show_size

_SAME_MACHINE = ("host.name", "device.model", "fs.type")


def ceiling(
    runs: Iterable[Run],
    device: str,
    block_size: int,
    depth: int,
    *,
    access: str = "random",
    host: Mapping[str, Fact] | None = None,
) -> float | None:
    """Return the direct reads per second of a probe of that device, size and depth, or None.

    The newest run with such a probe counts, and the median of its repeats; with `host`, only runs
    on a machine of the same name, device model and file system do.
    """
    for run in sorted(runs, key=lambda run: run.started, reverse=True):
        if host is not None and any(run.host.get(k) != host.get(k) for k in _SAME_MACHINE):
            continue
        found = [
            row["iops"]
            for step in run.steps
            if step.step == "probe"
            and step.status is Status.DONE
            and step.facts.get("storage.device") == device
            for row in step.tables.get("io", ())
            if _like(row, block_size, depth, access)
        ]
        if found:
            return float(median(found))
    return None


def share(value: float, most: float, block_size: int, depth: int, access: str = "random") -> str:
    """Return `RIOPS 35,928 = 84 % of 8 KiB random reads at depth 4`."""
    size = show_size(block_size).replace(".00", "")
    part = f"{100 * value / most:.0f} %"
    return f"RIOPS {show_count(value)} = {part} of {size} {access} reads at depth {depth}"


def _like(row: Mapping[str, Any], block_size: int, depth: int, access: str) -> bool:
    return (
        row.get("access") == access
        and row.get("operation") == "read"
        and row.get("direct") is True
        and row.get("block_bytes") == block_size
        and row.get("depth") == depth
        and row.get("client") in {"1", "all"}
    )
