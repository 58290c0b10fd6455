"""A replay in the order of commits: each table ends as at the source, or the report names it."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from replayer.run.context import Context
from replayer.servers.open import Server
from tests.command import Replayer
from tests.logged import Logged, logging_server
from tests.replaying import (
    OWN,
    SOURCE,
    Rows,
    all_at_once,
    begun_from,
    named,
    perform_replay,
    query,
    value,
)
from tests.server_pool import ServerPool

SESSIONS, EACH = 40, 40
TABLES = (
    "CREATE TABLE hot (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE upserted (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE numbered (id serial PRIMARY KEY, who int)",
    "CREATE TABLE parent (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE, v bigint)",
    "CREATE TABLE watched (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE audit (id serial PRIMARY KEY, t int, v bigint)",
    "CREATE TABLE history (id int, v bigint)",
    "CREATE TABLE ranged (id int PRIMARY KEY, g int, v bigint)",
    "CREATE TABLE prepared (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE saved (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE called (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE gathered (id int PRIMARY KEY, v numeric)",
    "INSERT INTO hot SELECT n, n FROM generate_series(1, 8) AS n",
    "INSERT INTO parent SELECT n, n FROM generate_series(1, 6) AS n",
    "INSERT INTO child SELECT n, 1 + n % 6, n FROM generate_series(1, 60) AS n",
    "INSERT INTO watched SELECT n, n FROM generate_series(1, 4) AS n",
    "INSERT INTO ranged SELECT n, n % 3, n FROM generate_series(1, 12) AS n",
    "INSERT INTO prepared SELECT n, n FROM generate_series(1, 4) AS n",
    """CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO audit (t, v) VALUES (NEW.id, NEW.v); RETURN NEW; END $$""",
    "INSERT INTO called SELECT n, n FROM generate_series(1, 4) AS n",
    "INSERT INTO gathered SELECT n, n FROM generate_series(1, 8) AS n",
    """CREATE PROCEDURE raise_it(k int, n int) LANGUAGE sql AS
    $$ UPDATE called SET v = (v * 3 + n) % 1000003 WHERE id = k $$""",
    "CREATE TRIGGER noted AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION noted()",
)
NAMES = [words.split()[2] for words in TABLES if words.startswith("CREATE TABLE")]
LAST = "SELECT 'the last of the capture'"
SETTINGS = {"fsync": "off", "max_connections": "300", "max_prepared_transactions": "50"}
ORDERED = {"history", "prepared", "saved"}
"""Tables of which neither the rows nor the keys depend on an order that the log does not show."""
AFFECTED = {
    "audit": ("watched", "trigger"),
    "called": ("CALL raise_it(?, ?)", "text shows no table"),
    "child": ("child", "foreign key"),
    "gathered": ("gathered", "reads"),
}
"""Tables whose changes are in no order, and what the JSON has for them."""
Session = psycopg.Connection


def add(session: Session, draw: random.Random, who: int, turn: int) -> None:
    """Add rows that get a number, a cascade, or neither."""
    session.execute(f"INSERT INTO numbered (who) VALUES ({who})")
    session.execute(f"INSERT INTO history VALUES ({who}, {turn})")
    with suppress(psycopg.errors.ForeignKeyViolation):
        key = 100 + who * EACH + turn
        session.execute(f"INSERT INTO child VALUES ({key}, {draw.randrange(1, 7)}, {turn})")


def change(session: Session, draw: random.Random, who: int, turn: int) -> None:
    """Change hot rows, each by a statement of its own."""
    new = f"(v * 3 + {turn}) % 1000003"
    session.execute(f"UPDATE hot SET v = {new} WHERE id = {draw.randrange(1, 5)}")
    session.execute(f"UPDATE watched SET v = {new} WHERE id = {draw.randrange(1, 5)}")
    session.execute(f"CALL raise_it({draw.randrange(1, 5)}, {turn})")
    session.execute(
        f"UPDATE gathered SET v = (SELECT sum(v) FROM hot) + {turn} WHERE id = {1 + who % 8}"
    )
    with suppress(psycopg.errors.DeadlockDetected):
        session.execute(f"UPDATE ranged SET v = {new} WHERE g = {draw.randrange(3)}")
    session.execute(
        f"INSERT INTO upserted VALUES ({draw.randrange(4)}, {turn}) ON CONFLICT (id)"
        f" DO UPDATE SET v = (upserted.v * 3 + {turn}) % 1000003"
    )


def cascade(session: Session, draw: random.Random, who: int, turn: int) -> None:
    """Delete a row with its children, and insert it again."""
    key = draw.randrange(1, 7)
    with session.transaction():
        session.execute(f"DELETE FROM parent WHERE id = {key}")
        session.execute(f"INSERT INTO parent VALUES ({key}, {turn}) ON CONFLICT DO NOTHING")


def prepare(session: Session, draw: random.Random, who: int, turn: int) -> None:
    """Commit in two phases, and after an error within a savepoint."""
    session.execute("BEGIN")
    session.execute(f"UPDATE prepared SET v = (v * 3 + {turn}) % 1000003 WHERE id = {1 + who % 4}")
    session.execute(f"PREPARE TRANSACTION 'g{who}_{turn}'")
    session.execute(f"COMMIT PREPARED 'g{who}_{turn}'")
    key = draw.randrange(1, 4)
    with session.transaction():
        session.execute(f"UPDATE hot SET v = (v * 7 + {turn}) % 1000003 WHERE id = {4 + key}")
        try:
            with session.transaction():
                session.execute(f"INSERT INTO saved VALUES ({key}, {turn})")
        except psycopg.errors.UniqueViolation:
            session.execute(f"UPDATE saved SET v = (v * 3 + {turn}) % 1000003 WHERE id = {key}")


DOINGS = (add, change, cascade, prepare)


def connect(source: Logged) -> Session:
    """Return a session of the source."""
    return psycopg.connect(
        host=str(source.folder), user="postgres", dbname="bench", autocommit=True
    )


def work(source: Logged, who: int) -> None:
    """Do as one session does."""
    draw = random.Random(who)
    with connect(source) as session:
        for turn in range(EACH):
            draw.choice(DOINGS)(session, draw, who, turn)


def state(ask: Callable[[str], Rows]) -> dict[str, Rows]:
    """Return the rows of each table."""
    return {name: ask(f"SELECT * FROM {name} ORDER BY 1, 2") for name in NAMES}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Rows]]:
    """Return a capture of sessions that meet everywhere, and the tables that they left."""
    folder = tmp_path_factory.mktemp("named")
    settings = "".join(f"{name} = {each}\n" for name, each in SETTINGS.items())
    with logging_server(f"{settings}deadlock_timeout = '100ms'\n") as source:
        source.run("createdb", "bench")
        source.run("psql", "-q", "-c", ";".join(TABLES), "bench")
        source.forget()
        all_at_once(*(partial(work, source, n) for n in range(SESSIONS)))
        with connect(source) as own:
            tables = state(lambda text: own.execute(text).fetchall())
            own.execute(LAST)
        source.wait_for(LAST)
        path = folder / "named.replay"
        Replayer(folder)("convert", source.log, "--out", path)
    return path, tables


@pytest.fixture
def server(server_pool: ServerPool) -> Iterator[Server]:
    """Return a server with the tables as they were before the capture."""
    server = server_pool(settings=SETTINGS)
    with begun_from(server, *TABLES):
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("speed", [0, 10, 1])
def test_each_table_ends_as_at_the_source_or_is_named(
    context: Context, server: Server, captured: tuple[Path, dict[str, Rows]], speed: float
) -> None:
    """Hot rows, upserts, sequences, cascades, triggers, two phases, errors within savepoints."""
    path, expected = captured
    outcome = perform_replay(
        context, path, restore=SOURCE, order="commit", order_timeout="10m", speed=speed
    )
    ended = state(lambda text: query(server, text, database=OWN))

    different = {name for name in NAMES if sorted(ended[name]) != sorted(expected[name])}
    assert different <= named(outcome, AFFECTED)
    assert not ORDERED & different
    assert AFFECTED.keys() <= named(outcome, AFFECTED)
    assert outcome.facts["replay.order_timeouts"] == 0
    assert value(outcome, "replay.ran") == 100
