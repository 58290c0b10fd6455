"""The keys of a replay."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from replayer import units
from replayer.model import StepSpec, Temperature


def _texts(values: Any) -> Any:
    """Take a number as a name, as the digits of a fingerprint may all be decimal."""
    if isinstance(values, list | tuple):
        return tuple(str(one) if type(one) is int else one for one in values)
    return values


Names = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1)], ...], BeforeValidator(_texts)
]


class Spec(StepSpec):
    """The keys of a replay."""

    file: str = ""
    """The capture, as `replayer convert` wrote it: a path to a .replay file."""
    speed: float = Field(1.0, ge=0, le=1_000_000)
    """How many times as fast as it was captured; 0 is as fast as the server answers."""
    order: Literal["none", "commit", "serial"] = "none"
    """`none`: each session keeps its own order.  `commit`: a transaction starts when all have ended
    that had ended before it started, and changes of a table follow each other as they did.
    `serial`: one transaction after the other, as they ended."""
    order_timeout: units.Duration = Field(10.0, gt=0)
    """Seconds after which a statement goes that waits for its place in the order; it is counted."""
    idle: Literal["keep", "skip"] = "keep"
    """`skip`: a pause in which no session did anything lasts no more than a second."""
    read_only: bool = False
    """Replay what only reads, in sessions that the server lets change nothing."""
    sessions: int | None = Field(None, ge=1, le=65_536)
    """Connections at a time at most; captured sessions share them, one transaction at a time."""
    statement_timeout: units.Duration = Field(0.0, ge=0, le=86_400)
    """Seconds after which the server ends a statement; 0 is never."""
    restore: str = ""
    """What each repeat begins from, in a database that replayer makes for it: a path to a dump
    (plain SQL, or made by pg_dump -Fc, -Fd or -Ft), or the name of a database to copy."""
    database: str = ""
    """Of a capture of several databases the one whose sessions are replayed; all of them if it is
    not given."""
    users: Names = ()
    """Whose sessions are replayed, all of them if none is given; * and ? stand for other
    characters, and a name after ! is left out."""
    applications: Names = ()
    """By which application_name sessions are replayed, written as in `users`."""
    fingerprints: Names = ()
    """Which statements are replayed, each with its whole transaction: the 16 digits that a report
    has for a fingerprint, or its normalised text, written as in `users`."""
    tables: Names = ()
    """On which tables a transaction must have a statement to be replayed, written as in `users`,
    with or without a schema."""
    copy_from: str = ""
    """A folder with the data for COPY FROM STDIN, which no log has: schema.table.copy for each COPY
    of a table, or schema.table.N.copy for its N-th; a COPY without data is left out."""
    begin: units.Duration | None = Field(None, ge=0, alias="from")
    """Second of the capture at which the replay begins; all of it unless it is given."""
    until: units.Duration | None = Field(None, gt=0)
    """Second of the capture before which the last action starts."""
    verify: Literal["none", "rows", "hash"] = "rows"
    """What is kept of the answers to find divergences: nothing, numbers of rows, hashes of rows."""
    against: str = ""
    """A run, by its id or path, whose replay of the same file this one is held against."""
    cold: Temperature = Temperature.UNKNOWN
    """What of the database is in memory when it begins: cold, lukewarm, hot, or as it is."""
    i_will_change: str = ""
    """The name of the database at the URL, which allows to change what is in it."""

    @model_validator(mode="after")
    def _ordered(self) -> "Spec":
        if self.begin is not None and self.until is not None and self.until <= self.begin:
            raise ValueError("until must be after from")
        return self
