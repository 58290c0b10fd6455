"""An entry of a PostgreSQL log, and counts of the parts of a log that were skipped."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_NAMED = 5
_SWAPPED_NS = 10**9
_MOST_AT_ONCE = 20_000
HOLED = "HOLED"
"""Prefix of the severity of an entry that a hole (a run of zeros in the log) cut off."""


def query_number(text: str | int) -> int:
    """Return a logged query id as a number; 0 if the text is not an integer of 64 bits."""
    try:
        number = int(text or 0)
    except (ValueError, TypeError):
        return 0
    return number if -(1 << 63) <= number < 1 << 63 else 0


class LogEntry(NamedTuple):
    """One message of a server's log with its parts; text fields that are not logged are ""."""

    time_ns: int
    """Nanoseconds since 1970 in UTC."""
    session: str
    """The session's id, or the number of the server process."""
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
    """The client's host, with the port if it is logged."""
    query_id: int = 0
    number: int = 0
    """Number of the line in its session, from 1; 0 if it is not logged."""
    vxid: str = ""
    """The id of the virtual transaction, such as 20/2, or 20/0 outside of one."""


@dataclass(slots=True)
class ReadCounts:
    """Counts of a log's entries and of the parts that cannot be replayed, made in reading it."""

    skipped: Counter[str] = field(default_factory=Counter)
    """Reason in words -> number of statements or other things that cannot be replayed."""
    damage: list[str] = field(default_factory=list)
    """Sentences on the first places that could not be read."""
    damaged: int = 0
    """Number of all places that could not be read."""
    foreign: int = 0
    """Number of lines that no server writes."""
    entries: int = 0
    """Complete entries that were read."""
    sessions: int = 0
    statements: int = 0
    """Statements that can be replayed."""
    coarse: bool = False
    """True if times have whole seconds only."""
    translated: int = 0
    """Number of messages about statements in another language than English."""
    silent: bool = False
    """True if the log does not show which statements failed."""
    version: str = ""
    """Version of the server, if the log has it."""
    notes: dict[str, None] = field(default_factory=dict)
    """Other sentences on how the log was understood, each once."""

    latest_ns: int = 0
    """Newest time since times last went back, in nanoseconds since 1970."""
    back: int = 0
    """Places at which times go back."""
    most_back_ns: int = 0

    def pass_time(self, time_ns: int) -> None:
        """Note the time of the log's next entry, in ns since 1970; count it if times go back.

        Several processes write into one log, so neighbouring entries may be swapped.  A step back
        by less than a second is therefore not counted, nor one by a second between whole seconds.
        """
        behind = self.latest_ns - time_ns
        rounded = time_ns % _SWAPPED_NS == 0
        back = behind > _SWAPPED_NS or (behind == _SWAPPED_NS and not rounded)
        if back:
            self.back += 1
            self.most_back_ns = max(self.most_back_ns, behind)
        if behind <= 0 or back:
            self.latest_ns = time_ns

    def skip(self, reason: str, count: int = 1) -> None:
        """Add `count` to the number of things that are not replayed for this reason."""
        self.skipped[reason] += count

    def unskip(self, reason: str, count: int) -> None:
        """Subtract `count` from the number of things that are not replayed for this reason."""
        self.skipped[reason] -= count
        if not self.skipped[reason]:
            del self.skipped[reason]

    def hurt(self, sentence: str) -> None:
        """Count a damaged place in the log; keep the `sentence` about it if it is an early one."""
        self.damaged += 1
        if len(self.damage) < _NAMED:
            self.damage.append(sentence)


def spread(entries: Iterable[LogEntry], resolution_ns: int) -> Iterator[LogEntry]:
    """Yield entries of a log; equal times of neighbours are spread over `resolution_ns` ns."""
    same: list[LogEntry] = []
    for entry in entries:
        if same and (entry.time_ns != same[0].time_ns or len(same) >= _MOST_AT_ONCE):
            yield from _apart(same, resolution_ns)
            same = []
        same.append(entry)
    yield from _apart(same, resolution_ns)


def _apart(same: list[LogEntry], resolution_ns: int) -> Iterator[LogEntry]:
    step = resolution_ns // (len(same) + 1)
    for place, entry in enumerate(same, start=1):
        yield entry._replace(time_ns=entry.time_ns + place * step)
