"""Profiles made of what other tools recorded: one file each, whose name is the tool's.

A module has a docstring, a SIGN (a pattern that the beginning of such a file has, and other tools'
have not) and `read(file, devices) -> Profile`.  What a file does not say is left out, never
guessed; what should say something and cannot be read is counted and named in `file.unread`.
"""

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from replayer.results.imported import ImportSource
from replayer.results.profile import ResourceProfile


class ProfilePlugin(Protocol):
    """What `replayer profile --from` needs of such a module."""

    SIGN: re.Pattern[str]

    @abstractmethod
    def read(self, file: ImportSource, devices: Sequence[str]) -> ResourceProfile:
        """Return the profile of a file; without devices, of all disks in it together.

        Raises Impossible, in one sentence, when there is nothing of the tool in it.
        """


FACE = ProfilePlugin
