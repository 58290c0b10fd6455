"""A server is identified over one connection, counted in the server's own log."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command import Replayer
from tests.logged import Logged, logging_server

BUILD = '[[step]]\nstep = "build"\nrows = 1000\n\n[[step]]\nstep = "flush"\n'
STEPS = 3
"""Connections of the two steps: one each, and one of the process that flushes."""
ALONE = ("--without", "statistics,waits", "--quiet")
"""Collectors make connections of their own."""
LOGIN = re.compile(r"connection authorized: .*")


@pytest.fixture(scope="module")
def server() -> Iterator[Logged]:
    """Yield a server that logs each login."""
    with logging_server("superuser_reserved_connections = 0\n") as logged:
        yield logged


@pytest.fixture
def logins(server: Logged) -> Callable[[], int]:
    """Return a function that counts the logins since the test began."""
    server.forget()

    def count() -> int:
        last = "SELECT 'the last login'"
        server.run("psql", "-c", last, "postgres")
        server.wait_for(last)
        return len(LOGIN.findall(server.log.read_text())) - 1

    return count


@pytest.fixture
def entered() -> Iterator[Path]:
    """Return a folder that everybody can enter, as the server of root is another user's."""
    path = Path(tempfile.mkdtemp(prefix="replayer-logins-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def url_of(server: Logged) -> str:
    """Return the URL of the server's database."""
    return f"postgresql://postgres@/postgres?host={server.folder}"


@pytest.mark.parametrize("command", ["dry run", "check"])
def test_what_only_asks_logs_in_once(
    command: str, server: Logged, logins: Callable[[], int], replayer: Replayer, tmp_path: Path
) -> None:
    """Engine, version, a pooler and the place of the data are asked over one connection."""
    (tmp_path / "build.toml").write_text(BUILD)
    words = {
        "dry run": ("run", tmp_path / "build.toml", "--dry-run", "--engine", url_of(server)),
        "check": ("check", "--engine", url_of(server)),
    }

    replayer(*words[command], status=None)

    assert logins() == 1


def test_a_run_identifies_its_server_once(
    server: Logged, logins: Callable[[], int], replayer: Replayer, tmp_path: Path
) -> None:
    """One login identifies and locks it, steps have their own, and one lists what is left."""
    (tmp_path / "build.toml").write_text(BUILD)

    replayer("run", tmp_path / "build.toml", *ALONE, "--engine", url_of(server))

    assert logins() == 1 + STEPS + 1


@pytest.mark.slow
def test_a_run_on_its_own_server_asks_once(
    replayer: Replayer, tmp_path: Path, entered: Path
) -> None:
    """One login prepares it and one asks for its facts; the watchdog may have one of its own."""
    (tmp_path / "build.toml").write_text(BUILD)
    words = ("run", tmp_path / "build.toml", *ALONE, "--data-dir", entered / "data")

    replayer(*words, "--pg-set", "log_connections=on")
    replayer(*words, "--pg-set", "log_connections=on")

    seen = len(LOGIN.findall((entered / "data" / "server.log").read_text()))
    assert 2 + STEPS <= seen <= 2 + STEPS + 1
