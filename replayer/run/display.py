"""The display of a step's numbers, from which reports make lines and charts.

Without a display, a report lists the step's measurements. A step with another form has a module
`display` in its folder. It holds `form(result) -> Form` and, optionally, `charts(sides)`, which
yields Charts, and `sections(result, most=N, width=N)`, which yields the parts that pages have room
for. It imports little, because reports are read more often than steps are run.
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
    """A line of words."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Verbatim:
    """A line that programs search for: it is never folded, cut or indented."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Labelled:
    """A label followed by texts; no line break is put inside a text."""

    label: str
    texts: Sequence[str]


@dataclass(frozen=True)
class OneFact:
    """A fact of the result: its key is the label, and gives the unit."""

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
    """Its work in plain words: `9,745 files, 50 threads, cold`."""
    results: Sequence[str] = ()
    """Its one or two results, each with its unit."""
    proof: str = ""
    """A separate proof in a few words, next to temperature and ledger: `0 dirty pages left`."""
    subject: str = ""
    """The words before `clause` in the headline; steps with the same share one sentence."""
    clause: str = ""
    """Its result as the end of a sentence: `391,685 blocks/s from memory`."""


@dataclass(frozen=True)
class Form:
    """The lines shown first for a result, and the contents that need not be repeated after them."""

    parts: Sequence[Part] = ()
    verbatim: Sequence[Part] = ()
    """Lines that programs search for; they are shown for every repeat too."""
    metrics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    headline: Sequence[str] = ()
    """The metrics that the end of the report repeats; if empty, the first two with a direction."""
    glosses: Mapping[str, str] = field(default_factory=dict)
    """Metric -> what it counts, for metrics whose name does not show that to a stranger."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Column of the step's own series -> unit, unless it is a count per second."""
    brief: Brief = Brief()
    """The step in one line, for the report's first screen."""


@dataclass(frozen=True)
class ChartTrace:
    """One line or one row of bars of a chart; it belongs to one side of a comparison."""

    side: int
    kind: Literal["line", "bar"]
    x: Sequence[Any]
    y: Sequence[float]
    texts: Sequence[str] = ()
    name: str = ""
    """Distinguishes it from other traces of the same side."""
    style: int = 0
    """For a line: the index of its dash pattern; lines of one style belong together."""


@dataclass(frozen=True)
class Chart:
    """A chart that the step makes itself."""

    name: str
    title: str
    traces: Sequence[ChartTrace]
    x: str = ""
    y: str = ""
    zero: bool = False
    """True if the y axis begins at 0."""
    log_x: bool = False


Results = Sequence[tuple[str, StepResult]]
"""The finished steps of one side: pairs of a run's id and one of its steps."""


class Display(Protocol):
    """The functions of a step's display that reports use."""

    def form(self, result: StepResult) -> Form:
        """Return how one result is shown."""
        ...

    def charts(self, sides: Sequence[Results]) -> Iterator[Chart]:
        """Yield the step's own charts; a display may have none."""
        ...

    def sections(self, result: StepResult, *, most: int, width: int) -> Iterator[Part]:
        """Yield parts for a page, where tables have up to `most` rows; a display may have none.

        A text is cut to `width` characters.
        """
        ...
