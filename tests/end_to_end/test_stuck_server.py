"""A private server that hangs, crashes or is killed is stopped all the same, and leaves nothing."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from replayer import journal
from replayer.engines import engine as engines
from replayer.engines.connection import Database, url_of
from replayer.errors import ReplayerError
from replayer.machine import processes
from replayer.run import recovery
from replayer.servers.open import open_server
from tests.halting import halt

ROOT = os.geteuid() == 0
POSTGRES = engines.load("postgres")
WITHIN = 20.0
"""Seconds that a stop may take, whatever happened to the server."""


def wait_for(condition):
    """Wait until something is true; fail after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen within a minute"
        time.sleep(0.01)


def child_called(main, name):
    """Return the process id of the server's child of this kind."""
    (child,) = (pid for pid in processes.family(main) if name in processes.arguments(pid))
    return child


def shared_memory():
    """Return the names of all dynamic shared memory of servers, and the ids of System V's."""
    table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {path.name for path in Path("/dev/shm").glob("PostgreSQL.*")}, {
        line.split()[1] for line in table
    }


def segments_of(main):
    """Return the shared memory that a server's main process has mapped."""
    maps = Path(f"/proc/{main}/maps").read_text().splitlines()
    mapped = [line.split(maxsplit=5) for line in maps if "/dev/shm/" in line or "/SYSV" in line]
    return {Path(fields[5]).name for fields in mapped if "PostgreSQL." in fields[5]}, {
        fields[4] for fields in mapped if "SYSV" in fields[5]
    }


def crashed(data):
    """Tell whether a server has begun to recover, in which it cannot be stopped politely."""
    log = (data.parent / "server.log").read_text(errors="replace")
    return "all server processes terminated; reinitializing" in log


@contextlib.contextmanager
def a_survivor(place):
    """Yield a busy database, with much to replay and one row that was committed."""
    with closing(Database(place.engine, place.start())) as database:
        database.query("CREATE TABLE survivor AS SELECT 42 AS answer")
        database.query("CHECKPOINT")
        database.query("CREATE TABLE busy AS SELECT g, md5(g::text) FROM generate_series(1, 9) g")
        database.query("INSERT INTO busy SELECT g, md5(g::text) FROM generate_series(1, 500000) g")
        yield database


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["postgres replayer", "checkpointer"])
def test_a_server_in_crash_recovery_is_stopped_within_seconds(made_home, victim):
    """PostgreSQL hangs forever when it is asked to stop while it replays; its data stays whole."""
    with open_server(POSTGRES) as place, a_survivor(place):
        main = place.pids()[0]
        os.kill(child_called(main, victim), signal.SIGKILL)
        wait_for(lambda: crashed(place.data_directory()))
        begin = time.monotonic()
        place.stop()

        assert time.monotonic() - begin < WITHIN
        assert not processes.family(main)
        with closing(Database(place.engine, place.start())) as database:
            assert database.query("SELECT answer FROM survivor") == [{"answer": 42}]


@pytest.mark.parametrize("halted", ["main", "all"])
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_a_halted_server_is_stopped_within_seconds(own_home, mariadbd, engine, halted):
    """Processes that are halted (SIGSTOP) hear of no request until they go on."""
    with open_server(engines.load(engine)) as place:
        place.start()
        family = place.pids()
        halt(family if halted == "all" else family[:1])
        begin = time.monotonic()
        place.stop()

        assert time.monotonic() - begin < WITHIN
        assert not any(map(journal.identity, family))


def test_a_halted_server_of_a_killed_replayer_is_given_back(made_home, holder):
    """The next command stops what neither its replayer nor it itself can stop any more."""
    other = holder()
    main = int(other.said.split()[1])
    halt(processes.family(main))
    other.kill()
    other.wait()
    begin = time.monotonic()
    recovery.give_back(lambda _: None)

    assert time.monotonic() - begin < WITHIN
    assert not processes.family(main)
    assert list(journal.notes()) == []


def test_a_second_ctrl_c_ends_replayer_while_its_server_hangs(made_home, holder):
    """The first one waits for the server to stop, the second for nothing; the rest comes later."""
    other = holder()
    main, data = int(other.said.split()[1]), Path(other.said.split()[2])
    with closing(Database(POSTGRES.at(18), url_of_note())) as database:
        database.query("CREATE TABLE busy AS SELECT g, md5(g::text) FROM generate_series(1, 9) g")
        database.query("INSERT INTO busy SELECT g, md5(g::text) FROM generate_series(1, 500000) g")
    os.kill(child_called(main, "checkpointer"), signal.SIGKILL)
    wait_for(lambda: crashed(data))
    other.send_signal(signal.SIGINT)
    time.sleep(1)
    assert other.poll() is None, "the server hangs for longer than that"
    other.send_signal(signal.SIGINT)

    assert other.wait(timeout=2) == 130
    assert processes.family(main)
    recovery.give_back(lambda _: None)
    assert not processes.family(main)
    assert list(journal.notes()) == []


def url_of_note():
    """Return the URL of the one server that is running, by the note of its socket."""
    (note,) = journal.notes("socket")
    text = POSTGRES.spec.server.url.format(database="replayer", socket=note.details["path"])
    return url_of(text, POSTGRES)


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
def test_a_server_on_a_full_disk_is_stopped_within_seconds(own_home, mariadbd, engine):
    """A log that has no room left ends the step in one sentence, and the server can be stopped."""
    size = "300m" if engine == "postgres" else "1200m"
    with small_disk(f"size={size}") as disk:
        with open_server(engines.load(engine), data_dir=disk / "data") as place:
            with closing(Database(place.engine, place.start())) as database:
                database.query("CREATE TABLE growing (a int, b varchar(200))")
                filler = disk / "filler"
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(b"x" * (1 << 20)):
                        pass
                with pytest.raises(ReplayerError):
                    fill(database, engine)
            begin = time.monotonic()
            place.stop()
            assert time.monotonic() - begin < WITHIN
        assert not [pid for pid in processes.every() if str(disk) in processes.arguments(pid)]


def fill(database, engine):
    """Insert until the disk is full."""
    database.query("INSERT INTO growing VALUES (1, 'x')")
    for _ in range(40):
        wide = "repeat('x', 200)"
        database.query(f"INSERT INTO growing SELECT a, {wide} FROM growing")


def test_a_killed_server_leaves_no_shared_memory(made_home, holder):
    """After kill -9 of replayer and of its server the next command removes both kinds of it."""
    other = holder()
    main = int(other.said.split()[1])
    files, ids = segments_of(main)
    assert files <= shared_memory()[0]
    assert files
    assert ids
    family = processes.family(main)
    other.kill()
    other.wait()
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(journal.identity, family)))
    before = shared_memory()
    assert files <= before[0]
    assert ids <= before[1]

    recovery.give_back(lambda _: None)

    assert not files & shared_memory()[0]
    assert not ids & shared_memory()[1]


@contextlib.contextmanager
def small_disk(options):
    """Mount a file system in memory, and yield its folder; skip where that is not allowed."""
    with tempfile.TemporaryDirectory(prefix="replayer-test-", dir="/tmp") as name:
        mount = ["mount", "-t", "tmpfs", "-o", f"mode=755,{options}", "none", name]
        Path(name).chmod(0o755)
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)
