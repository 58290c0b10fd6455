"""Counters of other sessions in the same database, while a load is measured."""

from collections.abc import Mapping
from dataclasses import dataclass

from replayer.engines import connection
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Interrupted, ReplayerError
from replayer.watch import ledger
from replayer.watch.ledger import OtherSessions

_OTHERS = VerbName("mix/others")


@dataclass(frozen=True, slots=True)
class OthersActivity:
    """Blocks that other sessions have found and missed so far, by (process, session's begin)."""

    sessions: Mapping[tuple[int, float], tuple[int, int]]


def look(database: Database) -> OthersActivity | None:
    """Return the counters of other sessions, None if the server has none for each session."""
    verb = database.engine.verb(_OTHERS)
    if verb is None:
        return None
    try:
        rows = database.execute(verb)
    except Interrupted:
        raise
    except ReplayerError:
        return None
    own = connection.sessions()
    return OthersActivity(
        {
            (row["pid"], row["began"]): (row.number("hits"), row.number("reads"))
            for row in rows
            if row["pid"] not in own
        }
    )


def notes(
    before: OthersActivity | None, after: OthersActivity | None, blocks: int, seconds: float
) -> list[str]:
    """Return notes on the work of those other sessions that still exist at the end.

    `blocks` is the number of all blocks in the window, and `seconds` its length.
    """
    if before is None or after is None:
        return []
    moved = [
        (hits - had[0], reads - had[1])
        for key, (hits, reads) in after.sessions.items()
        for had in (before.sessions.get(key, (0, 0)),)
    ]
    hits, reads = (max(0, sum(one[place] for one in moved)) for place in (0, 1))
    others = OtherSessions(hits=hits, reads=reads, counted=True)
    return ledger.other_sessions(others, max(0, blocks - hits - reads), seconds)
