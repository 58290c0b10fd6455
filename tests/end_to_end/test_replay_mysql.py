"""What a MySQL 9 logged, converted and replayed on a private MySQL 9: the same ends the same."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from replayer.capture import conversion
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.on_mysql import connected, prepared
from tests.replaying import OWN, perform_replay, query
from tests.server_pool import ServerPool

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


@pytest.fixture
def server(server_pool: ServerPool, other_server: Callable[[str], Path]) -> Server:
    """Return MySQL 9."""
    return server_pool("mysql", bindir=other_server("mysql-9"))


def _moved(client: Any, number: int, turn: int) -> None:
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


def _logged(server: Server, log: str) -> tuple[Path, Sequence[Any]]:
    """Have three clients work while a server logs them; return the log and what they left."""
    with closing(connected(server)) as root, root.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS shop")
        cursor.execute("CREATE DATABASE shop")
        with closing(connected(server, database="shop")) as other, other.cursor() as filling:
            for statement in DUMP.split(";")[:-1]:
                filling.execute(statement)
        cursor.execute("SELECT @@datadir")
        path = Path(cursor.fetchone()[0], f"{log}.log")
        # Another test may have had a log of that name in this server, which would go on in it.
        path.unlink(missing_ok=True)
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
def test_a_log_is_replayed_to_the_state_of_its_source(
    server: Server, context: Context, tmp_path: Path, log: str, order: str
) -> None:
    """From a dump, with transactions and values of prepared statements; rows are the log's."""
    path, state = _logged(server, log)
    out, dump = tmp_path / "shop.replay", tmp_path / "dump.sql"
    dump.write_text(DUMP)
    wish = conversion.ConversionRequest([str(path)], out)
    conversion.convert(conversion.planned(wish), wish, lambda _: None)
    keys = {"order": order, "order_timeout": "10m", "database": "shop", "restore": dump}
    outcomes = [perform_replay(context, out, **keys) for _ in range(2)]

    assert query(server, STATE, database=OWN) == list(state)
    for outcome in outcomes:
        assert outcome.facts["replay.whole"]
        assert outcome.facts["replay.sessions"] == 3
        assert outcome.facts["replay.order_timeouts"] == 0
        errors = [one.errors for one in outcome.replayed if one.errors]
        assert errors == [{"23000": 3}]
        assert "CPU of the machine" in {row["resource"] for row in outcome.tables["uses"]}
        assert "divergences" not in outcome.tables
        selected = [one for one in outcome.replayed if one.kind == "select"]
        assert sum(one.rows or 0 for one in selected) == 3 * 10 * TURNS
        held = [one.held_rows for one in selected if one.held_rows is not None]
        assert held == ([3 * 10 * TURNS] if log == "slow" else [])
