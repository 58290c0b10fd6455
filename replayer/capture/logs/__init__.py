"""Layouts of logs: one module each, detected from the beginning of a log.

A module has a docstring, `ENGINE` (`postgres` or `mysql`), `RANK`, `fits(head)`, `find_start(head,
order)` and `read(inputs, order)`, as in `LogLayout`.  Of two logs of the same time, the one with
the higher `RANK` is read, because it has more information.
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
    """The options for reading a log, and the functions to call with its sessions and progress."""

    reading: ReadCounts
    announce: Callable[[LoggedSession], None]
    """Called with each session before the first of its actions is yielded."""
    advance: Callable[[int], None]
    """Called with the number of bytes of each piece of a file that was read."""
    prefix: str | None = None
    """The log_line_prefix, if the user gave it."""


class LogLayout(Protocol):
    """The interface of a layout, as the conversion uses it."""

    ENGINE: str
    RANK: int

    @abstractmethod
    def fits(self, head: str) -> bool:
        """Return whether a log with this beginning is of this layout."""

    @abstractmethod
    def find_start(self, head: str, order: ReadRequest) -> int | None:
        """Return when a log with this beginning began; None if unknown.

        The time is in nanoseconds since 1970.  Raises Impossible, in one sentence, for a log that
        can never be replayed: one without times, or without a way to distinguish sessions.
        """

    @abstractmethod
    def read(self, inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
        """Yield clients' actions in the order of their ends; `inputs` are in the order of time."""


FACE = LogLayout
