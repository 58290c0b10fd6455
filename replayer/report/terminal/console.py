"""Write a renderable on stdout: at most 100 columns, plain when piped, nothing cut off.

A pipe has 100 columns whatever COLUMNS says, so that programs find lines as they know them.
"""

import io
import sys
from typing import Any, TextIO

from rich.console import Console, RenderableType

WIDTH = 100


class Screen(Console):
    """A console that lets a line which must stay whole pass its right edge."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as rich does, uncropped."""
        super().print(*objects, **{"crop": False, **how})

    def on_broken_pipe(self) -> None:
        """Leave it to __main__, which ends in peace; rich would end the program with status 1."""
        raise BrokenPipeError


def screen(stream: TextIO | None = None) -> Screen:
    """Return a console for a stream, stdout unless given: as wide as the terminal, at most 100."""
    stream = stream or sys.stdout
    console = Screen(file=stream, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def text(*renderables: RenderableType, width: int = WIDTH) -> str:
    """Return renderables as plain text, no line of which ends in blanks."""
    console = screen(io.StringIO())
    console.width = width
    with console.capture() as captured:
        for renderable in renderables:
            console.print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def write(*renderables: RenderableType) -> None:
    """Print renderables on stdout."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A label in another alphabet must not end a report on an ASCII terminal.
        reconfigure(errors="replace")
    console = screen()
    if not console.is_terminal:
        sys.stdout.write(text(*renderables))
        return
    for renderable in renderables:
        console.print(renderable)
