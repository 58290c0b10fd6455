"""A server that is silent, halted or behind a network that stalls, ends a run in one sentence."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replayer.engines import engine as engines
from replayer.engines import watchdog
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError
from replayer.servers.open import Server, open_server
from replayer.tables import parallel
from tests.halting import go_on, halt
from tests.server_pool import ServerPool
from tests.stalling import Network

POSTGRES = engines.load("postgres")
WITHIN = 32.0
"""Seconds after which it has to be noticed, and a little for a busy machine."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have silence noticed after 4 seconds instead of 24."""
    monkeypatch.setattr(watchdog, "PATIENCE", 3.0)
    monkeypatch.setattr(watchdog, "_LONG", 1.0)


@pytest.fixture
def servers(server_pool: ServerPool, mariadbd: Path) -> Callable[[str], Server]:
    """Return a function that returns the running private server of an engine."""
    return lambda name: server_pool(name, bindir=mariadbd.parent if name == "mariadb" else None)


def address_of(server: Server, port: int) -> tuple[str, str]:
    """Return the socket's path and the URL of a private server by a port."""
    own = server.start()
    socket_file = str(own.query.get("unix_socket") or f"{own.query['host']}/.s.PGSQL.5432")
    url = own.set(host="127.0.0.1", port=port, query={}, drivername=own.get_backend_name())
    return socket_file, url.render_as_string(hide_password=False)


@contextlib.contextmanager
def by_network(server: Server) -> Iterator[tuple[Server, Network]]:
    """Yield a private server as one by URL, over a network that can be stalled."""
    socket_file, _ = address_of(server, 1)
    network = Network(socket_file)
    try:
        _, url = address_of(server, network.port)
        with open_server(engines.of_url(url), url=url) as there:
            yield there, network
    finally:
        network.close()


SLEEP = {"postgres": "SELECT pg_sleep({})", "mariadb": "SELECT SLEEP({})"}
BOTH = pytest.mark.parametrize("name", ["postgres", "mariadb"])


def one_statement(database: Database, statement: str) -> None:
    """Execute a statement on the control connection."""
    database.query(statement)


def sessions(database: Database, statement: str) -> None:
    """Execute a statement in three sessions of a worker process."""
    list(parallel.execute(database, [(statement,)] * 3, 3))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("work", [one_statement, sessions])
def test_a_network_that_stalls_is_noticed(
    servers: Callable[[str], Server],
    impatient: None,
    name: str,
    work: Callable[[Database, str], None],
) -> None:
    """Whether a statement waits or the sessions of a step do, it ends in one sentence."""
    with by_network(servers(name)) as (there, network):
        database = Database(there.engine, there.start())
        after = 8 if work is sessions else 1  # sessions are processes that have to start
        threading.Timer(after, network.stall).start()
        begin = time.monotonic() + after
        with closing(database), pytest.raises(ReplayerError, match="went silent: for 3 s") as end:
            work(database, SLEEP[name].format(600))

        assert time.monotonic() - begin < WITHIN
        assert "\n" not in str(end.value)
    assert time.monotonic() - begin < WITHIN + 5


@pytest.mark.slow
@BOTH
def test_a_server_elsewhere_that_is_halted_is_noticed(
    servers: Callable[[str], Server], name: str
) -> None:
    """The kernel of a halted server still answers for it: keepalives alone see nothing."""
    server = servers(name)
    family: list[int] = []
    try:
        with by_network(server) as (there, _), closing(Database(there.engine, there.start())) as d:
            family = server.pids()
            halt(family)
            begin = time.monotonic()
            with pytest.raises(ReplayerError, match="went silent"):
                d.query("SELECT 1")

            assert time.monotonic() - begin < WITHIN
        assert time.monotonic() - begin < WITHIN + 5
    finally:
        go_on(family)


@pytest.mark.slow
def test_a_private_server_that_is_halted_is_noticed(
    servers: Callable[[str], Server], impatient: None
) -> None:
    """A server of replayer's own that hangs ends the step as well, and is stopped."""
    server = servers("postgres")
    with closing(Database(server.engine, server.start())) as database:
        halt(server.pids())
        begin = time.monotonic()
        with pytest.raises(ReplayerError, match=r"PostgreSQL on .* went silent"):
            database.query("SELECT 1")
        assert time.monotonic() - begin < WITHIN
    server.stop()
    assert time.monotonic() - begin < WITHIN + 10


@pytest.mark.slow
@BOTH
def test_a_statement_may_take_as_long_as_it_needs(
    servers: Callable[[str], Server], impatient: None, name: str
) -> None:
    """A statement three times as long on a server that answers is left alone."""
    with (
        by_network(servers(name)) as (there, _),
        closing(Database(there.engine, there.start())) as database,
    ):
        begin = time.monotonic()
        database.query(SLEEP[name].format(12))
        assert time.monotonic() - begin > 11


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_port_that_accepts_and_never_answers(scheme: str) -> None:
    """Something that listens and says nothing is refused within seconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"{scheme}://somebody:secret@127.0.0.1:{listener.getsockname()[1]}/bench"
        begin = time.monotonic()
        with (
            pytest.raises(Impossible, match=r"refused a connection: .*time") as end,
            open_server(engines.of_url(url), url=url),
        ):
            pass

        assert time.monotonic() - begin < WITHIN
        assert "secret" not in str(end.value)
