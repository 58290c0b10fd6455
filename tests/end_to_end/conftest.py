"""What end-to-end tests share: replayers with a home of their own, and contexts of steps."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from replayer import journal
from replayer.conditions import temperature
from replayer.machine import processes
from replayer.machine.host import Host
from replayer.model import Cold, Temperature
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.tables import persons
from replayer.watch.sampler import Sampler
from tests.fixture_types import Holder, Holding, Surroundings
from tests.performed import context_of
from tests.ready_made import put_data

HOLDER = """
import sys
from pathlib import Path
from replayer import signals
from replayer.engines import engine
from replayer.errors import Interrupted, ReplayerError
from replayer.servers.open import open_server
signals.install()
data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
try:
    with open_server(engine.load("postgres"), data_dir=data) as server:
        server.start()
        print("ready", server.pids()[0], server.data_directory(), server.facts().facts, flush=True)
        sys.stdin.readline()
except (ReplayerError, Interrupted) as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(error.status)
"""
"""Start the server in a process of its own, say so, and stop it when told to."""


@pytest.fixture
def own_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a home of this test's own, in which nothing may be left that was taken."""
    home = Path(tempfile.mkdtemp(prefix="replayer-test-", dir="/tmp"))
    home.chmod(0o755)
    monkeypatch.setenv("REPLAYER_HOME", str(home))
    yield home
    left = [(note.kind, dict(note.details)) for note in journal.notes()]
    serving = [pid for pid in processes.every() if str(home) in processes.arguments(pid)]
    for pid in serving:
        os.kill(pid, signal.SIGINT)
    # A server that was left may still remove files of its own.
    shutil.rmtree(home, ignore_errors=bool(serving))

    assert (left, serving) == ([], [])


@pytest.fixture
def made_home(own_home: Path) -> Path:
    """Return a home of this test's own whose data directory is made already."""
    put_data(own_home)
    return own_home


@pytest.fixture
def holder() -> Iterator[Holder]:
    """Return a function that starts a replayer of its own, and returns it when it is ready."""
    started: list[Holding] = []

    class Start:
        code = HOLDER

        def __call__(
            self,
            *arguments: object,
            user: int | None = None,
            code: str | None = None,
            python: str = sys.executable,
            **environment: str,
        ) -> Holding:
            other = Holding(
                [python, "-c", code or self.code, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd="/",
                env={**os.environ, **environment},
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
            started.append(other)
            assert other.stdout
            other.said = other.stdout.readline().strip()
            return other

    yield Start()
    for other in started:
        assert other.stdin
        assert other.stdout
        if other.poll() is None:
            other.communicate("\n", timeout=60)
        other.stdin.close()
        other.stdout.close()


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    """Return a function that makes a step's context on a place; its samplers end with the test."""
    samplers: list[Sampler] = []

    def make(server: Server) -> Context:
        host = Host()
        data = server.data_directory()
        assert data is not None
        sampler = Sampler(host, host.device_of(data))
        samplers.append(sampler)
        return context_of(server, host, sampler.__enter__())

    yield make
    for sampler in samplers:
        sampler.__exit__(None, None, None)


@pytest.fixture
def context(server: Server, surroundings: Surroundings) -> Context:
    """Return a step's context on the shared server."""
    return surroundings(server)


@pytest.fixture
def no_table(context: Context) -> Iterator[None]:
    """Remove the table before the test and after it, also when the test stops the server."""

    def remove() -> None:
        with context.database() as database:
            found = persons.state(database)
            if found is not None:
                persons.drop(database, found.shape.layout)

    remove()
    yield
    remove()


@pytest.fixture
def read_before_the_clock(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Return a function that has somebody execute a statement between the proof and the clock.

    What the page cache had of it is gone again by then.
    """

    def meddle(statement: str) -> None:
        make = temperature.make

        def make_and_read(
            asked: Temperature, server: Server | None, files: Sequence[str | Path], host: Host
        ) -> Cold:
            cold = make(asked, server, files, host)
            with context.database() as database:
                database.query(statement)
            temperature.drop(files, host)
            return cold

        monkeypatch.setattr(temperature, "make", make_and_read)

    return meddle
