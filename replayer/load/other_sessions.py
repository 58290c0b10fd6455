"""Counters of other sessions in the same database, while a load is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer.engines import connection
from replayer.engines.verbs import VerbName
from replayer.errors import Interrupted, ReplayerError
from replayer.watch import ledger
from replayer.watch.ledger import OtherSessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from replayer.engines.connection import Database
    from replayer.load.machine_usage import Activity

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


def work_between(
    before: OthersActivity | None, after: OthersActivity | None, *, known_before: bool = False
) -> OtherSessions | None:
    """Return the work of those other sessions that still exist at the end; None if not counted.

    `known_before` leaves out sessions that began after the first look.  In a replay these may be
    its own: they have the captured names, so that nothing else distinguishes them.
    """
    if before is None or after is None:
        return None
    moved = [
        (hits - had[0], reads - had[1])
        for key, (hits, reads) in after.sessions.items()
        if key in before.sessions or not known_before
        for had in (before.sessions.get(key, (0, 0)),)
    ]
    hits, reads = (max(0, sum(one[place] for one in moved)) for place in (0, 1))
    return OtherSessions(hits=hits, reads=reads, counted=True)


def notes(others: OtherSessions | None, activity: Activity) -> list[str]:
    """Return a note, in a list, if other sessions did a noticeable part of the server's work."""
    if others is None:
        return []
    work = (others.hits or 0) + (others.reads or 0)
    own = max(0, activity.hits + activity.reads - work)
    return ledger.other_sessions(others, own, activity.seconds)


def notes_of_windows(
    windows: Iterable[tuple[OtherSessions | None, Activity]],
) -> list[str]:
    """Return the note of that window in which other sessions did the largest part of the work."""
    noted = [(others, all_) for others, all_ in windows if others and notes(others, all_)]
    if not noted:
        return []
    most = max(noted, key=lambda one: _share(*one))
    (note,) = notes(*most)
    return [f"{note}, in {len(noted)} windows of this step; this is the one with the most"]


def _share(others: OtherSessions, activity: Activity) -> float:
    return ((others.hits or 0) + (others.reads or 0)) / max(1, activity.hits + activity.reads)
