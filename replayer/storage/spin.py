"""Fixed work that keeps processors and memory busy, in several processes at once."""

from dataclasses import dataclass

from replayer.errors import ReplayerError
from replayer.storage import spin_worker
from replayer.storage.spin_worker import SpinWork
from replayer.units import show_duration
from replayer.watch.histogram import Latencies
from replayer.watch.workers import WorkerPool


@dataclass(frozen=True, slots=True)
class Spun:
    """The sum of all processes' results in the window.

    For the kind `cpu`, an operation is one search for primes. For the kinds `read` and `write`, an
    operation reads or writes one block of memory.
    """

    operations: int
    seconds: float
    bytes: int
    latencies: Latencies


def spin(work: SpinWork, processes: int) -> Spun:
    """Do the work in `processes` processes at once, and return the sum of their results.

    Only operations that ended in the window count. Raises ReplayerError if there are none.
    """
    with WorkerPool(spin_worker.work, [work] * processes, processes=processes) as pool:
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
