"""Removal of tables and databases that replayer made on another user's server.

Only things that are on replayer's list, and have a name that replayer uses, are removed.
"""

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
    """Remove one table or database (`thing`), and strike it from the list of what replayer made.

    Raises Impossible if replayer does not use the thing's name, although it is on the list.  Raises
    ReplayerError with the server's message if the thing cannot be removed or the user has no right
    to remove it; the thing then stays on the list.
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
    # An interrupted removal may have left its last tables.
    with contextlib.suppress(ReplayerError):
        database.execute(_DROP_TABLE)
