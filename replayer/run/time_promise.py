"""The promised time of a run: progress against it, and a new promise if it cannot be kept."""

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
    """The promised seconds of a run, from its begin on."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Promise some seconds; infinity stands for no promise, which is always kept."""
        self._clock = clock
        self._began = clock()
        self._seconds = seconds

    def begin(self) -> None:
        """Start the clock anew: planning may have taken a while."""
        self._began = self._clock()

    @property
    def elapsed(self) -> float:
        """Return the seconds since the begin."""
        return self._clock() - self._began

    @property
    def progress(self) -> str:
        """Return the elapsed and the promised time in words; "" without a promise."""
        if math.isinf(self._seconds):
            return ""
        return f"{show_duration(round(self.elapsed))} of {about(self._seconds)}"

    def spare(self, left: float) -> float:
        """Return the seconds that the run may lose and still keep the promise.

        The run needs `left` more seconds. A negative result means that the promise is broken.
        """
        return _KEPT * self._seconds - self.elapsed - left

    def postpone(self, seconds: float) -> None:
        """Extend the promise by seconds that the user allowed, such as those of `--wait`."""
        self._seconds += seconds

    def renewed(self, left: float, why: str) -> str:
        """Return a sentence with a new promise if `left` more seconds break it; "" if it is kept.

        `why` is the reason, in a few words.
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
    """Return a promised time in words."""
    return f"about {show_duration(max(1.0, float(round(seconds))))}"
