"""The subcommands: one file each; the file's name is what the user types.

A command module has a docstring (its first line is the help), `configure(parser)` and `run(args)`.
`run` returns the exit status. A module is imported only when its command is used: `replayer --help`
just reads the docstrings.
"""

import argparse
from abc import abstractmethod
from typing import Protocol


class Command(Protocol):
    """The members of a command module that the command line uses."""

    EPILOG: str = ""
    """The `examples:` at the end of its help; `configure` may set a longer `parser.epilog`."""

    @abstractmethod
    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status; __main__ prints a ReplayerError."""


FACE = Command
