"""The statements of a replay on a page, set against their source, with plans of the slowed ones."""

from collections.abc import Iterator, Sequence

from replayer.analysis.differences.samples import Side
from replayer.report.pages.markup import escaped, table
from replayer.report.terminal import step_layout
from replayer.run.display import Part, Sentence, TableRows, Tone, Verbatim

_MOST_ROWS = 200
_STATEMENT = 400
"""The most characters of a statement's normalised text."""
_WORDS = 2
"""Columns of words at the left of a table: the statement and the verdict."""


def sections(sides: Sequence[Side]) -> Iterator[str]:
    """Yield the sections that displays of steps add, of the last run of each side."""
    for side in sides:
        for run in side.runs[-1:]:
            for name, parts in step_layout.own_sections(run, most=_MOST_ROWS, width=_STATEMENT):
                of = name if len(sides) == 1 else f"{name}, {side.name}"
                yield f"<h2>Statements of {escaped(of)}, against the source</h2>"
                yield from (_drawn(part) for part in parts)


def _drawn(part: Part) -> str:
    match part:
        case Sentence():
            kind = "quiet" if part.tone is Tone.QUIET else "verdict"
            return f'<p class="{kind}">{escaped(part.text)}</p>'
        case TableRows():
            return table(part.headings, part.rows, numbers=range(_WORDS, len(part.headings)))
        case Verbatim():
            return f"<pre>{escaped(part.text)}</pre>"
    return ""
