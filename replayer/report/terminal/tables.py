"""The building blocks of reports on a terminal: tables, pairs, lists, spark lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

INDENT = 2
_GAP = 2
_COLUMN_GAP = 3
_LABEL = 16
_WHOLE_FROM = 100
_FEWEST_BLOCKS = 10
_LEAST_LINE = 4
"""The shortest line to the right of a heading, in characters."""
_NARROWEST = 16
"""The smallest width of a column of sentences, in characters."""
_LONGEST_WORD = 16
"""The most characters of a word that a table keeps together; longer ones are names and paths."""
_BREAKS = re.compile(r"[^,/]*[,/]|[^,/]+")
"""The pieces of a word: it may be broken after each comma and slash."""
_BLOCKS = "▁▂▃▄▅▆▇█"
_PLAIN_BLOCKS = "_.-:=+*#"
_VERDICTS = {
    "better": "bold green",
    "worse": "bold red",
    "nothing": "cyan",
    "fits": "green",
    "does not fit": "red",
    "unclear": "yellow",
}
"""First words of a cell -> the style of the cell."""


@dataclass(frozen=True)
class Flow:
    """Short texts in lines that are as full as possible; lines break only between two texts."""

    texts: Sequence[str]
    gap: str = "  "
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, each at most as wide as `options` allow; a longer text is folded."""
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
    """A text wrapped to fill each line; a word wider than a line breaks after a comma or slash."""

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
    """A table of rows under headings; columns that do not fit follow in further tables below it.

    Each further table repeats the first column, unless `is_dense`.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """The indices of the columns that are aligned to the right."""
    is_dense: bool = False
    """True for narrow gaps between the columns, and no first column in the tables below."""
    styles: Sequence[str] = ()
    """The style of each row's last cell and bar; () if the words of the cells decide."""
    bars: tuple[str, Sequence[str]] | None = None
    """(heading, a bar for each row); the bars are left out if there is no room for them."""
    is_last_folded: bool = False
    """True if the last column has sentences, which are wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one table, or several if one would be too wide."""
        widths = [
            max(map(cell_len, (heading, *(row[i] for row in self.rows))))
            for i, heading in enumerate(self.headings)
        ]
        room = options.max_width - INDENT
        gap = 1 if self.is_dense else _GAP
        used = sum(widths) + gap * (len(widths) - 1)
        if self.is_last_folded and used > room:
            widths[-1] = max(_NARROWEST, room - used + widths[-1])
        if self._is_too_wide(widths, room, gap):
            yield from self._blocks()
            return
        for chosen in _chunks(widths, room, gap, repeat=not self.is_dense):
            bars = self.bars
            if bars is None or used + gap + max(map(cell_len, (bars[0], *bars[1]))) > room:
                bars = None
            yield Padding(self._block(chosen, bars, gap), (0, 0, 0, INDENT), expand=False)

    def _block(
        self, chosen: Sequence[int], bars: tuple[str, Sequence[str]] | None, gap: int
    ) -> Table:
        """Return a table of the columns `chosen`, with the bars at its right."""
        table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim")
        last = len(self.headings) - 1
        for i in chosen:
            is_folded = self.is_last_folded and i == last
            table.add_column(
                Text(self.headings[i]),
                justify="right" if i in self.numbers else "left",
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

    def _is_too_wide(self, widths: Sequence[int], room: int, gap: int) -> bool:
        """Return whether some column does not fit, even if only the first column is next to it.

        `room` is the width of a line, `gap` the space between columns, all in characters.  If the
        last column holds wrapped sentences, all columns must fit next to each other.
        """
        if self.is_last_folded:
            return sum(widths) + gap * (len(widths) - 1) > room
        begin = widths[0] + gap if not self.is_dense and len(widths) > 1 else 0
        return begin + max(widths[1:] or widths[:1], default=0) > room

    def _blocks(self) -> RenderResult:
        """Yield, for each row, its first cell; below it, the other cells with their headings."""
        for row in self.rows:
            named = list(zip(self.headings, row, strict=True))
            first = [] if self.is_dense else named[:1]
            yield from (line(text) for _, text in first)
            others = [f"{heading} {text}" for heading, text in named[len(first) :] if text]
            yield Padding(Flow(others, "   "), (0, 0, 0, 2 * INDENT), expand=False)


@dataclass(frozen=True)
class WordTable:
    """A table whose cells are lines of words, which are wrapped between words.

    Where a column would be narrower than one of its words or numbers, each row is a list instead.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    styles: Sequence[str]
    """The style of each row's last cell, which is not wrapped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or a list of the cells with their headings for each row."""
        if self._has_room(options.max_width):
            yield self._grid()
            return
        for row, style in zip(self.rows, self.styles, strict=True):
            first, *others = zip(self.headings, row, strict=True)
            yield Text(first[1], overflow="fold")
            texts = [(heading, Text(text, overflow="fold")) for heading, text in others if text]
            if others and others[-1][1]:
                texts[-1][1].stylize(style)
            yield Padding(pairs(texts), (0, 0, 0, INDENT), expand=False)

    def _has_room(self, room: int) -> bool:
        """Return whether every column keeps the width of its longest word in `room` characters.

        Of long words, such as paths, only the width of _LONGEST_WORD is kept.
        """
        columns = list(zip(self.headings, *self.rows, strict=True))
        widths = [max(map(cell_len, "\n".join(texts).split("\n"))) for texts in columns]
        words = [max(map(cell_len, " ".join(texts).split()), default=0) for texts in columns]
        over = sum(widths) + _GAP * len(widths) - room
        while over > 0:  # as rich does: the widest column gives way
            widest = max(range(max(1, len(widths) - 1)), key=widths.__getitem__)
            widths[widest] -= 1
            over -= 1
            if widths[widest] < min(words[widest], _LONGEST_WORD):
                return False
        return True

    def _grid(self) -> Table:
        made = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
        for heading in self.headings:
            made.add_column(Text(heading), no_wrap=heading == self.headings[-1], overflow="fold")
        for row, style in zip(self.rows, self.styles, strict=True):
            made.add_row(*map(Text, row[:-1]), Text(row[-1], style=style))
        return made


def style_verdict(cell: str) -> str:
    """Return rich's style for a cell of a table that begins with a verdict; "" for all others."""
    return _VERDICTS.get(cell.partition(",")[0], "")


def _chunks(widths: Sequence[int], room: int, gap: int, *, repeat: bool) -> Iterator[list[int]]:
    """Split columns into tables that fit into `room`; yield the column indices of each table.

    `widths`, `room` and `gap` (the space between two columns) are in characters.  With `repeat`,
    each table begins with the first column.
    """
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
    """Return labels with their values, one pair per line; long values are wrapped.

    `width` is the minimum width of the column of labels, in characters.
    """
    items = list(items)
    longest = max((cell_len(label) for label, _ in items), default=0)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True, width=max(longest, width))
    table.add_column(overflow="fold")
    for label, value in items:
        table.add_row(Text(label), WrappedText(value) if isinstance(value, str) else value)
    return table


