"""The sessions of a run on two hosts whose clocks are far off: they do what one host does."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from subprocess import PIPE, STDOUT
from typing import Any

import pytest

from replayer.results import stored_histogram
from tests import namespaces
from tests.known import known
from tests.namespaces import Host

pytestmark = [pytest.mark.root, pytest.mark.slow]

SECONDS = 5
RATE = f"""
description = "statements at a rate"
[[step]]
step = "sessions"
memory = "cached"
mix = "point=60 range=20 update=20 hot=20%/80%"
rate = 200
num_schemas = 2
num_threads = 4
scale = "8M"
run_time = "{SECONDS}s"
"""
SLOB = """
description = "a number of work units of each session"
[[step]]
step = "sessions"
memory = "cached"
num_schemas = 2
num_threads = 4
scale = "8M"
update_pct = 20
operations = 400
"""
LONG = RATE.replace(f"{SECONDS}s", "60s")
ORION = """
description = "a few points"
[[step]]
step = "probe"
probe = "orion"
small = [1, 2]
large = [1]
duration = "1.5s"
warm_up = "0.2s"
size = "4M"
"""
TWO = ("--clients", "near,far")
HALF_AN_HOUR = 1800.0
"""Seconds: no time is as long that is not wrong by what a clock is."""
Running = Callable[..., tuple[int, Any, str]]


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """Return the hosts: one to ask, the database's, and two clients whose clocks are wrong."""
    names = ("user", "db", "near", "far")
    with namespaces.rig(*names, clocks={"near": 3600, "far": 86400}) as made:
        yield made


@pytest.fixture(scope="module")
def url(hosts: dict[str, Host]) -> str:
    """Return the URL of the server."""
    return namespaces.postgres(hosts["db"])


@pytest.fixture
def run(hosts: dict[str, Host], url: str) -> Running:
    """Return a function that runs a workload from the user's host and returns status and result."""

    def call(
        workload: str,
        *options: str,
        engine: bool = True,
        meanwhile: Callable[[list[str]], tuple[int, str]] | None = None,
    ) -> tuple[int, Any, str]:
        before = set((hosts["user"].own / "results").glob("*.json"))
        (hosts["user"].own / "asked.toml").write_text(workload)
        words = [sys.executable, "-m", "replayer", "run", "/srv/asked.toml", *options]
        words += ["--engine", url] if engine else []
        if meanwhile is None:
            done = hosts["user"].run(*words, check=False)
            status, said = done.returncode, done.stdout + done.stderr
        else:
            status, said = meanwhile(words)
        files = set((hosts["user"].own / "results").glob("*.json")) - before
        return status, json.loads(files.pop().read_text()) if files else None, said

    return call


def value(step: dict[str, Any], metric: str) -> Any:
    """Return the value of a step's metric."""
    return next(m["value"] for m in step["measurements"] if m["metric"] == metric)


