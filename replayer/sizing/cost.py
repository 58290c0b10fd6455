"""CPU time that profiling a server costs: in this process, and in the server for its session."""

from __future__ import annotations

import time
from typing import NamedTuple

from replayer.machine import processes


class CpuCost(NamedTuple):
    """CPU seconds that profiling used within `seconds` of elapsed time."""

    seconds: float
    own: float
    """Seconds of the profiler's own process."""
    session: float | None
    """Seconds of the server's process that serves the session; None where it cannot be seen."""

    @property
    def cores(self) -> float:
        """Return the mean number of processors that profiling used.

        The server's part is left out where it cannot be seen.
        """
        return (self.own + (self.session or 0.0)) / self.seconds if self.seconds > 0 else 0.0

    def since(self, before: CpuCost) -> CpuCost:
        """Return the cost since `before`, an earlier cost of the same meter."""
        session = self.session
        return CpuCost(
            self.seconds - before.seconds,
            self.own - before.own,
            None if session is None or before.session is None else session - before.session,
        )


class Meter:
    """A meter of the CPU time that profiling costs, in this process and in the server."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._own = time.process_time()
        self._process = 0
        self._first = 0.0
        self._now = 0.0
        self._before = 0.0

    def serves(self, process: int) -> None:
        """Measure the server's `process` for a new session from now on; 0 if it cannot be seen.

        The CPU time of earlier sessions' processes stays in the sum.
        """
        self._before += self._now - self._first
        self._process = process
        self._first = self._now = self._used()

    def cost(self) -> CpuCost:
        """Return the CPU cost of profiling since this meter was made."""
        self._now = max(self._now, self._used())
        session = self._before + self._now - self._first if self._process else None
        return CpuCost(time.monotonic() - self._began, time.process_time() - self._own, session)

    def _used(self) -> float:
        return sum(processes.cpu_seconds([self._process])) if self._process else 0.0
