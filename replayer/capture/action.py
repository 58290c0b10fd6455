"""What a client did, and what is known of its statements and its session.

A text, a parameter or a name is what the client sent.  Bytes of it that are no UTF-8 are lone
surrogates, as `bytes.decode("utf-8", "surrogateescape")` makes them: encode it in the same way.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Does = Literal["connect", "simple", "extended", "disconnect"]
DOES: tuple[Does, ...] = ("connect", "simple", "extended", "disconnect")
"""What an action does, in the order of its numbers in a file."""

# fmt: off
Kind = Literal[
    "select", "insert", "update", "delete", "merge", "begin", "commit", "rollback",
    "ddl", "copy", "call", "set", "other",
]
# fmt: on

Bounds = Literal["", "begin", "end", "restart", "manual", "automatic"]
"""What a statement means for its session's transaction.

begin      one is open after it
end        the open one ended with it
restart    the open one ended with it, and the next one began
manual     from now on each statement opens one where none is open (autocommit was switched off)
automatic  the open one ended, and each statement is one of its own again
"""

UNKNOWN = -1
"""In the place of a duration, of a number of rows, and of a rank that an action does not have."""


class Action(NamedTuple):
    """One thing that one session did."""

    session: int
    does: Does
    start_ns: int
    """Nanoseconds since 1970 in UTC by the clock of the source."""
    duration_ns: int = UNKNOWN
    text: str = ""
    name: str = ""
    """Of the prepared statement; "" for the unnamed one, and for a simple query."""
    parameters: tuple[str | None, ...] | None = None
    """Of an extended query, as text; None where a query has none or the log does not tell."""
    sqlstate: str = ""
    """Of the error that it ended with; "" where it went well."""
    rows: int = UNKNOWN
    """Returned or changed."""
    query_id: int = 0
    """The server's own number of statements of this form, 64 bits; 0 where it is not logged."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What statements that differ in their values only have in common."""

    number: int
    """64 bits, signed: the server's query id where the log has it, else of the normalised text."""
    text: str
    """Normalised: no value of a statement is in it."""
    kind: Kind
    writes: tuple[str, ...] | None = ()
    """Tables that it changes or locks rows of; None where that cannot be known from its text."""
    bounds: Bounds = ""


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A text that a client sent, and its fingerprint."""

    text: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class LoggedSession:
    """Who worked, and with what settings."""

    number: int
    user: str = ""
    database: str = ""
    application: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    """Names and values that hold from its beginning."""
    began_before: bool = False
    """It was there before the log began: what it had prepared and set is not known."""


class CommitPlace(NamedTuple):
    """Where an action stands in the order of commits; each number is UNKNOWN where it has none.

    Every number speaks of actions that ended earlier in the source, so that nobody waits in a
    circle for others who keep these numbers too.
    """

    needs: int = UNKNOWN
    """Transactions that had ended when its own one began: those with a rank below it."""
    ends: int = UNKNOWN
    """Rank of the transaction that ends with it."""
    chain: int = UNKNOWN
    """Number of the table that it changes, 0 for what is not known."""
    turn: int = UNKNOWN
    """Actions of that chain that ended before it did."""
