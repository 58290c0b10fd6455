"""A report document for a terminal, at most 100 columns wide."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from replayer.report.document import (
    Bullets,
    Document,
    Facts,
    Numbered,
    Part,
    Section,
    SparkLines,
    Table,
    Texts,
)
from replayer.report.sanitize import sanitize
from replayer.report.terminal.tables import (
    INDENT,
    Flow,
    Heading,
    NumberTable,
    ShareColumns,
    Sparks,
    WordTable,
    bullets,
    indented,
    line,
    pairs,
    whole,
)
from replayer.run.display import Sentence, Tone, Verbatim

_STYLES = {
    Tone.PLAIN: "",
    Tone.QUIET: "dim",
    Tone.GOOD: "green",
    Tone.BAD: "red",
    Tone.UNCLEAR: "yellow",
}
_LOUD = {**_STYLES, Tone.BAD: "bold red"}
"""The styles of remarks and verdicts: a bad one is bold, so that it is noticed."""
_LABEL = 9
_SPARK = 50
"""The number of characters of a spark line."""


def render(document: Document) -> Group:
    """Return the document as a renderable; its answer is first, or last if `is_answer_last`."""
    headline = document.headline
    answer = [
        Text(sanitize(headline.text), f"bold {_STYLES[headline.tone]}"),
        *(Text(sanitize(text)) for text in document.lead),
    ]
    rest = [*show_parts(document.parts)]
    if document.notes:
        rest += ["", bullets((sanitize(note), "dim") for note in document.notes)]
    more = [*_answer(document.answer)]
    if not document.is_answer_last:
        return Group(_rule(document.title), *map(line, answer), *more, *rest)
    if more and rest:
        rest = [*rest, "", _rule("the answer")]
    return Group(_rule(document.title), *rest, *more, "", *answer[1:], answer[0])


def _answer(parts: Iterable[Part]) -> Iterator[RenderableType]:
    """Yield the parts of an answer, not indented, with an empty line between them."""
    for part in parts:
        match part:
            case Sentence() if part.text:
                yield Text(sanitize(part.text), _STYLES[part.tone], overflow="fold")
            case Facts() if part.pairs:
                yield from ("", pairs(_cleaned(part.pairs), _LABEL))
            case Table() if part.rows:
                yield from ("", *_part(part))
            case Section(parts=[Facts() as facts]) if facts.pairs:
                rows = [(f"  {label}", text) for label, text in _cleaned(facts.pairs)]
                yield from ("", Text(sanitize(_lowered(part.title)), "dim"), pairs(rows))
            case Section(parts=[Numbered() as numbered]):
                title = Text(sanitize(_lowered(part.title)), "dim", overflow="fold")
                yield from ("", title, *_part(numbered))
            case _:
                yield from show_parts([part])


def _cleaned(
    facts: Iterable[tuple[str, str | Texts]],
) -> Iterator[tuple[str, str | Text | Flow]]:
    for label, value in facts:
        yield sanitize(label), _flow(value) if isinstance(value, Texts) else sanitize(value)


def _flow(texts: Texts) -> Text | Flow:
    if texts.gloss:
        gloss = (sanitize(f"{texts.gap}{texts.gloss}"), "dim")
        return Text.assemble(sanitize(texts.gap.join(texts.texts)), gloss)
    return Flow(_cells(texts.texts), texts.gap, _STYLES[texts.tone])


def render_parts(parts: Iterable[Part]) -> Group:
    """Return parts of a report as a renderable for a terminal, without a title and an answer.

    There is no empty line at the top.
    """
    shown = [*show_parts(parts)]
    return Group(*shown[shown[:1] == [""] :])


def _rule(title: str) -> Heading:
    return Heading(sanitize(title))


def show_parts(parts: Iterable[Part]) -> Iterator[RenderableType]:
    """Yield the renderables that show parts of a report on a terminal."""
    for part in parts:
        yield from _section(part) if isinstance(part, Section) else _part(part)


def _section(section: Section) -> Iterator[RenderableType]:
    if section.is_for_page:
        return
    shown = [
        shown
        for part in section.parts
        for shown in (_within(part) if isinstance(part, Section) else _part(part))
    ]
    if shown or section.is_named:
        yield ""
        title = section.title if section.is_named else _lowered(section.title)
        yield _rule(title) if section.is_main else line(sanitize(title), "bold")
        yield from shown[shown[:1] == [""] :]


def _within(section: Section) -> Iterator[RenderableType]:
    """Yield a section inside a section; without parts, it is one line with its heading."""
    if section.is_for_page:
        return
    shown = [*show_parts(section.parts)]
    if shown:
        yield ""
    yield line(sanitize(_lowered(section.title)))
    if shown:
        yield Padding(Group(*shown), (0, 0, 0, INDENT), expand=False)


def _lowered(title: str) -> str:
    """Return a heading with a small first letter, unless it begins with an abbreviation."""
    return title[0].lower() + title[1:] if title.partition(" ")[0].istitle() else title


def _part(part: Part) -> Iterator[RenderableType]:
    """Yield what a terminal shows of a part; nothing for a chart."""
    match part:
        case Sentence():
            yield line(sanitize(part.text), _LOUD[part.tone])
        case Texts() if part.texts:
            yield line(_flow(part))
        case Facts() if part.pairs:
            yield indented(_cleaned(part.pairs))
        case Bullets() if part.texts:
            yield bullets((sanitize(text), _STYLES[part.tone]) for text in part.texts[: part.most])
            yield from _left_out(len(part.texts), part.most)
        case Numbered():
            rows: list[tuple[str, str | Text | Flow]] = [
                (f"  [{number}]", Text(sanitize(one.text), _LOUD[one.tone], overflow="fold"))
                for number, one in part.items
            ]
            yield pairs([*rows, *([("", sanitize(part.more))] if part.more else [])])
        case Table() if part.rows:
            yield _table(part)
            yield from _left_out(len(part.rows), part.most, part.more)
        case Verbatim():
            # A padding or a table would cut it at the right edge.
            yield whole(sanitize(part.text), _STYLES[part.tone])
        case SparkLines() if part.rows:
            yield Sparks([(sanitize(a), values, sanitize(b)) for a, values, b in part.rows], _SPARK)


def _left_out(known: int, most: int | None, more: str = "") -> Iterator[RenderableType]:
    if most is not None and known > most:
        yield line(f"and {known - most} more{f': {more}' if more else ''}", "dim")


def _table(table: Table) -> RenderableType:
    if table.is_wordy:
        return _wordy(table)
    rows = [_cells(row) for row in table.rows[: table.most]]
    if table.is_list:
        return ShareColumns(rows)
    return NumberTable(
        _cells(table.headings),
        rows,
        numbers=table.numbers,
        is_dense=table.is_dense,
        styles=[_STYLES[tone] for tone in table.tones],
        bars=(table.bar, table.bars) if table.bars else None,
        is_last_folded=table.is_last_folded,
    )


def _wordy(table: Table) -> RenderableType:
    """Return a table whose cells are lines of words, which are wrapped if there is no room."""
    return WordTable(
        _cells(table.headings),
        [["\n".join(map(sanitize, text.split("\n"))) for text in row] for row in table.rows],
        [_LOUD[tone] for tone in table.tones],
    )


def _cells(row: Sequence[str]) -> list[str]:
    return [sanitize(text) for text in row]
