"""What a replay file says of itself as a whole."""

from pydantic import Field, NonNegativeInt

from replayer.capture.action import Kind
from replayer.model import Noun

ENDING = ".replay"
SIGN = b"REPLAY"
"""With which every replay file begins."""


class Source(Noun):
    """Where the actions of a capture come from."""

    engine: str = "postgres"
    """postgres, mariadb or mysql."""
    server_version: str = ""
    """As the log has it; "" where it does not."""
    logs: tuple[str, ...] = ()
    """Names of the files, without their folders."""
    resolution_ns: NonNegativeInt = 1_000_000
    """Of the log's clock."""
    errors_logged: bool = True
    """Whether the log says which statements failed."""
    anonymised: bool = False


class Work(Noun):
    """What the statements of one fingerprint came to."""

    fingerprint: int
    text: str
    kind: Kind
    statements: NonNegativeInt = 0
    seconds: float = 0.0
    """Of those statements whose duration the log has."""
    longest_seconds: float = 0.0
    timed: NonNegativeInt = 0
    """Statements whose duration the log has."""
    rows: NonNegativeInt = 0
    errors: NonNegativeInt = 0


class Summary(Noun):
    """All of a capture in a few numbers."""

    replayer: str
    """The version that wrote the file."""
    source: Source = Source()
    begin_ns: int = 0
    """When the first action began: nanoseconds since 1970 in UTC by the clock of the source."""
    span_ns: NonNegativeInt = 0
    """From there to the end of the last action."""
    actions: NonNegativeInt = 0
    statements: NonNegativeInt = 0
    sessions: NonNegativeInt = 0
    sessions_began_before: NonNegativeInt = 0
    sessions_at_once: NonNegativeInt = 0
    """At most; a session whose end is not in the log counts to the end."""
    kinds: dict[Kind, NonNegativeInt] = Field(default_factory=dict)
    """Statements by kind."""
    skipped: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """What is in the log and cannot be replayed, by reason."""
    damage: tuple[str, ...] = ()
    """Where a log was cut off or could not be read, a sentence each."""
    seconds: float = 0.0
    """Of all statements whose duration the log has."""
    errors: NonNegativeInt = 0
    late: NonNegativeInt = 0
    """Actions that ended so long after they began that they are in blocks of their own."""
    transactions: NonNegativeInt = 0
    chains: NonNegativeInt = 1
    """Tables that were changed, and one for what is not known."""
    busiest_minute_ns: NonNegativeInt = 0
    """The whole minute with the most statements: nanoseconds since 1970 in UTC."""
    busiest_minute_statements: NonNegativeInt = 0
    fingerprints: NonNegativeInt = 0
    heaviest: tuple[Work, ...] = ()
    """By total time, then by number of statements; at most 200."""
