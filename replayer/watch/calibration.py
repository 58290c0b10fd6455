"""The control: a short CPU and memory measurement before and after every run.

It uses neither disk nor server, so its values should not change. If they do, the machine changed
meanwhile (heat, neighbours, frequency), and the run's numbers changed with it.

Two processes differ by more than the samples within one process: they get other pages of memory,
and their code lies at other addresses. So each process gives only one value, and several processes
are started before a run and after it. Another program that runs for half a second during the
control does not show what happens in a run of minutes. So values that were measured while other
programs used the processors are measured again.
"""

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from replayer import shell
from replayer.machine import processors
from replayer.machine.host import Host
from replayer.watch import calibration_process

NAMES = ("cpu", "memory")
"""cpu: bytes per second through SHA-256 on one core; memory: bytes per second copied."""

PROCESSES = 6
FALSE = 2 / math.comb(2 * PROCESSES, PROCESSES)
"""The probability of a false alarm: 0.2 percent, whatever the distribution of the noise.

It is the probability that, by chance alone, all processes after the run lie above, or all below,
those before it.
"""
FLOOR = 0.05
"""A change of a control by less than this share is never reported.

On an idle virtual machine the medians of six processes before and six processes minutes later
differed by 3 percent without any cause.
"""
_COUNT = "processes"
"""The key under which a control contains the number of its processes."""
_TRIES = 4
_PAUSE_SECONDS = 0.5
_CONFIRMATIONS = 2
_CONFIRMED_AFTER = 1.0
_DISTURBED = 0.05
"""Share of all processors' time; if other programs used more of it, the control is repeated."""
_STATES = ("usr", "nice", "sys", "steal", "guest", "gnice")
_TICK = os.sysconf("SC_CLK_TCK")
_MOST_SECONDS = 60.0
"""Seconds after which a process is ended; normally it takes a tenth of a second."""

Control = Mapping[str, Sequence[float]]


def measure(when: str, before: Control | None = None) -> dict[str, tuple[float, ...]]:
    """Return keys such as `cpu.before` -> one value per process, in bytes per second.

    The key `processes` has the number of processes. `when` is "before" or "after" the run. After
    the run, `before` has the values from before it. If the new values differ from those, they are
    measured again a second later, at most twice: a change that is gone by then did not disturb the
    run.

    The processes are fresh, so that replayer's own state has no influence, and run one after the
    other, so that they do not compete. This takes about half a second. While other programs use the
    processors it waits until they stop, and then measures again: about four seconds, and about
    thirteen after a run whose values differ. If they do not stop, the least disturbed values are
    returned.
    """
    measured = _calm(when)
    for _ in range(_CONFIRMATIONS):
        if not moved({**(before or {}), **measured}):
            break
        time.sleep(_CONFIRMED_AFTER)
        measured = _calm(when)
    return measured


def _calm(when: str) -> dict[str, tuple[float, ...]]:
    rounds: list[dict[str, float]] = []
    least = math.inf
    for attempt in range(_TRIES):
        if attempt and not _paused():
            continue
        again, others = _round()
        if others < least:
            rounds, least = again, others
        if least <= _DISTURBED:
            break
    measured = {f"{name}.{when}": tuple(one[name] for one in rounds) for name in NAMES}
    return {**measured, _COUNT: (float(PROCESSES),)}


def _paused() -> bool:
    """Wait 0.5 s; return whether other programs used at most 5 % of all processors meanwhile."""
    begin, used = time.monotonic(), _used()
    time.sleep(_PAUSE_SECONDS)
    return _share_of(begin, _used() - used) <= _DISTURBED


def _share_of(begin: float, seconds: float) -> float:
    """Return CPU `seconds` as a share of all processors' time since the instant `begin`."""
    return max(0.0, seconds) / ((time.monotonic() - begin) * (os.cpu_count() or 1))


def _round() -> tuple[list[dict[str, float]], float]:
    """Run all processes of a measurement once, one after the other, and return their values.

    The first result has a dict for each process: name of control (see NAMES) -> bytes per second.
    The second is the share of all processors' time that other programs used meanwhile.
    """
    begin, used, own = time.monotonic(), _used(), os.times()
    rounds = [_one_process() for _ in range(PROCESSES)]
    now = os.times()
    # That is the CPU time of this process, and of its children that have ended.
    mine = sum(now[:4]) - sum(own[:4])
    return rounds, _share_of(begin, _used() - used - mine)


def _used() -> float:
    """Return the CPU seconds of all processors since boot that were used or stolen.

    Stolen time is time in which another virtual machine had the processor.
    """
    spent = processors.ticks(Host().read(processors.FILE).encode()).get("cpu", {})
    return sum(spent.get(state, 0) for state in _STATES) / _TICK


def _one_process() -> dict[str, float]:
    # Isolated and without site packages it starts in a few milliseconds.
    program = Path(calibration_process.__file__)
    text = shell.run([sys.executable, "-I", "-S", program], timeout=_MOST_SECONDS)
    return {name: float(value) for name, value in json.loads(text).items()}


def moved(control: Control) -> dict[str, float]:
    """Return name of control -> share by which its median changed; mere noise is left out.

    `control` has keys such as `cpu.before` and `cpu.after` -> one value per process. A change is
    included if it is larger than FLOOR, and if all values before the run lie below all values after
    it, or above them. The result is {} for old results, whose control has one process only.
    """
    return {
        name: share
        for name, share in shares(control).items()
        if abs(share) > FLOOR and _apart(control[f"{name}.before"], control[f"{name}.after"])
    }


def shares(control: Control) -> dict[str, float]:
    """Return name of control -> share by which its median changed, including mere noise.

    `control` has keys such as `cpu.before` and `cpu.after` -> one value per process. The result is
    {} for an old result, whose control has one process only. A name that was not measured both
    before and after the run is left out.
    """
    known = {}
    for name in NAMES if control.get(_COUNT) else ():
        share = _share(control.get(f"{name}.before", ()), control.get(f"{name}.after", ()))
        if share is not None:
            known[name] = share
    return known


def values(name: str, control: Control) -> list[float]:
    """Return all values of one control, in bytes per second: those before a run, then those after.

    `name` is one of NAMES. Values of 0 are left out.
    """
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
