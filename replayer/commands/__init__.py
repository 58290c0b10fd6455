"""The subcommands: one file each; the file's name is what the user types.

A command module has a docstring (its first line is the help), `configure(parser)` and `run(args)`.
`configure` adds arguments and may set `parser.epilog` to an `examples:` block. `run` returns the
exit status. A module is imported only when its command is used: `replayer --help` just reads the
docstrings.
"""

import argparse
from abc import abstractmethod
from typing import Protocol


class Command(Protocol):
    """The members of a command module that __main__ uses."""

    @abstractmethod
    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit status; __main__ prints a ReplayerError."""


FACE = Command
