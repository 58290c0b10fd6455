"""The promised time of a run: progress against it, and a new promise if it cannot be kept.

The promise is the expected duration, which is printed before the run starts.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from replayer.units import show_duration

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT = 1.5
"""A promise counts as kept if the run takes at most this multiple of the promised seconds."""


class TimePromise:
    """The promised duration of a run in seconds, and a clock that starts when the run begins."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Promise that the run takes `seconds`; infinity means no promise, which is always kept.

        `clock` returns the present time in seconds.
        """
        self._clock = clock
        self._began = clock()
        self._seconds = seconds

    def begin(self) -> None:
        """Start the clock again when the run begins, as planning it may have taken a while."""
        self._began = self._clock()

    @property
    def elapsed(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._began

    @property
    def progress(self) -> str:
        """Return the elapsed and the promised time in words; "" without a promise."""
        if math.isinf(self._seconds):
            return ""
        return f"{show_duration(round(self.elapsed))} of {about(self._seconds)}"

    def spare(self, left: float) -> float:
        """Return the seconds that the run may lose and still keep its promised time.

        `left` is the number of seconds that the run still needs. A negative result means that the
        promise is broken.
        """
        return _KEPT * self._seconds - self.elapsed - left

    def postpone(self, seconds: float) -> None:
        """Extend the promise by seconds that the user allowed, such as those of `--wait`."""
        self._seconds += seconds

    def renewed(self, left: float, why: str) -> str:
        """Return a sentence with a new promised time, or "" if the old promise can be kept.

        `left` is the number of seconds that the run still needs. `why` is the reason for the delay,
        in a few words.
        """
        if self.spare(left) >= 0:
            return ""
        before, self._seconds = self._seconds, self.elapsed + left
        return (
            f"this takes longer than the {about(before)} that were promised: {why}; now "
            f"{about(left)} more, {about(self._seconds)} in all"
        )


NO_PROMISE = TimePromise(math.inf)


def about(seconds: float) -> str:
    """Return a time in words, such as `about 3 min 20 s`; it is rounded, and is at least 1 s."""
    return f"about {show_duration(max(1.0, float(round(seconds))))}"
