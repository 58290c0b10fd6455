"""One report as nouns: a subject makes a Document, and each writer puts it on its medium.

The texts are plain: a writer cleans and escapes them.  A chart is on a page alone, and spark lines
are on a terminal alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from replayer.run.display import Sentence, Tone


@dataclass(frozen=True)
class Facts:
    """Labels with their values; a value without a label belongs to the one above."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    texts: Sequence[str]
    tone: Tone = Tone.PLAIN
    most: int | None = None
    """The most of them that a terminal shows."""


@dataclass(frozen=True)
class Table:
    """Rows under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """The columns that are aligned to the right."""
    bars: Sequence[str] = ()
    """A bar of characters for each row, which a terminal has as the last column."""
    bar: str = ""
    """The heading of the bars."""
    most: int | None = None
    """The most rows that a terminal shows."""
    more: str = ""
    """The options that show the others."""


@dataclass(frozen=True)
class SparkLines:
    """Lines of a label, values as blocks, and a text about them: a terminal's chart."""

    rows: Sequence[tuple[str, Sequence[float | None], str]]


@dataclass(frozen=True)
class Curve:
    """The points of a chart that belong together."""

    name: str
    x: Sequence[Any]
    y: Sequence[Any]
    kind: Literal["line", "points", "both", "bar"] = "both"
    color: int | str = 0
    """The number of a colour, or `better` or `worse`."""
    texts: Sequence[str] = ()
    """For each point the text that a pointer on it shows."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """Its other properties, in the terms of the page's script; none is a text of a result."""


@dataclass(frozen=True)
class Figure:
    """A chart."""

    name: str
    title: str
    curves: Sequence[Curve]
    x: str = ""
    y: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    """The other properties of its layout, in the terms of the page's script."""


@dataclass(frozen=True)
class TimeSeries:
    """Panels over time that a reader of the page can zoom, in the terms of the page's script."""

    title: str
    entry: Mapping[str, Any]


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence["Part"]
    is_main: bool = False
    """True if a terminal draws a line after its heading."""
    is_background: bool = False
    """True if a page has it after all others."""
    is_folded: bool = False
    """True if it is for a page alone, folded there."""


Part = Union[Sentence, Facts, Bullets, Table, SparkLines, Figure, TimeSeries, Section]  # noqa: UP007 - Section holds parts


@dataclass(frozen=True)
class Document:
    """A report: its title, its answer, the parts that the answer rests on, and notes."""

    title: str
    headline: Sentence
    parts: Sequence[Part]
    lead: Sequence[str] = ()
    """Sentences that belong to the answer."""
    notes: Sequence[str] = ()
    """Remarks on how it was made, and on what it leaves out."""
    made: str = ""
    """From what and when it was made, which a page shows."""
    is_answer_last: bool = False
    """True if a terminal has the answer at the end, where what was printed before is long."""
    data: Sequence[Sequence[object]] = ()
    """The rows of its CSV, headings first, with numbers as they were measured."""


def blank(*values: float | None) -> list[object]:
    """Return cells of a CSV; a value that is not known is empty."""
    return ["" if value is None else value for value in values]


def count(number: int, noun: str) -> str:
    """Return a number with a noun in its singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
