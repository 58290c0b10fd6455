"""The main job at small scale by the real command line, as root and as an ordinary user."""

import contextlib
import dataclasses
import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replayer import journal
from tests.command import STILL, Ended, Replayer
from tests.ready_made import put_data

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = 1234
SHORT = ("--set", "cached.run_time=1s", "--set", "physical.run_time=1s")
SMALL = ("--set", "build.rows=24576")
UNNEEDED = (
    *("zensical", "pandas", "scipy", "mypy", "pip", "pyarrow", "selenium"),
    *("setuptools", "docutils", "trio", "hypothesis", "datastore", "ruff", "chdb", "duckdb"),
)
"""Packages of the tests' environment that no smoke run imports: most of its 40,000 files."""
NAMES = [
    "build.rows",
    "build.elapsed",
    "build.last_doubling",
    "build.rows_per_second",
    "build.table_bytes",
    "build.wal_bytes",
    "flush.elapsed",
    "walk.files",
    "walk.bytes",
    "walk.list.real",
    "walk.read.real",
    "walk.read.user",
    "walk.read.system",
    "walk.throughput",
    "walk.iops",
    "scan.elapsed",
    "sessions.riops",
    "sessions.cache_hits",
    "sessions.device_reads",
    "sessions.latency.p50",
    "sessions.latency.p95",
    "sessions.latency.p99",
    "sessions.latency.p999",
    "sessions.latency.max",
    "sessions.client_cpu",
]
"""What people and scripts look for in a result file: these names are a promise."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that every user can reach."""
    path = Path(tempfile.mkdtemp(prefix="replayer-smoke-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["as we are", pytest.param("ordinary", marks=pytest.mark.slow)])
def run(
    request: pytest.FixtureRequest,
    folder: Path,
    replayer: Replayer,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Ended]:
    """Return a function that runs replayer as this user, or as an ordinary one with own copies."""
    environment = {"REPLAYER_HOME": str(folder / "home")}
    if request.param == "as we are":
        # The other one makes a data directory of its own.
        monkeypatch.setenv("REPLAYER_HOME", environment["REPLAYER_HOME"])
        put_data(journal.home())
        return dataclasses.replace(replayer, folder=folder)
    if os.geteuid() != 0:
        pytest.skip("we are an ordinary user already")
    command, theirs = ordinary(folder)
    there = dataclasses.replace(replayer, folder=folder, environment=environment | theirs)

    def call(*words: object) -> Ended:
        few = SMALL if "smoke" in words else ()
        return there.process(*words, *few, command=command)

    return call


def ordinary(folder: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return a command and its environment that an ordinary user can run, wherever we are."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    become = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
    # This checkout may be in a folder that is closed to others: they get a copy.
    packages = folder / "packages"
    unneeded = shutil.ignore_patterns(*(f"{name}*" for name in UNNEEDED))
    shutil.copytree(site.getsitepackages()[0], packages, ignore=unneeded, copy_function=linked)
    shutil.copy(STILL / "sitecustomize.py", packages)
    # What an editable install left there has workloads and schemas of the day it was made.
    shutil.rmtree(packages / "replayer", ignore_errors=True)
    for part in ("replayer", "workloads", "schemas"):
        shutil.copytree(ROOT / part, packages / part, copy_function=linked, dirs_exist_ok=True)
    # Copies keep their modes, and whoever checked this out may have had a strict umask.
    subprocess.run(["chmod", "-R", "a+rX", str(packages)], check=True)
    os.chown(folder, ORDINARY, ORDINARY)
    environment = {"PYTHONPATH": str(packages), "HOME": str(folder), "PYTHONSAFEPATH": "1"}
    # A Python under /root may start for others and then not find its own library.
    trial = (
        "import os, sys, numpy, psycopg, pydantic; os.stat(sys.executable); os.listdir(sys.prefix)"
    )
    for python in (shutil.which(name, path=os.defpath), os.path.realpath(sys.executable)):
        tried = [*become, python or "", "-c", trial]
        with_theirs = {**os.environ, **environment}
        if python and not subprocess.run(tried, check=False, cwd="/", env=with_theirs).returncode:
            return (*become, python, "-m", "replayer"), environment
    pytest.skip(f"no {name} here that an ordinary user may run")


def linked(source: str, target: str) -> str:
    """Link a file that everybody may use, as far as its owner may; copy another one."""
    mode = Path(source).stat().st_mode
    everybody = mode | 0o444 | (0o111 if mode & 0o111 else 0)
    if mode == everybody:
        with contextlib.suppress(OSError):  # on another file system
            os.link(source, target)
            return target
    return shutil.copy2(source, target)


def test_smoke_runs_every_step_and_proves_it(run: Callable[..., Ended], folder: Path) -> None:
    """All steps are done, every promised metric is there, cold is cold, and nothing is left."""
    done = run("run", "smoke", "--label", "first light", "--json", *SHORT)

    result = json.loads(done.out)
    stored = list((folder / "results").glob("*.json"))
    assert [json.loads(path.read_text()) for path in stored] == [result]
    assert result["status"] == "done"
    assert [step["reason"] for step in result["steps"] if step["status"] != "done"] == []
    measured = {found["metric"] for step in result["steps"] for found in step["measurements"]}
    assert set(NAMES) <= measured
    by_name = {step["name"]: step for step in result["steps"]}
    assert by_name["walk"]["cold"]["asked"] == "cold"
    assert (
        by_name["walk"]["cold"]["resident_bytes"] <= 0.001 * by_name["walk"]["cold"]["file_bytes"]
    )
    assert by_name["cached"]["ledger"]["asked"] == "cached"
    assert by_name["physical"]["ledger"]["asked"] == "physical"
    for name in ("data_checksums", "shared_buffers", "io_method", "effective_io_concurrency"):
        assert name in result["engine"]["settings"]
    assert not list((folder / "home" / "taken").iterdir())

    again = run("show", "first light", "--full")

    assert max(map(len, again.out.splitlines())) <= 105  # the DBNAME line is never wrapped
    for line in ("DBNAME:  pgio. 2 schemas, 1 threads(each).", "list files", "read files"):
        assert line in again.out

    run("clean", "--yes")

    assert not (folder / "home").exists()
    assert list((folder / "results").glob("*.json")) == stored


@pytest.mark.slow
def test_smoke_runs_every_step_on_mariadb(
    run: Callable[..., Ended], folder: Path, mariadbd: Path
) -> None:
    """The same on a MariaDB that replayer starts itself; a build takes its layout."""
    done = run("run", "smoke", "--engine", "mariadb", "--bindir", mariadbd.parent, "--json")

    result = json.loads(done.out)
    assert {step["status"] for step in result["steps"]} == {"done"}
    assert result["engine"]["name"] == "mariadb"
    measured = {found["metric"] for step in result["steps"] for found in step["measurements"]}
    assert set(NAMES) <= measured
    assert not list((folder / "home" / "taken").iterdir())

    run("clean", "--yes")

    assert not (folder / "home").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "smok"], "did you mean smoke?"),
        (["run", "smoke", "--set", "walk.thread=3"], "did you mean threads?"),
        (["run", "smoke", "--set", "build.rows=-5"], "-5"),
        (["run", "smoke", "--set", "build.rows=9e99"], "9e99"),
        (["run", "smoke", "--engine", "postgrs"], "did you mean postgres?"),
        (["run", "smoke", "--engine", "oracle://x/y"], "oracle://"),
        (["run", "smoke", "--pg-bindir", "/nowhere"], "/nowhere"),
        (["run", "smoke", "--data-dir", "/proc/replayer"], "/proc"),
        (["run", "smoke", "--pg-set", "shared_bufers=1GB"], "did you mean shared_buffers?"),
        (["run", "smoke", "--repeat", "0"], "--repeat 0: it must be a whole number"),
        (["show", "nothing"], "there are no runs"),
    ],
)
def test_impossible_request_is_one_sentence(
    replayer: Replayer, folder: Path, words: list[str], says: str
) -> None:
    """Exit 2, one line that names what was asked and what is right, no traceback, nothing left."""
    home = folder / "home"
    _, err = replayer(*words, status=2, REPLAYER_HOME=str(home))

    (line,) = [line for line in err.splitlines() if line.startswith("replayer: error: ")]
    assert says in line
    assert "Traceback" not in err
    assert not list(home.glob("taken/*"))
