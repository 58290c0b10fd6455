"""One report as nouns: a subject makes a Document, and each writer puts it on its medium.

The texts are plain: a writer cleans and escapes them.  A chart is on a page alone, and spark lines
are on a terminal alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from replayer.run.display import Sentence, Tone, Verbatim


@dataclass(frozen=True)
class Texts:
    """Short texts after each other; a terminal begins a new line only between two of them."""

    texts: Sequence[str]
    gap: str = "   "
    tone: Tone = Tone.PLAIN
    gloss: str = ""
    """A remark on them, which follows in a quiet colour."""

    def __str__(self) -> str:
        """Return the texts on one line."""
        return self.text

    @property
    def text(self) -> str:
        """Return the texts as one, for media on which lines break between any two words."""
        return self.gap.join(filter(None, (*self.texts, self.gloss)))


@dataclass(frozen=True)
class Facts:
    """Labels with their values; a value without a label belongs to the one above."""

    pairs: Sequence[tuple[str, str | Texts]]


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    texts: Sequence[str]
    tone: Tone = Tone.PLAIN
    most: int | None = None
    """The most of them that a terminal shows."""


@dataclass(frozen=True)
class Numbered:
    """A list of sentences with the numbers by which others name them."""

    items: Sequence[tuple[int, Sentence]]
    more: str = ""
    """A remark below the list."""


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
    tones: Sequence[Tone] = ()
    """The tone of each row's last cell, its verdict, if that is not one of the usual words."""
    is_last_folded: bool = False
    """True if the last column has sentences, which a terminal folds."""
    is_wordy: bool = False
    """True if its cells are lines of words, which a narrow medium folds."""
    is_dense: bool = False
    """True if it has many columns of numbers: a terminal has little room between them."""
    is_list: bool = False
    """True if its rows explain themselves: a terminal has them without headings, in two columns."""


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
    """Panels over the time of day: a page's chart, in which a reader chooses a part of it."""

    title: str
    begin: float
    """In seconds since 1970."""
    seconds: Sequence[float]
    """The end of each point, after the begin."""
    panels: Sequence[tuple[str, Sequence[Curve]]]
    """The title of each panel, and its curves, which have a value for each point."""
    marks: Sequence[tuple[float, str]] = ()
    """Seconds after the begin of an event that is marked, and the text on it."""
    note: str = ""


@dataclass(frozen=True)
class FlameGraph:
    """Frames that are as wide as the time that they took, for a page."""

    name: str
    title: str
    frames: Mapping[str, Any]
    """Lists with a value for each frame, in the terms of the page's script."""
    rows: int
    """The depth of the deepest frame."""


@dataclass(frozen=True)
class RepeatSeries:
    """The series of one repeat of a step."""

    side: str
    run: str
    step: str
    repeat: int
    seconds: Sequence[float]
    """The end of each interval, after the begin."""
    window: tuple[float, float] | None
    marks: Sequence[tuple[float, str, str]]
    """Seconds after the begin, the kind of what happened, and a text about it."""
    panels: Sequence[tuple[str, bool, Sequence[tuple[str, Sequence[float | None]]]]]
    """For each panel its title, whether its lines are stacked, and their names and values."""


@dataclass(frozen=True)
class SeriesChoice:
    """Series on a page, of which a reader chooses one."""

    series: Sequence[RepeatSeries]
    averaged: int
    """The number of intervals of which a point is the mean."""


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence["Part"]
    is_main: bool = False
    """True if a terminal draws a line after its heading."""
    is_named: bool = False
    """True if its heading is a name, which is shown as it is, and also if nothing is below it."""
    on_page: int = 0
    """Its place on a page: before the others if it is less than 0, after them if it is more."""
    is_folded: bool = False
    """True if a page shows its heading alone until a reader opens it."""
    is_for_page: bool = False
    """True if no other medium has room for it."""
    is_printed: bool = False
    """True if it is open on paper although it is folded on the page."""
    note: str = ""
    """A remark next to the heading of a folded section on a page."""


Chart = Figure | FlameGraph | TimeSeries | SeriesChoice
Text = Sentence | Verbatim | Texts | Facts | Bullets | Numbered
Part = Union[Text, Table, SparkLines, Chart, Section]  # noqa: UP007 - Section holds parts


@dataclass(frozen=True)
class Document:
    """A report: its title, its answer, the parts that the answer rests on, and notes."""

    title: str
    headline: Sentence
    parts: Sequence[Part]
    lead: Sequence[str] = ()
    """Sentences that belong to the answer."""
    answer: Sequence[Part] = ()
    """Parts that belong to the answer: a terminal has them next to it, under a heading."""
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
