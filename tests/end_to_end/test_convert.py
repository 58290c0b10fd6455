"""What a server logged of a load is what `replayer convert` finds in its logs, each statement.

pgBadger counts the same logs, where it is installed, and its own samples, where
REPLAYER_LOG_SAMPLES names the folder that they lie in.
"""

import bz2
import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from replayer.capture.action import Action, LoggedStatement
from replayer.capture.archive import ArchiveReader
from replayer.capture.capture_summary import CaptureSummary
from tests import servers
from tests.command import Ended, Replayer
from tests.logged import Logged, logging_server
from tests.slow_case import slow

ALL = """
fsync = off
log_filename = 'server.log'
log_destination = '{kinds}'
log_line_prefix = '%m [%p] %q%u@%d/%a '
"""
STYLES = {
    "durations": "log_min_duration_statement = 0\n",
    "statements": "log_min_duration_statement = -1\nlog_statement = all\nlog_duration = on\n",
}
CLIENTS, TRANSACTIONS = 4, 50
STATEMENTS = {"tpcb-like": 7, "select-only": 1}

pytestmark = pytest.mark.skipif(
    shutil.which("pgbench") is None, reason="pgbench is not installed: make packages"
)

Counted = tuple[int, Counter[str], int]
"""Statements, those of each kind, and sessions that ended."""
Work = Callable[[Logged], None]


def client(server: Logged, program: str, *words: object) -> str:
    """Return what a client program prints, whether it fails or not."""
    return server.run(program, *words, "postgres", check=False, env={**os.environ, "PGOPTIONS": ""})


def layouts_of(version: str) -> Sequence[str]:
    """Return the endings of the logs that a version writes."""
    return ("csv", "log") if version == "13" else ("csv", "json", "log")


def logged(bindir: Path | None, version: str, style: str, work: Work, target: Path) -> Path:
    """Return a folder with the logs of some work in all layouts."""
    kinds = "stderr,csvlog,jsonlog" if "json" in layouts_of(version) else "stderr,csvlog"
    with logging_server(ALL.format(kinds=kinds) + STYLES[style], bindir) as server:
        work(server)
        server.stop()
        return Path(shutil.copytree(server.log.parent, target))


@pytest.fixture(scope="module", params=["18", slow("15"), slow("13")])
def version(request: pytest.FixtureRequest) -> str:
    """Return a version that replayer brings along, that Debian has, or an old one."""
    return str(request.param)


@pytest.fixture(scope="module")
def bindir(request: pytest.FixtureRequest, version: str) -> Path | None:
    """Return the folder of that version's programs; None where replayer finds it itself."""
    if version == "18":
        return None
    if version == "15":
        found = request.getfixturevalue("postgres15")
    else:
        found = servers.programs(f"postgresql-{version}")
    if not (found / "initdb").exists():
        pytest.skip(f"PostgreSQL {version} is not installed")
    return Path(found)


