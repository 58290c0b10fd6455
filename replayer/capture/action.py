"""Actions of a database's clients, as a log has them, and facts on their statements and sessions.

A text, a parameter or a name is what the client sent.  Bytes that are not UTF-8 become lone
surrogates, as with `bytes.decode("utf-8", "surrogateescape")`; encode them in the same way.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Does = Literal["connect", "simple", "extended", "disconnect"]
DOES: tuple[Does, ...] = ("connect", "simple", "extended", "disconnect")
"""The kinds of actions; a file stores an action's index in this tuple."""

# fmt: off
Kind = Literal[
    "select", "insert", "update", "delete", "merge", "begin", "commit", "rollback",
    "ddl", "copy", "call", "set", "other",
]
# fmt: on

Bounds = Literal["", "begin", "end", "restart", "manual", "automatic"]
"""The effect of a statement on its session's transaction; "" is no effect.

begin      a transaction is open after it
end        the open transaction ended with it
restart    the open transaction ended with it, and the next one began
manual     from now on a statement opens a transaction if none is open (autocommit was turned off)
automatic  the open transaction ended; from now on each statement is its own transaction again
"""

UNKNOWN = -1
"""The value of a number that is not known, or that an action does not have."""


class Action(NamedTuple):
    """One action of one session: a connect, a statement or a disconnect."""

    session: int
    does: Does
    start_ns: int
    """Nanoseconds since 1970 in UTC, by the clock of the source."""
    duration_ns: int = UNKNOWN
    text: str = ""
    name: str = ""
    """Name of the prepared statement; "" for the unnamed one, and for a simple query."""
    parameters: tuple[str | None, ...] | None = None
    """Parameters of an extended query, as text; None if a query has none or they are not logged."""
    sqlstate: str = ""
    """SQLSTATE of the error with which the action ended; "" if the log shows no error."""
    rows: int = UNKNOWN
    """Number of rows returned or changed."""
    query_id: int = 0
    """The server's id for statements of this form, 64 bits; 0 if not logged."""
    transaction: int = 0
    """Number of the transaction in its session, which statements of one transaction share.

    It is 0 if the log does not show it, or if the statement was a transaction alone.
    """


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The common form of statements that differ only in their values."""

    number: int
    """A signed 64-bit number: the server's query id if logged, else a hash of the text."""
    text: str
    """The normalised text, which contains no value of a statement."""
    kind: Kind
    writes: tuple[str, ...] | None = ()
    """Tables that such a statement changes or whose rows it locks; None if they are not known."""
    bounds: Bounds = ""


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """An SQL text that a client sent, and its fingerprint (its form without values)."""

    text: str
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class LoggedSession:
    """One session of the log: its user, its database, its application and its settings."""

    number: int
    user: str = ""
    database: str = ""
    application: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    """Names and values of the settings at the beginning of the session."""
    began_before: bool = False
    """True if the session began before the log; its prepared statements are then not known."""


class CommitPlace(NamedTuple):
    """The place of an action in the commit order; a number is UNKNOWN (-1) if it has none.

    The commit order is the order in which the source (the captured server) ended its transactions
    and changed its tables.  A replay can keep it.  Each number refers only to actions that ended
    earlier in the source.  So sessions that wait for those actions never wait for each other in a
    circle.
    """

    needs: int = UNKNOWN
    """Number of transactions that had ended when the action's own transaction began.

    The action waits for those transactions, which are the ones with a rank below this number.
    """
    ends: int = UNKNOWN
    """Rank of the transaction that ends with this action."""
    chain: int = UNKNOWN
    """Number of the chain, which is all actions that change the same table.

    The actions that change unknown tables are the chain 0.
    """
    turn: int = UNKNOWN
    """Number of actions of the same chain that ended before this one."""


def language_of(engine: str) -> str:
    """Return the SQL dialect of an engine: postgres for PostgreSQL, mysql for any other engine."""
    return "postgres" if engine == "postgres" else "mysql"
