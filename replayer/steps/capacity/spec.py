"""The keys of the step `capacity` in a workload file."""

from pydantic import Field, model_validator

from replayer import units
from replayer.analysis.capacity.capacity_search import USUAL_TRIALS
from replayer.load.arrivals import Arrivals
from replayer.load.objective import Objective
from replayer.load.spec import LoadSpec

_BETWEEN = 1.0
"""Seconds from the end of a trial to the begin of the next: sessions end and connect."""
_LEAST_TRIALS = 2
"""A result needs at least so many trials."""


class Spec(LoadSpec):
    """The keys of the step `capacity`, which searches for the highest rate that is sustained."""

    rate: float = Field(gt=0, le=10_000_000)
    """Required statements a second: the multiple 1."""
    arrivals: Arrivals = "poisson"
    """When statements arrive: at random (`poisson`), or evenly."""
    sessions: int = Field(32, ge=1, le=4096)
    """Sessions that send the statements."""
    slo: Objective = "p99=20ms"
    """Limits of response times that a sustained rate keeps, as `p50=5ms p99=20ms`; the times count
    from the intended start of a statement."""
    trial: units.Duration = Field(20.0, ge=1)
    """Seconds of one trial, an attempt to sustain one rate."""
    resolution: float = Field(0.05, ge=0.005, le=1)
    """Smallest difference between two rates that are tried, as a share of the smaller one."""
    least: float = Field(1 / 16, gt=0, le=1)
    """The smallest multiple of the required rate that is tried."""
    most: float = Field(16.0, ge=1)
    """The largest multiple of the required rate that is tried."""
    trials: int = Field(30, ge=2, le=1000)
    """The largest number of trials."""
    decide: bool = False
    """Aim at a verdict, not at the multiple: try no lower rates once it is clear that the required
    rate does not hold, and end the search when it has taken a quarter longer than announced."""
    wait: units.Duration = Field(0.0, ge=0)
    """Seconds for which a search that other programs disturb waits until they are done, and then
    runs its trials again; by default as long as the announced time is kept within 1.5 times."""
    hold: units.Duration = Field(600.0, ge=0)
    """Seconds for which the required rate is held at the end, to find limits that show late only,
    such as the credits of a cloud's disk; 0 skips this."""

    @model_validator(mode="after")
    def _holdable(self) -> "Spec":
        if 0 < self.hold < 1:
            raise ValueError("hold must be 0 or at least 1s")
        return self

    def lasts(self) -> float:
        """Return the expected seconds of a short search plus those of the long run that follows."""
        return self.search_lasts() + self.hold

    def search_lasts(self, done: int = 0) -> float:
        """Return the seconds that a short search still takes after `done` trials; never 0."""
        return max(_LEAST_TRIALS, USUAL_TRIALS - done) * (self.trial + _BETWEEN)
