"""replayer capture: what is set is given back, whatever ends it; its copies can be converted."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from replayer import journal
from replayer.capture.archive import Reader
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.servers.open import open_server

SECRET = "hunter2-hunter2"
SET = "SELECT name, setting FROM pg_file_settings WHERE sourcefile ~ 'auto.conf$' ORDER BY name"
NOW = "SELECT name, setting FROM pg_settings WHERE name LIKE 'log%' ORDER BY name"
OURS = "log_min_duration_statement"


def asked(server, *statements):
    """Execute statements on a server, each by itself, and return the rows of the last."""
    with closing(Database(server.engine, server.start(), first=())) as database:
        rows = [database.query(one) for one in statements]
    return [tuple(row.values()) for row in rows[-1]]


@pytest.fixture(params=["18", pytest.param("15", marks=pytest.mark.slow)])
def source(request, own_home):
    """Return a server of this test's own that writes its log itself, with a setting of its own."""
    bindir = request.getfixturevalue("postgres15") if request.param == "15" else None
    with open_server(engines.load("postgres"), bindir=bindir) as server:
        asked(
            server,
            "ALTER SYSTEM SET logging_collector = on",
            "ALTER SYSTEM SET log_min_duration_statement = '1h'",
        )
        server.stop()
        yield server


def url_of(server):
    """Return the URL that somebody would type, with a password in it."""
    url = server.start().set(drivername="postgresql", password=SECRET)
    return url.render_as_string(hide_password=False)


