"""Captures with deadlocks, replayed: the same victims, or each difference told, and no waiting."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.command import Replayer
from tests.logged import Logged, logging_server
from tests.replaying import OWN, Rows, perform_replay, query, value
from tests.server_pool import ServerPool

SOURCE = "deadlock_source"
PATIENT = "10m"
"""A limit that a busy machine does not reach; what hangs does."""
TABLE = "CREATE TABLE cell (id int PRIMARY KEY, v bigint)"
ROWS = "INSERT INTO cell SELECT n, 0 FROM generate_series(1, 64) AS n"
STATE = "SELECT id, v FROM cell ORDER BY id"
LAST = "SELECT 'the last of the capture'"


class Source:
    """A server that is captured, and the threads that work on it."""

    def __init__(self, logged: Logged) -> None:
        self.logged = logged

    def connect(self) -> psycopg.Connection:
        """Return a session."""
        return psycopg.connect(
            host=str(self.logged.folder), user="postgres", dbname="bench", autocommit=True
        )

    def wait_for_waiting(self, sessions: int) -> None:
        """Wait until so many sessions wait for a lock; the question is not captured."""
        asked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with self.connect() as own:
            own.execute("SET log_min_duration_statement = -1")
            while own.execute(asked).fetchall() != [(sessions,)]:
                time.sleep(0.005)


Work = Callable[[Source], None]


def run_all(*works: Callable[[], None]) -> None:
    """Call functions, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def capture(folder: Path, work: Work, settings: str = "") -> tuple[Path, Rows]:
    """Return what work on a server of its own was captured as, and the rows that it left."""
    with logging_server(f"fsync = off\n{settings}") as logged:
        logged.run("createdb", "bench")
        logged.run("psql", "-q", "-c", f"{TABLE}; {ROWS}", "bench")
        logged.forget()
        source = Source(logged)
        work(source)
        with source.connect() as own:
            left = own.execute(STATE).fetchall()
            own.execute(LAST)
        logged.wait_for(LAST)
        path = folder / "deadlocks.replay"
        Replayer(folder)("convert", logged.log, "--out", path)
    return path, left


def locked(session: psycopg.Connection, cell: int, more: str = "v + 1") -> None:
    """Change a cell, which locks it."""
    session.execute(f"UPDATE cell SET v = {more} WHERE id = {cell}")


def two_sessions(source: Source) -> None:
    """Have two sessions lock two rows each in the other order, three times; the first one loses."""
    with source.connect() as first, source.connect() as second:
        for _ in range(3):
            for session, cell in ((first, 1), (second, 2)):
                session.execute("BEGIN")
                locked(session, cell)
            run_all(
                lambda: lose(first, 2),
                lambda: (source.wait_for_waiting(1), locked(second, 1), second.execute("COMMIT")),
            )


def lose(session: psycopg.Connection, cell: int) -> None:
    """Lose a deadlock for a row."""
    with pytest.raises(psycopg.errors.DeadlockDetected):
        locked(session, cell)
    session.execute("ROLLBACK")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rows]:
    """Return the capture of two sessions and three deadlocks."""
    return capture(tmp_path_factory.mktemp("two"), two_sessions, "deadlock_timeout = '300ms'\n")


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return a server that does not wait for the disk where databases are made and removed."""
    return server_pool(settings={"fsync": "off"})


Again = Callable[..., tuple[Rows, Outcome]]


@pytest.fixture
def again(context: Context, server: Server) -> Iterator[Again]:
    """Return a function that replays a capture, and returns what rows it left and what it found."""
    query(server, f"DROP DATABASE IF EXISTS {SOURCE}", f"CREATE DATABASE {SOURCE}")
    query(server, TABLE, ROWS, database=SOURCE)

    def replay(path: Path, **keys: object) -> tuple[Rows, Outcome]:
        outcome = perform_replay(context, path, **{"restore": SOURCE, **keys})
        return query(server, STATE, database=OWN), outcome

    yield replay
    query(
        server,
        f"DROP DATABASE IF EXISTS {OWN} WITH (FORCE)",
        "DELETE FROM replayer_owned WHERE kind = 'database'",
        f"DROP DATABASE IF EXISTS {SOURCE} WITH (FORCE)",
    )


@pytest.mark.parametrize("speed", [0, 1, 10])
def test_the_victims_of_the_source_are_those_of_the_replay(
    again: Again, two: tuple[Path, Rows], speed: int
) -> None:
    """In the order of commits, at any speed, without anybody waiting in vain."""
    rows, outcome = again(two[0], order="commit", order_timeout=PATIENT, speed=speed)
    print(
        outcome.facts,
        outcome.notes,
        outcome.tables.get("divergences"),
        value(outcome, "replay.elapsed"),
        rows[:2],
        two[1][:2],
    )

    assert rows == two[1]
    assert dict(rows)[1] == dict(rows)[2] == 3
    assert outcome.facts["replay.imposed"] == 3
    assert outcome.facts["replay.divergences.log"] == 0
    assert outcome.facts["replay.order_timeouts"] == 0
