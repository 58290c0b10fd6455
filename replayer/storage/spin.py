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

    For `cpu`, an operation is one search for primes; otherwise it reads or writes one block.
    """

    operations: int
    seconds: float
    bytes: int
    latencies: Latencies


def spin(work: SpinWork, processes: int) -> Spun:
    """Run the work in several processes at once; only what ends in the window is counted.

    Raises ReplayerError if nothing ended in the window.
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
