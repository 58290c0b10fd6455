"""A connection to a ClickHouse server, which is refused if the server lacks one of its settings."""

from collections.abc import Callable, Collection
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database, Row, url_of
from replayer.errors import Impossible, ReplayerError
from replayer.servers import remote

http_connection = pytest.importorskip("replayer.engines.wires.clickhouse.http_connection")
ENGINE = engines.load("clickhouse-server")
ASKED = {key.removeprefix("ch_") for key in ENGINE.spec.connect.query}
URL = "clickhouse://me@127.0.0.1/"
Served = Callable[..., list[str]]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """Return a function that makes a server with settings, and returns what it is sent.

    The server refuses a setting that is neither in `listed` nor in `hidden`.
    """

    def serve(listed: Collection[str], hidden: Collection[str] = ()) -> list[str]:
        statements: list[str] = []

        def connect(self: Any, **arguments: Any) -> None:
            asked = {key.removeprefix("ch_") for key in arguments if key.startswith("ch_")}

            def execute(statement: str) -> None:
                statements.append(statement)
                for name in sorted(asked.difference(listed, hidden)):
                    raise http_connection.OperationalError(
                        f"Code: 115. DB::Exception: Setting {name} is not builtin and does not "
                        f"start with the prefix 'SQL_' (UNKNOWN_SETTING) (version 24.8.4.13)"
                    )

            self.client = SimpleNamespace(
                server_settings=dict.fromkeys(listed), command=execute, close=lambda: None
            )

        monkeypatch.setattr(http_connection.Connection, "__init__", connect)
        return statements

    return serve


def test_settings_that_the_server_lists_are_not_tried(served: Served) -> None:
    """A connection to a server that has them all costs no statement."""
    statements = served(ASKED)
    with closing(Database(ENGINE, url_of(URL, ENGINE))):
        pass

    assert statements == []


@pytest.mark.parametrize("lacking", sorted(ASKED))
def test_a_server_without_a_setting_refuses_the_connection(served: Served, lacking: str) -> None:
    """It is refused in the server's words, which have its version, and with a remedy."""
    served(ASKED - {lacking})
    with pytest.raises(ReplayerError, match="refused a connection") as caught:
        Database(ENGINE, url_of(URL, ENGINE))

    assert lacking in str(caught.value)
    assert "version 24.8.4.13" in str(caught.value)
    assert "use a newer version of the server" in str(caught.value)


def test_a_setting_that_the_server_has_and_does_not_list_is_taken(served: Served) -> None:
    """A user's own settings are in no list, and the server decides."""
    served(ASKED, ["SQL_mine"])
    with closing(Database(ENGINE, url_of(f"{URL}?ch_SQL_mine=1", ENGINE))):
        pass


@pytest.mark.parametrize(("version", "refused"), [("24.12.1.5", True), ("25.3.2.39", False)])
def test_a_server_without_the_caches_that_are_emptied_is_too_old(
    version: str, *, refused: bool
) -> None:
    """`SYSTEM DROP PRIMARY INDEX CACHE` came with 24.12, and that of conditions with 25.3."""
    answer = Row({"version": version, "major": int(version.partition(".")[0])})
    database = cast("Database", SimpleNamespace(engine=ENGINE, row=lambda _: answer))
    if refused:
        with pytest.raises(Impossible, match=r"24\.12\.1\.5: replayer needs 25 or later"):
            remote._version(database)
    else:
        assert remote._version(database) == 25
