"""Log layouts (forms of a server's log): one module each, detected from the beginning of a log.

A module has a docstring, `ENGINE` (`postgres` or `mysql`), `RANK`, `fits(head)`, `find_start(head,
order)` and `read(inputs, order)`, as in `LogLayout`.  If logs have several layouts, the one with
the highest `RANK` is read, because it has more information.
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
    """The options for reading logs, and the functions to call with their sessions and progress.

    `reading` takes the counts of what was read and skipped.
    """

    reading: ReadCounts
    announce: Callable[[LoggedSession], None]
    """Called with each session before the first of its actions is yielded.

    It may be called again with a session of which more is known now, such as its application.
    """
    advance: Callable[[int], None]
    """Called with the number of bytes of each piece of a file that was read."""
    prefix: str | None = None
    """The log_line_prefix, if the user gave it."""


class LogLayout(Protocol):
    """The interface of a module that reads one log layout (a form of a server's log)."""

    ENGINE: str
    RANK: int

    @abstractmethod
    def fits(self, head: str) -> bool:
        """Return whether a log whose text begins with `head` is of this layout."""

    @abstractmethod
    def find_start(self, head: str, order: ReadRequest) -> int | None:
        """Return the first time in `head`, the beginning of a log; None if it has none.

        The time is in nanoseconds since 1970.  Raises Impossible, in one sentence, for a log that
        can never be replayed: one without times, or without a way to distinguish sessions.
        """

    @abstractmethod
    def read(self, inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
        """Yield lists of clients' actions in the order of their ends; `inputs` are oldest first."""


FACE = LogLayout
