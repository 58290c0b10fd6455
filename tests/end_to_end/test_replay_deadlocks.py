"""Captures with deadlocks, replayed: the same victims, or each difference told, and no waiting."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.command import Replayer
from tests.known import quantity
from tests.logged import Source, logging_server
from tests.replaying import OWN, SOURCE, Rows, all_at_once, begun_from, perform_replay, query, value
from tests.server_pool import ServerPool
from tests.slow_case import slow

PATIENT = "10m"
"""A limit that a busy machine does not reach; what hangs does."""
TABLES = (
    "CREATE TABLE cell (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE other (id int PRIMARY KEY, v bigint)",
    "INSERT INTO cell SELECT n, n FROM generate_series(1, 600) AS n",
    "INSERT INTO other SELECT n, n FROM generate_series(1, 600) AS n",
)
STATE = "SELECT 'cell', id, v FROM cell UNION ALL SELECT 'other', id, v FROM other ORDER BY 1, 2"
LAST = "SELECT 'the last of the capture'"
SETTINGS = "fsync = off\nmax_connections = 300\n"
QUICK = "deadlock_timeout = '100ms'\n"
Session = psycopg.Connection


class Captured:
    """A capture, and what its source ended with."""

    def __init__(self, folder: Path, work: Callable[[Source], None], settings: str = QUICK) -> None:
        with logging_server(SETTINGS + settings) as logged:
            logged.run("createdb", "bench")
            logged.run("psql", "-q", "-c", ";".join(TABLES), "bench")
            logged.forget()
            source = Source(logged)
            begun = time.monotonic()
            work(source)
            self.seconds = time.monotonic() - begun
            with source.connect() as own:
                self.rows: Rows = own.execute(STATE).fetchall()
                own.execute(LAST)
            logged.wait_for(LAST)
            self.path = folder / "deadlocks.replay"
            text = logged.log.read_text()
            self.lost = sum(text.count(f"ERROR,{code}") for code in ("40P01", "55P03", "57014"))
            Replayer(folder)("convert", logged.log, "--out", self.path)


def change(session: Session, cell: int, by: int = 1, table: str = "cell") -> None:
    """Change a row so that the order of changes can be told from what it becomes."""
    session.execute(f"UPDATE {table} SET v = (v * 3 + {by}) % 1000003 WHERE id = {cell}")


def change_and_end(session: Session, cell: int, after: Callable[[], object] = int) -> None:
    """Change a row and commit; whoever loses rolls back."""
    after()
    with suppress(psycopg.Error):
        change(session, cell, 7)
        session.execute("COMMIT")
        return
    session.execute("ROLLBACK")


def lock_in_two_orders(
    source: Source, first: Session, second: Session, cell: int, pause: float = 0
) -> None:
    """Have two sessions lock two rows; who waited first loses, as it looks for deadlocks first."""
    for place, session in enumerate((first, second)):
        session.execute("BEGIN")
        change(session, cell + place)
    time.sleep(pause)

    def wait() -> None:
        source.wait_for(first)
        time.sleep(pause)

    all_at_once(
        partial(change_and_end, first, cell + 1), partial(change_and_end, second, cell, wait)
    )


def three_deadlocks(source: Source) -> None:
    """Have two sessions meet three times."""
    with source.connect() as first, source.connect() as second:
        for _ in range(3):
            lock_in_two_orders(source, first, second, 1)


def one_slow_deadlock(source: Source) -> None:
    """Have two sessions meet, the second one long after the first has begun to wait."""
    with source.connect() as first, source.connect() as second:
        lock_in_two_orders(source, first, second, 1, pause=0.5)


def every_way_to_lose(source: Source) -> None:
    """Have sessions lose again and again, in rings of three, within savepoints, and by time."""
    with ExitStack() as stack:
        one, two, three = (stack.enter_context(source.connect()) for _ in range(3))
        for _ in range(3):
            lock_in_two_orders(source, one, two, 1)
        for place, session in enumerate((one, two, three)):
            session.execute("BEGIN")
            change(session, 10 + place)
        waits = [partial(source.wait_for, session) for session in (one, two)]
        all_at_once(
            partial(change_and_end, one, 11),
            partial(change_and_end, two, 12, waits[0]),
            partial(change_and_end, three, 10, waits[1]),
        )
        never_looks = stack.enter_context(source.connect("-c deadlock_timeout=1h"))
        lose_in_a_savepoint(source, one, never_looks)
        lose_by_time(source, one, two)


def lose_in_a_savepoint(source: Source, one: Session, two: Session) -> None:
    """Have a session lose what it did since a savepoint, and commit the rest.

    The other one waits first and does not look for deadlocks, or else that may lose.
    """
    one.execute("BEGIN")
    change(one, 20)
    one.execute("SAVEPOINT a")
    change(one, 21)
    two.execute("BEGIN")
    change(two, 22)

    def lose() -> None:
        source.wait_for(two)
        with pytest.raises(psycopg.errors.DeadlockDetected):
            change(one, 22, 5)
        one.execute("ROLLBACK TO SAVEPOINT a")
        change(one, 23)
        one.execute("COMMIT")

    all_at_once(lose, partial(change_and_end, two, 21))


def lose_by_time(source: Source, one: Session, two: Session) -> None:
    """Have a session wait in vain: until its timeouts, and until somebody cancels it."""
    one.execute("BEGIN")
    change(one, 30)
    for setting in ("lock_timeout", "statement_timeout"):
        two.execute(f"SET {setting} = '50ms'")
        with pytest.raises(psycopg.Error):
            change(two, 30, 5)
        two.execute(f"SET {setting} = 0")

    def wait() -> None:
        two.execute("BEGIN")
        change(two, 31)
        with pytest.raises(psycopg.errors.QueryCanceled):
            change(two, 30, 6)
        # As some clients end what has failed: nothing of it stays.
        two.execute("COMMIT")

    waiting = threading.Thread(target=wait)
    waiting.start()
    source.wait_for(two)
    two.cancel_safe()
    waiting.join()
    one.execute("COMMIT")
    change(two, 30, 8)


def crowd(source: Source, sessions: int, each: int, deadlocks: int) -> None:
    """Have many sessions meet in rows, cursors, savepoints and advisory locks, and deadlocks."""

    def work(number: int) -> None:
        draw = random.Random(number)
        with source.connect() as session:
            for turn in range(each):
                time.sleep(draw.random() * 0.05)
                draw.choice(DOINGS)(session, draw, 100 + number, turn)

    def lose(number: int) -> None:
        with source.connect() as first, source.connect() as second:
            for _ in range(deadlocks // 4):
                lock_in_two_orders(source, first, second, 1 + 2 * number)

    workers = [partial(work, number) for number in range(sessions)]
    all_at_once(*workers, *(partial(lose, number) for number in range(4)))


def in_rows(session: Session, draw: random.Random, own: int, turn: int) -> None:
    """Change rows of two tables that others change as well."""
    session.execute("BEGIN")
    change(session, draw.randrange(20, 40), turn)
    change(session, draw.randrange(20, 40), turn, "other")
    session.execute("COMMIT")


def in_a_savepoint(session: Session, draw: random.Random, own: int, turn: int) -> None:
    """Take a change back, and make another."""
    session.execute("BEGIN")
    change(session, draw.randrange(20, 40), turn)
    session.execute("SAVEPOINT a")
    change(session, own, turn)
    session.execute("ROLLBACK TO SAVEPOINT a")
    change(session, own, turn + 1, "other")
    session.execute("COMMIT")


def by_a_cursor(session: Session, draw: random.Random, own: int, turn: int) -> None:
    """Read some rows between changes."""
    session.execute("BEGIN")
    session.execute("DECLARE c CURSOR FOR SELECT id, v FROM cell ORDER BY id")
    session.execute("FETCH 10 FROM c")
    change(session, draw.randrange(20, 40), turn)
    session.execute("FETCH 10 FROM c")
    session.execute("CLOSE c")
    session.execute("COMMIT")


def under_an_advisory_lock(session: Session, draw: random.Random, own: int, turn: int) -> None:
    """Change rows of one's own that only the lock guards."""
    key = draw.randrange(4)
    session.execute(f"SELECT pg_advisory_lock({key})")
    change(session, 500 + key, turn)
    change(session, 500 + key, turn, "other")
    session.execute(f"SELECT pg_advisory_unlock({key})")


