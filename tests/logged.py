"""A server of a test's own that logs all that it does, as a source of captures."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from replayer.engines import engine as engines
from replayer.machine import processes
from replayer.servers import programs
from replayer.servers.programs import Programs
from tests.ready_made import FOLDER, copy, ready_made
from tests.waiting import wait_until

SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{folder}'
max_connections = 100
shared_buffers = '256MB'
logging_collector = on
log_destination = 'csvlog'
log_directory = '{folder}/log'
log_filename = 'postgresql.log'
log_rotation_size = 0
log_rotation_age = 0
log_min_duration_statement = 0
log_connections = on
log_disconnections = on
log_timezone = 'UTC'
lc_messages = 'C'
autovacuum = off
max_wal_size = '4GB'
checkpoint_timeout = '1h'
"""


class Logged:
    """A server that runs, and where its log is."""

    def __init__(self, folder: Path, found: Programs) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.programs = found.folder
        self.major = found.major
        self.user = found.user
        self.log = folder / "log" / "postgresql.csv"
        self._identity = _identity_of(found)

    def run(self, program: str, *words: object, check: bool = True, **more: Any) -> str:
        """Run one of the server's programs against it, and return what it printed."""
        done = subprocess.run(
            [_path(self.programs, program), "-h", self.folder, "-U", "postgres", *map(str, words)],
            check=check, capture_output=True, text=True, **more,
        )  # fmt: skip
        out: str = done.stdout
        return out + ("" if check else done.stderr)

    def wait_for(self, last: str) -> None:
        """Wait until all up to a statement stands in the log, which a process beside writes."""
        while not _has_all(self.log.read_text(), last):
            time.sleep(0.05)

    def forget(self) -> None:
        """Empty the log of what was done so far."""
        last = "SELECT 'the last of what is forgotten'"
        self.run("psql", "-c", last, "postgres")
        self.wait_for(last)
        self.log.write_text("")

    def start(self) -> None:
        """Start it."""
        self._control("start", "-w", "-l", self.folder / "first")

    def restart(self, settings: str) -> None:
        """Start it anew with settings on top."""
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(settings)
        self._control("restart", "-w", "-l", self.folder / "first")

    def stop(self, mode: str = "fast") -> None:
        """Stop it, and wait for the process that writes its log, which outlives it."""
        self._control("stop", "-w", "-m", mode)
        while any(map(self._is_of_it, processes.every())):
            time.sleep(0.01)

    def _control(self, word: str, *words: object) -> None:
        command = [
            str(each) for each in (self.programs / "pg_ctl", word, "-D", self.data, "-s", *words)
        ]
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self._identity)

    def _is_of_it(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").readlink() == self.data
        return False


class Source:
    """The database `bench` of a server that is captured."""

    def __init__(self, logged: Logged) -> None:
        self._logged = logged

    def connect(self, options: str = "") -> psycopg.Connection:
        """Return a session."""
        # Statements stay as they are, so that each has one entry.
        return psycopg.connect(
            host=str(self._logged.folder), user="postgres", dbname="bench", autocommit=True,
            prepare_threshold=None, options=options,
        )  # fmt: skip

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that is not captured."""
        with self._connect_uncaptured() as own:
            return own.execute(statement).fetchall()

    def wait_for(self, session: psycopg.Connection) -> None:
        """Wait until a session waits for a lock."""
        asked = f"SELECT FROM pg_locks WHERE NOT granted AND pid = {session.info.backend_pid}"
        with self._connect_uncaptured() as own:
            wait_until(lambda: own.execute(asked).rowcount)

    def _connect_uncaptured(self) -> psycopg.Connection:
        return self.connect("-c log_min_duration_statement=-1")


def _path(folder: Path, program: str) -> str:
    """Return the path of a server's program, or of the system's where it brings none."""
    found = shutil.which(program, path=f"{folder}:{os.environ['PATH']}")
    assert found is not None, f"there is no {program}"
    return found


def _has_all(text: str, last: str) -> bool:
    begun, ended = text.count("connection authorized"), text.count("disconnection: ")
    return last in text and begun == ended


def _identity_of(found: Programs) -> dict[str, Any]:
    if found.user is None:
        return {}
    return {"user": found.user.uid, "group": found.user.gid, "extra_groups": []}


def _make_data(found: Programs, folder: Path) -> None:
    """Make a data directory in a folder that its owner can enter."""
    if found.user is not None:
        shutil.chown(folder, found.user.uid, found.user.gid)
    words = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
    subprocess.run(
        [found.folder / "initdb", "-D", folder / "data", *words],
        check=True, capture_output=True, cwd="/", **_identity_of(found),
    )  # fmt: skip


def _put_data(found: Programs, folder: Path) -> None:
    """Put a data directory into a folder: among tests a copy, as one is made for all of them."""
    if FOLDER not in os.environ:
        _make_data(found, folder)
        return
    made = ready_made(f"initdb-{found.version}", lambda target: _make_data(found, target))
    copy(made / "data", folder / "data")


@contextlib.contextmanager
def logging_server(settings: str = "", bindir: Path | None = None) -> Iterator[Logged]:
    """Start a new server; at the end it is stopped and its folder removed."""
    found = programs.find("PostgreSQL", engines.load("postgres").spec.server, bindir)
    folder = Path(tempfile.mkdtemp(prefix="replayer-logged-", dir="/tmp"))
    try:
        if found.user is not None:
            shutil.chown(folder, found.user.uid, found.user.gid)
        folder.chmod(0o755)
        _put_data(found, folder)
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.write(SETTINGS.format(folder=folder) + settings)
        server = Logged(folder, found)
        server.start()
        try:
            yield server
        finally:
            if (server.data / "postmaster.pid").exists():
                server.stop("immediate")
    finally:
        shutil.rmtree(folder)
