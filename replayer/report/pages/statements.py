"""The statements of a replay on a page, set against their source, with plans of the slowed ones."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from replayer.analysis.differences.samples import Side
from replayer.report.pages.markup import escaped, table
from replayer.report.terminal import step_layout
from replayer.run.display import Part, Sentence, TableRows, Tone, Verbatim

_MOST_ROWS = 200
_STATEMENT = 400
"""The most characters of a statement's normalised text."""
_KINDS = {Tone.QUIET: "quiet", Tone.BAD: "verdict", Tone.GOOD: "verdict"}
_WORDS = 2
"""Columns of words at the left of a table: the statement and the verdict."""


def sections(sides: Sequence[Side]) -> Iterator[str]:
    """Yield the sections that displays of steps add, of the last run of each side."""
    for side in sides:
        for run in side.runs[-1:]:
            for name, parts in step_layout.own_sections(run, most=_MOST_ROWS, width=_STATEMENT):
                of = name if len(sides) == 1 else f"{name}, {side.name}"
                yield f"<h2>Statements of {escaped(of)}</h2>"
                yield from _drawn_all(parts)


def _drawn_all(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the parts; lines that belong together are one block."""
    for verbatim, group in groupby(parts, key=lambda part: isinstance(part, Verbatim)):
        if verbatim:
            lines = (one.text for one in group if isinstance(one, Verbatim))
            yield f"<pre>{_escaped_lines(lines)}</pre>"
        else:
            yield from map(_drawn, group)


def _escaped_lines(lines: Iterable[str]) -> str:
    """Return lines escaped for HTML, each by itself, so that their ends stay."""
    return "\n".join(escaped(words) for words in lines)


def _drawn(part: Part) -> str:
    match part:
        case Sentence():
            return f'<p class="{_KINDS.get(part.tone, "")}">{escaped(part.text)}</p>'
        case TableRows():
            return table(part.headings, part.rows, numbers=range(_WORDS, len(part.headings)))
    return ""
