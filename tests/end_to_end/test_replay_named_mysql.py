"""Replays of MariaDB and MySQL in the order of commits: tables end as they did, or are named."""

import random
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest

from replayer.capture import conversion
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.on_mysql import connected
from tests.replaying import OWN, SOURCE, Rows, all_at_once, named, perform_replay, query, value
from tests.server_pool import ServerPool

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SESSIONS, EACH = 40, 40
TABLES = (
    "CREATE TABLE hot (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE upserted (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE replaced (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE numbered (id int AUTO_INCREMENT PRIMARY KEY, who int)",
    "CREATE TABLE parent (id int PRIMARY KEY, v bigint)",
    """CREATE TABLE child (id int PRIMARY KEY, p int, v bigint,
    FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)""",
    "CREATE TABLE watched (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE audit (id int AUTO_INCREMENT PRIMARY KEY, t int, v bigint)",
    "CREATE TABLE history (id int, v bigint)",
    "CREATE TABLE ranged (id int PRIMARY KEY, g int, v bigint)",
    "CREATE TABLE paired (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE mate (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE called (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE alone (id int PRIMARY KEY, v bigint)",
    "CREATE TABLE copied (id int AUTO_INCREMENT PRIMARY KEY, v bigint)",
    "CREATE TABLE gathered (id int PRIMARY KEY, v bigint)",
    "INSERT INTO hot VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)",
    "INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)",
    "INSERT INTO watched VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    "INSERT INTO ranged SELECT id, id % 3, v FROM hot",
    "INSERT INTO paired SELECT * FROM hot",
    "INSERT INTO mate SELECT * FROM hot",
    "INSERT INTO called SELECT * FROM hot",
    "INSERT INTO alone SELECT * FROM hot",
    "INSERT INTO gathered SELECT id, v FROM hot",
    """CREATE TRIGGER noted AFTER UPDATE ON watched FOR EACH ROW
    INSERT INTO audit (t, v) VALUES (NEW.id, NEW.v)""",
    """CREATE PROCEDURE raise_it(k int, n int)
    UPDATE called SET v = (v * 3 + n) % 1000003 WHERE id = k""",
)
NAMES = [words.split()[2] for words in TABLES if words.startswith("CREATE TABLE")]
AFFECTED = {
    "audit": ("watched", "trigger"),
    "called": ("CALL raise_it(?, ?)", "text shows no table"),
    "child": ("child", "foreign key"),
    "gathered": ("gathered", "reads"),
    "mate": ("mate", "second table"),
}
"""Tables whose changes are in no order, and what the JSON has for them."""
LOST = pymysql.err.OperationalError
"""A deadlock, or a wait in vain."""


def add(run: Callable[[str], None], draw: random.Random, who: int, turn: int) -> None:
    """Add rows that get a number, a cascade, or neither."""
    run(f"INSERT INTO numbered (who) VALUES ({who})")
    run(f"INSERT INTO history VALUES ({who}, {turn})")
    run(f"INSERT INTO copied (v) SELECT v FROM hot WHERE id < {draw.randrange(2, 9)}")
    with suppress(pymysql.err.IntegrityError):
        key = 100 + who * EACH + turn
        run(f"INSERT INTO child VALUES ({key}, {draw.randrange(1, 7)}, {turn})")


def change(run: Callable[[str], None], draw: random.Random, who: int, turn: int) -> None:
    """Change hot rows, each by a statement of its own."""
    new = f"(v * 3 + {turn}) % 1000003"
    run(f"UPDATE hot SET v = {new} WHERE id = {draw.randrange(1, 5)}")
    run(f"UPDATE watched SET v = {new} WHERE id = {draw.randrange(1, 5)}")
    run(f"UPDATE ranged SET v = {new} WHERE g = {draw.randrange(3)}")
    own = 1 + who % 8
    run(f"UPDATE gathered SET v = (SELECT sum(v) FROM hot) + {turn} WHERE id = {own}")
    run(f"REPLACE INTO replaced VALUES ({draw.randrange(4)}, {turn})")
    run(
        f"INSERT INTO upserted VALUES ({draw.randrange(4)}, {turn})"
        f" ON DUPLICATE KEY UPDATE v = (v * 3 + {turn}) % 1000003"
    )


def cascade(run: Callable[[str], None], draw: random.Random, who: int, turn: int) -> None:
    """Delete a row with its children, and insert it again."""
    key = draw.randrange(1, 7)
    run("BEGIN")
    run(f"DELETE FROM parent WHERE id = {key}")
    run(f"INSERT IGNORE INTO parent VALUES ({key}, {turn})")
    run("COMMIT")


