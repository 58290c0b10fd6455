"""Findings on a machine: a row for each resource, the result of the load, and remedies."""

import math
from typing import Literal, NamedTuple

from replayer.model import Noun, Run, StepResult
from replayer.sizing.target import Fit
from replayer.units import show, show_percent, show_times, three


def show_multiple(multiple: float, low: float | None = None, high: float | None = None) -> str:
    """Return a multiple of the requirement as text: `1.2 times what is required`, `80% of ...`.

    `low` and `high` are the ends of the multiple's 95 percent interval, which is shown if `low` is
    given.  A `high` of None or infinity is not known.
    """
    form = show_percent if multiple < 1 else show_times
    times = "" if multiple < 1 else " times"
    words = f"{form(multiple)}{times} {'of ' if multiple < 1 else ''}what is required"
    if low is None:
        return words
    known = high is not None and math.isfinite(high)
    end = f"{form(low)} to {form(high or 0.0)}"
    end = end if known else f"from {form(low)} on, no end was found"
    return f"{words}, 95 % interval {end}"


_GROWING = frozenset({"cpu", "server_cpu", "read_iops", "write_iops", "read_mbps", "write_mbps"})
"""Needs that grow with the load."""


class ResourceRow(Noun):
    """One resource: how much is required, how much there is, and the verdict on it."""

    resource: str
    unit: str
    required: float | None
    here: float | None
    """The amount that the machine has; None where it is not known."""
    multiple: float | None
    """The amount that the machine has, divided by the required amount; None where not known."""
    low: float | None
    """The lower end of the multiple's 95 percent interval; None where there is no interval."""
    high: float | None
    fit: Fit
    proof: str
    """The evidence, in a few words."""
    kind: Literal["load", "probe", "arithmetic", "target", "none"]
    """The kind of evidence."""
    decides: bool
    """True if the overall verdict takes it into account."""
    busy: float | None = None
    """The share of the resource that was in use at the highest multiple that held; None where it
    is not reported."""
    need: str = ""
    """The name of the need that the row is about; "" for a resource that only the load needed."""

    @property
    def grows(self) -> bool:
        """Return whether the required amount is surely in proportion to the load."""
        return self.need in _GROWING

    @property
    def known(self) -> str:
        """Return how the verdict is known: `measured`, `predicted`, or "" for no evidence."""
        return {"load": "measured", "none": ""}.get(self.kind, "predicted")

    @property
    def words(self) -> str:
        """Return the row as a sentence with its numbers."""
        amounts = f"{required(self)} required"
        if self.here is not None:
            amounts = f"{amounts}, {here(self)} here"
        times = "" if self.multiple is None else f"{show_multiple(self.multiple)}, "
        return f"{times}{self.resource}: {amounts} ({self.proof})"


class Remedy(Noun):
    """A change of the machine or of the requirement, and what it would do to the verdict."""

    words: str
    predicted: bool
    """True if the effect is a prediction; False if it was measured or follows by arithmetic."""


class Loaded(NamedTuple):
    """The result of the search for the highest multiple of the requirement that can be held."""

    fit: Fit
    words: str
    multiple: float | None
    low: float | None
    high: float | None
    first: str
    proof: str
    held: str
    not_offered: str
    given_up: str = ""
    """The programs that disturbed the search so that it ended early; "" if it did not."""


def required(row: ResourceRow) -> str:
    """Return the required amount of a resource, with its unit."""
    return "-" if row.required is None else _amount(row.required, row.unit)


def here(row: ResourceRow) -> str:
    """Return the amount that the machine has of a resource, with its unit, or "not known"."""
    return "not known" if row.here is None else _amount(row.here, row.unit)


def _amount(value: float, unit: str) -> str:
    if unit != "of the time":
        return show(value, unit)
    # One log is used by one session at a time, and has no more than all of the time.
    return f"{value:.0%} of the time" if value <= 1 else f"the time of {three(value)} of it"


def last(run: Run, step: str) -> StepResult | None:
    """Return the last result in a run of steps of the kind `step`, such as `probe`; None if none.

    A step that was cut short counts, too.
    """
    return next((one for one in reversed(run.steps) if one.step == step), None)
