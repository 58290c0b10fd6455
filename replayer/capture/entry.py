"""What one entry of a PostgreSQL log says, and what of a log was passed over."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

_NAMED = 5
HOLED = "HOLED"
"""Before the severity of an entry that a hole cut off."""


def query_number(text: str | int) -> int:
    """Return the server's number of statements of one form; 0 for what is none."""
    try:
        number = int(text or 0)
    except (ValueError, TypeError):
        return 0
    return number if -(1 << 63) <= number < 1 << 63 else 0


class LogEntry(NamedTuple):
    """One message of a server with all that belongs to it; what is not logged is ""."""

    time_ns: int
    """Since 1970 in UTC."""
    session: str
    """Its session's id, or the number of its process."""
    severity: str
    message: str
    detail: str = ""
    sqlstate: str = ""
    statement: str = ""
    """That an error ended."""
    context: str = ""
    user: str = ""
    database: str = ""
    application: str = ""
    remote: str = ""
    """Host, with its port where that is logged."""
    query_id: int = 0
    number: int = 0
    """Of the line in its session, from 1; 0 where it is not logged."""


@dataclass(slots=True)
class ReadCounts:
    """What is counted while a log is read."""

    skipped: Counter[str] = field(default_factory=Counter)
    """Statements and more that cannot be replayed, by the reason in words."""
    damage: list[str] = field(default_factory=list)
    """Sentences on what could not be read, the first ones of each file."""
    damaged: int = 0
    """How many there were in all."""
    foreign: int = 0
    """Lines that are of nothing that a server writes."""
    entries: int = 0
    """Whole entries that were read."""
    sessions: int = 0
    statements: int = 0
    """That can be replayed."""
    coarse: bool = False
    """Times have whole seconds."""
    silent: bool = False
    """The log does not say which statements failed."""
    version: str = ""
    """Of the server, where the log tells."""
    notes: dict[str, None] = field(default_factory=dict)
    """Other sentences on how the log was understood, each once."""

    def skip(self, reason: str, count: int = 1) -> None:
        """Count what cannot be replayed."""
        self.skipped[reason] += count

    def hurt(self, sentence: str) -> None:
        """Count a place that cannot be read."""
        self.damaged += 1
        if len(self.damage) < _NAMED:
            self.damage.append(sentence)
