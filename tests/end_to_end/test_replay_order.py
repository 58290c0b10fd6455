"""What a real server logged, replayed in the order of its commits: the same state each time."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from tests.command import Replayer
from tests.logged import logging_server
from tests.replaying import OWN, SOURCE, begun_from, perform_replay, query, whole
from tests.server_pool import ServerPool

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


Again = Callable[..., tuple[str, Outcome]]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a capture of sessions that get in each other's way, and the state that they left."""
    folder = tmp_path_factory.mktemp("order")
    scripts: list[str | Path] = []
    for name, script in (("alone", ALONE), ("together", TOGETHER)):
        (folder / f"{name}.sql").write_text(script)
        scripts += ["-f", folder / f"{name}.sql"]
    with logging_server("fsync = off\n") as source:
        source.run("createdb", "bench")
        source.run("psql", "-q", "-c", TABLES, "bench")
        source.forget()
        words = ("-n", "-M", "prepared", "-c", SESSIONS, "-j", 2, "-t", 40)
        source.run("pgbench", *words, *scripts, "bench")
        state = source.run("psql", "-A", "-t", "-F", "|", "-c", STATE, "bench").strip()
        source.wait_for(STATE.strip())
        path = folder / "order.replay"
        Replayer(folder)("convert", source.log, "--out", path)
    return path, state


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return a server that does not wait for the disk where databases are made and removed."""
    return server_pool(settings={"fsync": "off"})


@pytest.fixture
def again(context: Context, server: Server, captured: tuple[Path, str]) -> Iterator[Again]:
    """Return a function that replays the capture and returns the state, and what it found."""

    def replay(**keys: object) -> tuple[str, Outcome]:
        outcome = perform_replay(context, captured[0], **{"restore": SOURCE, **keys})
        (row,) = query(server, STATE, database=OWN)
        return "|".join(row), outcome

    with begun_from(server, *filter(str.strip, TABLES.split(";"))):
        yield replay


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_replay_in_order_ends_in_the_state_of_the_source(
    again: Again, captured: tuple[Path, str], times: int
) -> None:
    """Updates that do not commute, of 32 sessions, alone and together; nobody waits in vain."""
    for _ in range(times):
        # Longer than a busy machine takes; what waits in vain reaches it.
        state, outcome = again(order="commit", order_timeout="10m")
        assert whole(outcome)
        assert state == captured[1]
