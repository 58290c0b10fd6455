"""A ClickHouse server at a URL: the wire, the lock, secrets, and what only a server needs.

The engine is chdb behind tests/clickhouse_front.py, with clickhouse-connect before it.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from replayer.engines import engine as engines
from replayer.engines.connection import Database, url_of
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.servers import lock, protocol, remote
from tests.command import Replayer

if importlib.util.find_spec("chdb") is None:  # a large library, and not of this process
    pytest.skip("chdb is not installed", allow_module_level=True)
pytest.importorskip("clickhouse_connect")
http_connection = pytest.importorskip("replayer.engines.wires.clickhouse.http_connection")
PASSWORD = "s3cr3t-in-a-url"


@contextmanager
def served(folder: Path, *settings: str) -> Iterator[str]:
    """Serve a front of chdb with a password, and yield its URL."""
    command = [sys.executable, "-m", "tests.clickhouse_front", str(folder), PASSWORD, *settings]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[2],
    ) as front:  # fmt: skip
        assert front.stdout is not None
        yield f"clickhouse://default:{PASSWORD}@127.0.0.1:{int(front.stdout.readline())}/default"
        front.communicate()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a front of chdb."""
    with served(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.mark.slow
def test_every_verb_holds_and_no_proof_has_the_password(
    replayer: Replayer, url: str, tmp_path: Path
) -> None:
    """Its files and its process are found by what it says, and what it made is gone after it."""
    for out in (tmp_path / "proof.json", tmp_path / "proof.md"):
        printed = replayer("check", "--prove", "--engine", url, "--out", out)
        assert PASSWORD not in out.read_text() + printed.out + printed.err
    proof = json.loads((tmp_path / "proof.json").read_text())
    found = {one["name"]: one["proven"] for one in proof["findings"]}
    names = ("location", "holder", "same rows", "flush", "files", "table/count reads")
    assert {name: found[name] for name in names} == dict.fromkeys(names, True)
    assert [one["verb"] for one in proof["trials"] if one["outcome"] == "failed"] == []
    (mark,) = [one for one in proof["marks"] if one["file"] == "clickhouse-server/location.sql"]
    assert mark["proven"] is True
    with closing(Database(*connection(url))) as database:
        assert names_in(database) == ["replayer_owned"]


SCAN = """\
[[step]]
step = "build"
rows = 98304
[[step]]
step = "flush"
{}
[[step]]
step = "scan"
"""


def coldness(replayer: Replayer, url: str, folder: Path, more: str = "") -> dict[str, Any]:
    """Build the table, scan it, and return each step that judges how cold it was by its name."""
    workload = folder / "small.toml"
    workload.write_text(SCAN.format(more))
    printed = replayer("run", workload, "--engine", url, "--results", folder, "--json")
    return {one["name"]: one for one in json.loads(printed.out)["steps"]}


@pytest.mark.slow
def test_a_scan_and_a_walk_are_cold_without_a_stop(
    replayer: Replayer, url: str, tmp_path: Path
) -> None:
    """Its caches are emptied by its own words, and the table's files are read of the device."""
    steps = coldness(replayer, url, tmp_path, '[[step]]\nstep = "walk"\nthreads = 4\n')

    for name in ("walk", "scan"):
        assert steps[name]["cold"]["got"] == "cold", steps[name]["cold"]
    assert steps["flush"]["facts"]["proven"] is True
    with closing(Database(*connection(url))) as database:
        database.query("DROP DATABASE replayer SYNC")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 30, 200_000], ids=["all of it", "a part of it"])
def test_a_scan_from_the_uncompressed_cache_is_not_called_cold(
    replayer: Replayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Attack: that cache is on, was filled by a scan, and is not emptied though that is said.

    The page cache is empty, and the statement needs no or few bytes of the device.  With the cache
    emptied the scan is cold.
    """
    data = tmp_path / "data"
    data.mkdir()
    with served(data, f"uncompressed_cache_size={size}") as url:
        honest = coldness(replayer, url, tmp_path)["scan"]["cold"]
        with closing(Database(*connection(url))) as database:
            database.query("USE replayer")
            database.row(VerbName("table/count"))
            (held,) = database.query(
                "SELECT value FROM system.metrics WHERE metric = 'UncompressedCacheBytes'"
            )
        monkeypatch.setattr(protocol, "evict", lambda _: "nothing was emptied")
        attacked = coldness(replayer, url, tmp_path)["scan"]["cold"]

    assert int(held["value"]) > 0
    assert honest["got"] == "cold", honest
    assert attacked["got"] == "lukewarm", attacked
    assert "server's own buffers" in attacked["why"] or "from the device" in attacked["why"]


@pytest.mark.slow
def test_only_one_has_the_lock_and_a_killed_ones_is_taken_over(url: str) -> None:
    """A second run is refused with the holder's name, and the first one's lock stays."""
    engine, _ = connection(url)
    with remote.connected(engine, url) as first:
        refused = pytest.raises(Impossible, match=f"process {os.getpid()} on")
        with refused, remote.connected(engine, url):
            pass
        assert first.describe_loss() == ""
        with closing(Database(*connection(url))) as database:
            assert "replayer_lock" in names_in(database)
            gone = f"replayer 4194304@here {lock._place()}.1"
            database.query(f"ALTER TABLE replayer_lock UPDATE name = '{gone}', session = 1 WHERE 1")
        assert "lock was taken away" in first.describe_loss()
        with remote.connected(engine, url):
            pass


def test_a_statement_is_cut(url: str) -> None:
    """Another thread's cut ends the wait for an answer within a moment."""
    engine, ours = connection(url)
    with closing(Database(engine, ours.set(database="default"))) as database:
        assert database.answers(5)
        assert database.query("SELECT 'a%b' AS x, :y AS y", {"y": "it's"})[0] == {
            "x": "a%b", "y": "it's",
        }  # fmt: skip
        begun = time.monotonic()
        database.cut()
        with pytest.raises(ReplayerError, match="no_such_table"):
            database.query("SELECT * FROM no_such_table")
        assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("clickhouse://u:secretword@db.example/", r"would go to db\.example as it is.*secure=true"),
        ("clickhouse://u:secretword@127.0.0.1:1/", r"Connection refused"),
    ],
)
def test_what_is_refused_is_one_sentence_without_the_password(given: str, sentence: str) -> None:
    """A password is not sent where others can read it, and is in no message."""
    with pytest.raises(ReplayerError, match=sentence) as caught:
        Database(*connection(given))

    assert "secretword" not in str(caught.value)


def connection(url: str) -> tuple[engines.Engine, URL]:
    """Return the engine of a URL, and the URL of replayer's own database there."""
    engine = engines.of_url(url)
    assert engine.name == "clickhouse-server"
    return engine, url_of(url, engine).set(database="replayer" if PASSWORD in url else None)


def names_in(database: Database) -> list[str]:
    """Return the names of the tables in replayer's database."""
    rows = database.query("SELECT name FROM system.tables WHERE database = 'replayer'")
    return sorted(str(row["name"]) for row in rows)


def test_a_server_that_never_answers_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement may take hours; the questions of a new connection may not."""
    monkeypatch.setattr(http_connection, "CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"clickhouse://default@127.0.0.1:{silent.getsockname()[1]}/default"

        with pytest.raises(ReplayerError, match=r"did not answer within 0\.2 s"):
            Database(*connection(url))
