"""Objects that replayer leaves on another user's server, by its own list on that server only."""

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
"""Fact of an engine: the size in bytes of what replayer leaves on its server after a run."""
NAMES = "left.names"
"""Fact of an engine: the names of these objects."""


class Thing(NamedTuple):
    """One object in the list of objects that replayer made."""

    kind: str
    """table, slob or database."""
    name: str
    bytes: int


def refuse_unknown(engine: Engine) -> None:
    """Raise Impossible for an engine without the verbs to remove these objects."""
    if engine.verb(_RECORDED) is None:
        raise Impossible(
            f"what replayer made on {engine.title} is not removed by replayer: drop its database "
            f"`replayer` there, if replayer_owned lies in it"
        )


def recorded(database: Database) -> bool:
    """Return whether replayer has a list of its objects on this server.

    Raises Skip for an engine without a verb for that.
    """
    return bool(database.value(_RECORDED))


def things(database: Database) -> list[Thing]:
    """Return the objects on the list."""
    rows = database.execute(_THINGS)
    return [Thing(row["kind"], row["name"], row.number("bytes")) for row in rows]


def others(database: Database) -> list[str]:
    """Return the names of objects in replayer's schema or database that are on no list."""
    return [row["name"] for row in database.execute(_OTHERS)]


def forget(database: Database, thing: Thing) -> None:
    """Remove an object from the list."""
    database.execute(_FORGET, kind=thing.kind, name=thing.name)


def leave(database: Database) -> None:
    """Remove the list, and the schema or database that contains it."""
    database.execute(_LEAVE)


def facts(database: Database) -> dict[str, Fact]:
    """Return facts on what replayer leaves on the server, {} if that cannot be found out."""
    try:
        if database.engine.verb(_THINGS) is None or not recorded(database):
            return {}
        left = things(database)
    except (Denied, ReplayerError):
        return {}
    if not left:
        return {}
    return {BYTES: sum(one.bytes for one in left), NAMES: tuple(one.name for one in left)}
