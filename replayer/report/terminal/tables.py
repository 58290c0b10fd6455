"""The building blocks of reports: records, pairs, averages of a series, spark lines."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from replayer.model import Series
from replayer.report.sanitize import sanitize
from replayer.units import show, show_count, show_duration, show_size

INDENT = 2
_GAP = 2
_LABEL = 16
_WHOLE_FROM = 100
_LEAST_LINE = 4
"""The least characters of the line after a heading."""
_NARROWEST = 16
"""Characters that a column of sentences is not narrower than."""
_BREAKS = re.compile(r"[^,/]*[,/]|[^,/]+")
"""The pieces of a word: it may be broken after each comma and slash."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN_BLOCKS = "_.-:=+*#"
_SUFFIXES = {
    # end of a key -> (the heading has this instead, the function that formats the values)
    "_per_second": ("/s", show_count),
    "_bytes": ("", show_size),
    "_seconds": ("", show_duration),
    "_s": ("", show_duration),
    "_size": (" size", show_size),
    "_share": (" share", lambda value: f"{value:.1%}"),
    "_ns": ("", lambda value: show_duration(value / 1e9)),
    "_ms": ("", lambda value: show_duration(value / 1e3)),
    "_us": ("", lambda value: show_duration(value / 1e6)),
    # PostgreSQL's views use this name for milliseconds; replayer's tables do not use it.
    "_time": (" time", lambda value: show_duration(value / 1e3)),
    "_percent": ("", lambda value: f"{value:.1f} %"),
}
_VERDICTS = {
    "better": "bold green",
    "worse": "bold red",
    "nothing": "cyan",
    "fits": "green",
    "does not fit": "red",
    "unclear": "yellow",
}
"""First words of a cell that has a colour -> its style."""
_WHOLE = {"bytes": show_size, "seconds": show_duration, "elapsed": show_duration}


@dataclass(frozen=True)
class Flow:
    """Short texts on lines as wide as possible; lines break only between two texts."""

    texts: Sequence[str]
    gap: str = "  "
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        row = ""
        for text in self.texts:
            longer = f"{row}{self.gap}{text}" if row else text
            if row and cell_len(longer) > options.max_width:
                yield Text(row, style=self.style, overflow="fold")
                row = text
            else:
                row = longer
        if row:
            yield Text(row, style=self.style, overflow="fold")


@dataclass(frozen=True)
class WrappedText:
    """A text on lines as wide as possible; a too long word breaks after a comma or slash."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines; rich folds a long word that has neither comma nor slash."""
        room = options.max_width
        words = [self._broken(word, room) for word in self.text.split(" ")]
        yield Text(" ".join(words), overflow="fold")

    def _broken(self, word: str, room: int) -> str:
        if cell_len(word) <= room:
            return word
        rows = [""]
        for piece in _BREAKS.findall(word):
            fits = cell_len(rows[-1]) + cell_len(piece) <= room
            rows[-1:] = [rows[-1] + piece] if fits or not rows[-1] else [rows[-1], piece]
        return "\n".join(rows)


