"""A pooler between replayer and the server: pgbouncer in each of its modes, before a real one."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible
from replayer.servers import programs
from replayer.servers.open import Server, open_server
from tests.conftest import missing

SETTINGS = """
[databases]
replayer = host={socket} port=5432 dbname=replayer user=postgres pool_size=4
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
"""


@pytest.fixture(scope="session")
def pgbouncer() -> str:
    """Return the path of pgbouncer; skip, or fail if it is required, without it."""
    found = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    if found is None:
        missing("pgbouncer", "apt-get install pgbouncer")
    return str(found)


@contextlib.contextmanager
def pooled(program: str, server: Server, mode: str) -> Iterator[str]:
    """Yield the URL of a private server behind a pooler in that mode."""
    own = server.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = programs.server_user(server.engine.spec.server.users)
    with tempfile.TemporaryDirectory(prefix="replayer-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(socket=own.query["host"], port=port, mode=mode))
        identity: dict[str, Any] = {}
        if user is not None:
            identity = {"user": user.uid, "group": user.gid, "extra_groups": []}
        with subprocess.Popen([program, "-q", settings], cwd="/", **identity) as pooler:
            try:
                wait_for_port(port, pooler)
                yield f"postgresql://postgres@127.0.0.1:{port}/replayer"
            finally:
                pooler.kill()


def wait_for_port(port: int, pooler: subprocess.Popen[bytes]) -> None:
    """Wait until the pooler listens; fail where it has ended."""
    while pooler.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    pytest.fail("pgbouncer did not start")


def left_on(url: str) -> list[tuple[Any, ...] | None]:
    """Return what is set and held on the server's sessions that a pooler hands to others."""
    with psycopg.connect(url, autocommit=True) as other:
        asked = (
            "SHOW search_path",
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'",
            "SELECT count(*) FROM pg_prepared_statements",
        )
        return [other.execute(one).fetchone() for one in asked]


def fresh(server: Server) -> list[tuple[Any, ...] | None]:
    """Return the same of a session that nobody ever used."""
    own = server.start()
    return left_on(f"postgresql://postgres@/replayer?host={own.query['host']}&port=5432")


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("busy", [False, True])
def test_a_pooler_that_lends_sessions_out_is_refused_clean(
    server: Server, pgbouncer: str, mode: str, *, busy: bool
) -> None:
    """It is recognised, whoever else uses it, and nothing of replayer's stays on its sessions."""
    with pooled(pgbouncer, server, mode) as url, contextlib.ExitStack() as others:
        for _ in range(2 * busy):
            other = others.enter_context(psycopg.connect(url, autocommit=True))
            other.execute("SELECT 1")
        with (
            pytest.raises(Impossible, match=r"pooler that lends out|statement pooling mode") as end,
            open_server(engines.of_url(url), url=url),
        ):
            pass

        assert "\n" not in str(end.value)
        assert left_on(url) == fresh(server)


def test_a_pooler_that_keeps_sessions_works_and_is_left_clean(
    server: Server, pgbouncer: str
) -> None:
    """With a session of its own for each client replayer works, and what it set is reset."""
    with pooled(pgbouncer, server, "session") as url:
        with (
            open_server(engines.of_url(url), url=url) as there,
            closing(Database(there.engine, there.start())) as database,
        ):
            assert database.query("SHOW search_path") == [{"search_path": "replayer"}]
            assert fresh(server)[0] != ("replayer",)
        assert left_on(url) == fresh(server)
