"""Replays in the order of commits at the capture's own speed: how long beside the capture.

Sessions of pgbench think between their transactions and within them, so that time is what bounds
them.  They change the same few rows, always in the same order, so that there is no deadlock.  The
same captures replayed without an order are the control.
"""

import statistics
from contextlib import closing
from pathlib import Path

from replayer.capture.archive import ArchiveReader
from replayer.engines.connection import Database
from replayer.run.context import Context
from tests.benchmarks import Row
from tests.benchmarks.replay import SOURCE, a_context, convert, replay
from tests.benchmarks.sessions import value
from tests.logged import logging_server

NAME = "order"
ROUNDS = 3
SECONDS = 10
THINKS = {2: 4, 16: 30, 200: 800}
"""Number of sessions -> mean of their pauses between transactions, in ms."""
SETTINGS = {"max_connections": "300"}
TABLES = """
CREATE TABLE cell (id int PRIMARY KEY, v bigint);
INSERT INTO cell SELECT n, n FROM generate_series(1, 12) AS n;
CREATE TABLE other (id int PRIMARY KEY, v bigint);
INSERT INTO other SELECT n, n FROM generate_series(1, 4) AS n;
CREATE TABLE history (id int, v bigint);
"""
ALONE = """
\\set id random(1, 12)
\\set k random(1, 1000)
\\set pause random(:think / 2, :think * 3 / 2)
UPDATE cell SET v = (v * 3 + :k) % 1000003 WHERE id = :id;
\\sleep :pause ms
"""
TOGETHER = """
\\set id random(1, 6)
\\set more random(7, 12)
\\set k random(1, 1000)
\\set pause random(:think / 2, :think * 3 / 2)
\\set within random(1, 4)
BEGIN;
SELECT v FROM cell WHERE id = :more;
\\sleep :within ms
UPDATE cell SET v = (v * 3 + :k) % 1000003 WHERE id = :id;
UPDATE cell SET v = (v * 5 + :k) % 1000003 WHERE id = :more;
\\sleep :within ms
UPDATE other SET v = (v * 7 + :k) % 1000003 WHERE id = 1 + :id % 4;
INSERT INTO history VALUES (:id, :k);
END;
\\sleep :pause ms
"""


def run(workdir: Path, seconds: float | None = None) -> list[Row]:
    """Return all rows: each capture is `seconds` long."""
    captures = {many: capture(workdir, many, seconds or SECONDS) for many in THINKS}
    with a_context(workdir, **SETTINGS) as context:
        url = context.server.start()
        with closing(Database(context.engine, url)) as control:
            control.query(f"CREATE DATABASE {SOURCE}")
        with closing(Database(context.engine, url.set(database=SOURCE), first=())) as made:
            for statement in filter(str.strip, TABLES.split(";")):
                made.query(statement)
        return [row for many, path in captures.items() for row in lasted(context, many, path)]


def capture(workdir: Path, sessions: int, seconds: float) -> Path:
    """Return a replay file of sessions that think."""
    path = workdir / f"{sessions}.replay"
    scripts: list[str | Path] = []
    for name, script in (("alone", ALONE), ("together", TOGETHER)):
        (workdir / f"{name}.sql").write_text(script)
        scripts += ["-f", workdir / f"{name}.sql"]
    words = ["-n", "-M", "prepared", "-c", sessions, "-j", 2, "-T", round(seconds)]
    settings = "".join(f"{name} = {each}\n" for name, each in SETTINGS.items())
    with logging_server(settings) as server:
        server.run("createdb", "bench")
        server.run("psql", "-q", "-c", TABLES, "bench")
        server.forget()
        server.run("pgbench", *words, "-D", f"think={THINKS[sessions]}", *scripts, "bench")
        last = "SELECT 'the last of the capture'"
        server.run("psql", "-c", last, "postgres")
        server.wait_for(last)
        convert(server.log, path)
    return path


def seconds_of(path: Path) -> float:
    """Return when the last statement or session of the database `bench` ended."""
    last_ns, bench = 0, set()
    with ArchiveReader(path) as archive:
        for block in archive.blocks():
            bench |= {one.number for one in block.sessions if one.database == "bench"}
            for action in map(block.action, range(len(block))):
                if action.session in bench:
                    last_ns = max(last_ns, action.start_ns + max(0, action.duration_ns))
    return last_ns / 1e9


def lasted(context: Context, sessions: int, path: Path) -> list[Row]:
    """Return how long replays take over how long the capture took, in order and without one."""
    captured = seconds_of(path)
    rows: dict[str, Row] = {
        order: {
            "what": f"order={order} at speed 1, {sessions} sessions that think: duration",
            "against": "the capture's",
            "bar": "<= 1.1",
            "samples": [],
        }
        for order in ("commit", "none")
    }
    for _ in range(ROUNDS):
        for order, row in rows.items():
            found = replay(context, path, speed=1, order=order, database="bench")
            row["samples"].append((value(found, "replay.elapsed"), captured))
    for row in rows.values():
        row["ratio"] = statistics.median(ours / theirs for ours, theirs in row["samples"])
    return [*rows.values()]