@pytest.fixture(scope="module")
def logs(
    bindir: Path | None, version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Return the logs of what goes wrong, then of every kind of statement, then of a load."""

    def work(server: Logged) -> None:
        # Its rows are made by the server, and not by COPY, which is counted here.
        client(server, "pgbench", "-i", "-I", "dtGvp", "-q", "-s", 1)
        _go_wrong(server)
        _do_all_kinds(server)
        client(server, "pgbench", "-n", "-M", "prepared", "-c", 4, "-j", 2, "-t", 50)

    folder = tmp_path_factory.mktemp("logs") / "log"
    yield logged(bindir, version, "durations", work, folder)
    shutil.rmtree(folder)


def _go_wrong(server: Logged) -> None:
    client(server, "psql", "-c", "CREATE TABLE IF NOT EXISTS t (a int PRIMARY KEY, b text)")
    client(
        server, "psql", "-c", "BEGIN", "-c", "INSERT INTO t VALUES (1, 'it''s\n\ttwo lines')",
        "-c", "INSERT INTO t VALUES (1, 'again')", "-c", "SELECT 1", "-c", "ROLLBACK",
    )  # fmt: skip
    client(server, "psql", "-c", "SET statement_timeout = 50", "-c", "SELECT pg_sleep(600)")
    client(server, "psql", "-c", "SELECT pg_terminate_backend(pg_backend_pid())")
    client(server, "psql", "-c", "\\copy t from /dev/null", "-c", "\\lo_import /etc/hostname")
    client(server, "psql", "-c", "SELECT 'é 漢'")


def _do_all_kinds(server: Logged) -> None:
    client(
        server, "psql", "-c", "BEGIN", "-c", "DECLARE c CURSOR FOR SELECT 1", "-c", "FETCH c",
        "-c", "SAVEPOINT s", "-c", "ROLLBACK TO s", "-c", "COMMIT",
        "-c", "CREATE TABLE u (a int)",
        "-c", "WITH x AS (SELECT 1) SELECT * FROM x", "-c", "COPY u TO STDOUT",
        "-c", "DROP TABLE u",
        "-c", "DELETE FROM pgbench_history", "-c", "SELECT 1/0", "-c", "DEALLOCATE ALL",
    )  # fmt: skip


@pytest.fixture
def convert(replayer: Replayer) -> Callable[..., tuple[list[Action], CaptureSummary, Ended]]:
    """Return a function that converts logs: it returns actions, the summary, what was printed."""

    def call(*words: object) -> tuple[list[Action], CaptureSummary, Ended]:
        out = replayer.folder / "out.replay"
        out.unlink(missing_ok=True)
        printed = replayer("convert", *words, "--out", out)
        assert out.stat().st_mode & 0o777 == 0o600
        with ArchiveReader(out) as reader:
            return list(reader.actions()), reader.summary, printed

    return call


def sent(actions: list[Action]) -> list[Action]:
    """Return what was sent, but for pgbench's questions before its load."""
    return [one for one in actions if one.does in ("simple", "extended") and _is_load(one.text)]


def _is_load(text: str) -> bool:
    load = r"\s*(BEGIN|END|UPDATE pgbench|INSERT INTO pgbench_history|SELECT abalance)"
    return re.match(load, text) is not None


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_statements_of_a_real_log_are_those_that_pgbench_sent(
    bindir: Path | None,
    version: str,
    style: str,
    convert: Callable[..., tuple[list[Action], CaptureSummary, Ended]],
    tmp_path: Path,
) -> None:
    """In each protocol, layout and style of logging: as many, with their parameters, in order."""
    counts = {}

    def work(server: Logged) -> None:
        client(server, "pgbench", "-i", "-q", "-s", "1")
        for mode in ("simple", "extended", "prepared"):
            for script, statements in STATEMENTS.items():
                words = ("-b", script, "-c", CLIENTS, "-j", 2, "-t", TRANSACTIONS)
                shown = client(server, "pgbench", "-n", "-M", mode, *words)
                done = re.search(r"actually processed: (\d+)", shown)
                assert done is not None, shown
                counts[mode, script] = int(done[1]) * statements

    logs = logged(bindir, version, style, work, tmp_path / "logs")

    assert set(counts.values()) == {200, 1400}
    for layout in layouts_of(version):
        actions, summary, printed = convert(logs / f"server.{layout}")
        load = [one for one in sent(actions) if not one.text.lower().startswith("copy")]
        does = Counter(one.does for one in load)
        assert does == {"simple": 1600, "extended": 3200}, layout
        assert not summary.damage
        assert not summary.skipped
        # Which of its tables pgbench fills by COPY differs from one version to the next.
        text = (logs / f"server.{layout}").read_text()
        copies = set(re.findall(r"(?i)\bcopy (pgbench_\w+) from stdin", text))
        assert "pgbench_accounts" in copies
        assert summary.copies == dict.fromkeys(copies, 1)
        assert printed.err.count("note:") == 1
        assert "COPY FROM STDIN, whose data is not in the log" in printed.err
        assert all("$1" not in one.text or one.parameters for one in load)
        assert Counter(one.does for one in actions)["connect"] == summary.sessions
        assert summary.sessions_began_before == 0
        assert {bool(one.name) for one in load if one.does == "extended"} == {True, False}
        assert min(one.duration_ns for one in load) >= 0
        _in_order(load)


def _in_order(load: list[Action]) -> None:
    """Hold that each session's statements follow each other as pgbench sends them."""
    sessions: dict[int, list[Action]] = {}
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


def test_failures_cancels_and_sessions_are_in_it(
    logs: Path, version: str, convert: Callable[..., tuple[list[Action], CaptureSummary, Ended]]
) -> None:
    """Errors with their states, a cancelled statement, a lost session, large objects, COPY."""
    for layout in layouts_of(version):
        actions, summary, _ = convert(logs / f"server.{layout}")
        states = {one.text: one.sqlstate for one in actions if one.sqlstate}
        assert states == {
            "INSERT INTO t VALUES (1, 'again')": "23505",
            "SELECT 1": "25P02",
            "SELECT pg_sleep(600)": "57014",
            "SELECT pg_terminate_backend(pg_backend_pid())": "57P01",
            "SELECT 1/0": "22012",
        }, layout
        texts = [one.text for one in actions]
        assert "INSERT INTO t VALUES (1, 'it''s\n\ttwo lines')" in texts
        assert "SELECT 'é 漢'" in texts
        assert sum(summary.copies.values()) == 1
        fast_path = [count for reason, count in summary.skipped.items() if "fast-path" in reason]
        assert sum(fast_path) >= 3
        does = Counter(one.does for one in actions)
        assert does["connect"] == does["disconnect"] == summary.sessions


def test_a_log_from_the_middle_of_a_load_says_what_began_before(
    logs: Path, convert: Callable[..., tuple[list[Action], CaptureSummary, Ended]], tmp_path: Path
) -> None:
    """Its sessions are replayed, and known to lack what they had prepared."""
    lines = (logs / "server.csv").read_text().splitlines(keepends=True)
    later = tmp_path / "later.csv.gz"
    later.write_bytes(gzip.compress("".join(lines[-700:]).encode()))

    _, summary, printed = convert(later)

    # One that ended early is not in the last lines.
    assert 0 < summary.sessions_began_before == summary.sessions <= 4
    assert "began before" in printed.out


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


def badger(log: Path, *words: str) -> Counted:
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


def ours(replayer: Replayer, log: Path) -> Counted:
    """Return the same of a conversion; pgBadger leaves out DEALLOCATE and what failed."""
    out = replayer.folder / "out.replay"
    out.unlink(missing_ok=True)
    printed = replayer("convert", log, "--out", out, status=None)
    if not out.exists():
        assert "no session" in printed.err
        return 0, Counter(), 0
    kinds: Counter[str] = Counter()
    ended = 0
    with ArchiveReader(out) as reader:
        for block in reader.blocks():
            for row in range(len(block)):
                ended += block.action(row).does == "disconnect"
                kinds[_kind(block.action(row), block.statement(row))] += 1
    del kinds[""]
    return sum(kinds.values()), +Counter({kind: kinds[kind] for kind in SHARED}), ended


def _kind(action: Action, statement: LoggedStatement | None) -> str:
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
def test_pgbadger_counts_the_same(logs: Path, replayer: Replayer) -> None:
    """Statements, sessions and kinds of a log of every kind of statement, in both its layouts."""
    theirs = badger(logs / "server.csv", "-f", "csv")
    assert theirs[0] > 500
    assert theirs[2] >= 7
    for layout in ("csv", "log"):
        assert ours(replayer, logs / f"server.{layout}") == theirs


@needs_badger
@pytest.mark.parametrize("name", [one.name for one in sorted(SAMPLES.glob("*"))])
def test_pgbadger_counts_the_same_in_its_own_samples(name: str, replayer: Replayer) -> None:
    """Of every log of PostgreSQL among pgBadger's t/fixtures."""
    if "pgbouncer" in name or not re.search(r"\.(log|gz|bz2)$", name):
        pytest.skip("no log of PostgreSQL")

    assert ours(replayer, SAMPLES / name) == badger(SAMPLES / name, *SAMPLE_WORDS.get(name, ()))


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="REPLAYER_LOG_SAMPLES names no folder")
def test_the_transactions_of_rds_are_all_in_its_replay(replayer: Replayer, tmp_path: Path) -> None:
    """The history has a row of each, and the balances are what the log says of them."""
    log = SAMPLES / "rds.log.bz2"
    text = bz2.decompress(log.read_bytes()).decode()
    added = [int(one) for one in re.findall(r"SET bbalance = bbalance \+ (-?\d+)", text)]
    out = tmp_path / "rds.replay"
    replayer("convert", log, "--out", out)
    with logging_server("fsync = off\nmax_connections = 200\n") as server:
        client(server, "pgbench", "-i", "-q", "-s", "1")
        url = f"postgresql://postgres@/postgres?host={server.folder}"
        words = ["--engine", url, "--i-will-change", "postgres", "--results", tmp_path]
        settings = ["--set", "replay.speed=0", "--set", "replay.database=pgbench"]
        replayer("run", out, *words, *settings)
        sums = client(
            server, "psql", "-Atc", "SELECT count(*), sum(delta), (SELECT sum(abalance) FROM "
            "pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT "
            "sum(bbalance) FROM pgbench_branches) FROM pgbench_history",
        )  # fmt: skip

    assert len(added) == 16_254
    assert sums.strip() == "|".join(map(str, [len(added), *[sum(added)] * 4]))
