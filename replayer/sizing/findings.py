"""What is known once a machine was measured: of each resource, of the load, of what would help."""

from typing import Literal, NamedTuple

from replayer.model import Noun, Run, StepResult
from replayer.sizing.target import Fit
from replayer.units import show, three


class ResourceRow(Noun):
    """One resource: how much is required, how much there is, and what that means."""

    resource: str
    unit: str
    required: float | None
    here: float | None
    """How much there is; None where that is not known."""
    multiple: float | None
    """How many times the requirement there is."""
    low: float | None
    """The lower end of its 95 percent interval; None where it is no measurement with one."""
    high: float | None
    fit: Fit
    proof: str
    """What it is known by, in a few words."""
    kind: Literal["load", "probe", "arithmetic", "target", "none"]
    """Where it is from."""
    decides: bool
    """Whether the verdict in total takes part of it."""
    busy: float | None = None
    """The share of it that was in use at the highest multiple that held; None where not told."""
    need: str = ""
    """The name of the need that it is about, "" for what only the load needed."""

    @property
    def known(self) -> str:
        """Return how it is known: `measured`, `predicted` or "" where it is not."""
        return {"load": "measured", "none": ""}.get(self.kind, "predicted")

    @property
    def words(self) -> str:
        """Return it as a sentence with its numbers."""
        amounts = f"{required(self)} required"
        if self.here is not None:
            amounts = f"{amounts}, {here(self)} here"
        times = "" if self.multiple is None else f"{three(self.multiple)} times what is required, "
        return f"{times}{self.resource}: {amounts} ({self.proof})"


class Remedy(Noun):
    """Something that would change the answer."""

    words: str
    predicted: bool
    """False where it was measured, or is arithmetic."""


class Loaded(NamedTuple):
    """What the search for the highest multiple came to."""

    fit: Fit
    words: str
    multiple: float | None
    low: float | None
    high: float | None
    first: str
    proof: str
    held: str
    not_offered: str


def required(row: ResourceRow) -> str:
    """Return what is required of a resource, with its unit."""
    return "-" if row.required is None else _amount(row.required, row.unit)


def here(row: ResourceRow) -> str:
    """Return how much of a resource there is, with its unit."""
    return "not known" if row.here is None else _amount(row.here, row.unit)


def _amount(value: float, unit: str) -> str:
    return f"{value:.0%} of the time" if unit == "of the time" else show(value, unit)


def last(run: Run, step: str) -> StepResult | None:
    """Return the last result of a step; one that was cut short has what it had by then."""
    return next((one for one in reversed(run.steps) if one.step == step), None)