@dataclass(frozen=True)
class NumberTable:
    """Rows under headings; columns that do not fit follow below, with the first column repeated."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """The number of columns with words, at the left; the others are numbers."""
    gap: int = _GAP
    numbers: Sequence[int] | None = None
    """The columns of numbers, if they are not all that follow the words."""
    styles: Sequence[str] = ()
    """The style of each row's last cell, and of its bar."""
    bars: tuple[str, Sequence[str]] | None = None
    """A heading, and a bar for each row, which is left out where it has no room."""
    is_last_folded: bool = False
    """True if the last column has sentences, which are folded."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one table, or several if one would be too wide."""
        widths = [
            max(map(cell_len, (heading, *(row[i] for row in self.rows))))
            for i, heading in enumerate(self.headings)
        ]
        room = options.max_width - INDENT
        used = sum(widths) + self.gap * (len(widths) - 1)
        if self.is_last_folded and used > room:
            widths[-1] = max(_NARROWEST, room - used + widths[-1])
        if self._is_too_wide(widths, room):
            yield from self._blocks()
            return
        for chosen in _chunks(widths, room, self.gap, repeat=self.left > 0):
            bars = self.bars
            if bars is None or used + self.gap + max(map(cell_len, (bars[0], *bars[1]))) > room:
                bars = None
            yield Padding(self._block(chosen, bars), (0, 0, 0, INDENT), expand=False)

    def _block(self, chosen: Sequence[int], bars: tuple[str, Sequence[str]] | None) -> Table:
        """Return a table of some columns, with the bars at its right."""
        table = Table(box=None, padding=(0, self.gap, 0, 0), pad_edge=False, header_style="dim")
        last = len(self.headings) - 1
        for i in chosen:
            is_folded = self.is_last_folded and i == last
            table.add_column(
                Text(self.headings[i]),
                justify="right" if self._is_number(i) else "left",
                no_wrap=not is_folded,
                overflow="fold" if is_folded else "ellipsis",
            )
        if bars is not None:
            table.add_column(Text(bars[0]), no_wrap=True)
        for number, row in enumerate(self.rows):
            own = self.styles[number] if self.styles else ""
            cells = [
                Text(row[i], style=own if own and i == last else style_verdict(row[i]))
                for i in chosen
            ]
            bar = [] if bars is None else [Text(bars[1][number], style=own)]
            table.add_row(*cells, *bar)
        return table

    def _is_number(self, column: int) -> bool:
        return column >= self.left if self.numbers is None else column in self.numbers

    def _is_too_wide(self, widths: Sequence[int], room: int) -> bool:
        """Return whether a column is too wide even if only the first column is next to it.

        A last column that is folded must have room next to all others.
        """
        if self.is_last_folded:
            return sum(widths) + self.gap * (len(widths) - 1) > room
        begin = widths[0] + self.gap if self.left > 0 and len(widths) > 1 else 0
        return begin + max(widths[1:] or widths[:1], default=0) > room

    def _blocks(self) -> RenderResult:
        """Yield, for each row, its first cell and, below, all other cells with their headings."""
        for row in self.rows:
            named = list(zip(self.headings, row, strict=True))
            first = named[: 1 if self.left > 0 else 0]
            yield from (line(text) for _, text in first)
            others = [f"{heading} {text}" for heading, text in named[len(first) :] if text]
            yield Padding(Flow(others, "   "), (0, 0, 0, 2 * INDENT), expand=False)


def style_verdict(cell: str) -> str:
    """Return the style of a cell that begins with a verdict; "" for all others."""
    return _VERDICTS.get(cell.partition(",")[0], "")


def _chunks(widths: Sequence[int], room: int, gap: int, *, repeat: bool) -> Iterator[list[int]]:
    """Yield lists of column numbers that fit next to each other, each list for one table."""
    begin = [0] if repeat else []
    chosen: list[int] = []
    used = 0
    for i, width in enumerate(widths):
        if used + width > room and len(chosen) > len(begin):
            yield chosen
            chosen, used = list(begin), sum(widths[j] + gap for j in begin)
        chosen.append(i)
        used += width + gap
    if chosen:
        yield chosen


def pairs(items: Iterable[tuple[str, str | Text | Flow]], width: int = 0) -> Table:
    """Return labels with their values, one pair per line; long values are folded."""
    items = list(items)
    longest = max((cell_len(label) for label, _ in items), default=0)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True, width=max(longest, width))
    table.add_column(overflow="fold")
    for label, value in items:
        table.add_row(Text(label), WrappedText(value) if isinstance(value, str) else value)
    return table


def line(text: str | Text | Flow, style: str = "") -> Padding:
    """Return a line of a step's section of the report; a long line is folded."""
    words = Text(text, style=style) if isinstance(text, str) else text
    return Padding(words, (0, 0, 0, INDENT), expand=False)


def bullets(items: Iterable[tuple[str, str]]) -> Padding:
    """Return a bulleted list of (text, style); folded lines are aligned with the text."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text, style in items:
        table.add_row(Text("-", style=style), Text(text, style=style))
    return Padding(table, (0, 0, 0, INDENT), expand=False)


@dataclass(frozen=True)
class Heading:
    """A heading with a line after it, or without one if there is no room for it."""

    title: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading."""
        text = Text(self.title, style="bold")
        has_room = text.cell_len + _LEAST_LINE <= options.max_width
        yield Rule(text, align="left", style="dim") if has_room else text


