"""Wait until other programs use only a small share of the machine's processors."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from replayer.watch import interference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replayer.machine.host import Host

BUSY = 0.05
"""Share of the time of all processors above which other programs make a machine busy."""
_WATCHED_SECONDS = 1.0


def _nobody() -> Sequence[int]:
    return []


def others(
    host: Host,
    seconds: float = _WATCHED_SECONDS,
    server: Callable[[], Sequence[int] | None] = _nobody,
) -> float:
    """Watch for `seconds`; return the share of all processors that other programs used.

    `server` returns the process ids of a database's server that is not one of the other programs.
    It returns [] if no server runs, and None if its processes are not known.  The result is 0.0 if
    the share is not known.
    """
    before = interference.point(host, server())
    threading.Event().wait(seconds)
    used = interference.between(before, interference.point(host, server()), None)
    return used.cpu_share or 0.0


def wait_until_quiet(
    host: Host,
    patience: float,
    server: Callable[[], Sequence[int] | None] = _nobody,
    watched: Callable[[float, float], None] = lambda _waited, _share: None,
) -> tuple[float, bool]:
    """Wait until other programs use at most the share BUSY of all processors.

    The wait ends after about `patience` seconds even if they still use more.  Returns the seconds
    waited, and whether the machine is quiet.  The machine is watched once even if `patience` is 0.
    Each time that it was watched, `watched` is called with the seconds waited so far and the share
    of the processors that other programs used.
    """
    began = time.monotonic()
    while True:
        share = others(host, server=server)
        waited = time.monotonic() - began
        watched(waited, share)
        if share <= BUSY or waited >= patience:
            return waited, share <= BUSY
