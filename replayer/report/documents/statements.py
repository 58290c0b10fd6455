"""The sections that a step's module `display` defines, such as the statements of a replay."""

from collections.abc import Iterator, Sequence

from replayer.analysis.differences.samples import Side
from replayer.model import Run
from replayer.report.document import Part, Section, Table
from replayer.report.documents import step_layout
from replayer.report.sanitize import short
from replayer.run.display import Sentence, TableRows, Tone, Verbatim

_WORDS = 2
"""The number of columns at the left of a table that hold words: the statement and the verdict."""


def sections(sides: Sequence[Side], *, most: int, width: int) -> Iterator[Section]:
    """Yield the sections that steps define, such as the statements of a replay.

    They are those of the last run of each side, which is named if there are several.  A table has
    at most `most` rows, and a text is cut to `width` characters.
    """
    for side in sides:
        for run in side.runs[-1:]:
            last = [Sentence(f"run {short(run.id)}, the last one:", Tone.QUIET)]
            for name, parts in of_run(run, most=most, width=width):
                of = name if len(sides) == 1 else f"{name}, {side.name}"
                begin = last if len(side.runs) > 1 else []
                yield Section(f"Statements of {of}", [*begin, *parts])


def of_run(run: Run, *, most: int, width: int) -> Iterator[tuple[str, list[Part]]]:
    """Yield (step's name, parts) for each step of a run whose module `display` defines sections.

    A table has at most `most` rows, and a text is cut to `width` characters.
    """
    for name, found in step_layout.own_sections(run, most=most, width=width):
        parts: list[Part] = []
        for one in found:
            if isinstance(one, Sentence | Verbatim):
                parts.append(one)
            elif isinstance(one, TableRows):
                numbers = range(_WORDS, len(one.headings))
                parts.append(Table(one.headings, one.rows, numbers=numbers))
        yield name, parts
