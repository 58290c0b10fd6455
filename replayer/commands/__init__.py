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
    """The `examples:` at the end of the command's help; `configure` may extend them."""

    @abstractmethod
    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status.

        A ReplayerError that it raises is printed by the caller.
        """


FACE = Command
