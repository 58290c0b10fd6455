"""Captures of pgbench replayed: how fast beside pgbench itself and pgreplay, and how late.

Then the same data twice, which must be told to be the same, and data of which 1 percent was
changed, of which just what reads it must be told.
"""

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from replayer import shell
from replayer.analysis.differences import divergence
from replayer.engines import engine
from replayer.engines.connection import Database
from replayer.errors import ReplayerError
from replayer.machine.host import Host
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from replayer.watch.sampler import Sampler
from tests.benchmarks import Row, programs
from tests.benchmarks.sessions import value
from tests.command import COMMAND
from tests.known import known
from tests.logged import logging_server
from tests.performed import context_of, performed

NAME = "replay"
SCALE = 10
ROUNDS = 5
CLIENTS = 8
SOURCE = "bench_source"
KINDS = {"TPC-B-like": ((), 7, 1000), "select-only": (("-S",), 1, 8000)}
"""Of pgbench: options, statements and transactions of a client."""
PEER_TRANSACTIONS = 100
PEER_SECONDS = 60
PAIRS = int(os.environ.get("REPLAYER_REPLAY_PAIRS", "20"))
REPEATS = 5
DIFFERENT = {"better", "worse", "differs in these runs"}
READS = {
    "accounts": "SELECT abalance, filler FROM pgbench_accounts WHERE aid = :aid;",
    "tellers": "SELECT tbalance FROM pgbench_tellers WHERE tid = 1 + :aid % 100;",
    "branches": "SELECT bbalance FROM pgbench_branches WHERE bid = 1 + :aid % 10;",
}
"""The first is the only one that reads what is changed."""
CHANGED = "bench_changed"
PEER_LOG = """
log_min_duration_statement = -1
log_statement = 'all'
log_duration = on
log_min_messages = error
log_min_error_statement = log
"""


def run(workdir: Path) -> list[Row]:
    """Return all rows: captures are made on one server, and replayed on another."""
    captures = {kind: capture(workdir, kind, *how) for kind, how in KINDS.items()}
    with a_context(workdir) as context:
        server = context.server
        with closing(Database(server.engine, server.start())) as control:
            control.query(f"CREATE DATABASE {SOURCE}")
        pgbench(context, SOURCE, "-i", "-q", "-s", SCALE)
        rows = [row for kind in KINDS for row in speed(context, kind, captures[kind])]
        half = statistics.median(theirs for _, theirs in rows[0]["samples"]) / 2
        rows += [*lateness(context, workdir, half), *peer(context, workdir)]
        rows += changed(context, workdir)
    return [*rows, *alike(workdir)]


@contextlib.contextmanager
def a_context(workdir: Path, **settings: str) -> Iterator[Context]:
    """Yield a context whose server begins with no data, in the folder."""
    workdir.chmod(0o755)
    host = Host()
    with (
        open_server(
            engine.load("postgres"), data_dir=workdir / "data", settings=settings
        ) as server,
        Sampler(host, host.device_of(workdir)) as sampler,
    ):
        yield context_of(server, host, sampler, workdir)


def capture(
    workdir: Path, kind: str, options: tuple[str, ...], statements: int, transactions: int
) -> Path:
    """Return a replay file of pgbench on a server that logs everything."""
    del statements
    path = workdir / f"{kind}.replay"
    words = ["-n", "-M", "prepared", "-c", CLIENTS, "-j", 2, "-t", transactions, *options]
    with logging_server() as server:
        server.run("createdb", "bench")
        server.run("pgbench", "-i", "-q", "-s", str(SCALE), "bench")
        server.forget()
        server.run("pgbench", *map(str, words), "bench")
        convert(server.log, path)
    return path


def convert(log: Path, path: Path) -> None:
    """Make a replay file of a log."""
    subprocess.run(
        [*COMMAND, "convert", str(log), "--out", str(path)],
        check=True, capture_output=True,
    )  # fmt: skip


def pgbench(context: Context, database: str, *words: object) -> str:
    """Run pgbench on a database of the private server, and return what it printed."""
    server = context.server
    url = server.start()
    program = known(shell.find("pgbench", programs(server)))
    return shell.run(
        [program, "-h", str(url.query["host"]), "-p", str(url.query.get("port", 5432)),
         "-U", "postgres", *map(str, words), database]
    )  # fmt: skip


