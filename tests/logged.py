"""A server of a test's own that logs all that it does, as a source of captures."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from replayer.engines import engine as engines
from replayer.servers import programs

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

    def __init__(self, folder, found):
        self.folder = folder
        self.programs = found.folder
        self.user = found.user
        self.log = folder / "log" / "postgresql.csv"

    def run(self, program, *words, **more):
        """Run one of the server's programs against it, and return what it printed."""
        done = subprocess.run(
            [self.programs / program, "-h", self.folder, "-U", "postgres", *words],
            check=True, capture_output=True, text=True, **more,
        )  # fmt: skip
        return done.stdout

    def wait_for(self, last):
        """Wait until all up to a statement stands in the log, which a process beside writes."""
        end = time.monotonic() + 60
        while not _has_all(self.log.read_text(), last):
            assert time.monotonic() < end, "the log is not written"
            time.sleep(0.05)

    def forget(self):
        """Empty the log of what was done so far."""
        last = "SELECT 'the last of what is forgotten'"
        self.run("psql", "-c", last, "postgres")
        self.wait_for(last)
        self.log.write_text("")

    def restart(self, settings):
        """Start it anew with settings on top."""
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(settings)
        who = {}
        if self.user is not None:
            who = {"user": self.user.uid, "group": self.user.gid, "extra_groups": []}
        words = ["restart", "-D", self.folder / "data", "-w", "-s", "-l", self.folder / "first"]
        subprocess.run(
            [self.programs / "pg_ctl", *words], check=True, capture_output=True, cwd="/", **who
        )


def _has_all(text, last):
    begun, ended = text.count("connection authorized"), text.count("disconnection: ")
    return last in text and begun == ended


@contextlib.contextmanager
def logging_server(settings="", bindir=None):
    """Start a new server; at the end it is stopped and its folder removed."""
    spec = engines.load("postgres").spec.server
    found = programs.find("PostgreSQL", spec, bindir)
    folder = Path(tempfile.mkdtemp(prefix="replayer-logged-", dir="/tmp"))
    who = {}
    if found.user is not None:
        shutil.chown(folder, found.user.uid, found.user.gid)
        who = {"user": found.user.uid, "group": found.user.gid, "extra_groups": []}
    folder.chmod(0o755)
    data = folder / "data"

    def call(*words):
        subprocess.run(words, check=True, capture_output=True, cwd="/", **who)

    try:
        initdb = [found.folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust"]
        call(*initdb, "-E", "UTF8", "--locale=C", "--no-sync")
        with (data / "postgresql.conf").open("a") as file:
            file.write(SETTINGS.format(folder=folder) + settings)
        call(found.folder / "pg_ctl", "start", "-D", data, "-w", "-l", folder / "first", "-s")
        try:
            yield Logged(folder, found)
        finally:
            call(found.folder / "pg_ctl", "stop", "-D", data, "-m", "immediate", "-s")
    finally:
        shutil.rmtree(folder)
