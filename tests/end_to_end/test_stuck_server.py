"""A private server that hangs, crashes or is killed is stopped all the same, and leaves nothing."""

import contextlib
import dataclasses
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replayer import journal
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.errors import Impossible, ReplayerError
from replayer.machine import processes
from replayer.run import recovery, runner
from replayer.servers import server_process, shutdown
from replayer.servers.open import Server, open_server
from tests.fixture_types import Holder
from tests.halting import halt
from tests.known import known
from tests.ready_made import copy, put_data, ready_data
from tests.slow_case import slow
from tests.small_disk import small_disk
from tests.waiting import wait_until

ROOT = os.geteuid() == 0
POSTGRES = engines.load("postgres")


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the long limit of a stop: who needs it never ends, however fast the machine is."""
    monkeypatch.setattr(shutdown, "PATIENCE", math.inf)


def child_called(main: int, name: str) -> int:
    """Return the process id of the server's child of this kind."""
    (child,) = (pid for pid in processes.family(main) if name in processes.arguments(pid))
    return child


def shared_memory() -> tuple[set[str], set[str]]:
    """Return the names of all dynamic shared memory of servers, and the ids of System V's."""
    table = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return {path.name for path in Path("/dev/shm").glob("PostgreSQL.*")}, {
        line.split()[1] for line in table
    }


def segments_of(main: int) -> tuple[set[str], set[str]]:
    """Return the shared memory that a server's main process has mapped."""
    maps = Path(f"/proc/{main}/maps").read_text().splitlines()
    mapped = [line.split(maxsplit=5) for line in maps if "/dev/shm/" in line or "/SYSV" in line]
    return {Path(fields[5]).name for fields in mapped if "PostgreSQL." in fields[5]}, {
        fields[4] for fields in mapped if "SYSV" in fields[5]
    }


def crashed(data: Path) -> bool:
    """Tell whether a server has begun to recover, in which it cannot be stopped politely."""
    log = (data.parent / "server.log").read_text(errors="replace")
    return "all server processes terminated; reinitializing" in log


@contextlib.contextmanager
def a_survivor(place: Server) -> Iterator[Database]:
    """Yield a busy database, with much to replay and one row that was committed."""
    with closing(Database(place.engine, place.start())) as database:
        database.query("CREATE TABLE survivor AS SELECT 42 AS answer")
        database.query("CHECKPOINT")
        database.query("CREATE TABLE busy AS SELECT g, md5(g::text) FROM generate_series(1, 9) g")
        database.query("INSERT INTO busy SELECT g, md5(g::text) FROM generate_series(1, 500000) g")
        yield database


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["postgres replayer", "checkpointer"])
def test_a_server_in_crash_recovery_is_stopped(made_home: Path, victim: str) -> None:
    """PostgreSQL hangs forever when it is asked to stop while it replays; its data stays whole."""
    with open_server(POSTGRES) as place, a_survivor(place):
        main = place.pids()[0]
        os.kill(child_called(main, victim), signal.SIGKILL)
        data = place.data_directory()
        assert data is not None
        wait_until(lambda: crashed(data))
        place.stop()

        assert not processes.family(main)
        with closing(Database(place.engine, place.start())) as database:
            assert database.query("SELECT answer FROM survivor") == [{"answer": 42}]


