"""Printing of renderables on stdout: at most 100 columns, plain text in a pipe, nothing cut off.

A pipe always has 100 columns, whatever the variable COLUMNS is, so that programs can rely on the
lines.
"""

import io
import sys
from typing import Any, TextIO

from rich.console import Console, RenderableType

from replayer.cli.stdio import SPELLED

WIDTH = 100


class Screen(Console):
    """A console that does not cut lines at its right edge."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does, but do not crop lines."""
        super().print(*objects, **{"crop": False, **how})

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which ends the program with status 0; rich would exit with 1."""
        raise BrokenPipeError


def screen(stream: TextIO | None = None) -> Screen:
    """Return a console for a stream, by default stdout; it is at most 100 columns wide."""
    stream = stream or sys.stdout
    console = Screen(file=stream, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def text(*renderables: RenderableType, width: int = WIDTH) -> str:
    """Return renderables of rich as plain text, `width` columns wide.

    There are no blanks at the ends of lines.
    """
    console = screen(io.StringIO())
    console.width = width
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def write(*renderables: RenderableType) -> None:
    """Print renderables of rich on stdout; as plain text if stdout is not a terminal."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Characters that the stream cannot encode, e.g. in a label, would end the report.
        reconfigure(errors=SPELLED)
    console = screen()
    if not console.is_terminal:
        sys.stdout.write(text(*renderables))
        return
    for renderable in renderables:
        console.print(renderable)
