"""A report document as Markdown, for tickets and READMEs; all texts are escaped."""

import re
from collections.abc import Iterable, Iterator, Sequence

from replayer.report.document import Bullets, Document, Facts, Part, Section, Table
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


def page(document: Document) -> str:
    """Return the document, its answer first."""
    parts = [
        f"**{plain(document.headline.text)}**",
        bulleted([document.title, *document.lead]),
        *(text for part in document.parts for text in _part(part)),
        *([bulleted(document.notes)] if document.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _part(part: Part, title: str = "") -> Iterator[str]:
    """Yield what Markdown shows of a part; a table takes `title` as its first heading."""
    match part:
        case Sentence():
            yield plain(part.text)
        case Facts():
            yield table([title, ""], part.pairs)
        case Bullets() if part.texts:
            yield bulleted(part.texts)
        case Table() if part.rows:
            yield table([title or part.headings[0], *part.headings[1:]], part.rows)
        case Section(is_folded=False):
            yield from _section(part)


def _section(section: Section) -> Iterator[str]:
    """Yield a heading and what is below it; a first table has the heading in its empty cell."""
    first = section.parts[0]
    if isinstance(first, Facts) or (isinstance(first, Table) and not first.headings[0]):
        yield from _part(first, section.title)
        rest: Sequence[Part] = section.parts[1:]
    else:
        rest = section.parts
    texts = [text for part in rest for text in _part(part)]
    if texts and rest is section.parts:
        yield f"**{plain(section.title)}**"
    yield from texts


def bulleted(texts: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {plain(text)}" for text in texts)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of rows under headings."""
    lines = [[plain(text) for text in headings], ["---"] * len(headings)]
    lines += [[plain(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def plain(words: object) -> str:
    """Return text with all markup escaped; signs that are harmless inside words stay readable."""
    return _SPECIAL.sub(_escaped, sanitize(words))


def _escaped(match: re.Match[str]) -> str:
    sign = match[1]
    if sign in "()-+!#":
        return sign
    return {"<": "&lt;", ">": "&gt;"}.get(sign, f"\\{sign}")
