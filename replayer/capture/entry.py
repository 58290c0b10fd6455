"""An entry of a PostgreSQL log, and counts of the parts of a log that were skipped."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

_NAMED = 5
_SWAPPED_NS = 10**9
HOLED = "HOLED"
"""Prefix of the severity of an entry that a hole cut off."""


def query_number(text: str | int) -> int:
    """Return the server's id for statements of one form; 0 if the text is no such number."""
    try:
        number = int(text or 0)
    except (ValueError, TypeError):
        return 0
    return number if -(1 << 63) <= number < 1 << 63 else 0


class LogEntry(NamedTuple):
    """One message of a server with all that belongs to it; fields that are not logged are ""."""

    time_ns: int
    """Nanoseconds since 1970 in UTC."""
    session: str
    """Its session's id, or the number of its process."""
    severity: str
    message: str
    detail: str = ""
    sqlstate: str = ""
    statement: str = ""
    """The statement that an error ended."""
    context: str = ""
    user: str = ""
    database: str = ""
    application: str = ""
    remote: str = ""
    """Host, with its port if that is logged."""
    query_id: int = 0
    number: int = 0
    """Number of the line in its session, from 1; 0 if it is not logged."""


@dataclass(slots=True)
class ReadCounts:
    """Counts made while a log is read."""

    skipped: Counter[str] = field(default_factory=Counter)
    """Number of statements and other things that cannot be replayed, by the reason in words."""
    damage: list[str] = field(default_factory=list)
    """Sentences on places that could not be read, the first ones of each file."""
    damaged: int = 0
    """Number of all such places."""
    foreign: int = 0
    """Lines that no server writes."""
    entries: int = 0
    """Complete entries that were read."""
    sessions: int = 0
    statements: int = 0
    """Statements that can be replayed."""
    coarse: bool = False
    """True if times have whole seconds only."""
    silent: bool = False
    """True if the log does not show which statements failed."""
    version: str = ""
    """Version of the server, if the log has it."""
    notes: dict[str, None] = field(default_factory=dict)
    """Other sentences on how the log was understood, each once."""

    latest_ns: int = 0
    """Time of the newest entry, in nanoseconds since 1970."""
    back: int = 0
    """Places at which times go back."""
    most_back_ns: int = 0

    def pass_time(self, time_ns: int) -> None:
        """Note the time of an entry; count a place at which times go back.

        Processes write into one log, so that neighbours may be swapped: by a second, where times
        have whole seconds only.
        """
        behind = self.latest_ns - time_ns
        if behind > _SWAPPED_NS:
            self.back += 1
            self.most_back_ns = max(self.most_back_ns, behind)
        if behind <= 0 or behind > _SWAPPED_NS:
            self.latest_ns = time_ns

    def skip(self, reason: str, count: int = 1) -> None:
        """Count something that cannot be replayed."""
        self.skipped[reason] += count

    def hurt(self, sentence: str) -> None:
        """Count a place that cannot be read."""
        self.damaged += 1
        if len(self.damage) < _NAMED:
            self.damage.append(sentence)
