"""The keys of the step `replay` in a workload file."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from replayer import units
from replayer.model import StepSpec, Temperature


def _texts(values: Any) -> Any:
    """Return the values of a key with each number as a text.

    A fingerprint is a text, but a workload file may have it as a number if all its digits are
    decimal.
    """
    if isinstance(values, list | tuple):
        return tuple(str(one) if type(one) is int else one for one in values)
    return values


Names = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1)], ...], BeforeValidator(_texts)
]


class Spec(StepSpec):
    """The keys of the step `replay`, which runs the statements of a captured log again."""

    file: str = ""
    """The capture that `replayer convert` wrote: a path to a .replay file."""
    speed: float = Field(1.0, ge=0, le=1_000_000)
    """Speed as a multiple of the captured one; 0 is as fast as the server answers."""
    order: Literal["none", "commit", "serial"] = "none"
    """`none`: each session keeps its own order.  `commit`: a transaction starts when all those have
    ended that had ended before it started in the capture, and changes of a table follow each other
    as they did there.  `serial`: one transaction after the other, in the order of their ends."""
    order_timeout: units.Duration = Field(10.0, gt=0)
    """Seconds after which a statement that waits for its place in the order runs without it, if no
    statement ended meanwhile; such statements are counted."""
    idle: Literal["keep", "skip"] = "keep"
    """`skip`: a pause in which no session did anything is shortened to a second."""
    read_only: bool = False
    """Replay only statements that read, in read-only sessions."""
    sessions: int | None = Field(None, ge=1, le=65_536)
    """Most connections at the same time; the captured sessions share them by transaction."""
    statement_timeout: units.Duration = Field(0.0, ge=0, le=86_400)
    """Seconds after which the server ends a statement; 0 is never."""
    restore: str = ""
    """The start state of each repeat, in a database that replayer makes for it: a path to a dump
    (plain SQL, or made by pg_dump -Fc, -Fd or -Ft), or the name of a database to copy."""
    database: str = ""
    """Of a capture of several databases, the one whose sessions are replayed; by default all of
    them."""
    users: Names = ()
    """Users whose sessions are replayed, by default all; * and ? are wildcards, and a name after !
    is left out."""
    applications: Names = ()
    """Values of application_name whose sessions are replayed, written as in `users`."""
    fingerprints: Names = ()
    """Statements that are replayed, each with its whole transaction: the 16 digits that a report
    shows for a fingerprint, or its normalised text, written as in `users`."""
    tables: Names = ()
    """Tables by which transactions are chosen: those with a statement on one of them are replayed.
    Written as in `users`, with or without a schema."""
    copy_from: str = ""
    """A folder with the data for COPY FROM STDIN, which no log has: schema.table.copy for each COPY
    of a table, or schema.table.N.copy for its N-th; a COPY without data is left out."""
    begin: units.Duration | None = Field(None, ge=0, alias="from")
    """Second of the capture at which the replay begins; by default its start.  A transaction that
    began earlier is left out as a whole."""
    until: units.Duration | None = Field(None, gt=0)
    """Second of the capture before which the last transaction begins; by default its end.  It is
    replayed as a whole."""
    verify: Literal["none", "rows", "hash"] = "rows"
    """Data kept of the answers to find divergences: nothing, numbers of rows, or hashes of rows."""
    against: str = ""
    """A run, by its id or path, with a replay of the same file, to compare this replay with."""
    source: str = ""
    """The URL of the captured server, without a password (PGPASSWORD and ~/.pgpass have it), where
    the statements that got slower are explained, and nothing else is done."""
    cold: Temperature = Temperature.UNKNOWN
    """Cache state of the database when the replay begins: cold, lukewarm, hot, or as it is."""
    i_will_change: str = ""
    """The name of the database at the URL, which allows replayer to change its contents."""

    @field_validator("source")
    @classmethod
    def _without_password(cls, url: str) -> str:
        # The keys of a step are in every result.
        place = url.partition("://")[2].rpartition("@")[0]
        if ":" in place or "password=" in url:
            raise ValueError(
                "the URL has a password, which would be in the result: leave it out, and give it "
                "in PGPASSWORD or ~/.pgpass"
            )
        return url

    @model_validator(mode="after")
    def _ordered(self) -> "Spec":
        if self.begin is not None and self.until is not None and self.until <= self.begin:
            raise ValueError("until must be after from")
        return self
