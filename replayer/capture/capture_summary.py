"""The totals of a replay file (statements converted from a server's log), stored in the file."""

from typing import Annotated

from pydantic import Field

from replayer.capture.action import Kind
from replayer.model import Noun

ENDING = ".replay"
SIGN = b"REPLAY"
"""The first bytes of every replay file."""


_MOST = (1 << 63) - 1
Whole = Annotated[int, Field(ge=-_MOST, le=_MOST)]
"""An integer of 64 bits with a sign, as fields of the file hold it; others are refused."""
Count = Annotated[int, Field(ge=0, le=_MOST)]


class ActionSource(Noun):
    """The logs from which a capture was made, and the facts known about their server."""

    engine: str = "postgres"
    """postgres, mariadb or mysql."""
    server_version: str = ""
    """The server's version as the log has it; "" if it is not logged."""
    logs: tuple[str, ...] = ()
    """Names of the files, without their folders."""
    resolution_ns: Count = 1_000_000
    """Resolution of the log's clock, in nanoseconds."""
    errors_logged: bool = True
    """True if the log shows which statements failed."""
    anonymised: bool = False


class FingerprintWork(Noun):
    """Totals of the statements of one fingerprint, which differ only in their values."""

    fingerprint: Whole
    text: str
    kind: Kind
    statements: Count = 0
    seconds: float = 0.0
    """Total time of the statements whose duration the log has."""
    longest_seconds: float = 0.0
    timed: Count = 0
    """Number of statements whose duration the log has."""
    rows: Count = 0
    errors: Count = 0


class CaptureSummary(Noun):
    """The totals of a capture: the statements and sessions that a server's logs contain."""

    replayer: str
    """The version of the replayer that wrote the file."""
    source: ActionSource = ActionSource()
    begin_ns: Whole = 0
    """Start of the first action: nanoseconds since 1970 in UTC, by the clock of the source."""
    span_ns: Count = 0
    """Nanoseconds from the start of the first action to the end of the last one."""
    actions: Count = 0
    statements: Count = 0
    sessions: Count = 0
    sessions_began_before: Count = 0
    sessions_at_once: Count = 0
    """Largest number of sessions at a time; one whose end is not logged counts as open."""
    kinds: dict[Kind, Count] = Field(default_factory=dict)
    """Kind -> number of statements."""
    copies: dict[str, Count] = Field(default_factory=dict)
    """Name of a table's data file -> number of COPY FROM STDIN statements that fill the table.

    The name is "" for statements whose table cannot be known.  Captures that an older replayer
    wrote have no such numbers.
    """
    skipped: dict[str, Count] = Field(default_factory=dict)
    """Reason -> number of things in the log that cannot be replayed."""
    damage: tuple[str, ...] = ()
    """Places where a log was cut off or could not be read, one sentence for each."""
    seconds: float = 0.0
    """Total time of all statements whose duration the log has."""
    errors: Count = 0
    late: Count = 0
    """Number of actions in separate blocks of the file, as they ended long after they began."""
    transactions: Count = 0
    chains: Count = 1
    """Number of tables that were changed, plus one for all tables that are not known."""
    busiest_minute_ns: Count = 0
    """Start of the minute with the most statements, in nanoseconds since 1970 in UTC."""
    busiest_minute_statements: Count = 0
    fingerprints: Count = 0
    heaviest: tuple[FingerprintWork, ...] = ()
    """The fingerprints with the largest total time, then the most statements; at most 200."""
