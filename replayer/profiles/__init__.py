"""Profiles made from recordings of other tools: one module for each tool, named after the tool.

A module has a docstring, a SIGN and `read(file, devices) -> ResourceProfile`.  SIGN is a pattern
that matches the beginning of such a file, and does not match files of other tools.  A value that is
not in the file is left out, never guessed.  A value that is in the file but cannot be read is
counted and named in `file.unread`.
"""

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from replayer.results.imported import ImportSource
from replayer.results.profile import ResourceProfile


class ProfilePlugin(Protocol):
    """The interface of a module of this package, as `replayer profile --from` uses it."""

    SIGN: re.Pattern[str]

    @abstractmethod
    def read(self, file: ImportSource, devices: Sequence[str]) -> ResourceProfile:
        """Return the profile of a recording for the disks `devices`, or for all its disks.

        All disks are used if `devices` is empty.  Raises Impossible if the file has no data that
        the tool records.
        """


FACE = ProfilePlugin