@pytest.mark.parametrize("halted", [slow("main"), "all"])
@pytest.mark.parametrize("engine", ["postgres", slow("mariadb")])
def test_a_halted_server_is_stopped(
    own_home: Path, mariadbd: Path, engine: str, halted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are halted (SIGSTOP) hear of no request until they go on."""
    # It need not be asked more roughly than the first time, for however long it would do nothing.
    monkeypatch.setattr(shutdown, "_IDLE", math.inf)
    put_data(own_home, engine)
    with open_server(engines.load(engine)) as place:
        place.start()
        family = place.pids()
        halt(family if halted == "all" else family[:1])
        place.stop()

        assert not any(map(journal.identity, family))


@pytest.mark.slow
def test_a_halted_server_of_a_killed_replayer_is_given_back(
    made_home: Path, holder: Holder
) -> None:
    """The next command stops what neither its replayer nor it itself can stop any more."""
    other = holder()
    main = int(other.said.split()[1])
    halt(processes.family(main))
    other.kill()
    other.wait()
    recovery.give_back(lambda _: None)

    assert not processes.family(main)
    assert list(journal.notes()) == []


@pytest.mark.slow
def test_a_second_ctrl_c_ends_replayer_while_its_server_hangs(
    made_home: Path, holder: Holder
) -> None:
    """The first one waits for the server to stop, the second for nothing; the rest comes later."""
    hang = (
        "from replayer.servers import shutdown\nshutdown._Ending.go_on = lambda *_: print('hangs')"
    )
    other = holder(code=f"{hang}\n{holder.code}", PYTHONUNBUFFERED="1")
    main = int(other.said.split()[1])
    other.send_signal(signal.SIGINT)
    assert known(other.stdout).readline() == "hangs\n"
    time.sleep(0.6)  # what comes within half a second is the same Ctrl-C
    assert other.poll() is None
    other.send_signal(signal.SIGINT)
    other.communicate(timeout=600)

    assert other.returncode == 130
    assert processes.family(main)
    recovery.give_back(lambda _: None)
    assert not processes.family(main)
    assert list(journal.notes()) == []


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
@pytest.mark.parametrize("engine", ["postgres", slow("mariadb")])
def test_a_server_on_a_full_disk_is_stopped(own_home: Path, mariadbd: Path, engine: str) -> None:
    """A log that has no room left ends the step in one sentence, and the server can be stopped."""
    size = "300m" if engine == "postgres" else "1200m"
    with small_disk(f"size={size}") as disk:
        copy(ready_data(engine), disk / "data")
        with open_server(engines.load(engine), data_dir=disk / "data") as place:
            with closing(Database(place.engine, place.start())) as database:
                database.query("CREATE TABLE growing (a int, b varchar(200))")
                filler = disk / "filler"
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(b"x" * (1 << 20)):
                        pass
                with pytest.raises(ReplayerError):
                    fill(database)
            place.stop()
        assert not [pid for pid in processes.every() if str(disk) in processes.arguments(pid)]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="only root can mount")
def test_a_step_on_a_full_disk_says_how_much_is_free(tmp_path: Path) -> None:
    """InnoDB reports a failed write of a file, whatever was the reason; other errors stay."""
    error, refused = ReplayerError("Temp file write failure"), Impossible("no such table")
    with small_disk("size=8m") as disk:
        told = runner._with_shortage(error, disk)
        assert str(told) == f"{error} (only 8.00 MiB are free in {disk})"
        assert runner._with_shortage(refused, disk) is refused
    assert runner._with_shortage(error, tmp_path / "gone") is error
    assert runner._with_shortage(error, tmp_path) is error


def fill(database: Database) -> None:
    """Insert until the disk is full."""
    database.query("INSERT INTO growing VALUES (1, 'x')")
    for _ in range(40):
        wide = "repeat('x', 200)"
        database.query(f"INSERT INTO growing SELECT a, {wide} FROM growing")


@pytest.mark.slow
def test_a_killed_server_leaves_no_shared_memory(made_home: Path, holder: Holder) -> None:
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
    wait_until(lambda: not any(map(journal.identity, family)))
    before = shared_memory()
    assert files <= before[0]
    assert ids <= before[1]

    recovery.give_back(lambda _: None)

    assert not files & shared_memory()[0]
    assert not ids & shared_memory()[1]


# A program beside the server, or in its place


def started_by(engine: Engine, *start: str) -> Engine:
    """Return an engine whose private server is started by another command."""
    server = engine.spec.server.model_copy(update={"start": start})
    return dataclasses.replace(engine, spec=engine.spec.model_copy(update={"server": server}))


STUBBORN = """
trap '' TERM INT QUIT
"$0" --defaults-file="$1" &
while :; do sleep 0.2; done
"""
REFUSES = r"""
import contextlib, re, socket, sys
text = open(sys.argv[1] + "/replayer.cnf").read()
path = re.search(r'^socket *= *"?([^"\n]+)', text, re.M)[1]
end = socket.socket(socket.AF_UNIX)
end.bind(path)
end.listen()
while True:
    one, _ = end.accept()
    said = b"\xff\x39\x05#42000no function current_schema here"
    with contextlib.suppress(OSError):
        one.sendall(len(said).to_bytes(3, "little") + b"\0" + said)
    one.close()
"""


@pytest.mark.slow
def test_a_wrapper_that_does_not_end_by_itself_is_ended(own_home: Path, mariadbd: Path) -> None:
    """Its server is stopped as any other, and then the wrapper, which hears of no signal."""
    put_data(own_home, "mariadb")
    engine = started_by(
        engines.load("mariadb"), "sh", "-c", STUBBORN, "{bin}/mariadbd", "{data}/replayer.cnf"
    )
    with open_server(engine, bindir=mariadbd.parent) as place:
        place.start()
        main = place.pids()[0]
        (wrapper,) = (one.parent for one in processes.table() if one.pid == main)
        assert Path(f"/proc/{main}/exe").resolve().name == "mariadbd"
        assert processes.arguments(wrapper).startswith("sh")
        family = {pid: journal.identity(pid) for pid in (wrapper, *place.pids())}
        place.stop()

        assert not any(map(journal.alive, family.values()))
        log = place.data_directory()
        assert log is not None
        assert "Shutdown complete" in (log.parent / "server.log").read_text()


def test_a_program_that_starts_no_server_is_ended(
    own_home: Path, mariadbd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the limit of a start it is said, and nothing of it is left, whatever it ignores."""
    monkeypatch.setattr(shutdown, "PATIENCE", 1.0)
    monkeypatch.setattr(shutdown, "_STUBBORN", 0.3)
    put_data(own_home, "mariadb")
    mark = f"{own_home}/never"
    engine = started_by(
        engines.load("mariadb"), "sh", "-c", "trap '' TERM; while :; do sleep 0.2; done", mark
    )
    with open_server(engine, bindir=mariadbd.parent) as place:
        with pytest.raises(ReplayerError, match="it took no connection within 1 s"):
            place.start()

        assert not [one for one in processes.table() if mark in processes.arguments(one.pid)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_answers_each_connection_with_an_error_is_not_waited_for(
    own_home: Path, mariadbd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said with the server's last error, and long before the limit of a start."""
    monkeypatch.setattr(server_process, "_REFUSED", 0.5)
    put_data(own_home, "mariadb")
    # The server's user may not be able to execute this interpreter.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    engine = started_by(engines.load("mariadb"), python, "-c", REFUSES, "{data}")
    with open_server(engine, bindir=mariadbd.parent) as place:
        words = "it answers each connection with an error: .*no function current_schema here"
        with pytest.raises(ReplayerError, match=words):
            place.start()

        assert place.pids() == []
