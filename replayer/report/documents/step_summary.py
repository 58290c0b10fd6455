"""The data classes of a summary of runs: a line for each step, its proofs, and remarks."""

from dataclasses import dataclass, field
from enum import StrEnum

from replayer.analysis.advice.headline import Headline
from replayer.run.display import Brief


class Trust(StrEnum):
    """The trust that the figures of a step deserve."""

    YES = "yes"
    CARE = "with care"
    NO = "no"


@dataclass(frozen=True)
class Proof:
    """A check of a step's figures, such as where its blocks came from, and its result.

    `good` is True if the result is as it should be.
    """

    text: str
    good: bool = True
    brief: str = ""
    """The proof in a few words, for a table; "" if it is not shown next to other proofs."""


@dataclass(frozen=True)
class StepSummary:
    """The summary of a step: its main figures, as medians if it was repeated, and its proofs.

    `repeats` is the number of its finished repeats; `seconds` is the time that all repeats took.
    """

    name: str
    kind: str
    """The kind of the step; "" if that is the step's name."""
    figures: tuple[str, ...]
    data: str
    """The temperature or the origin of the data: `cold`, `physical 3 of 5`; "" if not known."""
    repeats: int
    seconds: float
    proofs: tuple[Proof, ...]
    trust: Trust
    client_bound: bool = False
    brief: Brief = field(default_factory=Brief)
    once: bool = False
    """True if the step only prepares others, and is not repeated."""
    measured: bool = False
    """True if the step has a rate, or a metric for which it is run, and not only a time."""
    see: tuple[int, ...] = ()
    """Numbers, from 1, of the remarks (`RunsSummary.points`) about this step."""


@dataclass(frozen=True)
class Remark:
    """A remark in a report: something that was not as requested, or advice."""

    text: str
    loud: bool = False
    """True if something was not as requested."""
    steps: tuple[str, ...] = ()
    """The steps that the remark is about; () for the whole run."""
    runs: int = 1
    """The number of runs that have this remark."""
    name: str = ""
    """The anchor of the warning in docs/reference.md; "" if the remark has none."""


@dataclass(frozen=True)
class RunsSummary:
    """The summary of some runs: facts, a line for each step, remarks (`points`), and the headline.

    `runs` is the number of runs.
    """

    about: tuple[tuple[str, str], ...]
    """Facts about workload, host and engine: pairs of label and value."""
    lines: tuple[StepSummary, ...]
    points: tuple[Remark, ...]
    runs: int
    headline: Headline = field(default_factory=lambda: Headline(""))
