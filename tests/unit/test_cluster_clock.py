"""Clocks of other hosts: simulated ones, whose true offset and drift are known."""

import asyncio
import random

import pytest

from replayer.cluster.host_clock import HostClock, Offset, measured
from tests.known import known

HOUR_NS = 3600 * 10**9


class World:
    """A host's clock that is ahead and drifts, behind a network that takes its time."""

    def __init__(
        self,
        offset_ns: int,
        drift: float,
        seed: int,
        there: tuple[int, int] = (20_000, 3_000_000),
        back: tuple[int, int] = (20_000, 200_000),
    ) -> None:
        self.now_ns = 5 * 10**12
        self.offset_ns, self.drift = offset_ns, drift
        self.random = random.Random(seed)
        self.there, self.back = there, back

    def now(self) -> int:
        """Return this host's clock."""
        return self.now_ns

    def theirs(self, ns: int) -> int:
        """Return what the other clock truly shows when this one shows ns."""
        return ns + self.offset_ns + round(self.drift * (ns - 5 * 10**12))

    async def ping(self) -> int:
        """Take a way there, read the clock, take another way back."""
        self.now_ns += self.random.randint(*self.there)
        read = self.theirs(self.now_ns)
        self.now_ns += self.random.randint(*self.back)
        return read

    def measured(self) -> Offset:
        """Measure the offset."""
        return asyncio.run(measured(self.ping, now=self.now))


@pytest.mark.parametrize("offset_ns", [HOUR_NS, -HOUR_NS, 0, 17])
@pytest.mark.parametrize("drift", [0.0, 50e-6, -50e-6])
def test_offset_is_found_within_its_stated_bound(offset_ns: int, drift: float) -> None:
    """However unequal the two ways of a ping are, and however far the clocks are apart."""
    for seed in range(20):
        world = World(offset_ns, drift, seed)
        offset = world.measured()
        true = world.theirs(offset.at_ns) - offset.at_ns

        assert abs(offset.ns - true) <= offset.bound_ns, seed
        assert offset.bound_ns < 500_000, f"{seed}: the least round trip of 50 counts"


@pytest.mark.parametrize("drift", [50e-6, -50e-6, 0.0])
def test_drift_is_found_within_its_bound_and_undone(drift: float) -> None:
    """A clock that runs 50 ppm fast for a minute: instants in it are moved within the bound."""
    for seed in range(20):
        world = World(HOUR_NS, drift, seed)
        first = world.measured()
        world.now_ns += 60 * 10**9
        clock = HostClock(first, world.measured())

        assert abs(known(clock.drift) - drift) <= known(clock.drift_bound), seed
        for seconds in (0.1, 10, 30, 59):
            here = first.at_ns + round(seconds * 1e9)
            assert abs(clock.here(world.theirs(here)) - here) <= clock.bound_ns, seed
            assert abs(clock.there(here) - world.theirs(here)) <= clock.bound_ns, seed
            assert abs(clock.here(clock.there(here)) - here) <= 1, seed


def test_one_measurement_knows_no_drift() -> None:
    """Nothing is made up."""
    clock = HostClock(World(HOUR_NS, 50e-6, 1).measured())

    assert clock.drift is None
    assert clock.drift_bound is None


def test_the_bound_holds_where_one_way_takes_it_all() -> None:
    """The worst case of Cristian's method: the bound is half the round trip, and is used up."""
    world = World(HOUR_NS, 0.0, 1, there=(1_000_000, 1_000_000), back=(0, 0))
    offset = world.measured()

    assert offset.bound_ns == 500_000
    assert abs(offset.ns - HOUR_NS) == 500_000
