"""Every step, cut short: a server that is killed, a SIGTERM; what was done before is kept."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Replayer
from tests.ready_made import put_data
from tests.waiting import wait_until

Process = subprocess.Popen[str]
STEPS = ("build", "flush", "walk", "scan", "sessions")
WORKLOAD = """
[[step]]
step = "build"
rows = "393216"
segment_rows = 6144
[[step]]
step = "flush"
[[step]]
step = "walk"
threads = 1
block_size = "512"
[[step]]
step = "scan"
[[step]]
step = "sessions"
num_schemas = 2
scale = "8M"
run_time = "30s"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that the server's user can reach, with a data directory that is made."""
    path = Path(tempfile.mkdtemp(prefix="replayer-steps-", dir="/tmp"))
    path.chmod(0o755)
    (path / "steps.toml").write_text(WORKLOAD)
    put_data(path / "home")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def started(folder: Path, replayer: Replayer) -> Iterator[Process]:
    """Return a replayer that runs all steps, and what remains of it is ended."""
    home = {"REPLAYER_HOME": str(folder / "home")}
    with ended(start(dataclasses.replace(replayer, folder=folder, environment=home))) as process:
        yield process


@contextlib.contextmanager
def ended(process: Process) -> Iterator[Process]:
    """End what remains of a replayer, whatever became of the test."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()


def start(replayer: Replayer, *words: object) -> Process:
    """Start all steps; of what is printed only the errors are read."""
    return replayer.start("run", "./steps.toml", *words, popen={"stdout": subprocess.DEVNULL})


def steps(folder: Path) -> list[dict[str, Any]] | None:
    """Return the steps in the only result file, as they are now."""
    texts = [path.read_text() for path in (folder / "results").glob("*.json")]
    # The file is made, empty, before anything is done.
    return json.loads(texts[0])["steps"] if texts and texts[0] else None


def reach(process: Process, folder: Path, number: int) -> None:
    """Wait until so many steps are done and the next one has begun."""
    while (done := steps(folder)) is None or len(done) < number:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    assert len(done) == number, "the step was over before it could be reached"
    if number == 0:
        wait_until(lambda: pid_file(folder).exists())
        time.sleep(0.6)
    time.sleep(0.2)


def pid_file(folder: Path, engine: str = "postgres") -> Path:
    """Return where the server writes its process id."""
    return folder / "home" / "data" / f"{engine}-18" / "data" / "postmaster.pid"


def title_of(pid: str) -> str:
    """Return the title of a process, "" if it has just ended, as workers of a query do."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def kill_server(process: Process, written: Path, doing: str) -> None:
    """Kill the server that wrote its process id there while a session does that, by its title."""
    while process.poll() is None:
        try:
            main = int(written.read_text().split()[0])
            children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
            if any(doing in title_of(child) for child in children):
                os.kill(main, signal.SIGKILL)
                return
        except (OSError, IndexError, ValueError):
            pass
        time.sleep(0.001)
    raise AssertionError(f"replayer ended, with {process.returncode}, before it was at {doing}")


def start_slow(replayer: Replayer, statement: str, sql: str) -> Process:
    """Start all steps with an engine that sends this SQL as its statement of that name."""
    engine = replayer.folder / "engines" / "slow"
    (engine / statement).parent.mkdir(parents=True)
    (engine / "engine.toml").write_text('like = "postgres"\ntitle = "Slow PostgreSQL"\n')
    (engine / f"{statement}.sql").write_text(sql + "\n")
    (replayer.folder / "steps.toml").write_text(WORKLOAD)
    schemas = {**replayer.environment, "REPLAYER_SCHEMAS": str(engine.parent)}
    return start(dataclasses.replace(replayer, environment=schemas), "--engine", "slow")


def sentence_of_the_kill(process: Process) -> str:
    """Return the only error of a run whose server was killed."""
    _, stderr = process.communicate(timeout=300)
    lines = [line for line in stderr.splitlines() if line.startswith("replayer: error: ")]
    assert process.returncode == 1, stderr
    assert len(lines) == 1
    assert "the database server went away" in lines[0]
    assert "Traceback" not in stderr
    return lines[0]


def assert_failed_at(folder: Path, step: str) -> None:
    """Assert that the steps before it are in the result, it is marked, and nothing is left."""
    found = steps(folder)
    assert found is not None
    assert [(one["step"], one["status"]) for one in found] == [
        *((name, "done") for name in STEPS[: STEPS.index(step)]),
        (step, "failed"),
    ]
    assert list((folder / "home" / "taken").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "doing"), [("build", "INSERT"), ("flush", "replayer"), ("sessions", "CALL")]
)
def test_killed_server_ends_the_run_with_one_sentence(
    started: Process, folder: Path, step: str, doing: str
) -> None:
    """The steps before it are in the result, the sentence says what happened, nothing is left.

    The walk has no server to kill.
    """
    reach(started, folder, STEPS.index(step))
    kill_server(started, pid_file(folder), doing)

    sentence_of_the_kill(started)
    assert_failed_at(folder, step)


@pytest.mark.slow
def test_server_that_is_killed_during_a_scan(folder: Path, replayer: Replayer) -> None:
    """The same; the scan's statement is held, as it may be over before a test has seen it."""
    home = {"REPLAYER_HOME": str(folder / "home")}
    there = dataclasses.replace(replayer, folder=folder, environment=home)
    scan = "SELECT avg(id) AS avg, pg_sleep(100) FROM persons1"
    with ended(start_slow(there, "table/scan", scan)) as process:
        reach(process, folder, STEPS.index("scan"))
        kill_server(process, pid_file(folder, "slow"), "SELECT")

        sentence_of_the_kill(process)
    assert_failed_at(folder, "scan")


@pytest.mark.slow
def test_server_that_is_killed_before_the_first_step(own_home: Path, replayer: Replayer) -> None:
    """Killed while replayer prepares it: status 1, the same sentence, no step in the result."""
    there = dataclasses.replace(replayer, folder=own_home, environment={})
    with ended(start_slow(there, "prepare", "SELECT pg_sleep(100)")) as process:
        kill_server(process, own_home / "data" / "slow-18" / "data" / "postmaster.pid", "SELECT")

        assert sentence_of_the_kill(process).endswith("before the first step")
    assert steps(own_home) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_sigterm_ends_the_run_and_keeps_what_is_done(
    started: Process, folder: Path, step: str
) -> None:
    """Exit 130, the steps before are kept, the step is marked, and nothing is left running."""
    reach(started, folder, STEPS.index(step))
    started.terminate()
    _, said = started.communicate(timeout=300)

    assert started.returncode == 130, said
    assert "replayer: error: stopped by SIGTERM" in said.splitlines()
    assert "Traceback" not in said
    found = steps(folder)
    assert found is not None
    assert [one["step"] for one in found[: STEPS.index(step)]] == list(STEPS[: STEPS.index(step)])
    assert {one["status"] for one in found[STEPS.index(step) :]} <= {"interrupted"}
    assert list((folder / "home" / "taken").iterdir()) == []