def join(run: Callable[[str], None], draw: random.Random, who: int, turn: int) -> None:
    """Change two tables by one statement, rows by a procedure, and one within a savepoint."""
    key = draw.randrange(1, 5)
    run(
        f"UPDATE paired JOIN mate USING (id) SET paired.v = (paired.v * 3 + {turn}) % 1000003,"
        f" mate.v = (mate.v + paired.v) % 1000003 WHERE paired.id = {key}"
    )
    run(f"CALL raise_it({key}, {turn})")
    run("BEGIN")
    run(f"UPDATE hot SET v = (v * 7 + {turn}) % 1000003 WHERE id = {4 + key}")
    run("SAVEPOINT s")
    run(f"UPDATE alone SET v = (v * 3 + {turn}) % 1000003 WHERE id = {key}")
    if turn % 3 == 0:
        run("ROLLBACK TO SAVEPOINT s")
    run("COMMIT")


DOINGS = (add, change, cascade, join)


def work(server: Server, who: int) -> None:
    """Do as one session does; one that loses its locks goes on with the next."""
    draw = random.Random(who)
    with closing(connected(server, database=SOURCE)) as client, client.cursor() as cursor:
        for turn in range(EACH):
            try:
                draw.choice(DOINGS)(cursor.execute, draw, who, turn)
            except LOST:
                cursor.execute("ROLLBACK")


def state(ask: Callable[[str], Rows]) -> dict[str, Rows]:
    """Return the rows of each table."""
    return {name: sorted(ask(f"SELECT * FROM {name}")) for name in NAMES}


@pytest.fixture(params=["mariadb", "mysql-9"])
def server(request: pytest.FixtureRequest, server_pool: ServerPool) -> Server:
    """Return a server of each kind."""
    if request.param == "mariadb":
        return server_pool("mariadb", bindir=request.getfixturevalue("mariadbd").parent)
    return server_pool("mysql", bindir=request.getfixturevalue("other_server")(request.param))


def log_of(server: Server, root: Any) -> Path:
    """Have sessions of the source meet everywhere, and return the log of what they did."""
    extra = ("log_slow_extra = 1",) if server.engine.name == "mysql" else ()
    root.execute("SELECT @@datadir")
    log = Path(root.fetchone()[0], "named.log")
    log.unlink(missing_ok=True)
    for setting in (
        *("log_output = 'FILE'", "long_query_time = 0", *extra),
        *("slow_query_log_file = 'named.log'", "slow_query_log = 1"),
    ):
        root.execute(f"SET GLOBAL {setting}")
    all_at_once(*(partial(work, server, n) for n in range(SESSIONS)))
    root.execute("SET GLOBAL slow_query_log = 0")
    return log


def captured(server: Server, folder: Path) -> tuple[Path, dict[str, Rows]]:
    """Return a capture of sessions that meet everywhere, and the tables that they left."""
    with closing(connected(server)) as root, root.cursor() as cursor:
        for statement in (f"DROP DATABASE IF EXISTS {SOURCE}", f"CREATE DATABASE {SOURCE}"):
            cursor.execute(statement)
        for statement in (f"USE {SOURCE}", *TABLES):
            cursor.execute(statement)
        log = log_of(server, cursor)
        tables = state(lambda text: query(server, text, database=SOURCE))
        cursor.execute(f"DROP DATABASE {SOURCE}")
    wish = conversion.ConversionRequest([str(log)], folder / "named.replay")
    conversion.convert(conversion.planned(wish), wish, lambda _: None)
    return wish.out, tables


def test_each_table_ends_as_at_the_source_or_is_named(
    context: Context, server: Server, tmp_path: Path
) -> None:
    """Hot rows, upserts, numbers, cascades, triggers, joins, procedures, savepoints."""
    path, expected = captured(server, tmp_path)
    dump = tmp_path / "dump.sql"
    dump.write_text("".join(f"{statement};\n" for statement in TABLES))
    keys = {"restore": dump, "order": "commit", "order_timeout": "10m", "database": SOURCE}
    for speed in (0, 10):
        outcome = perform_replay(context, path, **keys, speed=speed)
        ended = state(lambda text: query(server, text, database=OWN))

        different = {name for name in NAMES if ended[name] != expected[name]}
        assert different <= named(outcome, AFFECTED)
        assert "history" not in different
        assert AFFECTED.keys() <= named(outcome, AFFECTED)
        assert outcome.facts["replay.order_timeouts"] == 0
        assert value(outcome, "replay.ran") == 100
