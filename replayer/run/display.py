"""How a step's numbers are shown, in the step's own words: what report makes lines and charts of.

A step that is known in another form than a list of its measurements has a module `display` in its
folder, with `form(result) -> Form` and, if it likes, `charts(sides) -> Iterator[Chart]`.  It
imports little, for reports are read more often than steps are run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from replayer.model import StepResult


class Tone(StrEnum):
    """How a sentence is meant."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class Sentence:
    """A line of words."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Verbatim:
    """A line that programs look for: it is never folded, cut or indented."""

    text: str


@dataclass(frozen=True)
class Labelled:
    """A label with texts behind it, which are not broken inside."""

    label: str
    texts: Sequence[str]


@dataclass(frozen=True)
class OneFact:
    """A fact of the result, with its key as the label and its unit as the key says."""

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
class Form:
    """What is shown first of a result, and which of its contents that already tells."""

    parts: Sequence[Part] = ()
    verbatim: Sequence[Part] = ()
    """Lines that programs look for, shown for every repeat too."""
    metrics: frozenset[str] = frozenset()
    tables: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    headline: Sequence[str] = ()
    """The metrics that the end of the report repeats; the first two with a direction if none."""
    glosses: Mapping[str, str] = field(default_factory=dict)
    """What a metric counts, where its name does not say it to a stranger."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of columns of the step's own in its series, where they are no counts per second."""


@dataclass(frozen=True)
class ChartTrace:
    """One line or row of bars of a chart: that of a side."""

    side: int
    kind: Literal["line", "bar"]
    x: Sequence[Any]
    y: Sequence[float]
    texts: Sequence[str] = ()
    name: str = ""
    """What tells it from others of the same side."""
    style: int = 0
    """Of a line: which of the page's dashes; lines of one style belong together."""


@dataclass(frozen=True)
class Chart:
    """A chart of a step's own."""

    name: str
    title: str
    traces: Sequence[ChartTrace]
    x: str = ""
    y: str = ""
    zero: bool = False
    """Whether the axis of y begins at 0."""
    log_x: bool = False


Results = Sequence[tuple[str, StepResult]]
"""The id of a run and one of its finished steps, of one side."""


class Display(Protocol):
    """What report needs of a step's display."""

    def form(self, result: StepResult) -> Form:
        """Return how one result is shown."""
        ...

    def charts(self, sides: Sequence[Results]) -> Iterator[Chart]:
        """Yield the step's own charts; a display may have none."""
        ...
