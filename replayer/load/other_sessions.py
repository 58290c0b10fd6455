"""Counters of other sessions in the same database, while a load is measured."""

from __future__ import annotations

import time
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
_ENDED = VerbName("mix/ended")
_COUNTED_EVERY = 1.1
"""Seconds after which a session counts its blocks again when a transaction ends: a bit more than
PGSTAT_MIN_INTERVAL of PostgreSQL's pgstat.c."""
_COUNTED_IDLE = 10.5
"""Seconds after which an idle session has counted its blocks: a bit more than
PGSTAT_IDLE_INTERVAL."""
_POLL_SECONDS = 0.2

_Session = tuple[int, float]


@dataclass(frozen=True, slots=True)
class OthersActivity:
    """The work of other sessions from their begin up to an instant.

    A session is identified by its process and its begin.
    """

    sessions: Mapping[_Session, tuple[int, int]]
    """Session -> blocks that it has found and missed in the server's buffers so far."""
    quiet: Mapping[_Session, float]
    """Session that is idle -> seconds since it became idle.

    A session whose state is hidden counts as idle since 1970.
    """
    open: frozenset[_Session]
    """Sessions that are idle in a transaction: they count nothing before the transaction ends."""
    at: float
    """The instant of the reading, in seconds of `time.monotonic`."""
    ended: int | None = None
    """Sessions of the database that have ended so far, replayer's included; None if not counted."""

    def ended_since(self, earlier: OthersActivity) -> int:
        """Return how many sessions have ended since `earlier`, as far as it is known.

        A session that began later and has ended counts only if the server counts it.
        """
        left = len(earlier.sessions.keys() - self.sessions.keys())
        if self.ended is None or earlier.ended is None:
            return left
        return max(left, self.ended - earlier.ended)

    def busy_since(self, earlier: OthersActivity) -> frozenset[_Session]:
        """Return the sessions that have worked since `earlier`, or may have."""
        seconds = self.at - earlier.at
        return frozenset(key for key in self.sessions if self.quiet.get(key, 0.0) < seconds)

    def counts(self, session: _Session, before: OthersActivity) -> bool:
        """Return whether the counters have all blocks that another session read until `before.at`.

        A server may count the blocks of a session some seconds after it read them.
        """
        if session not in self.sessions:
            return False
        if self.sessions[session] != before.sessions[session]:
            return True
        if session in self.open or session not in self.quiet:
            return False
        quiet = self.quiet[session]
        return quiet >= _COUNTED_IDLE or self.at - before.at - quiet >= _COUNTED_EVERY


def look(database: Database) -> OthersActivity | None:
    """Return the work of other sessions so far, by their counters.

    Return None if the server does not count it for each session.
    """
    verb = database.engine.verb(_OTHERS)
    counted = database.engine.verb(_ENDED)
    if verb is None:
        return None
    try:
        rows = database.execute(verb)
        ended = database.row(counted).number("ended") if counted is not None else None
    except Interrupted:
        raise
    except ReplayerError:
        return None
    own = connection.sessions()
    others = {(row["pid"], row["began"]): row for row in rows if row["pid"] not in own}
    return OthersActivity(
        {key: (row.number("hits"), row.number("reads")) for key, row in others.items()},
        {key: row["quiet"] for key, row in others.items() if row["quiet"] is not None},
        frozenset(key for key, row in others.items() if row["in_transaction"]),
        time.monotonic(),
        ended,
    )


def look_counted(
    database: Database, before: OthersActivity | None, most: float
) -> tuple[OthersActivity | None, int]:
    """Return the work of other sessions so far, and the number of sessions that it may lack.

    A session counts its blocks when a transaction ends, or after ten idle seconds.  So the function
    waits, up to ten seconds, for the sessions that have worked since `before`.  It returns at once
    when these have missed more than `most` blocks.  The work is None if the server does not count
    it for each session.  It lacks a session whose statement or transaction runs all the time, and a
    session that ended since `before`, even if it began later.
    """
    now = look(database)
    if before is None or now is None:
        return now, 0
    left = now.ended_since(before)
    first, late = now, now.busy_since(before)
    while late and now.at - first.at < _COUNTED_IDLE:
        moved = work_between(before, now)
        if moved is not None and (moved.reads or 0) > most:
            return now, 0
        time.sleep(_POLL_SECONDS)
        again = look(database)
        if again is None:
            break
        now = again
        late = frozenset(key for key in late if not now.counts(key, first))
    return now, left + len(late)


def work_between(
    before: OthersActivity | None, after: OthersActivity | None, *, known_before: bool = False
) -> OtherSessions | None:
    """Return what other sessions have read from `before` to `after`; None if it is not counted.

    Only sessions that still exist at the end count.  `known_before` leaves out sessions that are
    not in `before`.  In a replay these may be replayer's own sessions: they have the captured
    names, so that nothing else shows whose they are.
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
    """Return a note, in a list, if other sessions did a noticeable part of the server's work.

    `activity` is all of that work.  Returns [] if their part is small or not known.
    """
    if others is None:
        return []
    work = (others.hits or 0) + (others.reads or 0)
    own = max(0, activity.hits + activity.reads - work)
    return ledger.other_sessions(others, own, activity.seconds)


def notes_of_windows(
    windows: Iterable[tuple[OtherSessions | None, Activity]],
) -> list[str]:
    """Return one note, in a list, on the window in which other sessions had the largest share.

    The share is that of the server's work.  Returns [] if it was noticeable in no window.
    """
    noted = [(others, all_) for others, all_ in windows if others and notes(others, all_)]
    if not noted:
        return []
    most = max(noted, key=lambda one: _share(*one))
    (note,) = notes(*most)
    return [f"{note}, in {len(noted)} windows of this step; this is the one with the most"]


def _share(others: OtherSessions, activity: Activity) -> float:
    return ((others.hits or 0) + (others.reads or 0)) / max(1, activity.hits + activity.reads)
