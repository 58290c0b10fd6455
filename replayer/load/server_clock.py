"""Steps of the server's clock: it was set while something was measured by it."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from replayer.engines.connection import Database
from replayer.servers import protocol
from replayer.units import three

_STEP_SHARE = 0.01
"""Share of the window by which the server's clock may differ from replayer's: clocks are slewed."""


class ClockReading(NamedTuple):
    """The server's clock, and replayer's clock just before and just after the server's was read."""

    server: float
    """Seconds since 1970, by the server's clock; the other two are ns of the monotonic clock."""
    begin_ns: int
    end_ns: int

    @classmethod
    def of(cls, database: Database) -> "ClockReading":
        """Read the server's clock, and replayer's clock before and after that."""
        begin_ns = time.monotonic_ns()
        clock = database.row(protocol.COUNTERS).real("clock")
        return cls(clock, begin_ns, time.monotonic_ns())


def step_between(first: ClockReading, last: ClockReading) -> float:
    """Return the seconds by which the server's clock was set forward between two readings.

    The result is below 0 if it was set back.  A reading takes time, and a difference that this may
    explain does not count.  Nor does a step of at most a hundredth of the time between the
    readings: then return 0.
    """
    moved = last.server - first.server
    least, most = (last.begin_ns - first.end_ns) / 1e9, (last.end_ns - first.begin_ns) / 1e9
    step = moved - min(max(moved, least), most)
    return step if abs(step) > _STEP_SHARE * most else 0.0


def notes(steps: Iterable[float]) -> list[str]:
    """Return a note, in a list, on the largest of several steps; [] if the clock was not set.

    The steps are in seconds, below 0 if the clock was set back.
    """
    step = max(steps, key=abs, default=0.0)
    if not step:
        return []
    way = "forward" if step > 0 else "back"
    words = f"the server's clock was set {way} by {three(abs(step))} s meanwhile"
    return [f"{words}: the rates are by replayer's clock"]
