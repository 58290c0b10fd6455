"""What a device was seen to do without a database, to stand beside what a database got of it."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from replayer.model import Fact, Run, Status, StepResult, Temperature, Verdict
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


def beside(run: Run, others: Iterable[Run]) -> Run:
    """Return the run with a fact `ceiling` in every step that a probe can be held against.

    These are physical sessions (random reads of a database block, a depth of one a session) and
    cold walks (sequential reads of a block, a depth of one a thread).
    """
    wanted = {i: found for i, step in enumerate(run.steps) if (found := _load(run, step))}
    if not wanted:
        return run
    known = list(others)
    steps = list(run.steps)
    for index, (value, device, block, depth, access) in wanted.items():
        most = ceiling(known, device, block, depth, access=access, host=run.host)
        if most:
            told = share(value, most, block, depth, access)
            facts = {**steps[index].facts, "ceiling": told}
            steps[index] = steps[index].model_copy(update={"facts": facts})
    return run if tuple(steps) == run.steps else run.model_copy(update={"steps": tuple(steps)})


def _load(run: Run, step: StepResult) -> tuple[float, str, int, int, str] | None:
    """Return the reads per second of a step, their device, block, depth and order; or None."""
    device = step.ledger.device if step.ledger is not None else run.host.get("device.name")
    block = step.facts.get("block_size_bytes")
    if step.status is not Status.DONE or not isinstance(device, str) or not isinstance(block, int):
        return None
    riops, iops = step.value("sessions.riops"), step.value("walk.iops")
    if riops and step.ledger is not None and step.ledger.verdict is Verdict.PHYSICAL:
        depth = step.spec["num_schemas"] * step.spec["num_threads"]
        return riops, device, block, depth, "random"
    if iops and step.cold is not None and step.cold.got is Temperature.COLD:
        return iops, device, block, step.spec["threads"], "sequential"
    return None


def share(value: float, most: float, block_size: int, depth: int, access: str = "random") -> str:
    """Return `RIOPS 35,928 = 84 % of 8 KiB random reads at depth 4`; reads/s for a walk."""
    what = "RIOPS" if access == "random" else "reads/s"
    size = show_size(block_size).replace(".00", "")
    part = f"{100 * value / most:.0f} %"
    return f"{what} {show_count(value)} = {part} of {size} {access} reads at depth {depth}"


def _like(row: Mapping[str, Any], block_size: int, depth: int, access: str) -> bool:
    return (
        row.get("access") == access
        and row.get("operation") == "read"
        and row.get("direct") is True
        and row.get("block_bytes") == block_size
        and row.get("depth") == depth
        and row.get("client") in {"1", "all"}
    )