def speed(context: Context, kind: str, path: Path) -> list[Row]:
    """Return statements a second of replays at speed 0 over those of pgbench, in turn."""
    options, statements, transactions = KINDS[kind]
    pairs = []
    for _ in range(ROUNDS):
        fresh(context)
        said = pgbench(
            context, "bench_copy", "-n", "-M", "prepared", "-c", CLIENTS, "-j", 2,
            "-t", transactions, *options,
        )  # fmt: skip
        theirs = float(known(re.search(r"tps = ([\d.]+)", said))[1]) * statements
        ours = value(replay(context, path, speed=0), "replay.statements")
        pairs.append((ours, theirs))
    return [
        {"what": f"replay at speed 0, {CLIENTS} sessions, {kind}: statements/s",
         "against": "pgbench -M prepared", "bar": ">= 0.50",
         "ratio": statistics.median(ours / theirs for ours, theirs in pairs), "samples": pairs}
    ]  # fmt: skip


def fresh(context: Context) -> None:
    """Make a database as the capture began."""
    with closing(Database(context.engine, context.server.start())) as control:
        control.query("DROP DATABASE IF EXISTS bench_copy WITH (FORCE)")
        control.query(f"CREATE DATABASE bench_copy TEMPLATE {SOURCE}")


def replay(context: Context, path: Path, **keys: object) -> Outcome:
    """Return what a replay found."""
    spec = {"step": "replay", "file": str(path), "restore": SOURCE, **keys}
    found: Outcome = performed(step, Spec.model_validate(spec), context)
    return found


def lateness(context: Context, workdir: Path, statements: float) -> list[Row]:
    """Return the lag of starts at half of the capacity, at the capture's own speed."""
    path = workdir / "half.replay"
    rate = max(1, round(statements / 7))
    with logging_server() as server:
        server.run("createdb", "bench")
        server.run("pgbench", "-i", "-q", "-s", str(SCALE), "bench")
        server.forget()
        words = ["-n", "-M", "prepared", "-c", CLIENTS, "-j", 2, "-T", 10, "-R", rate]
        server.run("pgbench", *map(str, words), "bench")
        convert(server.log, path)
    found = [replay(context, path, speed=1) for _ in range(ROUNDS)]
    rows = []
    for metric, whose in (("replay.lag.p99", ""), ("replay.lag.client.p99", ", replayer's own")):
        lags = [value(one, metric) for one in found]
        rows.append(
            {"what": f"p99 of the lag of starts in ms{whose}, {rate * 7:,} statements/s, speed 1",
             "against": "the log's own times", "bar": "<= 10",
             "ratio": statistics.median(lags) * 1e3, "samples": lags}
        )  # fmt: skip
    return rows


def peer(context: Context, workdir: Path) -> list[Row]:
    """Return our statements a second over those of pgreplay, which replays the same log."""
    what = f"replay at speed 0, {CLIENTS} sessions, TPC-B-like: statements/s"
    row: Row = {"what": what, "against": "pgreplay -j", "bar": ">= 5", "ratio": None, "samples": []}
    program = shutil.which("pgreplay")
    if program is None:
        return [{**row, "skipped": "pgreplay is not installed"}]
    path, log = workdir / "peer.replay", workdir / "peer.csv"
    with logging_server(PEER_LOG) as server:
        server.run("createdb", "bench")
        server.run("pgbench", "-i", "-q", "-s", str(SCALE), "bench")
        server.forget()
        words = ["-n", "-M", "prepared", "-c", CLIENTS, "-t", PEER_TRANSACTIONS]
        server.run("pgbench", *map(str, words), "bench")
        # It knows the older spelling only.
        log.write_text(server.log.read_text().replace("Parameters: ", "parameters: "))
        convert(server.log, path)
    url = context.server.start()
    pairs = []
    for _ in range(3):
        with closing(Database(context.engine, url)) as control:
            control.query("DROP DATABASE IF EXISTS bench WITH (FORCE)")
            control.query(f"CREATE DATABASE bench TEMPLATE {SOURCE}")
        began = time.monotonic()
        options = ["-c", "-j", "-s", "1000", "-h", str(url.query["host"]), "-p", "5432", str(log)]
        # One that does not come to its end had at most so many in the time that it was given.
        with contextlib.suppress(ReplayerError):
            shell.run([program, *options], timeout=PEER_SECONDS)
        seconds = time.monotonic() - began
        theirs = 7 * CLIENTS * PEER_TRANSACTIONS / seconds
        pairs.append((value(replay(context, path, speed=0), "replay.statements"), theirs))
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    return [{**row, "ratio": ratio, "samples": pairs}]


