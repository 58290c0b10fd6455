"""The classes that a report consists of: `documents` builds a Document, a writer renders it.

The texts are plain: a writer cleans and escapes them.  A chart is shown only on an HTML page, and
spark lines only on a terminal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from replayer.run.display import Sentence, Tone, Verbatim


@dataclass(frozen=True)
class Texts:
    """Short texts in a row; a terminal breaks lines only between two texts, not inside one."""

    texts: Sequence[str]
    gap: str = "   "
    tone: Tone = Tone.PLAIN
    gloss: str = ""
    """A remark that follows the texts in a quiet colour."""

    def __str__(self) -> str:
        """Return the texts on one line."""
        return self.text

    @property
    def text(self) -> str:
        """Return the texts and the remark `gloss` in one string, separated by `gap`.

        This is for media that wrap lines themselves.
        """
        return self.gap.join(filter(None, (*self.texts, self.gloss)))


@dataclass(frozen=True)
class Facts:
    """Labels with their values; a value whose label is "" belongs to the label above it."""

    pairs: Sequence[tuple[str, str | Texts]]


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    texts: Sequence[str]
    tone: Tone = Tone.PLAIN
    most: int | None = None
    """The largest number of sentences that a terminal shows; None for all."""


@dataclass(frozen=True)
class Numbered:
    """Sentences, each with a number by which other parts of the report refer to it."""

    items: Sequence[tuple[int, Sentence]]
    more: str = ""
    """A remark below the list."""


@dataclass(frozen=True)
class Table:
    """A table: rows of texts under headings, with hints for a terminal on how to fit it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """The indices of the columns that are aligned to the right."""
    bars: Sequence[str] = ()
    """A bar of characters for each row, which a terminal shows in one more column, the last."""
    bar: str = ""
    """The heading of the column of bars."""
    most: int | None = None
    """The largest number of rows that a terminal shows; None for all."""
    more: str = ""
    """The command-line options with which a terminal shows all rows."""
    tones: Sequence[Tone] = ()
    """The tone of each row's last cell, its verdict; () if the cell's words decide the colour."""
    is_last_folded: bool = False
    """True if the last column has sentences, which a terminal wraps."""
    is_wordy: bool = False
    """True if the cells are lines of words, which a narrow medium wraps."""
    is_dense: bool = False
    """True if the table has many columns of numbers: a terminal leaves little room between them."""
    is_list: bool = False
    """True if the rows need no headings: a terminal prints them in two columns, without headings.

    Then each row has a share, a class of processes and a name.
    """


@dataclass(frozen=True)
class SparkLines:
    """A terminal's chart: each line has a label, a series of values as bars, and a text."""

    rows: Sequence[tuple[str, Sequence[float | None], str]]


@dataclass(frozen=True)
class Curve:
    """The points of a chart that are drawn in one colour, such as one line or one row of bars."""

    name: str
    x: Sequence[Any]
    y: Sequence[Any]
    kind: Literal["line", "points", "both", "bar"] = "both"
    color: int | str = 0
    """The number of a colour in the page's palette, or `better` or `worse`."""
    texts: Sequence[str] = ()
    """For each point, the text that is shown when the pointer is on it."""
    style: Mapping[str, Any] = field(default_factory=dict)
    """The curve's other properties, by the names that the page's script uses."""


@dataclass(frozen=True)
class Figure:
    """A chart of one or more curves; `x` and `y` are the titles of its axes.

    `name` becomes the id of the chart's element on the page.
    """

    name: str
    title: str
    curves: Sequence[Curve]
    x: str = ""
    y: str = ""
    axes: Mapping[str, Any] = field(default_factory=dict)
    """Other properties of the chart's layout, by the names that the page's script uses."""


@dataclass(frozen=True)
class TimeSeries:
    """A page's chart: panels over the time of day, in which a reader can zoom."""

    title: str
    begin: float
    """The time at which the chart begins, in seconds since 1970."""
    seconds: Sequence[float]
    """The end of the interval of each point, in seconds after `begin`."""
    panels: Sequence[tuple[str, Sequence[Curve]]]
    """The title of each panel, and its curves; a curve has one `y` for each of `seconds`."""
    marks: Sequence[tuple[float, str]] = ()
    """Events to mark: (seconds after `begin`, text)."""
    note: str = ""


@dataclass(frozen=True)
class FlameGraph:
    """A page's chart of a call tree: a frame is as wide as the time that it took."""

    name: str
    title: str
    frames: Mapping[str, Any]
    """Columns with a value for each frame, by the names that the page's script uses."""
    rows: int
    """The depth of the deepest frame."""


@dataclass(frozen=True)
class RepeatSeries:
    """The time series that was recorded during one repeat of a step.

    `window` has the first and the last second of the measured window; None is the whole series.
    """

    side: str
    run: str
    step: str
    repeat: int
    seconds: Sequence[float]
    """The end of each interval, in seconds after the start of the series."""
    window: tuple[float, float] | None
    marks: Sequence[tuple[float, str, str]]
    """Events to mark: (seconds after the start, kind of event, text)."""
    panels: Sequence[tuple[str, bool, Sequence[tuple[str, Sequence[float | None]]]]]
    """Panels: (title, True if its lines are stacked, [(name of a line, its values)])."""


@dataclass(frozen=True)
class SeriesChoice:
    """A page's chart that shows one of several series; a reader selects which one."""

    series: Sequence[RepeatSeries]
    averaged: int
    """The number of intervals whose mean is one point of the chart."""


@dataclass(frozen=True)
class Section:
    """A heading with parts of the report below it."""

    title: str
    parts: Sequence["Part"]
    is_main: bool = False
    """True if a terminal draws a line to the right of the heading."""
    is_named: bool = False
    """True if the heading is a name: its case is kept, and it is shown even without parts."""
    on_page: int = 0
    """The sort key on a page: a section below 0 comes before all parts at 0."""
    is_folded: bool = False
    """True if a page shows only the heading until a reader opens the section."""
    is_for_page: bool = False
    """True if only a page shows the section."""
    is_printed: bool = False
    """True if the section is open on paper, although it is folded on the page."""
    note: str = ""
    """A remark next to the heading of a folded section on a page."""


Chart = Figure | FlameGraph | TimeSeries | SeriesChoice
Text = Sentence | Verbatim | Texts | Facts | Bullets | Numbered
Part = Union[Text, Table, SparkLines, Chart, Section]  # noqa: UP007 - Section holds parts


@dataclass(frozen=True)
class Document:
    """A report: its title, its answer, the parts on which the answer is based, and notes."""

    title: str
    headline: Sentence
    parts: Sequence[Part]
    lead: Sequence[str] = ()
    """Sentences that belong to the answer."""
    answer: Sequence[Part] = ()
    """Parts that belong to the answer: a terminal shows them next to the headline."""
    notes: Sequence[str] = ()
    """Remarks on how the report was made, and on what it leaves out."""
    made: str = ""
    """A sentence for a page: from which results the report was made, and when."""
    is_answer_last: bool = False
    """True if a terminal shows the answer at the end, because the other parts are long."""
    data: Sequence[Sequence[object]] = ()
    """The rows of the CSV report, headings first, with numbers as they were measured."""


def blank(*values: float | None) -> list[object]:
    """Return the values as cells of a CSV; None becomes ""."""
    return ["" if value is None else value for value in values]
