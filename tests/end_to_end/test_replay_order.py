"""What a real server logged, replayed in the order of its commits: the same state each time."""

import subprocess
import sys
from contextlib import closing

import pytest

from replayer.engines.connection import Database
from replayer.steps.replay import step
from replayer.steps.replay.spec import Spec
from tests.logged import logging_server
from tests.performed import performed

SOURCE = "order_source"
SESSIONS = 32
TABLES = """
CREATE TABLE cell (id int PRIMARY KEY, v bigint);
INSERT INTO cell SELECT n, n FROM generate_series(1, 12) AS n;
CREATE TABLE other (id int PRIMARY KEY, v bigint);
INSERT INTO other SELECT n, n FROM generate_series(1, 4) AS n;
"""
ALONE = """
\\set id random(1, 12)
\\set k random(1, 1000)
UPDATE cell SET v = (v * 3 + :k) % 1000003 WHERE id = :id;
"""
TOGETHER = """
\\set id random(1, 6)
\\set more random(7, 12)
\\set k random(1, 1000)
BEGIN;
UPDATE cell SET v = (v * 3 + :k) % 1000003 WHERE id = :id;
UPDATE cell SET v = (v * 5 + :k) % 1000003 WHERE id = :more;
UPDATE other SET v = (v * 7 + :k) % 1000003 WHERE id = 1 + :id % 4;
END;
"""
STATE = """
SELECT (SELECT string_agg(v::text, ' ' ORDER BY id) FROM cell) AS cell,
       (SELECT string_agg(v::text, ' ' ORDER BY id) FROM other) AS other
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """Return a capture of sessions that get in each other's way, and the state that they left."""
    folder = tmp_path_factory.mktemp("order")
    for name, script in (("alone", ALONE), ("together", TOGETHER)):
        (folder / f"{name}.sql").write_text(script)
    with logging_server() as source:
        source.run("createdb", "bench")
        source.run("psql", "-q", "-c", TABLES, "bench")
        source.forget()
        scripts = [
            word for name in ("alone", "together") for word in ("-f", folder / f"{name}.sql")
        ]
        source.run(
            "pgbench", "-n", "-M", "prepared", "-c", str(SESSIONS), "-j", "2", "-t", "40",
            *scripts, "bench",
        )  # fmt: skip
        state = source.run("psql", "-A", "-t", "-F", "|", "-c", STATE, "bench").strip()
        source.wait_for(STATE.strip())
        path = folder / "order.replay"
        subprocess.run(
            [sys.executable, "-m", "replayer", "convert", source.log, "--out", path],
            check=True, capture_output=True,
        )  # fmt: skip
    return path, state


@pytest.fixture
def again(context, server, captured):
    """Return a function that replays the capture and returns the state, and what it found."""
    with closing(Database(server.engine, server.start())) as control:
        control.query(f"DROP DATABASE IF EXISTS {SOURCE}")
        control.query(f"CREATE DATABASE {SOURCE}")
        with closing(Database(server.engine, control.url.set(database=SOURCE), first=())) as made:
            for statement in filter(str.strip, TABLES.split(";")):
                made.query(statement)

    def replay(**keys):
        asked = {"step": "replay", "file": str(captured[0]), "speed": 0, "restore": SOURCE}
        outcome = performed(step, Spec.model_validate({**asked, **keys}), context)
        url = server.start().set(database="replayer_replay")
        with closing(Database(server.engine, url, first=())) as database:
            (row,) = database.query(STATE)
        return "|".join(row.values()), outcome

    yield replay
    with closing(Database(server.engine, server.start())) as control:
        control.query("DROP DATABASE IF EXISTS replayer_replay WITH (FORCE)")
        control.query("DELETE FROM replayer_owned WHERE kind = 'database'")
        control.query(f"DROP DATABASE IF EXISTS {SOURCE} WITH (FORCE)")


def check(again, captured, times, **keys):
    """Replay some times; each ends in the state of the source, and nobody waited in vain."""
    for _ in range(times):
        state, outcome = again(**keys)
        assert outcome.facts["replay.order_timeouts"] == 0
        assert next(m.value for m in outcome.measurements if m.metric == "replay.ran") == 100
        assert next(m.value for m in outcome.measurements if m.metric == "replay.errors") == 0
        assert state == captured[1]


def test_a_replay_in_order_ends_in_the_state_of_the_source(again, captured):
    """Updates that do not commute, of 32 sessions, alone and in transactions."""
    check(again, captured, 2, order="commit")


@pytest.mark.slow
def test_ten_replays_in_commit_order_all_end_in_the_state_of_the_source(again, captured):
    """Ten of ten, and none of them hangs."""
    check(again, captured, 10, order="commit")
