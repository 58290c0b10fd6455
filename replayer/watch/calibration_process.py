"""One process of the calibration: `python -I -S` runs this file, which imports almost nothing.

It prints as JSON, for the processor and for memory, the median of a few samples. A run starts
twelve such processes or more, so each has to start quickly.
"""

import sys
import time

try:
    # `hashlib` asks OpenSSL for all its algorithms, which takes longer than the measurement.
    from _hashlib import openssl_sha256 as sha256
except ImportError:
    from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLES = 3
_SAMPLE_SECONDS = 0.003
_CPU_BYTES = 1 << 16
_MEMORY_BYTES = 1 << 24


def main() -> None:
    """Print, as JSON, bytes per second through SHA-256 on one core, and bytes per second copied."""
    block = bytes(_CPU_BYTES)
    source, target = bytearray(_MEMORY_BYTES), bytearray(_MEMORY_BYTES)

    def copy() -> None:
        target[:] = source

    cpu = _median(lambda: sha256(block).digest(), _CPU_BYTES)
    memory = _median(copy, _MEMORY_BYTES)
    sys.stdout.write(f'{{"cpu": {cpu}, "memory": {memory}}}')


def _median(work: "Callable[[], object]", moved: int) -> float:
    """Return the median of a few samples, in bytes per second; one sample before them warms up.

    One call of `work` processes `moved` bytes.
    """
    samples = [_sample(work, moved) for _ in range(_SAMPLES + 1)][1:]
    return sorted(samples)[_SAMPLES // 2]


def _sample(work: "Callable[[], object]", moved: int) -> float:
    begin = time.monotonic_ns()
    done = 0
    while (elapsed := time.monotonic_ns() - begin) < _SAMPLE_SECONDS * 1e9:
        work()
        done += moved
    return round(done / elapsed * 1e9)


if __name__ == "__main__":
    main()
