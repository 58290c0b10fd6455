"""The summary of a whole replay file, which is stored in the file."""

from typing import Annotated

from pydantic import Field

from replayer.capture.action import Kind
from replayer.model import Noun

ENDING = ".replay"
SIGN = b"REPLAY"
"""The first bytes of every replay file."""


_MOST = (1 << 63) - 1
Whole = Annotated[int, Field(ge=-_MOST, le=_MOST)]
"""A number that fits a field of the file; larger numbers are refused."""
Count = Annotated[int, Field(ge=0, le=_MOST)]


class ActionSource(Noun):
    """The source of the actions of a capture."""

    engine: str = "postgres"
    """postgres, mariadb or mysql."""
    server_version: str = ""
    """The version as the log has it; "" if it is not logged."""
    logs: tuple[str, ...] = ()
    """Names of the files, without their folders."""
    resolution_ns: Count = 1_000_000
    """Resolution of the log's clock, in nanoseconds."""
    errors_logged: bool = True
    """True if the log shows which statements failed."""
    anonymised: bool = False


class FingerprintWork(Noun):
    """Totals of the statements of one fingerprint."""

    fingerprint: Whole
    text: str
    kind: Kind
    statements: Count = 0
    seconds: float = 0.0
    """Total time of those statements whose duration the log has."""
    longest_seconds: float = 0.0
    timed: Count = 0
    """Statements whose duration the log has."""
    rows: Count = 0
    errors: Count = 0


class CaptureSummary(Noun):
    """The totals of a capture."""

    replayer: str
    """The version that wrote the file."""
    source: ActionSource = ActionSource()
    begin_ns: Whole = 0
    """Start of the first action: nanoseconds since 1970 in UTC, by the clock of the source."""
    span_ns: Count = 0
    """Nanoseconds from there to the end of the last action."""
    actions: Count = 0
    statements: Count = 0
    sessions: Count = 0
    sessions_began_before: Count = 0
    sessions_at_once: Count = 0
    """The largest number at a time; a session whose end is not in the log counts until the end."""
    kinds: dict[Kind, Count] = Field(default_factory=dict)
    """Statements by kind."""
    copies: dict[str, Count] = Field(default_factory=dict)
    """Number of COPY FROM STDIN for each table, by the name of the file with its data.

    The name is "" for texts whose table cannot be known.  Captures of older replayers have no such
    numbers.
    """
    skipped: dict[str, Count] = Field(default_factory=dict)
    """Number of things in the log that cannot be replayed, by reason."""
    damage: tuple[str, ...] = ()
    """Places where a log was cut off or could not be read, one sentence for each."""
    seconds: float = 0.0
    """Total time of all statements whose duration the log has."""
    errors: Count = 0
    late: Count = 0
    """Actions that ended so long after they began that they are in separate blocks."""
    transactions: Count = 0
    chains: Count = 1
    """Number of tables that were changed, plus one for all tables that are not known."""
    busiest_minute_ns: Count = 0
    """The whole minute with the most statements: nanoseconds since 1970 in UTC."""
    busiest_minute_statements: Count = 0
    fingerprints: Count = 0
    heaviest: tuple[FingerprintWork, ...] = ()
    """The fingerprints with the largest total time, then the most statements; at most 200."""
