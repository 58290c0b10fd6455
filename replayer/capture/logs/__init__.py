"""Layouts of logs: one file each, found by its name; a layout is known by a log's beginning.

A module has a docstring, `ENGINE` (`postgres` or `mysql`), `RANK` (of two logs of the same time the
one with the higher rank is read: it tells more), `fits(head)`, `find_start(head, order)` and
`read(inputs, order)`, as in `Log`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from replayer.capture.action import Action, LoggedSession
from replayer.capture.entry import ReadCounts
from replayer.capture.inputs import Input


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How a log is to be read, and whom to tell what."""

    reading: ReadCounts
    announce: Callable[[LoggedSession], None]
    """Called with each session before the first of its actions is yielded."""
    advance: Callable[[int], None]
    """Called with the bytes of each piece of a file that was read."""
    prefix: str | None = None
    """log_line_prefix, where the user gave it."""


class LogLayout(Protocol):
    """What conversion needs of a layout."""

    ENGINE: str
    RANK: int

    @abstractmethod
    def fits(self, head: str) -> bool:
        """Tell whether a log that begins so is of this layout."""

    @abstractmethod
    def find_start(self, head: str, order: ReadRequest) -> int | None:
        """Return when a log that begins so began, in nanoseconds since 1970; None if unknown.

        Raises Impossible, in one sentence, for a log that can never be replayed: without times, or
        with nothing to tell sessions apart.
        """

    @abstractmethod
    def read(self, inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
        """Yield what clients did, in the order of its end, of files in the order of their times."""


FACE = LogLayout
