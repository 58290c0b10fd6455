"""The prediction of a shortlist for one machine, and how it came out when the machine was sized."""

from replayer.model import Noun
from replayer.sizing.findings import show_multiple
from replayer.sizing.target import Fit, Limit


class Prediction(Noun):
    """A row of a shortlist, as it is stored in the result of a run of `replayer size`."""

    shortlist: str
    """The shortlist's file."""
    made: str
    """The day of the prediction, as 2026-11-23."""
    machine: str
    """The machine's name; if it has a named disk, followed by a slash and the disk's name."""
    fit: Fit
    known: str
    """`measured` if the speed of both machines' processors was measured, else `predicted`."""
    first: str
    """The resource that was predicted to limit first."""
    multiple: float | None
    """The predicted amount of that resource over the required one."""
    why: tuple[str, ...] = ()
    """Sentences on resources that were not predicted to fit."""
    price_month: float | None = None
    currency: str = ""
    limits: tuple[Limit, ...] = ()
    """Limits that are higher while credits last: a run of minutes does not see the credits end."""

    @property
    def words(self) -> str:
        """Return the prediction in one line."""
        room = "" if self.multiple is None else f", {show_multiple(self.multiple)}"
        first = f", {self.first} first{room}" if self.first else ""
        return f"{self.machine} was predicted on {self.made}: {self.fit.value}{first}"

    def outcome(self, measured: Fit) -> str:
        """Return how the prediction came out, given the `measured` verdict on the machine.

        The result is "held", "did not hold" or "undecided".
        """
        if Fit.UNCLEAR in {self.fit, measured}:
            return "undecided"
        return "held" if measured is self.fit else "did not hold"
