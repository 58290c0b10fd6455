"""Remove what replayer made on somebody else's server: what is on its list, under its own names."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.servers import leftovers
from replayer.tables import persons

if TYPE_CHECKING:
    from replayer.engines.connection import Database
    from replayer.servers.leftovers import Thing

_DROP_TABLE = VerbName("table/drop")
_DROP_SLOB = VerbName("slob/drop")
_DROP_DATABASE = VerbName("replay/drop")
_SLOB = re.compile(r"pgio[0-9]{1,9}")
REPLAYS = "replayer_replay"
"""The database that replayer makes for replays."""


def remove(database: Database, thing: Thing) -> None:
    """Remove one thing and strike it from the list.

    Raises Impossible for what is on the list and has none of replayer's names, ReplayerError with
    the server's words for what may not or cannot be removed; the list keeps it then.
    """
    if thing.kind == "table" and thing.name == persons.NAME:
        _remove_table(database)
    elif thing.kind == "slob" and _SLOB.fullmatch(thing.name):
        database.execute(_DROP_SLOB, {"table": thing.name})
    elif thing.kind == "database" and thing.name == REPLAYS:
        database.execute(_DROP_DATABASE, {"database": thing.name})
    else:
        raise Impossible(
            f"{thing.name} is on replayer's list as a {thing.kind}, and replayer makes nothing of "
            f"that name: left alone"
        )
    leftovers.forget(database, thing)


def _remove_table(database: Database) -> None:
    built = persons.state(database)
    if built is not None:
        persons.drop(database, built.shape.layout)
        return
    # A removal that was cut short may have left its last tables.
    with contextlib.suppress(ReplayerError):
        database.execute(_DROP_TABLE)
