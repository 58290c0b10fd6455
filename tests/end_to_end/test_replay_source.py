"""A replay against its source: a dropped index is named, with both plans, and nothing else is."""

import json
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from replayer.capture import conversion
from tests.command import Replayer
from tests.logged import Logged, logging_server

pytestmark = pytest.mark.slow

SESSIONS, ROUNDS, ROWS = 10, 30, 60_000
SECRET = 31_337
TABLES = f"""
CREATE TABLE item (id int PRIMARY KEY, k int, name text);
INSERT INTO item SELECT n, n * 7 % {ROWS}, 'name ' || n FROM generate_series(1, {ROWS}) AS n;
CREATE TABLE stock (id int PRIMARY KEY, n int);
INSERT INTO stock SELECT n, 0 FROM generate_series(1, 1000) AS n;
CREATE INDEX item_k ON item (k);
"""
BY_INDEX = "SELECT name FROM item WHERE k = ?"


@dataclass(frozen=True)
class Source:
    """A server that was captured and still runs, and its capture and dump."""

    capture: Path
    dump: Path
    url: str


def work(server: Logged, number: int) -> None:
    """Run one session: look up by both indexes, and change a row in a transaction."""
    drawn = random.Random(number)
    where = f"host={server.folder} user=postgres dbname=postgres"
    with psycopg.connect(where, autocommit=True) as session:
        for _ in range(ROUNDS):
            session.execute(f"SELECT name FROM item WHERE k = {drawn.choice((SECRET, 5, 77))}")
            session.execute("SELECT name FROM item WHERE id = %s", (drawn.randrange(ROWS),))
            session.execute("BEGIN")
            session.execute("UPDATE stock SET n = n + 1 WHERE id = %s", (drawn.randrange(1000),))
            session.execute("COMMIT")
            time.sleep(0.05)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """Return a source that logged the work of ten sessions."""
    folder = tmp_path_factory.mktemp("source")
    dump = folder / "shop.sql"
    dump.write_text(f"{TABLES}ANALYZE;\n")
    with logging_server() as server:
        server.run("psql", "-q", "-f", dump, "postgres")
        server.forget()
        with ThreadPoolExecutor(SESSIONS) as sessions:
            list(sessions.map(lambda number: work(server, number), range(SESSIONS)))
        last = "SELECT 'the last of the work'"
        server.run("psql", "-c", last, "postgres")
        server.wait_for(last)
        wish = conversion.ConversionRequest([str(server.log)], folder / "shop.replay", None, False)
        conversion.convert(conversion.planned(wish), wish, lambda _: None)
        yield Source(wish.out, dump, f"postgresql://postgres@/postgres?host={server.folder}")


def replayed(
    replayer: Replayer, source: Source, dump: Path, folder: Path, *words: object
) -> dict[str, Any]:
    """Return the step's result of a replay at the captured speed."""
    replayer(
        *("run", source.capture, "--without", "all", "--results", folder),
        *("--set", f"replay.restore={dump}", *words),
    )
    (file,) = folder.glob("*.json")
    (step,) = json.loads(file.read_text())["steps"]
    result: dict[str, Any] = step
    return result


def without_index(source: Source, folder: Path) -> Path:
    """Return the source's dump without the index by which one statement looks up."""
    dump = folder / "no-index.sql"
    dump.write_text(source.dump.read_text().replace("CREATE INDEX item_k ON item (k);", ""))
    return dump


def worse(step: dict[str, Any]) -> list[str]:
    """Return the statements that are called slower than in the source."""
    table = step["tables"]["against_source"]
    return [row["text"] for row in table if row["verdict"] == "worse"]


def test_a_dropped_index_comes_first_at_any_load(
    source: Source, made_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """It adds most seconds; whether that is the server's doing, a busy machine cannot say."""
    step = replayed(replayer, source, without_index(source, tmp_path), tmp_path / "r")
    first, *_ = step["tables"]["against_source"]

    assert first["text"] == BY_INDEX
    assert first["low"] > 1
    if "replay.source.disturbed_share" not in step["facts"]:
        assert first["verdict"] == "worse"


@pytest.mark.quiet
def test_a_dropped_index_is_named_with_both_plans(
    source: Source, made_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """First of all statements, on terminal, page, Markdown and in JSON, without a value."""
    results = tmp_path / "r"
    dump = without_index(source, tmp_path)
    step = replayed(replayer, source, dump, results, "--source", source.url)

    assert worse(step)[0] == BY_INDEX
    plans = {one["on"]: one["plan"] for one in step["tables"]["plans"] if one["text"] == BY_INDEX}
    assert plans["here"].startswith("Seq Scan on item ")
    assert "item_k" in plans["in the source"]
    rows = {row["text"]: row for row in step["tables"]["against_source"]}
    assert rows[BY_INDEX]["compared"] == SESSIONS * ROUNDS
    assert rows[BY_INDEX]["witnesses"] == SESSIONS
    assert rows[BY_INDEX]["low"] > 1
    assert "with replayer's settings" in step["facts"]["replay.server"]

    page, text = tmp_path / "page.html", tmp_path / "page.md"
    (run,) = results.glob("*.json")
    replayer("report", run, "--html", page, "--markdown", text)
    shown = replayer("show", run).out
    for answer in (shown.split("\n\n")[-1], json.loads(run.read_text())["headline"]):
        assert re.search(
            r"slower than in the source.* " + re.escape(BY_INDEX), " ".join(answer.split())
        )
    assert "not your target's" in shown
    full = replayer("show", run, "--full").out
    for words in (full, page.read_text(), text.read_text().replace("\\", "")):
        assert "slower than in the source" in words
        assert "item_k" in words
        assert str(SECRET) not in words
    assert str(SECRET) not in run.read_text()


def test_the_same_server_again_has_no_slower_statement(
    source: Source, made_home: Path, replayer: Replayer, tmp_path: Path
) -> None:
    """Whatever else this machine does meanwhile: what others slow down is not the server's."""
    step = replayed(replayer, source, source.dump, tmp_path / "r")

    assert worse(step) == []
    assert len(step["tables"]["against_source"]) >= 5
    assert "plans" not in step["tables"]
