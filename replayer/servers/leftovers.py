"""What replayer leaves on somebody else's server: by its own list there, and by nothing else."""

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
"""The fact of an engine that says how much of replayer's lies on its server after a run."""
NAMES = "left.names"
"""The fact that says what it is."""


class Thing(NamedTuple):
    """One thing that replayer wrote down that it made."""

    kind: str
    """table, slob or database."""
    name: str
    bytes: int


def refuse_unknown(engine: Engine) -> None:
    """Raise Impossible for an engine that has no words for what is removed here."""
    if engine.verb(_RECORDED) is None:
        raise Impossible(
            f"what replayer made on {engine.title} is not removed by replayer: drop its database "
            f"`replayer` there, if replayer_owned lies in it"
        )


def recorded(database: Database) -> bool:
    """Tell whether replayer has a list of what it made on this server.

    Raises Skip for an engine that does not know its words for that.
    """
    return bool(database.value(_RECORDED))


def things(database: Database) -> list[Thing]:
    """Return what is on the list."""
    rows = database.execute(_THINGS)
    return [Thing(row["kind"], row["name"], row.number("bytes")) for row in rows]


def others(database: Database) -> list[str]:
    """Return the names of what lies between replayer's things and is on no list."""
    return [row["name"] for row in database.execute(_OTHERS)]


def forget(database: Database, thing: Thing) -> None:
    """Strike a thing from the list."""
    database.execute(_FORGET, kind=thing.kind, name=thing.name)


def leave(database: Database) -> None:
    """Remove the list, and the schema or database that it lies in."""
    database.execute(_LEAVE)


def facts(database: Database) -> dict[str, Fact]:
    """Return what replayer leaves on the server, nothing where that cannot be told."""
    try:
        if database.engine.verb(_THINGS) is None or not recorded(database):
            return {}
        left = things(database)
    except (Denied, ReplayerError):
        return {}
    if not left:
        return {}
    return {BYTES: sum(one.bytes for one in left), NAMES: tuple(one.name for one in left)}
