"""What a run was for that sized a machine: it travels in the run's result."""

from typing import Self

from pydantic import ValidationError

from replayer.errors import Impossible
from replayer.model import Noun, Run
from replayer.sizing.requirement import Requirement
from replayer.sizing.target import Judgement


class Sizing(Noun):
    """The requirement that a run held against a machine, and what was known before it began."""

    profile: str
    """Its file."""
    source: str
    """What the profile is of."""
    requirement: Requirement
    objective: str
    rate: float
    """Statements a second that are required, growth and headroom included."""
    target: str = ""
    """What the file of known limits calls the target, "" without one."""
    judgements: tuple[Judgement, ...] = ()
    """What these limits mean for the requirement."""
    free_bytes: int | None = None
    """What the data's disk had free for all of the data; None where nobody could look."""
    memory_bytes: int | None = None
    """Of the machine; None where it is another one."""
    cores: float | None = None
    """That a process may use here; None where it is another machine."""
    in_memory: bool = False
    """Whether what is in use is read from this machine's memory, and none of it from the device."""
    compute: float = 0.0
    """Statements a second, of the required rate, that do nothing but burn CPU."""
    unproven: tuple[str, ...] = ()
    """What the load does otherwise than the source, and what that leaves unproven."""

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return what a run was for; raise Impossible for one that sized nothing."""
        if run.sizing is None:
            raise Impossible(f"the run {run.id} is none of `replayer size`: it has no verdict")
        try:
            return cls.model_validate(run.sizing)
        except ValidationError as error:
            raise Impossible(
                f"the requirement in the run {run.id} cannot be read: run `replayer size` again"
            ) from error
