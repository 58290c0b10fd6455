"""The record of what a sizing run tests a machine for; it is stored in the run's result."""

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
    """The verdict of each known limit of the target on the requirement."""
    free_bytes: int | None = None
    """Free bytes on the disk of the data folder; None where that could not be read."""
    memory_bytes: int | None = None
    """Memory of the tested machine in bytes; None for a server at a URL."""
    cores: float | None = None
    """Processors that a process may use on the tested machine; None for a server at a URL."""
    in_memory: bool = False
    """True if all data in use is to be read from the machine's memory, and none from the device."""
    compute: float = 0.0
    """The part of the required rate, in statements a second, that only burns CPU."""
    prediction: Prediction | None = None
    """The row of a shortlist for this machine; None if it was not sized with a shortlist."""
    confidence: Confidence | None = None
    """The profile's rating in stars; None in results of older versions of replayer."""
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
