"""Objects that replayer made on another user's server, and that still exist there.

Replayer keeps a list of them on that server.  What is not on this list does not count as made by
replayer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replayer.engines.verbs import VerbName
from replayer.errors import Denied, Impossible, ReplayerError

if TYPE_CHECKING:
    from replayer.engines.connection import Database
    from replayer.engines.engine import Engine
    from replayer.model import Fact

_RECORDED = VerbName("residue/recorded")
_THINGS = VerbName("residue/things")
_OTHERS = VerbName("residue/others")
_FORGET = VerbName("residue/forget")
_LEAVE = VerbName("residue/leave")

BYTES = "left.bytes"
"""Name of a fact: the total bytes of the objects that replayer leaves on a server after a run."""
NAMES = "left.names"
"""Name of a fact: the names of the objects that replayer leaves on a server after a run."""


class Thing(NamedTuple):
    """One entry of the list of objects that replayer made on a server."""

    kind: str
    """`table`, `slob` (the tables of a SLOB load) or `database`."""
    name: str
    bytes: int


def refuse_unknown(engine: Engine) -> None:
    """Raise Impossible if replayer cannot list and remove its objects on servers of this engine.

    The engine then has no SQL files (verbs) for that.
    """
    if engine.verb(_RECORDED) is None:
        raise Impossible(
            f"what replayer made on {engine.title} is not removed by replayer: drop its database "
            f"`replayer` there, if replayer_owned lies in it"
        )


def recorded(database: Database) -> bool:
    """Return whether replayer has a list of its objects on this server.

    Raises Skip for an engine that has no SQL file (verb) for this question.
    """
    return bool(database.value(_RECORDED))


def things(database: Database) -> list[Thing]:
    """Return all entries of the list of objects that replayer made on this server."""
    rows = database.execute(_THINGS)
    return [Thing(row["kind"], row["name"], row.number("bytes")) for row in rows]


def others(database: Database) -> list[str]:
    """Return the names of all objects in replayer's schema or database on this server.

    The list of objects, which is in the same schema or database, is left out.
    """
    return [row["name"] for row in database.execute(_OTHERS)]


def forget(database: Database, thing: Thing) -> None:
    """Remove an entry from the list; the object itself is not removed."""
    database.execute(_FORGET, kind=thing.kind, name=thing.name)


def leave(database: Database) -> None:
    """Remove the list of objects, and the schema or database that contains this list."""
    database.execute(_LEAVE)


def facts(database: Database) -> dict[str, Fact]:
    """Return facts (name -> value) on the objects that replayer left on this server.

    `BYTES` has their total size in bytes, `NAMES` a tuple of their names.  Returns {} if nothing is
    left or if the list of objects cannot be read.
    """
    try:
        if database.engine.verb(_THINGS) is None or not recorded(database):
            return {}
        left = things(database)
    except (Denied, ReplayerError):
        return {}
    if not left:
        return {}
    return {BYTES: sum(one.bytes for one in left), NAMES: tuple(one.name for one in left)}