@dataclass(frozen=True)
class Whole:
    """A line for users and for programs that search for it: never broken if there are 100 columns.

    On a narrower terminal it is broken between words; the terminal would break it inside words.
    """

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line, or several on a narrow terminal."""
        if options.max_width >= _WHOLE_FROM:
            yield Text(self.text, style=self.style, no_wrap=True, overflow="ignore")
        else:
            yield Text(self.text, style=self.style, overflow="fold")


def whole(text: str, style: str = "") -> Whole:
    """Return a line that is never cut, and that is not wrapped if there are 100 columns."""
    return Whole(text, style)


def indented(items: Iterable[tuple[str, str | Text | Flow]]) -> Padding:
    """Return indented `pairs`; all short labels have one width, so that a step's values align."""
    return Padding(pairs(items, _LABEL), (0, 0, 0, INDENT), expand=False)


def records(rows: Sequence[Mapping[str, Any]], *, first: int = 3, last: int = 7) -> NumberTable:
    """Return rows with the same keys as a table; of many rows, those in the middle are left out.

    The last word of a key is its unit (`table_bytes`, `elapsed_ns`), as in a result file.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    words = [key for key in keys if any(isinstance(row.get(key), str) for row in rows)]
    keys = words + [key for key in keys if key not in words]
    shown = [[cell(key, row.get(key)) for key in keys] for row in rows]
    if len(shown) > first + last + 1:
        shown[first:-last] = [["…"] * len(keys)]
    return NumberTable([heading(key) for key in keys], shown, left=len(words))


def condensed(rows: Sequence[Mapping[str, Any]], most: int = 3) -> list[Flow]:
    """Return a line for each row: its words and its numbers that are not 0; the largest row first.

    Rows beyond the first `most` are only counted: the result file has them.
    """
    ordered = sorted(rows, key=_largest, reverse=True)
    lines_ = []
    for row in ordered[:most]:
        words = " ".join(sanitize(value) for value in row.values() if isinstance(value, str))
        numbers = [
            f"{heading(key)} {cell(key, value)}"
            for key, value in row.items()
            if not isinstance(value, str) and value
        ]
        lines_.append(Flow([*([words] if words else []), *numbers], "   "))
    if len(ordered) > most:
        lines_.append(Flow([f"and {len(ordered) - most} more in the result file"]))
    return lines_


def _largest(row: Mapping[str, Any]) -> float:
    return max((value for value in row.values() if isinstance(value, int | float)), default=0.0)


def heading(key: str) -> str:
    """Return a column's heading: `rows_per_second` is rows/s, `table_bytes` is table."""
    for suffix, (words, _) in _SUFFIXES.items():
        if key.endswith(suffix) and key != suffix:
            return sanitize(key.removesuffix(suffix).replace("_", " ") + words)
    return sanitize(key.replace("_", " "))


def cell(key: str, value: Any) -> str:
    """Return a value in the unit that the last word of its key names."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float) or not math.isfinite(value):
        return sanitize(value)
    if key in _WHOLE:
        return _WHOLE[key](value)
    for suffix, (_, form) in _SUFFIXES.items():
        if key.endswith(suffix):
            return form(value)
    return show_count(value)


def averages(series: Series, collector: str, wanted: Sequence[str] = ()) -> NumberTable | None:
    """Return a table with one line: averages of a collector's columns over the measured window.

    None if it has none of the columns.  A column that is an average per request (r_await, areq-sz)
    is weighted by the requests of each interval, so that the result is the average of all requests
    in the window.
    """
    begin = f"{collector}."
    columns = {
        name.removeprefix(begin): values
        for name, values in series.columns.items()
        if name.startswith(begin)
    }
    chosen = [name for name in wanted or columns if name in columns]
    inside, lengths = _window(series)
    cells = []
    for name in chosen:
        weights = _requests(columns, name) or [1.0] * len(series.seconds)
        value = _mean(columns[name], [w * s for w, s in zip(weights, lengths, strict=True)], inside)
        cells.append("-" if value is None else rate(value))
    if not cells:
        return None
    return NumberTable([sanitize(name) for name in chosen], [cells], left=0, gap=1)


def mean(series: Series, column: str) -> float | None:
    """Return a column's average over the measured window; None if no value could be read."""
    inside, lengths = _window(series)
    return _mean(series.columns[column], lengths, inside)


