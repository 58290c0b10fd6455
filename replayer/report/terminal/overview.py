"""The report of a run on one screen of a terminal, with as many remarks as there is room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

from replayer.model import Run
from replayer.report.documents import run_screen
from replayer.report.terminal.console import WIDTH
from replayer.report.writers import terminal_writer

_MOST_LINES, _MOST_LINES_NARROW = 45, 60
"""The lines of one screen if it has at least 100 columns, and if it has fewer."""


def render(
    run: Run, path: Path | None = None, left: str = "", *, lines: bool = True
) -> RenderableType:
    """Return the report of a run on one screen, with as many remarks as there is room for.

    `path` is the run's result file, and `left` a sentence on what replayer left on a server.  With
    `lines`, the fixed lines of each step that other programs search for are shown, too.
    """
    screens = run_screen.documents(run, path, left, lines=lines)
    return _OneScreen([terminal_writer.render(screen) for screen in screens])


@dataclass(frozen=True)
class _OneScreen:
    """A report in versions with fewer and fewer remarks; the first that fits is printed."""

    choices: Sequence[RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the longest version whose lines fit on one screen, or the shortest if none does."""
        most = _MOST_LINES if options.max_width >= WIDTH else _MOST_LINES_NARROW
        for choice in self.choices[:-1]:
            if len(console.render_lines(choice, options, pad=False)) <= most:
                yield choice
                return
        yield self.choices[-1]
