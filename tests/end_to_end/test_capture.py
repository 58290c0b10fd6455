"""replayer capture: what is set is given back, whatever ends it; its copies can be converted."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from replayer import journal
from replayer.capture import logging_settings
from replayer.capture.archive import ArchiveReader
from replayer.run.recovery import give_back_note
from replayer.servers.open import Server
from tests.command import Ended, Replayer
from tests.replaying import Rows, query
from tests.server_pool import ServerPool
from tests.waiting import wait_until

SECRET = "hunter2-hunter2"
SET = "SELECT name, setting FROM pg_file_settings WHERE sourcefile ~ 'auto.conf$' ORDER BY name"
NOW = "SELECT name, setting FROM pg_settings WHERE name LIKE 'log%' ORDER BY name"
OURS = "log_min_duration_statement"
# Not as it stands here, as that would be logged itself.
WRITTEN = "SELECT strpos(pg_read_file(pg_current_logfile('csvlog')), 'SELECT 42' || '42') > 0 AS is"
STATE = "SELECT @@general_log, @@log_output"
"""Whether MariaDB logs statements, and where."""


QUICKLY = """
import sys
from replayer.__main__ import main
from replayer.capture import logging_settings
logging_settings.SAMPLE_SECONDS = 0.1
sys.exit(main())
"""
"""Replayer, but what logging costs is not sampled for seconds."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample the load not for seconds."""
    monkeypatch.setattr(logging_settings, "SAMPLE_SECONDS", 0.1)


@pytest.fixture(scope="module", params=["18", pytest.param("15", marks=pytest.mark.slow)])
def collecting(request: pytest.FixtureRequest, server_pool: ServerPool) -> Iterator[Server]:
    """Return a server that writes its log itself."""
    bindir = request.getfixturevalue("postgres15") if request.param == "15" else None
    server = server_pool(bindir=bindir, settings={"fsync": "off"})
    query(server, "ALTER SYSTEM SET logging_collector = on")
    server.stop()
    # Here: a test that starts it would have it in its own home.
    server.start()
    yield server
    query(server, "ALTER SYSTEM RESET ALL")
    server.stop()


@pytest.fixture
def source(collecting: Server, own_home: Path) -> Iterator[Server]:
    """Return a server that writes its log itself, with a setting that somebody made."""
    query(collecting, f"ALTER SYSTEM SET {OURS} = '1h'", "SELECT pg_reload_conf()")
    wait_until(lambda: named(query(collecting, NOW))[OURS] == "3600000")
    yield collecting
    own = query(collecting, SET)
    undone = [f"ALTER SYSTEM RESET {name}" for name, _ in own if name != "logging_collector"]
    query(collecting, *undone, "SELECT pg_reload_conf()")


def url_of(server: Server, username: str = "postgres") -> str:
    """Return the URL that somebody would type, with a password in it."""
    url = server.start().set(drivername="postgresql", username=username, password=SECRET)
    return url.render_as_string(hide_password=False)


def named(rows: Rows) -> dict[str, str]:
    """Return settings by their names."""
    return {str(name): str(setting) for name, setting in rows}


def settings_of(server: Server) -> tuple[Rows, Rows]:
    """Return what is written down of the settings, and what is in force."""
    return query(server, SET), query(server, NOW)


def begin(replayer: Replayer, server: Server, *words: object) -> Popen[str]:
    """Start a capture as a user does; return it once the server logs every statement."""
    words = ("capture", url_of(server), "--apply", *words)
    running = replayer.start(*words, command=(sys.executable, "-c", QUICKLY))
    while named(query(server, NOW))[OURS] != "0":
        assert running.poll() is None, running.communicate()
        time.sleep(0.05)
    return running


def ended(running: Popen[str], status: int = 0) -> Ended:
    """Wait for a replayer's end; return what it printed, in which no password is."""
    out, err = running.communicate(timeout=300)
    assert running.returncode == status, out + err
    assert "Traceback" not in err
    assert SECRET not in out + err
    return Ended(running.returncode, out, err)


def test_without_apply_nothing_is_changed(source: Server, replayer: Replayer) -> None:
    """It says what is to be set, what that undoes, what it costs, and where the log is."""
    before = settings_of(source)

    out, err = replayer("capture", url_of(source))

    assert f"ALTER SYSTEM SET {OURS} = '0';" in out
    assert f"ALTER SYSTEM SET {OURS} = '1h';" in out
    assert "ALTER SYSTEM SET log_destination = 'stderr,csvlog';" in out
    assert "pg_reload_conf()" in out
    assert "cost: " in out
    assert "replayer convert " in out
    assert SECRET not in out + err
    assert settings_of(source) == before


