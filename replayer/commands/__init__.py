"""The subcommands: one file each, whose name is what the user types.

A command module has a docstring (its first line is the help), `configure(parser)` which adds
arguments and may set `parser.epilog` to an `examples:` block, and `run(args) -> int`, the exit
status.  It is imported when it is asked for: `replayer --help` only reads its docstring.
"""

import argparse
from abc import abstractmethod
from typing import Protocol


class Command(Protocol):
    """What __main__ needs of a command module."""

    @abstractmethod
    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    @abstractmethod
    def run(self, args: argparse.Namespace) -> int:
        """Do it and return the exit status; a ReplayerError is printed by __main__."""


FACE = Command
