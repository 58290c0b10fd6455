"""What a replay file says of itself as a whole."""

from typing import Annotated

from pydantic import Field

from replayer.capture.action import Kind
from replayer.model import Noun

ENDING = ".replay"
SIGN = b"REPLAY"
"""With which every replay file begins."""


_MOST = (1 << 63) - 1
Whole = Annotated[int, Field(ge=-_MOST, le=_MOST)]
"""What any field of the file has room for: a larger number is nobody's count."""
Count = Annotated[int, Field(ge=0, le=_MOST)]


class ActionSource(Noun):
    """Where the actions of a capture come from."""

    engine: str = "postgres"
    """postgres, mariadb or mysql."""
    server_version: str = ""
    """As the log has it; "" where it does not."""
    logs: tuple[str, ...] = ()
    """Names of the files, without their folders."""
    resolution_ns: Count = 1_000_000
    """Of the log's clock."""
    errors_logged: bool = True
    """Whether the log says which statements failed."""
    anonymised: bool = False


class FingerprintWork(Noun):
    """What the statements of one fingerprint came to."""

    fingerprint: Whole
    text: str
    kind: Kind
    statements: Count = 0
    seconds: float = 0.0
    """Of those statements whose duration the log has."""
    longest_seconds: float = 0.0
    timed: Count = 0
    """Statements whose duration the log has."""
    rows: Count = 0
    errors: Count = 0


class CaptureSummary(Noun):
    """All of a capture in a few numbers."""

    replayer: str
    """The version that wrote the file."""
    source: ActionSource = ActionSource()
    begin_ns: Whole = 0
    """When the first action began: nanoseconds since 1970 in UTC by the clock of the source."""
    span_ns: Count = 0
    """From there to the end of the last action."""
    actions: Count = 0
    statements: Count = 0
    sessions: Count = 0
    sessions_began_before: Count = 0
    sessions_at_once: Count = 0
    """At most; a session whose end is not in the log counts to the end."""
    kinds: dict[Kind, Count] = Field(default_factory=dict)
    """Statements by kind."""
    copies: dict[str, Count] = Field(default_factory=dict)
    """How often COPY FROM STDIN fills each table, by the name that a file with its data has; "" is
    for texts of which it cannot be known.  Captures of older replayers have none of them."""
    skipped: dict[str, Count] = Field(default_factory=dict)
    """What is in the log and cannot be replayed, by reason."""
    damage: tuple[str, ...] = ()
    """Where a log was cut off or could not be read, a sentence each."""
    seconds: float = 0.0
    """Of all statements whose duration the log has."""
    errors: Count = 0
    late: Count = 0
    """Actions that ended so long after they began that they are in blocks of their own."""
    transactions: Count = 0
    chains: Count = 1
    """Tables that were changed, and one for what is not known."""
    busiest_minute_ns: Count = 0
    """The whole minute with the most statements: nanoseconds since 1970 in UTC."""
    busiest_minute_statements: Count = 0
    fingerprints: Count = 0
    heaviest: tuple[FingerprintWork, ...] = ()
    """By total time, then by number of statements; at most 200."""
