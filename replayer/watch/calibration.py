"""The control: a short CPU and memory measurement before and after every run.

No disk and no server takes part in it, so it should not move.  Where it does, the machine changed
meanwhile (heat, neighbours, frequency), and the run's numbers with it.

One process and the next differ by more than the samples within one (by which pages of memory they
get, and where their code lies), so what counts is a process: several before, several after, one
value of each.
"""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from replayer.watch.workers import WorkerPool

if TYPE_CHECKING:
    from replayer.watch.workers import Barrier

NAMES = ("cpu", "memory")
"""cpu: bytes per second through SHA-256 on one core; memory: bytes per second copied."""

PROCESSES = 6
FALSE = 2 / math.comb(2 * PROCESSES, PROCESSES)
"""How often all processes after lie above, or all below, those before, if nothing but chance orders
them: 0.2 percent, whatever the noise is like."""
FLOOR = 0.02
"""What moves by less than this share is never called moved: clocks and caches do that much."""
_COUNT = "processes"
"""The key of a control that says from how many processes its values are."""
_SAMPLES = 3
_SAMPLE_SECONDS = 0.01
_CPU_BYTES = 1 << 16
_MEMORY_BYTES = 1 << 24

Control = Mapping[str, Sequence[float]]


def measure(when: str) -> dict[str, tuple[float, ...]]:
    """Return one value a process of every control, named such as `cpu.before`.

    The processes are fresh, so that what replayer did meanwhile does not count, and come one after
    the other, so that none is in another's way.  It takes about a second.
    """
    rounds = [_one_process() for _ in range(PROCESSES)]
    measured = {f"{name}.{when}": tuple(one[name] for one in rounds) for name in NAMES}
    return {**measured, _COUNT: (float(PROCESSES),)}


def _one_process() -> dict[str, float]:
    with WorkerPool(work, [None], processes=1) as pool:
        pool.ready()
        pool.open()
        (values,) = pool.results()
    return {name: float(value) for name, value in values.items()}


def work(_job: None, barrier: "Barrier", _report: object) -> dict[str, float]:
    """Measure every control in a worker process."""
    barrier.wait()
    return {"cpu": _median(_samples(_hash)), "memory": _median(_copy_samples())}


def moved(control: Control) -> dict[str, float]:
    """Return control -> share by which it moved from before to after, if beyond its noise.

    It is if no process before overlaps one after.  A control of one process, as results had it
    once, cannot tell.
    """
    shares = {}
    for name in NAMES if control.get(_COUNT) else ():
        before, after = control.get(f"{name}.before", ()), control.get(f"{name}.after", ())
        share = _share(before, after)
        if share is not None and abs(share) > FLOOR and _apart(before, after):
            shares[name] = share
    return shares


def values(name: str, control: Control) -> list[float]:
    """Return all values above zero of a control around a run."""
    both = [*control.get(f"{name}.before", ()), *control.get(f"{name}.after", ())]
    return [value for value in both if value > 0]


def _apart(before: Sequence[float], after: Sequence[float]) -> bool:
    return max(before) < min(after) or max(after) < min(before)


def _share(before: Sequence[float], after: Sequence[float]) -> float | None:
    if not before or not after or not all(v > 0 for v in (*before, *after)):
        return None
    return _median(after) / _median(before) - 1


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _samples(work: Callable[[], int]) -> tuple[float, ...]:
    """Return bytes per second of each sample; a first one, which warms up, is not kept."""
    return tuple(_sample(work) for _ in range(_SAMPLES + 1))[1:]


def _sample(work: Callable[[], int]) -> float:
    begin = time.monotonic_ns()
    done = 0
    while (elapsed := time.monotonic_ns() - begin) < _SAMPLE_SECONDS * 1e9:
        done += work()
    return round(done / elapsed * 1e9)


def _hash() -> int:
    hashlib.sha256(_BLOCK).digest()
    return _CPU_BYTES


_BLOCK = bytes(_CPU_BYTES)


def _copy_samples() -> tuple[float, ...]:
    source, target = bytearray(_MEMORY_BYTES), bytearray(_MEMORY_BYTES)
    view = memoryview(target)

    def copy() -> int:
        view[:] = source
        return _MEMORY_BYTES

    try:
        return _samples(copy)
    finally:
        view.release()
