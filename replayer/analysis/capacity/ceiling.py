"""Ceilings: reads per second of a device without a database, to compare with a database's reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from replayer.model import Fact, Reads, Run, Status
from replayer.units import show_count, show_size

_SAME_MACHINE = ("host.name", "device.model", "fs.type")

_LIMITS = defaultdict(
    str,
    processors=" (limited by processors and Python)",
    compiled=" (limited by the processors)",
    interpreter=" (limited by the interpreter's part of each read)",
)


@dataclass(frozen=True)
class ProbeCeiling:
    """The reads per second that a probe of a device measured, and what limited them."""

    per_second: float
    limit: str = ""
    """`processors`, `interpreter`, or `compiled` for the processors under a loop that was compiled;
    "" if the storage was the limit."""


def ceiling(
    runs: Iterable[Run],
    device: str,
    block_size: int,
    depth: int,
    *,
    access: str = "random",
    host: Mapping[str, Fact] | None = None,
) -> ProbeCeiling | None:
    """Return the reads per second that a probe in `runs` measured on a device without a database.

    The probe must have this device, block size in bytes, depth (number of reads at a time) and
    `access`.  Only direct reads count, and none that keep a rate.  The newest run with such a probe
    is used, and the median of its repeats: of those with a compiled loop, if there are any.  With
    `host`, only runs on a machine with the same name, device model and file system count.  Returns
    None without such a run.
    """
    for run in sorted(runs, key=lambda run: run.started, reverse=True):
        if host is not None and any(run.host.get(k) != host.get(k) for k in _SAME_MACHINE):
            continue
        rows = [
            row
            for step in run.steps
            if step.status is Status.DONE
            and step.facts.get("storage.device") == device
            and not step.spec.get("rate")
            for row in step.tables.get("io", ())
            if _like(row, block_size, depth, access)
        ]
        compiled = [row for row in rows if row.get("loop") == "compiled"]
        if rows:
            limit = max(str(row.get("limit", "")) for row in compiled or rows)
            return ProbeCeiling(
                float(median(row["iops"] for row in compiled or rows)),
                limit="compiled" if compiled and limit else limit,
            )
    return None


def add_ceilings(run: Run, others: Iterable[Run]) -> Run:
    """Return a copy of the run in which steps that can be compared with a probe have a `ceiling`.

    This is a fact such as `RIOPS 35,928 = 84 % of 8 KiB random reads at depth 4`.  The steps are
    the finished steps that report their reads from the device, if a probe in the runs `others` had
    reads of the same kind.  Without such a step, `run` itself is returned.
    """
    wanted = {
        index: step.reads
        for index, step in enumerate(run.steps)
        if step.reads is not None and step.status is Status.DONE
    }
    if not wanted:
        return run
    known = list(others)
    steps = list(run.steps)
    for index, reads in wanted.items():
        most = ceiling(
            known,
            reads.device,
            reads.block_bytes,
            reads.depth,
            access=reads.access,
            host=run.host,
        )
        if most is not None and most.per_second:
            facts = {**steps[index].facts, "ceiling": share(reads, most)}
            steps[index] = steps[index].model_copy(update={"facts": facts})
    return run if tuple(steps) == run.steps else run.model_copy(update={"steps": tuple(steps)})


def share(reads: Reads, most: ProbeCeiling) -> str:
    """Return a step's reads per second as a percentage of a probe's, as text.

    For example: `RIOPS 35,928 = 84 % of 8 KiB random reads at depth 4`.  RIOPS is the SLOB method's
    word for random reads of one block per second.  Sequential reads are shown as reads/s.  If the
    probe was not limited by the storage, the text reports its limit.
    """
    what = "RIOPS" if reads.access == "random" else "reads/s"
    size = show_size(reads.block_bytes).replace(".00", "")
    part = f"{100 * reads.per_second / most.per_second:.0f} %"
    like = f"{size} {reads.access} reads at depth {reads.depth}"
    return f"{what} {show_count(reads.per_second)} = {part} of {like}{_LIMITS[most.limit]}"


def _like(row: Mapping[str, Any], block_size: int, depth: int, access: str) -> bool:
    return (
        row.get("access") == access
        and row.get("operation") == "read"
        and row.get("direct") is True
        and row.get("block_bytes") == block_size
        and row.get("depth") == depth
        and row.get("client") in {"1", "all"}
        and isinstance(row.get("iops"), int | float)
    )
