"""The keys of the step `ramp` in a workload file."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from replayer import units
from replayer.load.spec import LoadSpec


def _rising(levels: tuple[int, ...]) -> tuple[int, ...]:
    if not levels or min(levels) < 1 or max(levels) > 4096:
        raise ValueError("it must be numbers of sessions from 1 to 4096")
    return tuple(sorted(set(levels)))


class Spec(LoadSpec):
    """The keys of the step `ramp`, which measures throughput by the number of sessions."""

    levels: Annotated[tuple[int, ...], AfterValidator(_rising)] = (1, 2, 4, 8, 16, 32)
    """Numbers of sessions to measure; each is a level."""
    around_knee: bool = True
    """Measure further numbers of sessions around the one at which throughput stops growing."""
    repeats: int = Field(3, ge=3, le=1000)
    """Repeats of each level, in an order drawn by `seed`."""
    shortest: units.Duration = Field(5.0, ge=1)
    """Seconds of one measurement; it is repeated, twice as long, if the rate was not steady."""
    longest: units.Duration = Field(20.0, ge=1)
    """Longest seconds of one measurement, even if the rate is not steady then."""

    @model_validator(mode="after")
    def _ordered(self) -> "Spec":
        if self.longest < self.shortest:
            raise ValueError("longest must not be less than shortest")
        return self

    def lasts(self) -> float:
        """Return the seconds of all measurements if each one is as short as the key `shortest`."""
        return len(self.levels) * self.repeats * self.shortest
