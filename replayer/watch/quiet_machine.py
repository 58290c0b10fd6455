"""Wait until other programs leave the machine alone."""

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
    """Return the share of all processors that other programs use now; it takes `seconds`.

    `server` returns the processes of a database that do not count as others, as
    `interference.pids_of` does.
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
    """Wait until other programs use little, for at most `patience` seconds.

    Returns the seconds waited, and whether the machine is quiet.  It is watched once even if
    `patience` is short.  `watched` gets the seconds waited and the others' share after each look.
    """
    began = time.monotonic()
    while True:
        share = others(host, server=server)
        waited = time.monotonic() - began
        watched(waited, share)
        if share <= BUSY or waited >= patience:
            return waited, share <= BUSY
