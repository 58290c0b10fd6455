"""The clocks of other hosts: how far each is from this one's, and by how much that may be wrong.

Cristian's method (Distributed Computing 3, 1989): a host is asked for its time; when it read its
clock lies between asking and answer, so the middle of the two is wrong by half the round trip at
most, however unequal the two ways are.  Of many such pings the one with the least round trip says
most.  Two measurements, before and after, give the drift between them.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TIMES = 50
"""Pings of one measurement."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A host's CLOCK_MONOTONIC minus this one's, at an instant of this one's."""

    ns: int
    bound_ns: int
    """It is wrong by so much at most."""
    at_ns: int


@dataclass(frozen=True, slots=True)
class HostClock:
    """A host's clock as two measurements have it, or one."""

    first: Offset
    last: Offset | None = None

    @property
    def drift(self) -> float | None:
        """Return by how much it runs faster than this host's: 1e-6 is a ppm."""
        if self.last is None or self.last.at_ns <= self.first.at_ns:
            return None
        return (self.last.ns - self.first.ns) / (self.last.at_ns - self.first.at_ns)

    @property
    def drift_bound(self) -> float | None:
        """Return by how much the drift may be wrong."""
        if self.last is None or self.last.at_ns <= self.first.at_ns:
            return None
        errors = self.first.bound_ns + self.last.bound_ns
        return errors / (self.last.at_ns - self.first.at_ns)

    @property
    def bound_ns(self) -> int:
        """Return by how much an instant may be wrong that was moved from one clock to the other."""
        return max(self.first.bound_ns, self.last.bound_ns if self.last else 0)

    def there(self, ns: int) -> int:
        """Return what that clock shows when this one shows `ns`."""
        return ns + self._offset(ns)

    def here(self, ns: int) -> int:
        """Return what this clock shows when that one shows `ns`."""
        # The drift over one offset's error is nothing: the first guess is right to a nanosecond.
        near = ns - self._offset(ns - self.first.ns)
        return ns - self._offset(near)

    def _offset(self, here_ns: int) -> int:
        return self.first.ns + round((self.drift or 0.0) * (here_ns - self.first.at_ns))


async def measured(
    ping: Callable[[], Awaitable[int]],
    *,
    times: int = TIMES,
    now: Callable[[], int] = time.monotonic_ns,
) -> Offset:
    """Return the offset of a clock that `ping` reads: CLOCK_MONOTONIC nanoseconds over there."""
    return min([await _one(ping, now) for _ in range(times)], key=lambda offset: offset.bound_ns)


async def _one(ping: Callable[[], Awaitable[int]], now: Callable[[], int]) -> Offset:
    before = now()
    theirs = await ping()
    after = now()
    middle = (before + after) // 2
    return Offset(theirs - middle, (after - before + 1) // 2, middle)
