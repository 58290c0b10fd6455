"""Results of other tools made into runs: one file each, whose name is the tool's.

An import module has a docstring and `read(path, label) -> Sheaf`.  What a file does not say is
left out, never guessed; lines that should say something and cannot be read are named with their
numbers.
"""

from pathlib import Path
from typing import NamedTuple, Protocol

from replayer.model import Run


class Sheaf(NamedTuple):
    """The runs of one file, and a sentence for each line that could not be read."""

    runs: tuple[Run, ...]
    unread: tuple[str, ...] = ()


class Import(Protocol):
    """What the import command needs of an import module."""

    def read(self, path: Path, label: str) -> Sheaf:
        """Return the runs of a file.

        Raises Impossible, in one sentence, when there is nothing of the tool in it.
        """
        ...
