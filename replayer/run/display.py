"""The display of a step's numbers, from which reports make lines and charts.

Without a display, a report lists the step's measurements. A step that is shown in another way has
a module `display` in its folder. The module holds `form(result) -> Form`. It may also hold
`charts(sides)`, which yields Charts, and `sections(result, most=N, width=N)`, which yields parts
that only a page has room for. It imports little, because reports are read more often than steps
are run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from replayer.model import StepResult


class Tone(StrEnum):
    """The tone of a sentence, which decides its colour."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Sentence:
    """A line of text in a report."""

    text: str
    tone: Tone = Tone.PLAIN
    about: str = ""
    """The name of what the line is about, if a step has a line for each of several such things.

    Lines of repeats that are about different things are not combined."""


@dataclass(frozen=True)
class Verbatim:
    """A line that programs search for: a report prints it unchanged, and never folds or cuts it."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Labelled:
    """A label followed by texts; a report may break the line between two texts, not inside one."""

    label: str
    texts: Sequence[str]


@dataclass(frozen=True)
class OneFact:
    """A line for one fact of the result; `key` is the fact's name, and the label of the line."""

    key: str


@dataclass(frozen=True)
class TableRows:
    """Rows under headings; the first column holds words, the others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class WholeTable:
    """A table of the result with all its rows, under its name."""

    name: str


Part = Sentence | Verbatim | Labelled | OneFact | TableRows | WholeTable


@dataclass(frozen=True)
class Brief:
    """A step in one line for a reader who does not know replayer; each text may be ""."""

    did: str = ""
    """The step's work in plain words: `9,745 files, 50 threads, cold`."""
    results: Sequence[str] = ()
    """The step's one or two main results, each with its unit."""
    proof: str = ""
    """The step's own proof in a few words, if it has one: `0 dirty pages left`."""
    subject: str = ""
    """The words before `clause` in the headline; steps with the same subject share one sentence."""
    clause: str = ""
    """The step's result as the end of a sentence: `391,685 blocks/s from memory`."""


@dataclass(frozen=True)
class Form:
    """The lines that a report shows first for a step's result.

    `metrics`, `tables` and `facts` name the contents that need not be repeated after these lines.
    """

    parts: Sequence[Part] = ()
    verbatim: Sequence[Part] = ()
    """Lines that programs search for; a report on several repeats shows those of each repeat."""
    metrics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    headline: Sequence[str] = ()
    """The metrics that the end of the report repeats.

    If empty, it repeats the first two of which more or less is better."""
    glosses: Mapping[str, str] = field(default_factory=dict)
    """Metric -> what it counts, for metrics whose name does not show that to a stranger."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column of the step's own series -> its unit; a column not named is a count per second."""
    brief: Brief = Brief()
    """The step in one line, for the report's first screen."""


@dataclass(frozen=True)
class ChartTrace:
    """One line, or one row of bars, in a chart.

    `side` is the index of the compared side (such as before or after) that the values come from.
    """

    side: int
    kind: Literal["line", "bar"]
    x: Sequence[Any]
    y: Sequence[float]
    texts: Sequence[str] = ()
    name: str = ""
    """Distinguishes this trace from other traces of the same side."""
    style: int = 0
    """For a line: the index of its dash pattern; lines of one style belong together."""


@dataclass(frozen=True)
class Chart:
    """A chart that is special to the step, in addition to the charts that every report has.

    `x` and `y` are the titles of the axes.
    """

    name: str
    title: str
    traces: Sequence[ChartTrace]
    x: str = ""
    y: str = ""
    zero: bool = False
    """True if the y axis begins at 0."""
    log_x: bool = False


Results = Sequence[tuple[str, StepResult]]
"""The finished steps of one side of a comparison: pairs of a run's id and a step's result."""


class Display(Protocol):
    """The functions of a step's display that reports use."""

    def form(self, result: StepResult) -> Form:
        """Return the lines that a report shows first for a step's result."""
        ...

    def charts(self, sides: Sequence[Results]) -> Iterator[Chart]:
        """Yield the step's own charts, each with the results of all sides.

        A side is one of the groups of runs that a report compares. A display may lack this
        function.
        """
        ...

    def sections(self, result: StepResult, *, most: int, width: int) -> Iterator[Part]:
        """Yield more parts of a report, for a page in a browser, which has room for them.

        Tables have at most `most` rows, and a text is cut to `width` characters. A display may lack
        this function.
        """
        ...
