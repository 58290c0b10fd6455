"""Counters of other sessions in the same database, while a load is measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replayer.engines import connection
from replayer.engines.verbs import VerbName
from replayer.errors import Interrupted, ReplayerError
from replayer.watch import ledger
from replayer.watch.ledger import OtherSessions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from replayer.engines.connection import Database, Row
    from replayer.load.machine_usage import Activity

_OTHERS = VerbName("mix/others")
_ENDED = VerbName("mix/ended")
_WORKERS = VerbName("mix/workers")
_COUNTED_EVERY = 1.1
"""Seconds after which a session counts its blocks again when a transaction ends: a bit more than
PGSTAT_MIN_INTERVAL of PostgreSQL's pgstat.c."""
_COUNTED_IDLE = 10.5
"""Seconds after which an idle session has counted its blocks: a bit more than
PGSTAT_IDLE_INTERVAL."""
_POLL_SECONDS = 0.2

_Session = tuple[int, float | None]
_Blocks = tuple[int, int]
"""Blocks found and missed in the server's buffers so far."""


@dataclass(frozen=True, slots=True)
class WorkerBlocks:
    """The blocks of a server's worker processes up to an instant, and all of one database."""

    parallel: _Blocks
    """Blocks of the parallel workers of all databases."""
    vacuum: _Blocks
    """Blocks of the autovacuum workers of all databases."""
    database: _Blocks
    """All blocks of the database, those of its sessions included."""
    launched: int
    """Parallel workers that queries of the database have started."""


@dataclass(frozen=True, slots=True)
class OthersActivity:
    """The work of other sessions from their begin up to an instant.

    A session is identified by its process and its begin, which is None if it is hidden.
    """

    sessions: Mapping[_Session, _Blocks]
    """Session -> blocks that it has found and missed in the server's buffers so far."""
    quiet: Mapping[_Session, float]
    """Session that is idle -> seconds since it became idle.

    A session whose state is hidden counts as one that works.
    """
    open: frozenset[_Session]
    """Sessions that are idle in a transaction: they count nothing before the transaction ends."""
    at: float
    """The instant of the reading, in seconds of `time.monotonic`."""
    ended: int | None = None
    """Sessions of the database that have ended so far, replayer's included; None if not counted."""
    own: Mapping[_Session, _Blocks] = field(default_factory=dict)
    """The same as `sessions`, for those of replayer."""
    workers: WorkerBlocks | None = None
    """The work of processes that are no sessions; None if not counted."""

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

    Return None if the server does not count it for each session, or refuses to show it.  Raises
    ReplayerError if an SQL file of the engine answers without a column that is needed.
    """
    verb = database.engine.verb(_OTHERS)
    counted, of_workers = database.engine.verb(_ENDED), database.engine.verb(_WORKERS)
    if verb is None:
        return None
    try:
        rows = database.execute(verb)
        count = None if counted is None else database.row(counted)
        worker_row = None if of_workers is None else database.row(of_workers)
    except Interrupted:
        raise
    except ReplayerError:
        return None
    ours = connection.sessions()
    blocks = {key: _blocks(row) for key, row in ((_key(row), row) for row in rows)}
    own = {_key(row) for row in rows if row["ours"] or row["pid"] in ours}
    others = {_key(row): row for row in rows if _key(row) not in own}
    return OthersActivity(
        {key: blocks[key] for key in others},
        {key: row["quiet"] for key, row in others.items() if row["quiet"] is not None},
        frozenset(key for key, row in others.items() if row["in_transaction"]),
        time.monotonic(),
        None if count is None else count.number("ended"),
        {key: blocks[key] for key in own},
        None if worker_row is None else _worker_blocks(worker_row),
    )


def _key(row: Row) -> _Session:
    return row["pid"], row["began"]


def _blocks(row: Row, whose: str = "") -> _Blocks:
    return row.number(f"{whose}hits"), row.number(f"{whose}reads")


def _worker_blocks(row: Row) -> WorkerBlocks:
    return WorkerBlocks(
        _blocks(row, "parallel_"), _blocks(row, "vacuum_"), _blocks(row), row.number("launched")
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

    Only sessions that still exist at the end count, and worker processes as far as they are known.
    `known_before` leaves out workers, and sessions that are not in `before`.  In a replay these may
    be replayer's own: its sessions have the captured names, so that nothing else shows whose they
    are.
    """
    if before is None or after is None:
        return None
    known = before.sessions if known_before else after.sessions
    moved = _moved(before.sessions, {k: v for k, v in after.sessions.items() if k in known})
    workers = (0, 0) if known_before else _of_workers(before, after)
    hits, reads = (max(0, moved[place]) + workers[place] for place in (0, 1))
    return OtherSessions(hits=hits, reads=reads, counted=True)


def _moved(before: Mapping[_Session, _Blocks], after: Mapping[_Session, _Blocks]) -> _Blocks:
    """Return the blocks of the sessions in `after` since `before`, or since a session's begin."""
    had = [before.get(key, (0, 0)) for key in after]
    hits, reads = (
        sum(blocks[place] for blocks in after.values()) - sum(one[place] for one in had)
        for place in (0, 1)
    )
    return hits, reads


def _of_workers(before: OthersActivity, after: OthersActivity) -> _Blocks:
    """Return the blocks of worker processes in this database from `before` to `after`.

    A server counts them for all databases together.  So they are at most the blocks of this
    database that are of none of its sessions.  If sessions of replayer have ended meanwhile, the
    blocks of these are not known: then only parallel workers count, if queries of this database
    started any.
    """
    first, last = before.workers, after.workers
    if first is None or last is None:
        return (0, 0)
    sessions = [_moved(before.sessions, after.sessions), _moved(before.own, after.own)]
    known = before.own.keys() <= after.own.keys()

    def of(place: int) -> int:
        parallel, vacuum, database = (
            now[place] - then[place]
            for now, then in (
                (last.parallel, first.parallel),
                (last.vacuum, first.vacuum),
                (last.database, first.database),
            )
        )
        if known:
            return min(parallel + vacuum, database - sum(one[place] for one in sessions))
        return min(parallel, database) if last.launched > first.launched else 0

    return max(0, of(0)), max(0, of(1))


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
