"""What a MySQL 9 logged, converted and replayed on a private MySQL 9: the same ends the same."""

import time
from contextlib import closing
from pathlib import Path

import pymysql
import pytest

from replayer.capture import conversion
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.servers.open import open_server
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from tests.on_mysql import connected, prepared
from tests.performed import performed

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DUMP = """
CREATE TABLE account (id int PRIMARY KEY, balance bigint, note varchar(60));
INSERT INTO account WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
SELECT i, 100, NULL FROM n;
"""
STATE = "SELECT id, balance, note FROM account ORDER BY id"
TURNS = 30


@pytest.fixture(scope="module")
def mysql(server_home, other_server):
    """Start MySQL 9 once for these tests."""
    folder = server_home / "replayed-mysql-9"
    with open_server(
        engines.load("mysql"), bindir=other_server("mysql-9"), data_dir=folder
    ) as server:
        server.start()
        yield server


def _moved(client, number, turn):
    """Change money in a transaction, some of which are rolled back, and once as it cannot be."""
    cursor = client.cursor()
    cursor.execute("BEGIN")
    prepared(client, "UPDATE account SET balance = balance + ? WHERE id = ?", (number, number))
    cursor.execute(
        "UPDATE account SET balance = balance - %s, note = %s WHERE id = %s",
        (number, f"it's {turn} \\ \n", 20 + number),
    )
    cursor.execute("ROLLBACK" if turn % 5 == 0 else "COMMIT")
    cursor.execute("SELECT balance FROM account WHERE id <= 10 ORDER BY id")
    cursor.fetchall()
    if turn == 7:
        with pytest.raises(pymysql.err.IntegrityError):
            cursor.execute("INSERT INTO account VALUES (1, 1, NULL)")


def _logged(server, log):
    """Have three clients work while a server logs them; return the log and what they left."""
    with closing(connected(server)) as root, root.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS shop")
        cursor.execute("CREATE DATABASE shop")
        with closing(connected(server, database="shop")) as other, other.cursor() as filling:
            for statement in DUMP.split(";")[:-1]:
                filling.execute(statement)
        cursor.execute("SELECT @@datadir")
        path = Path(cursor.fetchone()[0], f"{log}.log")
        kind = {"general": "general_log", "slow": "slow_query_log"}[log]
        for setting in (
            *("log_output = 'FILE'", "long_query_time = 0", "log_slow_extra = 1"),
            *(f"{kind}_file = '{path.name}'", f"{kind} = 1"),
        ):
            cursor.execute(f"SET GLOBAL {setting}")
        clients = [connected(server, database="shop") for _ in range(3)]
        for turn in range(TURNS):
            for number, client in enumerate(clients, 1):
                _moved(client, number, turn)
        for client in clients:
            client.close()
        time.sleep(0.5)
        cursor.execute(f"SET GLOBAL {kind} = 0")
        cursor.execute(STATE.replace("account", "shop.account"))
        return path, cursor.fetchall()


@pytest.mark.parametrize(("log", "order"), [("general", "none"), ("slow", "commit")])
def test_a_log_is_replayed_to_the_state_of_its_source(mysql, surroundings, tmp_path, log, order):
    """From a dump, with transactions and values of prepared statements; rows are the log's."""
    path, state = _logged(mysql, log)
    out, dump = tmp_path / "shop.replay", tmp_path / "dump.sql"
    dump.write_text(DUMP)
    wish = conversion.Wish([str(path)], out)
    conversion.convert(conversion.planned(wish), wish, lambda _: None)
    asked = {"step": "replay", "file": str(out), "speed": 0, "order": order, "database": "shop"}
    spec = Spec.model_validate({**asked, "restore": str(dump)})
    outcomes = [performed(step, spec, surroundings(mysql)) for _ in range(2)]

    url = mysql.start().set(database="replayer_replay")
    with closing(Database(mysql.engine, url, first=())) as database:
        assert [tuple(row.values()) for row in database.query(STATE)] == list(state)
    for outcome in outcomes:
        assert outcome.facts["replay.whole"]
        assert outcome.facts["replay.sessions"] == 3
        assert outcome.facts["replay.order_timeouts"] == 0
        errors = [one.errors for one in outcome.replayed if one.errors]
        assert errors == [{"23000": 3}]
        assert "CPU of the machine" in {row["resource"] for row in outcome.tables["uses"]}
        assert "divergences" not in outcome.tables
        selected = [one for one in outcome.replayed if one.kind == "select"]
        assert sum(one.rows for one in selected) == 3 * 10 * TURNS
        held = [one.held_rows for one in selected if one.held_rows is not None]
        assert held == ([3 * 10 * TURNS] if log == "slow" else [])
