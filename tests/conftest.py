"""Fixtures that all tests share: a home, one PostgreSQL that is started once, runs of numbers."""

import gc
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.model import (
    Better,
    EngineFacts,
    Fact,
    Measurement,
    Run,
    Status,
    StepResult,
    WorkloadFacts,
)
from replayer.results import store
from replayer.servers.open import Server
from tests import ready_made, servers
from tests.command import Replayer
from tests.fixture_types import RunOf
from tests.server_pool import ServerPool

# What watches beside a step is switched on by those tests that are about it.
os.environ.setdefault("REPLAYER_WITHOUT", "all")
# As replayer does for all that it starts; see replayer/interpreter.py.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# An example may take long on a machine that has something else to do.
hypothesis.settings.register_profile(
    "any-load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-load")

UNITS = {"riops": ("1/s", Better.MORE), "p99": ("s", Better.LESS), "rows": ("", Better.NEITHER)}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites tests/golden; its diff is reviewed like code."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of what is made once for all tests, in the main process of pytest-xdist."""
    # Tests that run in a shell's background, or under nohup, and all their children ignore these.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="replayer-ready-made-", dir="/tmp"))
        folder.chmod(0o755)
        os.environ[ready_made.FOLDER] = str(folder)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what was made once for all tests, when the last has ended."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(ready_made.FOLDER), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that differ from run to run, which tests that are run side by side cannot have.

    An address, or the head of a gzip, which holds the time.
    """
    for item in items:
        if re.search(r" at 0x[0-9a-f]{6}|\\x1f\\x8b\\x08\\x00(?!\\x00)", item.nodeid):
            raise pytest.UsageError(f"give this test an id of its own: {item.nodeid}")


def pytest_collection_finish() -> None:
    """Take what six thousand tests are made of out of every later look for garbage.

    They live until the end, and a look over all of them takes a quarter of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def run_of() -> RunOf:
    """Return a function that makes a run with these values, one per repeat, of each metric."""
    numbers = itertools.count(1)

    def make(
        values: Sequence[float] = (),
        *,
        label: str = "",
        kernel: str = "6.1.0",
        boot: str | None = None,
        host: Mapping[str, Fact] | None = None,
        engine: EngineFacts | None = None,
        spec: Mapping[str, object] | None = None,
        status: Status = Status.DONE,
        control: Mapping[str, tuple[float, ...]] | None = None,
        workload: str = "demo",
        **metrics: Sequence[float],
    ) -> Run:
        metrics = {"sessions.riops": values, **metrics}
        number = next(numbers)
        # No two runs of one boot began at one instant: that is how copies are known.
        started = f"2026-11-20T10:{number // 60 % 60:02d}:{number % 60:02d}+00:00"
        repeats = range(max(map(len, metrics.values())))
        asked = dict(spec or {"step": "sessions", "name": "sessions", "num_threads": 4})
        steps = tuple(
            StepResult(
                step="sessions",
                name="sessions",
                repeat=index + 1,
                status=Status.DONE,
                started=started,
                elapsed=1.0,
                spec=asked,
                measurements=tuple(
                    Measurement(metric=name, value=series[index], unit=unit, better=better)
                    for name, series in metrics.items()
                    if index < len(series)
                    for unit, better in [UNITS.get(name.rsplit(".", 1)[1], ("1/s", Better.MORE))]
                ),
            )
            for index in repeats
        )
        return Run(
            format=store.FORMAT,
            id=f"20261120-{number:06d}-{workload}",
            version="0.1.0",
            label=label,
            started=started,
            finished="2026-11-20T11:00:00+00:00",
            status=status,
            host={"kernel.release": kernel, "boot.id": boot or "b-0", **(host or {})},
            engine=engine
            or EngineFacts(
                name="postgres",
                version="18.1",
                place="private",
                settings={"shared_buffers": "128MB"},
            ),
            workload=WorkloadFacts(
                name=workload,
                source="workloads/demo.toml",
                digest="d",
                repeat=len(repeats),
                settings={},
                steps=(asked,),
            ),
            steps=steps,
            control=dict(control or {}),
        )

    return make


@pytest.fixture(scope="session", autouse=True)
def server_home() -> Iterator[Path]:
    """Keep all that replayer writes for itself away from the machine's; return that folder."""
    # pytest's own tmp_path is closed to other users, and root's server runs as another user.
    home = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    home.chmod(0o755)
    before = os.environ.get("REPLAYER_HOME")
    os.environ["REPLAYER_HOME"] = str(home)
    yield home
    if before is None:
        del os.environ["REPLAYER_HOME"]
    else:
        os.environ["REPLAYER_HOME"] = before
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def server_pool(server_home: Path) -> Iterator[ServerPool]:
    """Return a function that returns a running server by engine, `bindir` and `settings`.

    Each is started once for all tests of a worker, on a data directory that is made once for all.
    """
    pool = ServerPool(server_home / "pool")
    yield pool
    pool.close()


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return the private server, running with its base settings."""
    return server_pool()


@pytest.fixture
def replayer(tmp_path: Path) -> Iterator[Replayer]:
    """Return replayer's command line, called in an empty folder; see tests/command.py."""
    command = Replayer(tmp_path, {"REPLAYER_RESULTS": None, "COLUMNS": None})
    yield command
    command.end()


@pytest.fixture
def engine(server: Server) -> Engine:
    """Return the engine at the version of the private server."""
    return server.engine


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    """Connect to the private server's database."""
    with closing(Database(server.engine, server.start())) as found:
        yield found


@pytest.fixture(scope="session")
def postgres15() -> Path:
    """Return the folder of Debian's PostgreSQL 15; skip, or fail if it is required, without it."""
    folder = Path("/usr/lib/postgresql/15/bin")
    if not (folder / "postgres").is_file():
        missing("postgresql-15", f"{folder} is not there")
    return folder


@pytest.fixture(scope="session")
def mariadbd() -> Path:
    """Return the path of MariaDB's server; skip, or fail if it is required, without it."""
    found = shutil.which("mariadbd", path=f"/usr/sbin:/usr/libexec:{os.environ['PATH']}")
    if found is None:
        missing("mariadb", "there is no mariadbd (apt-get install mariadb-server)")
    return Path(found)


@pytest.fixture(scope="session")
def other_server() -> Callable[[str], Path]:
    """Return a function that returns the programs' folder of a server of `make test-slow`."""

    def find(name: str) -> Path:
        if not servers.programs(name).is_dir():
            missing(name, "python -m tests.servers installs it")
        return servers.programs(name)

    return find


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    """Return the paths of Chromium and its driver; skip, or fail if required, without them."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        missing("chromium", "apt-get install chromium chromium-driver")
    return browser, driver


def missing(name: str, reason: str) -> NoReturn:
    """Skip a test that needs something; fail it where $REPLAYER_REQUIRE names that thing."""
    required = os.environ.get("REPLAYER_REQUIRE", "").split(",")
    # A package may be named more closely, as mariadb-server is.
    if any(one == name or one.startswith(f"{name}-") for one in required):
        pytest.fail(f"{name} is required: {reason}")
    pytest.skip(f"{name} is not installed: {reason}")


@pytest.fixture
def settings_of_the_machine() -> Iterator[None]:
    """Let one test at a time switch settings of this machine, also of another clone's suite."""
    with ready_made.locked(Path("/tmp") / f"replayer-tests-{os.getuid()}.lock"):
        yield
