"""A report document as Markdown, for tickets and READMEs; all texts are escaped."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from replayer.report.document import Bullets, Document, Facts, Numbered, Part, Section, Table, Texts
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence, Verbatim

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def page(document: Document) -> str:
    """Return the document as Markdown, its answer first."""
    parts = [
        f"**{plain(document.headline.text)}**",
        bulleted([document.title, *document.lead]),
        *show_parts(document.answer),
        *show_parts(document.parts),
        *([bulleted(document.notes)] if document.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def show_parts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield parts as paragraphs of Markdown; consecutive verbatim lines are one block of code."""
    for is_verbatim, group in groupby(parts, key=lambda part: isinstance(part, Verbatim)):
        if is_verbatim:
            yield "\n".join(
                f"    {sanitize(one.text)}" for one in group if isinstance(one, Verbatim)
            )
        else:
            yield from (text for part in group for text in _part(part))


def _part(part: Part, title: str = "") -> Iterator[str]:
    """Yield what Markdown shows of a part; a `title` replaces the first heading of a table.

    Nothing is yielded for a part without content, and for charts.
    """
    match part:
        case Sentence() | Texts():
            yield plain(part.text)
        case Numbered():
            items = [f"{number}. {plain(one.text)}" for number, one in part.items]
            yield from filter(None, ("\n".join(items), plain(part.more)))
        case Facts() if part.pairs:
            yield table([title, ""], [(label, str(value)) for label, value in part.pairs])
        case Bullets() if part.texts:
            yield bulleted(part.texts)
        case Table() if part.rows:
            rows = part.rows
            if part.is_wordy:
                rows = [["; ".join(text.split("\n")) for text in row] for row in rows]
            yield table([title or part.headings[0], *part.headings[1:]], rows)
        case Section(is_for_page=False):
            yield from _section(part)


def _section(section: Section) -> Iterator[str]:
    """Yield the Markdown blocks of a section: its title in bold, then its parts.

    If the section begins with facts, or with a table without a first heading, the title becomes the
    first heading of that table instead.
    """
    if not section.parts:
        return
    first, rest = section.parts[0], section.parts
    titled: list[str] = []
    if isinstance(first, Facts) or (isinstance(first, Table) and not first.headings[0]):
        titled, rest = [*_part(first, section.title)], rest[1:]
    texts = [*show_parts(rest)]
    if texts and not titled:  # a part without rows shows no title
        yield f"**{plain(section.title)}**"
    yield from (*titled, *texts)


def bulleted(texts: Iterable[str]) -> str:
    """Return the texts as a bulleted list in Markdown."""
    return "\n".join(f"- {plain(text)}" for text in texts)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown: rows under headings."""
    lines = [[plain(text) for text in headings], ["---"] * len(headings)]
    lines += [[plain(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(words: object) -> str:
    """Return text with Markdown's special characters escaped, except those that are harmless."""
    return _SPECIAL.sub(_escaped, sanitize(words))


def _escaped(match: re.Match[str]) -> str:
    sign = match[1]
    if sign in "()-+!#":
        return sign
    return {"<": "&lt;", ">": "&gt;"}.get(sign, f"\\{sign}")
