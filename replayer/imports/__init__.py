"""Imports: results of other tools converted to runs, one module for each tool, named after it.

An import module has a docstring, a SIGN and `read(source, label) -> ImportResult`.  SIGN is a
pattern that matches the beginning of such a file, and does not match files of other tools.  A value
that is not in the file is left out, never guessed.  A value that is in the file but cannot be read
is counted and named in `source.unread`.
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
    """The interface of an import module, as the import command uses it."""

    SIGN: re.Pattern[str]

    @abstractmethod
    def read(self, source: ImportSource, label: str) -> ImportResult:
        """Return the runs of a file.

        Raises Impossible, in one sentence, if the file has no results of the tool.
        """


FACE = Import
