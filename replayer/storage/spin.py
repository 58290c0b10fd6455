"""Fixed work that keeps processors and memory busy, in several processes at once."""

from collections.abc import Callable
from dataclasses import dataclass

from replayer.errors import ReplayerError
from replayer.storage import spin_worker
from replayer.storage.spin_worker import SpinWork
from replayer.units import show_duration
from replayer.watch.histogram import Latencies
from replayer.watch.workers import WorkerPool


@dataclass(frozen=True, slots=True)
class Spun:
    """The work that processes did at once to keep processors or memory busy, within `seconds`.

    `bytes` is the memory that was read or written, 0 for the kind `cpu`. For the kind `cpu`, an
    operation is one search for primes. For the kinds `read` and `write`, an operation reads or
    writes one block of memory.
    """

    operations: int
    seconds: float
    bytes: int
    latencies: Latencies


def spin(work: SpinWork, processes: int, opened: Callable[[], None] | None = None) -> Spun:
    """Keep processors or memory busy with `processes` processes at once; return what they did.

    Each process does `work` for `work.seconds`. Only operations that ended within this time count.
    `opened` is called just before they start.  Raises ReplayerError if no operation counts.
    """
    with WorkerPool(spin_worker.work, [work] * processes, processes=processes) as pool:
        pool.ready()
        if opened is not None:
            opened()
        pool.open()
        parts: list[tuple[int, Latencies]] = pool.results(timeout=work.seconds + 120)
    if not any(many for many, _ in parts):
        raise ReplayerError(
            f"none of {processes} processes ended one pass within {show_duration(work.seconds)}: "
            f"give a longer duration, or a machine that is less busy"
        )
    return Spun(
        operations=sum(many for many, _ in parts),
        seconds=work.seconds,
        bytes=sum(many for many, _ in parts) * (work.limit if work.kind != "cpu" else 0),
        latencies=Latencies.of(seen for _, seen in parts),
    )
