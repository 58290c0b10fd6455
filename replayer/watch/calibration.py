"""The control: a short CPU and memory measurement before and after every run.

No disk and no server takes part in it, so it should not move.  Where it does, the machine changed
meanwhile (heat, neighbours, frequency), and the run's numbers with it.
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

_SAMPLES = 10
_SAMPLE_SECONDS = 0.025
_CPU_BYTES = 1 << 18
_MEMORY_BYTES = 1 << 24
_FLOOR = 0.02
"""What moves by less than this share is never called moved: clocks and caches do that much."""
_WIDE = 4.0
"""Standard errors that a move must exceed: a machine's speed is no bell curve."""

Control = Mapping[str, Sequence[float]]


def measure(when: str) -> dict[str, tuple[float, ...]]:
    """Return samples of every control, named such as `cpu.before`; it takes half a second.

    They come from a fresh process, so that what replayer did meanwhile does not count.
    """
    with WorkerPool(work, [None], processes=1) as pool:
        pool.ready()
        pool.open()
        (found,) = pool.results()
    return {f"{name}.{when}": samples for name, samples in found.items()}


def work(_job: None, barrier: "Barrier", _report: object) -> dict[str, tuple[float, ...]]:
    """Measure every control in a worker process."""
    barrier.wait()
    return {"cpu": _samples(_hash), "memory": _copy_samples()}


def moved(control: Control) -> dict[str, float]:
    """Return control -> share by which it moved from before to after, if beyond its noise."""
    found = {}
    for name in NAMES:
        before, after = control.get(f"{name}.before", ()), control.get(f"{name}.after", ())
        share = _share(before, after)
        if share is None:
            continue
        noise = _WIDE * math.hypot(_error(before), _error(after))
        if abs(share) > max(_FLOOR, noise):
            found[name] = share
    return found


def medians(name: str, controls: Sequence[Control]) -> list[float]:
    """Return one value of a control for every run that has it: the median of all its samples."""
    found = []
    for control in controls:
        samples = [*control.get(f"{name}.before", ()), *control.get(f"{name}.after", ())]
        if samples:
            found.append(_median(samples))
    return found


def differs(base: Sequence[float], other: Sequence[float]) -> float | None:
    """Return by what share `other` is off `base` if no two of their runs overlap, else None.

    None as well for less than what clocks and caches do by themselves, and for no values.
    """
    share = _share(base, other)
    apart = bool(base and other) and (max(base) < min(other) or max(other) < min(base))
    return share if share is not None and apart and abs(share) > _FLOOR else None


def _share(before: Sequence[float], after: Sequence[float]) -> float | None:
    if not before or not after or not all(v > 0 for v in (*before, *after)):
        return None
    return _median(after) / _median(before) - 1


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the median as a share of it, from the median deviation."""
    centre = _median(values)
    spread = 1.4826 * _median([abs(value - centre) for value in values])
    return 1.2533 * spread / math.sqrt(len(values)) / centre


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