@pytest.mark.slow
def test_what_ran_meanwhile_can_be_converted(
    source: Server, replayer: Replayer, tmp_path: Path
) -> None:
    """Statements, parameters and sessions of the span, in files of the owner alone; no others."""
    before = settings_of(source)
    query(source, "SELECT 'too early'")
    out = tmp_path / "monday"

    running = begin(replayer, source, "--for", "4s", "--out", out)
    query(
        source, "CREATE TABLE one (id int)", "INSERT INTO one VALUES (42)", "SELECT 4242 FROM one"
    )
    text, _ = ended(running)
    query(source, "SELECT 'too late'")

    assert settings_of(source) == before
    assert [path.stat().st_mode & 0o777 for path in (out, *out.iterdir())] == [0o700, 0o600]
    (line,) = [line for line in text.splitlines() if line.startswith("convert it: ")]
    words = line.partition("replayer ")[2].replace("capture.replay", str(tmp_path / "it.replay"))
    replayer(*words.split())
    with ArchiveReader(tmp_path / "it.replay") as reader:
        texts = [action.text for action in reader.actions()]
    assert "INSERT INTO one VALUES (42)" in texts
    assert "SELECT 4242 FROM one" in texts
    assert not [text for text in texts if "too " in text or "ALTER SYSTEM" in text]
    assert not [text for text in texts if "log_error_verbosity" in text], "replayer asked"


def test_ctrl_c_gives_back_and_keeps_what_ran(
    source: Server, replayer: Replayer, tmp_path: Path
) -> None:
    """Stopped in the middle: the settings are as before, the log until then is copied."""
    before = settings_of(source)
    out = tmp_path / "monday"

    running = begin(replayer, source, "--for", "1h", "--out", out)
    query(source, "SELECT 4242")
    wait_until(lambda: query(source, WRITTEN) == [(True,)])
    running.send_signal(signal.SIGINT)
    _, err = ended(running, status=130)

    assert "stopped by Ctrl-C" in err
    assert settings_of(source) == before
    assert any("SELECT 4242" in path.read_text() for path in out.iterdir())
    assert not list(journal.notes("log_settings"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clean", "capture"])
def test_a_kill_is_made_good_by_the_next_replayer(
    source: Server, replayer: Replayer, how: str
) -> None:
    """After kill -9 `clean`, or the next capture, gives back what is still as it was set."""
    before = named(query(source, SET))

    running = begin(replayer, source, "--for", "1h")
    running.kill()
    running.communicate()
    # Meanwhile somebody wants one of them as it is theirs.
    query(source, "ALTER SYSTEM SET log_disconnections = off", "SELECT pg_reload_conf()")
    assert named(query(source, SET))[OURS] == "0"
    (note,) = journal.notes("log_settings")
    assert SECRET not in note.path.read_text()
    if how == "capture":
        assert "given back" in replayer("capture", url_of(source)).err
    else:
        # The server of this test is in use, and `clean` leaves everything alone while that is so.
        assert "given back" in give_back_note(note)

    assert named(query(source, SET)) == {**before, "log_disconnections": "off"}
    assert not list(journal.notes("log_settings"))


def test_who_may_not_is_told_what_is_lacking(source: Server, replayer: Replayer) -> None:
    """A user without the right changes nothing, and reads in one sentence what would give it."""
    before = query(source, "CREATE ROLE plain LOGIN", SET)
    words = ("capture", url_of(source, username="plain"), "--apply", "--for", "1s")

    out, err = replayer(*words, status=2)

    assert "may not do it" in err
    assert "superuser" in err
    assert SECRET not in out + err
    assert query(source, "DROP ROLE plain", SET) == before
    assert not list(journal.notes("log_settings"))


@pytest.mark.slow
def test_a_server_that_only_logs_to_stderr(
    server: Server, own_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """Without logging_collector the lines get a prefix, and the log is found where stderr goes."""
    before = settings_of(server)
    out = tmp_path / "monday"

    running = begin(replayer, server, "--for", "4s", "--out", out)
    query(server, "SELECT 4242")
    text, _ = ended(running)

    assert settings_of(server) == before
    assert "only a restart" in text
    assert "--prefix" in text
    assert any("SELECT 4242" in path.read_text() for path in out.iterdir())


@pytest.mark.slow
def test_the_general_log_of_mariadb(
    mariadbd: Path, server_pool: ServerPool, replayer: Replayer, tmp_path: Path
) -> None:
    """It is switched on for the span and off again, and its part of the file is converted."""
    out = tmp_path / "monday"
    server = server_pool("mariadb", bindir=mariadbd.parent)
    before = query(server, STATE)
    url = server.start().set(drivername="mariadb").render_as_string(hide_password=False)
    words = ("capture", url, "--apply", "--for", "4s", "--out", out)
    running = replayer.start(*words, command=(sys.executable, "-c", QUICKLY))
    while query(server, STATE) == before:
        assert running.poll() is None, running.communicate()
    query(server, "SELECT 4242")
    ended(running)

    assert query(server, STATE) == before
    (copy,) = out.iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "SELECT 4242" in copy.read_text()
    assert "SET GLOBAL" not in copy.read_text()
