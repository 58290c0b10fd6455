"""A clock of a peer's silence, which leaves out time in which this process did not run."""

from __future__ import annotations

import time

LOOK_SECONDS = 0.25
"""A process that waits for messages calls `SilenceClock.look` once in this many seconds."""
_MOST_SECONDS = 2 * LOOK_SECONDS
"""The most seconds that are counted between two calls of `SilenceClock.look`."""


class SilenceClock:
    """The time since a peer's last message, without time in which this process did not run.

    `look` must be called every 0.25 s, and counts at most 0.5 s for each call. If more time has
    passed since the call before, this process did not run: it was halted, its virtual machine was
    paused, or the host was too busy. Messages that came in that time may still be in the socket,
    so that time is no silence of the peer.
    """

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._running = self._heard = 0.0

    def heard(self) -> None:
        """Record that a message came; the silence begins anew."""
        self._heard = self._running

    def look(self) -> float:
        """Count the time since the last call; return the seconds of silence until now.

        Only one thread may call this.
        """
        now = time.monotonic()
        self._running += min(now - self._looked, _MOST_SECONDS)
        self._looked = now
        return self.seconds

    @property
    def seconds(self) -> float:
        """Return the seconds from the last message to the latest call of `look`."""
        return self._running - self._heard
