"""Which sessions of a server have worked in a window, and which have counted what they did."""

from types import SimpleNamespace
from typing import cast

import pytest

from replayer.engines import verb_table, verbs
from replayer.engines.connection import Cells, Database
from replayer.errors import ReplayerError
from replayer.load.other_sessions import OthersActivity, WorkerBlocks, look, work_between
from replayer.run.checks import prove

SESSION = (1, 0.0)


def seen(
    at: float, quiet: float | None, reads: int = 0, *, is_open: bool = False
) -> OthersActivity:
    """Return a look at one session; `quiet` is None while it works."""
    return OthersActivity(
        {SESSION: (0, reads)},
        {} if quiet is None else {SESSION: quiet},
        frozenset({SESSION} if is_open else ()),
        at,
    )


@pytest.mark.parametrize(
    ("quiet", "busy"), [(None, True), (4.0, True), (6.0, False)], ids=["works", "inside", "before"]
)
@pytest.mark.parametrize("is_open", [False, True])
def test_who_did_nothing_in_the_window_is_not_waited_for(
    quiet: float | None, *, busy: bool, is_open: bool
) -> None:
    """An open transaction in which nothing was done is no work: many programs leave theirs open."""
    begin, end = seen(100.0, 50.0), seen(105.0, quiet, is_open=is_open)

    assert end.busy_since(begin) == ({SESSION} if busy else set())


@pytest.mark.parametrize(
    ("later", "counts"),
    [
        (seen(106.5, 0.2), True),
        (seen(106.5, 0.8), False),
        (seen(115.5, 11.0), True),
        (seen(115.5, 11.0, is_open=True), False),
        (seen(106.5, 0.2, is_open=True), False),
        (seen(115.5, None), False),
        (seen(105.2, None, 1), True),
        (seen(105.2, 0.1, 1, is_open=True), True),
        (OthersActivity({}, {}, frozenset(), 115.5), False),
    ],
    ids=[
        *("ended something a second later", "ended it too early", "idle for ten seconds"),
        *("idle in a transaction", "new transaction", "works on"),
        *("moved, works on", "moved, new transaction", "left"),
    ],
)
def test_what_a_session_did_is_counted(later: OthersActivity, *, counts: bool) -> None:
    """At the end of a transaction, once a second, or after ten idle seconds outside of one."""
    assert later.counts(SESSION, seen(105.0, 0.1)) is counts


OWN = (2, 0.0)


def counted(
    session: int, own: int | None, workers: tuple[int, int], database: int, launched: int = 0
) -> OthersActivity:
    """Return a look at so many missed blocks: of a session, replayer's own, workers and all.

    `workers` are parallel workers and autovacuum workers.
    """
    parallel, vacuum = workers
    return OthersActivity(
        {SESSION: (0, session)},
        {},
        frozenset(),
        100.0,
        own={} if own is None else {OWN: (0, own)},
        workers=WorkerBlocks((0, parallel), (0, vacuum), (0, database), launched),
    )


@pytest.mark.parametrize(
    ("after", "reads"),
    [
        (counted(110, 1000, (50, 5), 5110), 10),
        # A query of another session had 600 blocks of its 610 read by parallel workers.
        (counted(110, 1000, (650, 5), 5710, 2), 610),
        (counted(110, 1000, (50, 305), 5410), 310),
        # Most workers were those of another database.
        (counted(110, 2000, (9050, 9005), 6210, 2), 110),
        (counted(110, 2000, (9050, 9005), 6110), 10),
        # Replayer's own sessions are gone, with what they have read.
        (counted(110, None, (650, 905), 9000, 2), 610),
        (counted(110, None, (650, 905), 9000, 0), 10),
        (counted(110, None, (9650, 905), 5500, 2), 410),
    ],
    ids=[
        *("no worker", "parallel", "autovacuum", "in part elsewhere", "all elsewhere"),
        *("own gone", "own gone, none launched", "own gone, most elsewhere"),
    ],
)
def test_workers_of_other_sessions_count_as_far_as_this_database_counted_them(
    after: OthersActivity, reads: int
) -> None:
    """They are counted for the whole server, and a worker that has ended for no session."""
    before = counted(100, 1000, (50, 5), 5100)
    moved = work_between(before, after)
    in_a_replay = work_between(before, after, known_before=True)

    assert moved is not None
    assert moved.reads == reads
    assert in_a_replay is not None
    assert in_a_replay.reads == 10


def test_without_the_workers_only_sessions_count() -> None:
    """A server may count for each session, and not for its workers."""
    moved = work_between(seen(100.0, None, 5), seen(101.0, None, 25))

    assert moved is not None
    assert moved.reads == 20


VERBS = sorted(name for name, by in verbs.asking().items() if "load.other_sessions" in by)


def database_without(verb: str, column: str) -> Database:
    """Return a database whose SQL files answer with one row each; that of `verb` lacks `column`."""

    def row(name: str) -> Cells:
        there = dict.fromkeys(verb_table.COLUMNS[name], 0)
        if name == verb:
            del there[column]
        return Cells(there, f"mine/{name}.sql")

    engine = SimpleNamespace(verb=str)
    return cast(
        "Database", SimpleNamespace(engine=engine, row=row, execute=lambda name: [row(name)])
    )


@pytest.mark.parametrize(
    ("verb", "column"), [(verb, column) for verb in VERBS for column in verb_table.COLUMNS[verb]]
)
def test_a_file_of_a_user_that_lacks_a_column_is_named(verb: str, column: str) -> None:
    """Such as mix/others of before, without `ours`: it is neither misread nor left out silently."""
    with pytest.raises(ReplayerError, match=f"^mine/{verb}.sql: .* without a column '{column}'$"):
        look(database_without(verb, column))


def test_a_proof_tries_what_is_asked_of_other_sessions() -> None:
    """None of these files needs a table, and each has columns that a proof compares."""
    assert "mix/workers" in VERBS
    assert set(VERBS) <= set(prove._ASK)
    assert set(VERBS) <= verb_table.COLUMNS.keys()
