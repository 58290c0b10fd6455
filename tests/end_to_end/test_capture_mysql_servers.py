"""Logs of real servers of MySQL and MariaDB: what clients did is what is read of them."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from replayer.capture import conversion
from replayer.capture.action import Action, LoggedSession
from replayer.capture.archive import ArchiveReader
from replayer.servers.open import Server
from tests.on_mysql import connected, prepared
from tests.server_pool import ServerPool
from tests.waiting import wait_until

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

_BYTES = b"\xff\xfe'\\\n\x1a\"\t#"


_GLOBALS = ("general_log", "slow_query_log", "long_query_time", "log_output")


@pytest.fixture(params=["mariadb", pytest.param("mysql-9", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, server_pool: ServerPool) -> Iterator[Server]:
    """Return a server of each kind, whose settings and databases are given back."""
    name = request.param
    if name == "mariadb":
        server = server_pool(name, bindir=request.getfixturevalue("mariadbd").parent)
    else:
        server = server_pool("mysql", bindir=request.getfixturevalue("other_server")(name))
    with closing(connected(server)) as root, root.cursor() as cursor:
        cursor.execute(f"select {', '.join(f'@@global.{name}' for name in _GLOBALS)}")
        before = cursor.fetchone()
    yield server
    with closing(connected(server)) as root, root.cursor() as cursor:
        for each, setting in zip(_GLOBALS, before, strict=True):
            cursor.execute(f"set global {each} = %s", (setting,))
        for database in ("shop", "other"):
            cursor.execute(f"drop database if exists {database}")


_SLEEP = "select sleep(1.2)"
_TEXTS = (
    "create table t (a int primary key auto_increment, b varchar(50), c varbinary(20))",
    "insert into t values (1, 'it''s', x'00ff01'), (2, 'b\\\\n', null)",
    "select 'several\nlines\n# Time: no\n\t\t 3 Query\tno'",
    "select /* é漢 */ a from t where a in (1, 2) order by a",
    "update t set b = 'z' where a = 2",
    _SLEEP,
)


def _work(connection: Any) -> tuple[int, int, int]:
    """Do what clients do; return when the sleep was sent, and it and the next were answered."""
    cursor = connection.cursor()
    for text in _TEXTS:
        sent = time.time_ns()
        cursor.execute(text)
    answered = time.time_ns()
    cursor.execute("insert into t (a, c) values (3, %s)", (_BYTES,))
    next_answered = time.time_ns()
    connection.commit()
    with pytest.raises(pymysql.err.IntegrityError):
        cursor.execute("insert into t (a) values (1)")
    connection.rollback()
    for text in ("prepare s from 'select ? + 1'", "set @x = 5", "execute s using @x"):
        cursor.execute(text)
    prepared(connection, "select a, b from t where a = ? and b <> ?", (1, b"x"), (2, b"it's \\ \n"))
    prepared(connection, "insert into t (a, b) values (?, ?)", (100, b"p'\\\n"), (101, None))
    prepared(connection, "select a from t order by a limit ?", (2,))
    connection.commit()
    connection.select_db("other")
    cursor.execute("create table u as select database() as d")
    cursor.execute("use shop")
    cursor.execute("create procedure p(x int) begin insert into t (a) values (x); end")
    cursor.execute("call p(77)")
    connection.commit()
    return sent, answered, next_answered


def _tables(cursor: Any) -> tuple[Any, Any]:
    """Return what lies in all tables that the work made."""
    cursor.execute("select a, b, c from shop.t order by a")
    rows = cursor.fetchall()
    cursor.execute("select d from other.u")
    return rows, cursor.fetchall()


def _emptied(cursor: Any) -> None:
    for name in ("shop", "other"):
        cursor.execute(f"drop database if exists {name}")
        cursor.execute(f"create database {name}")


def _is_there(cursor: Any, number: int) -> bool:
    cursor.execute("select count(*) from information_schema.processlist where id = %s", (number,))
    return bool(cursor.fetchone()[0])


def _logged(
    place: Server, log: str, settings: tuple[str, ...]
) -> tuple[tuple[Any, Any], Path, tuple[int, int, int], Any]:
    """Return the work's rows, its log's file, when it slept, and who may do anything."""
    root = connected(place)
    cursor = root.cursor()
    _emptied(cursor)
    cursor.execute("select @@datadir")
    path = Path(cursor.fetchone()[0], log)
    for setting in (*settings, "long_query_time = 0", "log_output = 'FILE'"):
        cursor.execute(f"set global {setting}")
    kind = "general_log" if log.startswith("general") else "slow_query_log"
    # A test of the same name may have had it before.
    path.unlink(missing_ok=True)
    cursor.execute(f"set global {kind}_file = '{log}'")
    cursor.execute(f"set global {kind} = 1")
    client = connected(place, database="shop", autocommit=False)
    number = client.thread_id()
    slept = _work(client)
    client.close()
    wait_until(lambda: not _is_there(cursor, number))
    if log == "general.log":
        # A client that is listed no more may still be about to log that it left.
        wait_until(lambda: re.search(rf"\b{number} Quit", path.read_text(errors="replace")))
    cursor.execute(f"set global {kind} = 0")
    return _tables(cursor), path, slept, root


def _converted(
    path: Path, out: Path
) -> tuple[conversion.ConversionResult, LoggedSession, list[Action]]:
    wish = conversion.ConversionRequest([str(path)], out)
    made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
    with ArchiveReader(out) as reader:
        blocks = list(reader.blocks())
    actions = [block.action(row) for block in blocks for row in range(len(block))]
    sessions = {one.number: one for block in blocks for one in block.sessions}
    (worker,) = {each.session for each in actions if each.text == _TEXTS[0]}
    return made, sessions[worker], [each for each in actions if each.session == worker]


@pytest.mark.slow
@pytest.mark.parametrize("log", ["general.log", "slow.log"])
def test_what_was_logged_does_the_same_again(place: Server, log: str, tmp_path: Path) -> None:
    """Every statement and every byte: sent again as they were read, they make the same rows."""
    extra = ("log_slow_extra = 1",) if log == "slow.log" and place.engine.name != "mariadb" else ()
    rows, path, (sent, answered, next_answered), root = _logged(place, log, extra)
    cursor = root.cursor()
    made, session, actions = _converted(path, tmp_path / "out.replay")
    assert session.database == "shop"
    assert not made.summary.damage

    _emptied(cursor)
    again = connected(place, database=session.database)
    failed = []
    for action in actions:
        if action.text:
            try:
                again.cursor().execute(action.text)
            except pymysql.err.MySQLError as error:
                failed.append((action.text, error.args[0]))
    again.close()
    assert failed == [("insert into t (a) values (1)", 1062)]
    assert _tables(cursor) == rows
    root.close()

    (slept,) = [each for each in actions if each.text == _SLEEP]
    exact = place.engine.name != "mariadb"
    start = made.summary.begin_ns + slept.start_ns
    if exact or log == "slow.log":
        resolution = 1_000_000 if exact else 1_001_000_000
        assert sent - resolution <= start <= answered - 1_200_000_000 + resolution
    if log == "slow.log":
        # A server answers before it ends a statement, and begins the next one after that.
        assert 1_200_000_000 <= slept.duration_ns <= next_answered - sent
        assert slept.rows == 1
        failures = [each.sqlstate for each in actions if each.sqlstate]
        assert failures == (["23000"] if exact else [])
        assert made.summary.source.errors_logged == exact
    assert actions[0].does == "connect"
    # A slow log has it of MySQL's clients only, and on a busy machine not of each.
    told = log == "general.log" or "command: Quit" in path.read_text(errors="replace")
    assert (actions[-1].does == "disconnect") == told
