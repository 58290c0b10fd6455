"""The result of a comparison: both groups of runs, a row for each metric, other differences."""

from pydantic import Field

from replayer.analysis.attribution.explanation import Why
from replayer.analysis.differences.environment import Difference
from replayer.analysis.differences.metric_verdicts import MetricRow
from replayer.analysis.differences.samples import Unit
from replayer.model import Noun


class Group(Noun):
    """One side of a comparison: its runs and the number of their boots."""

    name: str
    runs: tuple[str, ...]
    boots: int
    """The number of different boot ids; 0 if they are not known."""


class Comparison(Noun):
    """The result of comparing two groups of runs: headline, verdicts on metrics, and warnings.

    It also has the differences of the environment, and explanations where the time went.
    """

    headline: str = ""
    """The answer in one sentence: which side is slower or faster, by how much, and a suspect."""
    base: Group
    other: Group
    by: str
    unit: Unit
    worth: str
    threshold: float
    family: int
    """The number of metrics that could be better or worse, and for which p values are corrected.
    Metrics that only repeat another metric do not count."""
    rows: tuple[MetricRow, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    turns: bool = False
    """True if the sides are known to have taken turns, so that a change of the machine over time
    cannot make them differ."""
    unjudged: dict[str, str] = Field(default_factory=dict, exclude_if=lambda steps: not steps)
    """Name of a step -> why none of its metrics is judged, such as `asked cold, got hot`."""
    once: tuple[str, ...] = Field(default=(), exclude=True)
    """Names of the steps that only prepare others, and are not repeated; not in the JSON."""
    why: tuple[Why, ...] = Field(default=(), exclude_if=lambda why: not why)
    """An explanation for each step of which a metric was shown to differ; () without accounts."""

    @property
    def decides(self) -> bool:
        """Return whether the verdicts hold for other boots, too, and not for these runs only.

        They do if the units are boots, and the boots of both sides took turns.
        """
        return self.unit is Unit.BOOT and self.turns
