"""Neighbours of an experiment: waiting until the machine is quiet, and runs that they spoilt."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from replayer.analysis.advice import warnings
from replayer.watch import interference

if TYPE_CHECKING:
    from replayer.machine.host import Host
    from replayer.model import Run

BUSY = 0.05
"""Share of the time of all processors above which other programs make a machine busy."""
_WATCHED_SECONDS = 1.0


def spoilt(run: Run) -> str:
    """Return how other programs disturbed a run, "" if they did not.

    It is judged by what they did, never by what the run measured, so that leaving it out is fair.
    """
    found = (warnings.foreign_processes(run), warnings.foreign_writes(run))
    return "; ".join(advice.found for advice in found if advice is not None)


def others(host: Host, seconds: float = _WATCHED_SECONDS) -> float:
    """Return the share of all processors that other programs use now; it takes `seconds`."""
    before = interference.point(host, [])
    threading.Event().wait(seconds)
    used = interference.between(before, interference.point(host, []), None)
    return used.cpu_share or 0.0


def wait_until_quiet(host: Host, patience: float) -> tuple[float, bool]:
    """Wait until other programs use little, for at most `patience` seconds.

    Returns the seconds waited, and whether the machine is quiet.  It is watched once even if
    `patience` is short.
    """
    began = time.monotonic()
    while True:
        quiet = others(host) <= BUSY
        waited = time.monotonic() - began
        if quiet or waited >= patience:
            return waited, quiet
