"""The lock of a server at a URL: who has it is named, and who is gone has it no more."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.servers.open import Server, open_server
from tests import namespaces
from tests.namespaces import Host, rig
from tests.server_pool import ServerPool
from tests.stalling import Network

HOLD = """
import sys
from replayer.engines import engine
from replayer.errors import Impossible
from replayer.servers.open import open_server
url = sys.argv[1]
try:
    with open_server(engine.of_url(url), url=url):
        print("has it", flush=True)
        sys.stdin.read()
except Impossible as error:
    print(error, flush=True)
"""
"""Takes the lock, says so and keeps it until its input ends; or says why not."""
BOTH = pytest.mark.parametrize("name", ["postgres", "mariadb"])


@pytest.fixture
def servers(server_pool: ServerPool, mariadbd: Path) -> Callable[[str], Server]:
    """Return a function that returns the running private server of an engine."""
    return lambda name: server_pool(name, bindir=mariadbd.parent if name == "mariadb" else None)


def url_of(server: Server, **other: object) -> str:
    """Return the URL of a private server as it is typed, with other parts of it."""
    own = server.start()
    return own.set(drivername=server.engine.name, **other).render_as_string(hide_password=False)  # type: ignore[arg-type]


@contextmanager
def held(words: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a process that takes the lock, and what it says of it."""
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        try:
            yield holder, holder.stdout.readline().strip()
        finally:
            holder.kill()


@BOTH
def test_the_lock_of_a_killed_process_is_taken_over(
    servers: Callable[[str], Server], name: str
) -> None:
    """Also where the server has not noticed its end, as behind a relay that keeps connections."""
    server = servers(name)
    own = server.start()
    socket_file = own.query.get("unix_socket") or f"{own.query['host']}/.s.PGSQL.5432"
    network = Network(socket_file)
    by_relay = url_of(server, host="127.0.0.1", port=network.port, query={})
    try:
        with held([sys.executable, "-c", HOLD, by_relay]) as (holder, said):
            assert said == "has it"
            network.stall()
            with (
                pytest.raises(Impossible, match=rf"process {holder.pid} on .* since 20") as refused,
                open_server(server.engine, url=url_of(server)),
            ):
                pass
            os.kill(holder.pid, signal.SIGKILL)
            holder.wait()
        with open_server(server.engine, url=url_of(server)) as there:
            assert there.version
    finally:
        network.close()
    ends = {"postgres": "SELECT pg_terminate_backend(", "mariadb": "KILL "}
    assert f"end it with `{ends[name]}" in str(refused.value)


@BOTH
def test_the_holder_that_hangs_can_be_ended_as_it_is_said(
    servers: Callable[[str], Server], name: str
) -> None:
    """The statement that the sentence names gives the lock to the next run."""
    server = servers(name)
    with held([sys.executable, "-c", HOLD, url_of(server)]) as (holder, _):
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(Impossible) as refused, open_server(server.engine, url=url_of(server)):
            pass
        with closing(Database(server.engine, server.start(), first=())) as database:
            database.query(str(refused.value).split("`")[1])
        with open_server(server.engine, url=url_of(server)) as there:
            assert there.version


@BOTH
def test_a_run_that_has_lost_its_lock_notices(servers: Callable[[str], Server], name: str) -> None:
    """A session that an operator has ended protects nothing: the step that was under way fails."""
    server = servers(name)
    with open_server(server.engine, url=url_of(server)) as there:
        assert there.describe_loss() == ""
        with pytest.raises(Impossible) as refused, open_server(server.engine, url=url_of(server)):
            pass
        with closing(Database(server.engine, server.start(), first=())) as database:
            database.query(str(refused.value).split("`")[1])
        assert "another run could begin" in there.describe_loss()
        # It holds for all that is done after that, too.
        assert "another run could begin" in there.describe_loss()


def test_runs_that_measure_nothing_of_the_machine_share_a_server(server_pool: ServerPool) -> None:
    """Each has a database for itself; who measures the machine wants the whole server."""
    server = server_pool()
    with closing(Database(server.engine, server.start())) as database:
        database.query("CREATE DATABASE lock_neighbour")
        try:
            first, second = url_of(server), url_of(server, database="lock_neighbour")
            got = {}
            for whole in (True, False):
                with open_server(server.engine, url=first, alone=whole):
                    for url in (first, second):
                        for alone in (True, False):
                            try:
                                with open_server(server.engine, url=url, alone=alone):
                                    got[whole, url == second, alone] = True
                            except Impossible:
                                got[whole, url == second, alone] = False
        finally:
            database.query("DROP DATABASE lock_neighbour")

    assert [key for key, taken in got.items() if taken] == [(False, True, False)]


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """Yield two hosts and that of the server."""
    with rig("first", "second", "db") as hosts:
        yield hosts


@pytest.mark.root
@pytest.mark.slow
@BOTH
def test_a_cut_network_gives_the_lock_back(
    hosts: dict[str, Host], mariadbd: Path, name: str
) -> None:
    """Whose cable is out loses it within what the server needs to notice, and nobody else does."""
    first, second, db = hosts.values()
    url = getattr(namespaces, name)(db)
    noticed = engines.load(name).spec.lock.noticed
    with held(first.command(sys.executable, "-c", HOLD, url)) as (_, has_it):
        assert has_it == "has it"
        with held(second.command(sys.executable, "-c", HOLD, url)) as (_, refused):
            assert "in use by another replayer (process " in refused
            assert " on first, session " in refused
            assert f" from {first.address}" in refused
        first.cut()
        begin = time.monotonic()
        with held(second.command(sys.executable, "-c", HOLD, url)) as (_, taken_over):
            # It waits for just as long as the server may need.
            assert taken_over == "has it"
        assert time.monotonic() - begin < noticed + 60, "a busy machine, or the kernel's two hours"