def line(text: str | Text | Flow, style: str = "") -> Padding:
    """Return an indented line; a long line is wrapped."""
    words = Text(text, style=style) if isinstance(text, str) else text
    return Padding(words, (0, 0, 0, INDENT), expand=False)


def bullets(items: Iterable[tuple[str, str]]) -> Padding:
    """Return a bulleted list of (text, style); wrapped lines are aligned with the text."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text, style in items:
        table.add_row(Text("-", style=style), Text(text, style=style))
    return Padding(table, (0, 0, 0, INDENT), expand=False)


@dataclass(frozen=True)
class Heading:
    """A heading with a line to the right of it if there is room for the line."""

    title: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the heading, with a line if `options` leave enough room for it."""
        text = Text(self.title, style="bold")
        has_room = text.cell_len + _LEAST_LINE <= options.max_width
        yield Rule(text, align="left", style="dim") if has_room else text


@dataclass(frozen=True)
class Whole:
    """A line that programs search for, too: it is not broken if there are 100 columns.

    On a narrower terminal, it is broken between words; the terminal would break it inside words.
    """

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the line, or its wrapped form on a narrow terminal."""
        if options.max_width >= _WHOLE_FROM:
            yield Text(self.text, style=self.style, no_wrap=True, overflow="ignore")
        else:
            yield Text(self.text, style=self.style, overflow="fold")


def whole(text: str, style: str = "") -> Whole:
    """Return a line that is never cut, and is wrapped only if there are fewer than 100 columns."""
    return Whole(text, style)


def indented(items: Iterable[tuple[str, str | Text | Flow]]) -> Padding:
    """Return labels with their values, one pair per line, indented.

    The column of labels has a minimum width, so that the values of several such tables align.
    """
    return Padding(pairs(items, _LABEL), (0, 0, 0, INDENT), expand=False)


@dataclass(frozen=True)
class ShareColumns:
    """Rows of (share, class of process, name), in two columns if all rows fit into them uncut."""

    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines; the rows go down the first column, then down the second."""
        classes = max(cell_len(whose) for _, whose, _ in self.rows)
        cells = [_share_cell(row, classes) for row in self.rows]
        deep = -(-len(cells) // 2)
        left, right = cells[:deep], cells[deep:]
        wide = max(map(cell_len, left))
        room = options.max_width - INDENT
        if wide + _COLUMN_GAP + max(map(cell_len, right), default=0) > room:
            # A name that is longer than a line is folded.
            yield from (line(text) for text in cells)
            return
        for first, second in zip_longest(left, right, fillvalue=""):
            text = f"{set_cell_size(first, wide)}{' ' * _COLUMN_GAP}{second}".rstrip()
            yield Text(f"{' ' * INDENT}{text}", no_wrap=True)


def _share_cell(row: Sequence[str], classes: int) -> str:
    share, whose, name = row
    return f"{share}  {whose}{' ' * (classes - cell_len(whose))}  {name}"


@dataclass(frozen=True)
class Sparks:
    """Spark lines: in each line a label, a series of values as bars, and a text."""

    rows: Sequence[tuple[str, Sequence[float | None], str]]
    most: int
    """The most bars (characters) of a line."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the spark lines, with fewer bars if `options` leave less room."""
        blocks = _PLAIN_BLOCKS if options.ascii_only else _BLOCKS
        longest = max(cell_len(label) for label, _, _ in self.rows)
        used = max(longest, _LABEL) + _GAP if longest else 0
        used += INDENT + _GAP + max(cell_len(words) for _, _, words in self.rows)
        room = min(self.most, max(_FEWEST_BLOCKS, options.max_width - used))
        rows = [
            (label, f"{spark(values, room, blocks)}  {words}") for label, values, words in self.rows
        ]
        if longest:
            yield indented(rows)
        else:
            yield from (line(text, "cyan") for _, text in rows)


def spark(values: Sequence[float | None], room: int, blocks: str = _BLOCKS) -> str:
    """Return values as at most `room` bars, one character each: the average of neighbouring values.

    `blocks` are the characters from the lowest bar, for 0 and less, to that of the largest average.
    A bar without a value is a space.
    """
    width = min(room, len(values))
    groups = [
        [
            v
            for v in values[len(values) * i // width : len(values) * (i + 1) // width]
            if v is not None
        ]
        for i in range(width)
    ]
    # Each value is divided by itself: the sum of values that are as large as can be is infinite.
    means = [sum(v / len(group) for v in group) if group else None for group in groups]
    top = max((value for value in means if value is not None), default=0.0)
    steps = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[round(steps * (max(0.0, value) / top)) if top > 0 else 0]
        for value in means
    )