def changed(context: Context, workdir: Path) -> list[Row]:
    """Return whether just the fingerprint that reads changed rows diverges."""
    script, path = workdir / "reads.sql", workdir / "reads.replay"
    head = f"\\set aid random(1, {100_000 * SCALE})\n"
    script.write_text(head + "\n".join(READS.values()) + "\n")
    with logging_server() as server:
        server.run("createdb", "bench")
        server.run("pgbench", "-i", "-q", "-s", str(SCALE), "bench")
        server.forget()
        server.run(
            "pgbench", "-n", "-M", "prepared", "-c", "8", "-t", "1000", "-f", script, "bench"
        )
        convert(server.log, path)
    with closing(Database(context.engine, context.server.start())) as control:
        control.query(f"CREATE DATABASE {CHANGED} TEMPLATE {SOURCE}")
        with closing(Database(context.engine, control.url.set(database=CHANGED), first=())) as made:
            made.query("UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid % 100 = 7")
    found = [
        replay(context, path, speed=0, verify="hash", restore=of).replayed
        for of in (SOURCE, CHANGED, SOURCE)
    ]
    moved = [one.replayed.text for one in divergence.against_run(found[1], found[0])]
    same = list(divergence.against_run(found[2], found[0]))
    right = len(moved) == 1 and "pgbench_accounts" in moved[0] and not same
    return [
        {"what": "1 % of the rows changed: just what reads them diverges", "against": "the copy",
         "bar": ">= 1", "ratio": float(right), "samples": moved}
    ]  # fmt: skip


def alike(workdir: Path) -> list[Row]:
    """Return how many pairs of groups of replays of one capture on the same data are told apart."""
    path, dump = workdir / "alike.replay", workdir / "alike.dump"
    with logging_server() as server:
        server.run("createdb", "bench")
        server.run("pgbench", "-i", "-q", "-s", "1", "bench")
        dump.write_text(server.run("pg_dump", "bench"))
        server.forget()
        server.run("pgbench", "-n", "-M", "prepared", "-c", "8", "-t", "100", "bench")
        convert(server.log, path)
    groups = [alike_group(workdir, path, dump, name) for name in range(2 * PAIRS)]
    told, diverging = [], []
    for base, other in zip(groups[::2], groups[1::2], strict=True):
        words = ["compare", base, other, "--json", "--results", workdir / "results"]
        (compared,) = json.loads(replayer(*words))["replays"]
        verdicts = [compared["time"], compared["errors"]]
        for one in compared["fingerprints"]:
            verdicts += [one["time"], one["errors"]]
            diverging += one["diverging"]
        told.append([v["metric"] for v in verdicts if v["verdict"] in DIFFERENT])
    return [
        {"what": f"A/A: of {PAIRS} pairs, those told to differ in anything", "against": "itself",
         "bar": "<= 0.05", "ratio": sum(map(bool, told)) / len(told), "samples": told},
        {"what": f"A/A: divergences in {PAIRS} pairs", "against": "itself",
         "bar": "<= 0", "ratio": float(len(diverging)), "samples": diverging},
    ]  # fmt: skip


def alike_group(workdir: Path, path: Path, dump: Path, name: int) -> str:
    """Replay some times as one run, and return its label."""
    replayer(
        "run", path, "--engine", "postgres", "--data-dir", workdir / "alike", "--label", f"g{name}",
        "--repeat", REPEATS, "--set", "replay.speed=0", "--set", f"replay.restore={dump}",
        "--set", "replay.order=commit", "--set", "replay.verify=hash",
        "--results", workdir / "results",
    )  # fmt: skip
    return f"g{name}"


def replayer(*words: object) -> str:
    """Run replayer, and return what it printed."""
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