def alone(session: Session, draw: random.Random, own: int, turn: int) -> None:
    """Change a row that nobody else does, and read."""
    change(session, own, turn)
    session.execute(f"SELECT sum(v) FROM other WHERE id < {draw.randrange(600)}")


DOINGS = (in_rows, in_a_savepoint, by_a_cursor, under_an_advisory_lock, alone)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Return the capture of two sessions and three deadlocks."""
    # As a server has it that was not told to look for deadlocks sooner than after a second.
    return Captured(tmp_path_factory.mktemp("three"), three_deadlocks, settings="")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Return the capture of 200 sessions and some 50 deadlocks."""
    work = partial(crowd, sessions=200, each=10, deadlocks=52)
    return Captured(tmp_path_factory.mktemp("crowded"), work)


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return a server that does not wait for the disk where databases are made and removed."""
    return server_pool(settings={"fsync": "off", "max_connections": "300"})


Again = Callable[..., tuple[Rows, Outcome]]


@pytest.fixture
def again(context: Context, server: Server) -> Iterator[Again]:
    """Return a function that replays a capture, and returns what rows it left and what it found."""

    def replay(captured: Captured, **keys: object) -> tuple[Rows, Outcome]:
        more = {"restore": SOURCE, "order_timeout": PATIENT, **keys}
        outcome = perform_replay(context, captured.path, **more)
        return query(server, STATE, database=OWN), outcome

    with begun_from(server, *TABLES):
        yield replay


def check(again: Again, captured: Captured, speed: float) -> Outcome:
    """Replay in the order of commits: to the state of the source, by its victims, and no other."""
    rows, outcome = again(captured, order="commit", speed=speed)
    assert [one for one in zip(rows, captured.rows, strict=True) if one[0] != one[1]] == []
    assert outcome.facts["replay.divergences.log"] == 0, outcome.tables["divergences"]
    assert outcome.facts["replay.order_timeouts"] == 0
    assert outcome.facts["replay.imposed"] == captured.lost
    assert value(outcome, "replay.ran") == 100
    return outcome


@pytest.mark.parametrize("speed", [0, slow(1), slow(10)])
def test_the_victims_of_the_source_are_those_of_the_replay(
    again: Again, three: Captured, speed: float
) -> None:
    """At any speed, without anybody waiting in vain; each is counted, and told as not run."""
    outcome = check(again, three, speed)

    assert three.lost == 3
    assert any("3 statements that lost to others" in note for note in outcome.notes)


def test_without_an_order_each_other_victim_is_told(again: Again, three: Captured) -> None:
    """Failed here and not there, or there and not here, with the time and the session."""
    rows, outcome = again(three, speed=0)

    told = outcome.tables.get("divergences", ())
    assert rows == three.rows or told
    assert all(row["session"] is not None and row["first_s"] is not None for row in told)


@pytest.mark.quiet
def test_the_first_to_wait_is_the_first_to_look_also_in_a_replay(
    again: Again, tmp_path: Path
) -> None:
    """A statement that failed begins when it began to wait, and not when it failed."""
    captured = Captured(tmp_path, one_slow_deadlock, settings="")
    rows, outcome = again(captured, speed=1)

    assert outcome.tables.get("divergences", ()) == ()
    assert rows == captured.rows


@pytest.mark.parametrize("speed", [0, slow(10)])
def test_what_loses_in_whatever_way_loses_in_its_place(
    again: Again, tmp_path: Path, speed: float
) -> None:
    """Again and again, three in a ring, within a savepoint, by timeouts, and cancelled."""
    captured = Captured(tmp_path, every_way_to_lose)

    assert captured.lost == 3 + 1 + 1 + 3
    check(again, captured, speed)


@pytest.mark.slow
def test_a_small_crowd_ends_as_it_did(again: Again, tmp_path: Path) -> None:
    """Rows, savepoints, cursors and advisory locks in which 20 sessions meet, and 8 deadlocks."""
    captured = Captured(tmp_path, partial(crowd, sessions=20, each=5, deadlocks=8))

    assert captured.lost == 8
    check(again, captured, 0)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [1, 10, 0])
def test_a_crowd_ends_as_it_did(again: Again, crowded: Captured, speed: float) -> None:
    """200 sessions and 52 deadlocks: the final tables are those of the source."""
    assert crowded.lost == 52
    check(again, crowded, speed)


@pytest.mark.quiet
def test_the_order_of_commits_costs_no_time(again: Again, crowded: Captured) -> None:
    """At the speed of the capture a replay takes at most 1.1 times as long as the capture did."""
    outcome = check(again, crowded, 1)

    assert quantity(value(outcome, "replay.elapsed")) <= 1.1 * crowded.seconds
