"""The control: a short CPU and memory measurement before and after every run.

No disk and no server takes part in it, so it should not move.  Where it does, the machine changed
meanwhile (heat, neighbours, frequency), and the run's numbers with it.

One process and the next differ by more than the samples within one (by which pages of memory they
get, and where their code lies), so what counts is a process: several before, several after, one
value of each.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from replayer import shell
from replayer.watch import calibration_process

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
_MOST_SECONDS = 60.0
"""A process takes a tenth of a second; one of a machine at its end may take long."""

Control = Mapping[str, Sequence[float]]


def measure(when: str) -> dict[str, tuple[float, ...]]:
    """Return one value a process of every control, named such as `cpu.before`.

    The processes are fresh, so that what replayer did meanwhile does not count, and come one after
    the other, so that none is in another's way.  It takes about half a second.
    """
    rounds = [_one_process() for _ in range(PROCESSES)]
    measured = {f"{name}.{when}": tuple(one[name] for one in rounds) for name in NAMES}
    return {**measured, _COUNT: (float(PROCESSES),)}


def _one_process() -> dict[str, float]:
    # Isolated and without site packages it starts in a few milliseconds.
    program = Path(calibration_process.__file__)
    text = shell.run([sys.executable, "-I", "-S", program], timeout=_MOST_SECONDS)
    return {name: float(value) for name, value in json.loads(text).items()}


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
