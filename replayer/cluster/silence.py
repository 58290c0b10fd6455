"""A clock of the other end's silence, which counts only time in which this process ran."""

from __future__ import annotations

import time

LOOK_SECONDS = 0.25
"""The interval in which a process that waits for messages calls `SilenceClock.look`."""
_MOST_SECONDS = 2 * LOOK_SECONDS
"""The most that one interval counts."""


class SilenceClock:
    """The time since the last message, of which a look counts at most 0.5 s.

    More has passed since the look before only if this process did not run: it was halted, its
    virtual machine was paused, or the host was too busy. It could hear nothing in that time, and
    messages that came then are still in its socket: the other end cannot be blamed for it.
    """

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._running = self._heard = 0.0

    def heard(self) -> None:
        """Take note of a message."""
        self._heard = self._running

    def look(self) -> float:
        """Return the seconds of silence, as of now; only one thread may call this."""
        now = time.monotonic()
        self._running += min(now - self._looked, _MOST_SECONDS)
        self._looked = now
        return self.seconds

    @property
    def seconds(self) -> float:
        """Return the seconds of silence, as of the latest look."""
        return self._running - self._heard
