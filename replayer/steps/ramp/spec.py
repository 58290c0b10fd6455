"""The keys of a ramp."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from replayer import units
from replayer.load.spec import LoadSpec


def _rising(levels: tuple[int, ...]) -> tuple[int, ...]:
    if not levels or min(levels) < 1 or max(levels) > 4096:
        raise ValueError("it must be numbers of sessions from 1 to 4096")
    return tuple(sorted(set(levels)))


class Spec(LoadSpec):
    """The keys of a ramp."""

    levels: Annotated[tuple[int, ...], AfterValidator(_rising)] = (1, 2, 4, 8, 16, 32)
    """Numbers of sessions."""
    around_knee: bool = True
    """Whether levels between are added where throughput stops to grow."""
    repeats: int = Field(3, ge=3, le=1000)
    """How often each level is measured, in an order drawn by `seed`."""
    shortest: units.Duration = Field(5.0, ge=1)
    """Seconds of a level; as many again, twice as long, where they were not steady."""
    longest: units.Duration = Field(20.0, ge=1)
    """Seconds that no level exceeds, steady or not."""

    @model_validator(mode="after")
    def _ordered(self) -> "Spec":
        if self.longest < self.shortest:
            raise ValueError("longest must not be less than shortest")
        return self

    def lasts(self) -> float:
        """Return the seconds that the levels take if each is steady at once."""
        return len(self.levels) * self.repeats * self.shortest
