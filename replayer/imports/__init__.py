"""Imports: results of other tools converted to runs, one module for each tool, named after it.

An import module has a docstring, a SIGN and `read(source, label) -> ImportResult`.  If its tool
writes one result to several files, it also has `group_files(names)`.  SIGN is a
pattern that matches the beginning of such a file, and does not match files of other tools.  A value
that is not in the file is left out, never guessed.  A value that is in the file but cannot be read
is counted and named in `source.unread`.
"""

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from replayer.model import Run
from replayer.results.imported import ImportSource


class ImportResult(NamedTuple):
    """The runs in one file of another tool, and sentences on what could not be read of it."""

    runs: tuple[Run, ...]
    unread: tuple[str, ...] = ()


class Import(Protocol):
    """The interface of an import module, which converts one tool's files to runs."""

    SIGN: re.Pattern[str]

    @abstractmethod
    def read(self, source: ImportSource, label: str) -> ImportResult:
        """Return the runs in a file of the tool, with the user's `label` for them.

        Raises Impossible, in one sentence, if the file has no results of the tool.
        """

    def group_files(self, names: Sequence[str]) -> list[list[str]]:
        """Return the names of files in groups; the files of a group are read as one."""
        return [[name] for name in names]


FACE = Import
