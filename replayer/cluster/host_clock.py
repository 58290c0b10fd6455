"""The clocks of other hosts: the offset of each from this host's clock, and its error bound.

Cristian's method (Distributed Computing 3, 1989): ask a host for its time. The host read its clock
at some instant between the request and the answer. The midpoint of request and answer differs from
this instant by at most half the round trip, even if the two directions take unequal times. Of many
such pings, the one with the shortest round trip has the smallest error. Two measurements, before
and after a run, give the drift of the host's clock.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

TIMES = 50
"""The number of pings in one measurement."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Another host's CLOCK_MONOTONIC minus this host's, at one instant.

    `ns` is the difference in nanoseconds, and `at_ns` this host's clock when it was measured.
    """

    ns: int
    bound_ns: int
    """The greatest possible error of `ns`, in nanoseconds."""
    at_ns: int


@dataclass(frozen=True, slots=True)
class HostClock:
    """Another host's clock, as known from one or two measurements of its offset."""

    first: Offset
    last: Offset | None = None

    @property
    def drift(self) -> float | None:
        """Return the rate at which the other host's clock gains on this host's; 1e-6 is 1 ppm.

        None after only one measurement.
        """
        if self.last is None or self.last.at_ns <= self.first.at_ns:
            return None
        return (self.last.ns - self.first.ns) / (self.last.at_ns - self.first.at_ns)

    @property
    def drift_bound(self) -> float | None:
        """Return the greatest possible error of `drift`; None after only one measurement."""
        if self.last is None or self.last.at_ns <= self.first.at_ns:
            return None
        errors = self.first.bound_ns + self.last.bound_ns
        return errors / (self.last.at_ns - self.first.at_ns)

    @property
    def bound_ns(self) -> int:
        """Return the greatest error, in ns, of an instant converted between the two clocks."""
        return max(self.first.bound_ns, self.last.bound_ns if self.last else 0)

    def there(self, ns: int) -> int:
        """Return the other host's clock, in ns, when this host's clock shows `ns`."""
        return ns + self._offset(ns)

    def here(self, ns: int) -> int:
        """Return this host's clock, in ns, when the other host's clock shows `ns`."""
        # Over the error of this estimate the clocks drift by less than a nanosecond.
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
    """Return the offset of another host's clock, from the fastest of `times` pings.

    `ping` asks that host for its CLOCK_MONOTONIC and returns it in nanoseconds. `now` returns this
    host's.
    """
    return min([await _one(ping, now) for _ in range(times)], key=lambda offset: offset.bound_ns)


async def _one(ping: Callable[[], Awaitable[int]], now: Callable[[], int]) -> Offset:
    before = now()
    theirs = await ping()
    after = now()
    middle = (before + after) // 2
    return Offset(theirs - middle, (after - before + 1) // 2, middle)
