"""The subcommands: one file each; the file's name is what the user types.

A command module has a docstring, `configure(parser)` and `run(args)`. The docstring's first line is
the help; `run` returns the exit status. A module is imported only when its command is used: for the
list of commands, `replayer --help` reads the docstrings from the files.
"""

import argparse
from abc import abstractmethod
from typing import Protocol


class Command(Protocol):
    """The members of a command module that the command line uses."""

    EPILOG: str = ""
    """The `examples:` at the end of the command's help; `configure` may extend them."""

    @abstractmethod
    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status.

        If it raises a ReplayerError, its caller prints the error.
        """


FACE = Command
