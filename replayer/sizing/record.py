"""The record of a sizing run's purpose: it travels in the run's result."""

from typing import Self

from pydantic import ValidationError

from replayer.analysis.profiles.confidence import Confidence
from replayer.errors import Impossible
from replayer.model import Noun, Run
from replayer.sizing.prediction import Prediction
from replayer.sizing.requirement import Requirement
from replayer.sizing.target import Judgement


class Sizing(Noun):
    """The requirement that a run tested a machine for, and the facts known before it began."""

    profile: str
    """The profile's file."""
    source: str
    """The place that was profiled."""
    requirement: Requirement
    objective: str
    rate: float
    """Statements a second that are required, growth and headroom included."""
    target: str = ""
    """The target's name in the file of known limits; "" without such a file."""
    judgements: tuple[Judgement, ...] = ()
    """The verdicts of these limits on the requirement."""
    free_bytes: int | None = None
    """Free bytes on the data's disk for all of the data; None where that could not be read."""
    memory_bytes: int | None = None
    """Memory of the machine; None where it is another one."""
    cores: float | None = None
    """Processors that a process may use here; None where it is another machine."""
    in_memory: bool = False
    """True if all data in use is read from this machine's memory, and none from the device."""
    compute: float = 0.0
    """Statements a second, of the required rate, that only burn CPU."""
    prediction: Prediction | None = None
    """A shortlist's row for this machine; None if it was not rented by one."""
    confidence: Confidence | None = None
    """The stars of the profile; None in results of older replayers."""
    by: str = ""
    """The user who sized the machine; "" where the system does not name it."""
    unproven: tuple[str, ...] = ()
    """Sentences on how the load differs from the source, and what that leaves unproven."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return the record of a run; raise Impossible for a run that sized nothing."""
        if run.sizing is None:
            raise Impossible(
                f"the run {run.id} ({run.workload.name}) is not one of `replayer size` and has no "
                f"verdict",
                "name another run, or make one with `replayer size FILE`",
            )
        try:
            return cls.model_validate(run.sizing)
        except ValidationError as error:
            raise Impossible(
                f"the requirement in the run {run.id} cannot be read: run `replayer size` again"
            ) from error