def rows_of(step: dict[str, Any], names: tuple[str, ...] = ("near", "far")) -> Any:
    """Return the rows of the hosts, which have what every window of two hosts has."""
    rows = step["tables"]["hosts"]
    assert [row["host"] for row in rows] == list(names) * (len(rows) // len(names))
    assert not any(row["lost"] for row in rows)
    for row in rows:
        assert abs(row["start_us"]) < HALF_AN_HOUR * 1e6
        assert 0 < row["bound_us"] < HALF_AN_HOUR * 1e6
        assert 0 < row["first_done_s"] <= row["last_done_s"] < HALF_AN_HOUR
        assert 0 <= row["cpu_share"] <= 1
    return rows


def test_two_hosts_send_what_one_sends_at_a_rate(run: Running) -> None:
    """Statements, kinds and intended starts are the same; no time is wrong by what a clock is."""
    _, alone, _ = run(RATE)
    status, both, said = run(RATE, *TWO, "--verbose")
    assert status == 0, said
    (one,), (two,) = alone["steps"], both["steps"]

    assert value(two, "sessions.offered") == value(one, "sessions.offered") == 200
    assert value(two, "sessions.begun") == 200
    done = value(two, "sessions.completed") * SECONDS
    assert 0 < done <= 1000
    kinds = [[row["kind"] for row in step["tables"]["kinds"]] for step in (one, two)]
    assert kinds[0] == kinds[1]
    assert value(two, "sessions.response.max") < HALF_AN_HOUR
    assert value(two, "sessions.lag.max") < HALF_AN_HOUR
    operations = sum(one["operations"] for one in two["latency"].values())
    assert operations == 3 * 1000
    read = stored_histogram.decode(two["latency"]["response"]["payload"])
    assert read.get_total_count() == 1000
    assert read.get_max_value() < HALF_AN_HOUR * 1e9
    rows = rows_of(two)
    assert sum(row["operations"] for row in rows) == round(done)
    assert [row["sessions"] for row in rows] == [4, 4]
    # The series lies on the clock of this host.
    assert any(two["series"]["columns"]["sessions.completed"])
    assert both["cluster"] == {"hosts": ["far", "near"]}
    assert "near" in said
    assert "the hosts started within" in said


@pytest.mark.quiet
def test_two_hosts_start_together_and_are_as_soon_as_one(run: Running) -> None:
    """Within 5 ms; each kind of statement comes as often, and is answered as it is sent."""
    _, alone, _ = run(RATE)
    _, both, _ = run(RATE, *TWO)
    (one,), (two,) = alone["steps"], both["steps"]

    assert value(two, "sessions.completed") * SECONDS == pytest.approx(1000, abs=20)
    for mine, theirs in zip(one["tables"]["kinds"], two["tables"]["kinds"], strict=True):
        assert theirs["per_second"] == pytest.approx(mine["per_second"], abs=4)
    assert value(two, "sessions.response.max") < 2
    assert value(two, "sessions.lag.max") < 2
    for row in rows_of(two):
        assert abs(row["start_us"]) < 5e3
        assert row["bound_us"] < 5e3
    assert two["facts"]["cluster.start_spread_us"] < 5e3
    # The series lies on the clock of this host: statements are answered from its first second on.
    rates = [rate for rate in two["series"]["columns"]["sessions.completed"] if rate is not None]
    assert sum(rates[: SECONDS - 1]) / (SECONDS - 1) == pytest.approx(200, rel=0.2)


def test_two_hosts_do_the_work_of_one_session_by_session(run: Running) -> None:
    """Each session has the seed that it has on one host: the same selects, updates and blocks."""
    keys = ("session", "table", "operations", "selects", "updates", "select_blocks")
    _, alone, _ = run(SLOB)
    status, both, said = run(SLOB, *TWO)
    assert status == 0, said
    (one,), (two,) = alone["steps"], both["steps"]

    sessions = [[{key: row[key] for key in keys} for row in step["tables"]["sessions"]]
                for step in (one, two)]  # fmt: skip
    assert sessions[0] == sessions[1]
    assert len(sessions[0]) == 8
    assert 0 < value(two, "sessions.elapsed") < HALF_AN_HOUR
    rows = rows_of(two)
    assert sum(row["operations"] for row in rows) == 8 * 400
    # The window is the server's: it begins when the sessions do, not when the start was agreed on.
    last = max(row["last_done_s"] for row in rows)
    assert two["facts"]["sessions.window_s"] == pytest.approx(last, abs=0.1)


def test_what_was_measured_until_a_host_is_lost_is_kept_and_called_partial(
    run: Running, hosts: dict[str, Host]
) -> None:
    """The run ends with what each host had done; it is neither a failed nor a whole one.

    How soon it ends is test_cluster.py's to prove.
    """

    def cut(words: list[str]) -> tuple[int, str]:
        started = hosts["user"].start(*words, stdout=PIPE, stderr=STDOUT, text=True)
        out = known(started.stdout)
        said, lost = "", False
        try:
            for line in out:
                said += line
                if not lost and re.search(r"near [\d,]+/s, far [\d,]+/s", line):
                    lost = True
                    time.sleep(2)
                    hosts["far"].cut()
            started.wait(timeout=120)
        finally:
            hosts["far"].mend()
            started.kill()
            out.close()
        return started.wait(), said

    status, lost, said = run(LONG, *TWO, "--verbose", meanwhile=cut)

    assert status == 1
    assert lost["status"] == "partial"
    assert "far" in lost["error"]
    assert "Traceback" not in said
    (step,) = lost["steps"]
    assert step["status"] == "partial"
    near, far = step["tables"]["hosts"][-2:]
    assert (near["lost"], far["lost"]) == (False, True)
    assert far["operations"] > 100
    assert 0 < far["heard_s"] < HALF_AN_HOUR
    assert "LOST" in said


def test_a_probe_has_its_clients_on_hosts_that_share_its_folder(
    run: Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each host has files and rows of its own; their sum is of the window that all have."""
    folder = tmp_path_factory.mktemp("shared")
    for path in (folder, *folder.parents):
        if path.stat().st_uid == 0 and path != path.parent:
            path.chmod(path.stat().st_mode | 0o055)
    status, result, said = run(ORION, *TWO, "--data-dir", str(folder), engine=False)
    assert status == 0, said
    (step,) = result["steps"]

    assert list(folder.iterdir()) == []
    for depth in (1, 2):
        near, far, both = (
            next(row for row in step["tables"]["io"]
                 if (row["client"], row["depth"], row["access"], row["block_bytes"])
                 == (client, depth * (2 if client == "all" else 1), "random", 8192))
            for client in ("near", "far", "all")
        )  # fmt: skip
        assert both["iops"] == pytest.approx(near["iops"] + far["iops"], rel=0.05)
    assert {"summary.client near", "summary.client far", "summary.client all"} <= set(
        step["printed"]
    )
    rows = rows_of(step)
    assert len(rows) == 2 * 3
    assert all(row["operations"] > 0 for row in rows)


def test_a_folder_that_hosts_do_not_share_is_told(run: Running) -> None:
    """A path that means another folder on each host is one sentence, and nothing is left."""
    status, result, said = run(ORION, *TWO, "--data-dir", "/srv", engine=False)

    assert status == 1
    assert "have to share the folder of --data-dir" in result["error"]
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--clients", "near,near"), "near"),
        (("--clients", "near,nowhere"), "nowhere"),
        (("--clients", "near", "--watch", "far"), "far"),
    ],
)
def test_hosts_that_cannot_be_are_one_sentence(
    run: Running, options: tuple[str, str, str, str] | tuple[str, str], sentence: str
) -> None:
    """Twice the same, an unknown one, one that has not the database: said before anything runs."""
    status, result, said = run(RATE, *options)

    assert status in (1, 2)
    assert result is None
    assert sentence in said
    assert "Traceback" not in said
