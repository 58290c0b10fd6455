"""Results of other tools made into runs: one file each, whose name is the tool's.

An import module has a docstring, a SIGN (a pattern that the beginning of such a file has, and other
tools' have not) and `read(source, label) -> Sheaf`.  What a file does not say is left out, never
guessed; what should say something and cannot be read is counted and named in `source.unread`.
"""

import re
from abc import abstractmethod
from typing import NamedTuple, Protocol

from replayer.model import Run
from replayer.results.imported import ImportSource


class ImportResult(NamedTuple):
    """The runs of one file, and a sentence for each line that could not be read."""

    runs: tuple[Run, ...]
    unread: tuple[str, ...] = ()


class Import(Protocol):
    """What the import command needs of an import module."""

    SIGN: re.Pattern[str]

    @abstractmethod
    def read(self, source: ImportSource, label: str) -> ImportResult:
        """Return the runs of a file.

        Raises Impossible, in one sentence, when there is nothing of the tool in it.
        """


FACE = Import