def capture(server, *words, wait_for=""):
    """Start `replayer capture` as a user does; return it once the server logs every statement."""
    command = [sys.executable, "-m", "replayer", "capture", url_of(server), *map(str, words)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    end = time.monotonic() + 60
    while wait_for and dict(asked(server, NOW))[OURS] != wait_for:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
    return process


def ended(process, status=0):
    """Wait for a replayer's end; return what it printed, in which no password is."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == status, out + err
    assert "Traceback" not in err
    assert SECRET not in out + err
    return out, err


def test_without_apply_nothing_is_changed(source):
    """It says what is to be set, what that undoes, what it costs, and where the log is."""
    before = asked(source, SET), asked(source, NOW)

    out, _ = ended(capture(source))

    assert f"ALTER SYSTEM SET {OURS} = '0';" in out
    assert f"ALTER SYSTEM SET {OURS} = '1h';" in out
    assert "ALTER SYSTEM SET log_destination = 'stderr,csvlog';" in out
    assert "pg_reload_conf()" in out
    assert "cost: " in out
    assert "replayer convert " in out
    assert (asked(source, SET), asked(source, NOW)) == before


@pytest.mark.slow
def test_what_ran_meanwhile_can_be_converted(source, tmp_path):
    """Statements, parameters and sessions of the span, in files of the owner alone; no others."""
    before = asked(source, SET), asked(source, NOW)
    asked(source, "SELECT 'too early'")
    out = tmp_path / "monday"

    process = capture(source, "--apply", "--for", "4s", "--out", out, wait_for="0")
    asked(
        source, "CREATE TABLE one (id int)", "INSERT INTO one VALUES (42)", "SELECT 4242 FROM one"
    )
    text, _ = ended(process)
    asked(source, "SELECT 'too late'")

    assert (asked(source, SET), asked(source, NOW)) == before
    assert [path.stat().st_mode & 0o777 for path in (out, *out.iterdir())] == [0o700, 0o600]
    (line,) = [line for line in text.splitlines() if line.startswith("convert it: ")]
    words = line.partition("replayer ")[2].replace("capture.replay", str(tmp_path / "it.replay"))
    subprocess.run([sys.executable, "-m", "replayer", *words.split()], check=True)
    with Reader(tmp_path / "it.replay") as reader:
        texts = [action.text for action in reader.actions()]
    assert "INSERT INTO one VALUES (42)" in texts
    assert "SELECT 4242 FROM one" in texts
    assert not [text for text in texts if "too " in text or "ALTER SYSTEM" in text]
    assert not [text for text in texts if "log_error_verbosity" in text], "replayer asked"


def test_ctrl_c_gives_back_and_keeps_what_ran(source, tmp_path):
    """Stopped in the middle: the settings are as before, the log until then is copied."""
    before = asked(source, SET), asked(source, NOW)
    out = tmp_path / "monday"

    process = capture(source, "--apply", "--for", "1h", "--out", out, wait_for="0")
    asked(source, "SELECT 4242")
    process.send_signal(signal.SIGINT)
    _, err = ended(process, status=130)

    assert "stopped by Ctrl-C" in err
    assert (asked(source, SET), asked(source, NOW)) == before
    assert any("SELECT 4242" in path.read_text() for path in out.iterdir())
    assert not list(journal.notes("log_settings"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["clean", "capture"])
def test_a_kill_is_made_good_by_the_next_replayer(source, how):
    """After kill -9 `clean`, or the next capture, gives back what is still as it was set."""
    before = dict(asked(source, SET))

    process = capture(source, "--apply", "--for", "1h", wait_for="0")
    process.kill()
    process.communicate()
    # Meanwhile somebody wants one of them as it is theirs.
    asked(source, "ALTER SYSTEM SET log_disconnections = off", "SELECT pg_reload_conf()")
    assert dict(asked(source, SET))[OURS] == "0"
    (note,) = journal.notes("log_settings")
    assert SECRET not in note.path.read_text()
    if how == "capture":
        _, err = ended(capture(source))
        assert "given back" in err
    else:
        # The server of this test is in use, and `clean` leaves everything alone while that is so.
        from replayer.run.recovery import recovered  # noqa: PLC0415

        assert "given back" in recovered(note)

    assert dict(asked(source, SET)) == {**before, "log_disconnections": "off"}
    assert not list(journal.notes("log_settings"))


def test_who_may_not_is_told_what_is_lacking(source):
    """A user without the right changes nothing, and reads in one sentence what would give it."""
    before = asked(source, "CREATE ROLE plain LOGIN", SET)
    url = source.start().set(drivername="postgresql", username="plain", password=SECRET)
    command = ["capture", url.render_as_string(hide_password=False), "--apply", "--for", "1s"]

    done = subprocess.run(
        [sys.executable, "-m", "replayer", *command], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2, done.stderr
    assert "may not do it" in done.stderr
    assert "superuser" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert asked(source, SET) == before
    assert not list(journal.notes("log_settings"))


@pytest.mark.slow
def test_a_server_that_only_logs_to_stderr(server, own_home, tmp_path):
    """Without logging_collector the lines get a prefix, and the log is found where stderr goes."""
    before = asked(server, SET), asked(server, NOW)
    out = tmp_path / "monday"

    process = capture(server, "--apply", "--for", "4s", "--out", out, wait_for="0")
    asked(server, "SELECT 4242")
    text, _ = ended(process)

    assert (asked(server, SET), asked(server, NOW)) == before
    assert "only a restart" in text
    assert "--prefix" in text
    assert any("SELECT 4242" in path.read_text() for path in out.iterdir())


@pytest.mark.slow
def test_the_general_log_of_mariadb(mariadbd, own_home, tmp_path):
    """It is switched on for the span and off again, and its part of the file is converted."""
    out = tmp_path / "monday"
    state = "SELECT @@general_log, @@log_output"
    with open_server(engines.load("mariadb")) as server:
        before = asked(server, state)
        url = server.start().set(drivername="mariadb")
        words = [url.render_as_string(hide_password=False), "--apply", "--for", "4s", "--out", out]
        process = subprocess.Popen(
            [sys.executable, "-m", "replayer", "capture", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        end = time.monotonic() + 60
        while asked(server, state) == before:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
        asked(server, "SELECT 4242")
        ended(process)

        assert asked(server, state) == before
    (copy,) = out.iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert "SELECT 4242" in copy.read_text()
    assert "SET GLOBAL" not in copy.read_text()