def rate(value: float) -> str:
    """Return a value in sysstat's format: two decimals below 10, one below 100, else none.

    0 has no decimals.
    """
    digits = 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f}"


def _requests(columns: Mapping[str, Sequence[float | None]], name: str) -> list[float] | None:
    """Return the requests of each interval if a column is an average per request, else None."""
    for ending in ("_await", "areq-sz"):
        if name.endswith(ending) and len(name) == len(ending) + 1:
            return [value or 0.0 for value in columns.get(f"{name[0]}/s", ())] or None
    if name in ("await", "areq-sz"):
        kinds = [columns[kind] for kind in ("r/s", "w/s", "d/s") if kind in columns]
        return [
            sum(value or 0.0 for value in values) for values in zip(*kinds, strict=True)
        ] or None
    return None


def _window(series: Series) -> tuple[list[bool], list[float]]:
    """Return two lists with a value for each interval.

    The first shows whether its middle is in the measured window; the second has its seconds.
    """
    ends = series.seconds
    starts = (0.0, *ends[:-1])
    low, high = series.window or (-math.inf, math.inf)
    inside = [low <= (a + b) / 2 <= high for a, b in zip(starts, ends, strict=True)]
    return inside, [b - a for a, b in zip(starts, ends, strict=True)]


def _mean(
    values: Sequence[float | None], weights: Sequence[float], inside: Sequence[bool]
) -> float | None:
    read = [
        (value, weight)
        for value, weight, counts in zip(values, weights, inside, strict=True)
        if counts and value is not None
    ]
    total = sum(weight for _, weight in read)
    if not read:
        return None
    return sum(value * weight for value, weight in read) / total if total else 0.0


@dataclass(frozen=True)
class Spark:
    """A column of a series as one line of blocks, from 0 to its largest value, with its range."""

    label: str
    values: Sequence[float | None]
    unit: str = ""
    """The unit of the values; "" for counts per second."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line, as wide as possible; nothing if no value was read."""
        read = [value for value in self.values if value is not None]
        if not read:
            return
        label = f"{self.label:{_LABEL}}{' ' * _GAP}"
        unit = self.unit or ("bytes/s" if self.label == "bytes" else "")
        shown = [
            show(value, unit) if unit else f"{show_count(round(value))}/s"
            for value in (min(read), max(read))
        ]
        span = f"  {shown[0]} to {shown[1]}"
        room = max(10, options.max_width - cell_len(label) - len(span) - INDENT)
        blocks = _PLAIN_BLOCKS if options.ascii_only else _BLOCKS
        line = spark(self.values, room, blocks)
        yield Text.assemble(" " * INDENT, (label, "dim"), line, span, no_wrap=True, end="\n")


@dataclass(frozen=True)
class Sparks:
    """Lines of a label, a column of a series as blocks, and a text about it."""

    rows: Sequence[tuple[str, Sequence[float | None], str]]
    room: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        blocks = _PLAIN_BLOCKS if options.ascii_only else _BLOCKS
        rows = [
            (label, f"{spark(values, self.room, blocks)}  {words}")
            for label, values, words in self.rows
        ]
        if any(label for label, _ in rows):
            yield indented(rows)
        else:
            yield from (line(text, "cyan") for _, text in rows)


def spark(values: Sequence[float | None], room: int, blocks: str = _BLOCKS) -> str:
    """Return values as at most `room` blocks, each an average of values; a gap is a space."""
    width = min(room, len(values))
    groups = [
        [
            v
            for v in values[len(values) * i // width : len(values) * (i + 1) // width]
            if v is not None
        ]
        for i in range(width)
    ]
    means = [sum(group) / len(group) if group else None for group in groups]
    top = max((value for value in means if value is not None), default=0.0)
    steps = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[round(steps * max(0.0, value) / top) if top > 0 else 0]
        for value in means
    )
