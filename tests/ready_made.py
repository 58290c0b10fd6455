"""Folders that are made once for all tests and copied; `from tests.ready_made import ready_made`.

An `initdb` takes a second, MariaDB's installation three: each is done once per version, whichever
worker of pytest-xdist needs it first.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from replayer.engines import engine as engines
from replayer.servers import data_folder
from replayer.servers import settings as server_settings
from replayer.servers.open import open_server
from replayer.servers.programs import find

FOLDER = "REPLAYER_TEST_READY_MADE"
"""The variable that names the folder of all of them, which tests/conftest.py makes and removes."""


def ready_made(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder of that name, which `make` fills where no other test did yet."""
    folder = Path(os.environ[FOLDER], name)
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            draft = folder.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            draft.chmod(0o755)
            make(draft)
            draft.rename(folder)
    return folder


def copy(source: Path, target: Path) -> Path:
    """Copy a folder with its owners; its blocks are shared where the file system can.

    Half a gigabyte of a new MariaDB is zeros of its redo log, which become a hole.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    holes = ["--reflink=auto", "--sparse=always"]
    subprocess.run(["cp", "-a", *holes, source, target], check=True)
    return target


def ready_data(engine: str, bindir: Path | None = None, **settings: str) -> Path:
    """Return a data folder of replayer's for an engine: made, started once and stopped.

    Of the settings those count that are chosen when a data directory is made.
    """
    loaded = engines.load(engine)
    programs = find(loaded.title, loaded.spec.server, bindir)
    init, _ = server_settings.split(loaded.spec.server, programs.major, settings)

    def make(home: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            # Else the home of the test that happens to be the first would list the folder.
            patch.setenv("REPLAYER_HOME", str(home))
            with open_server(loaded, bindir=bindir, settings=init) as server:
                server.start()

    words = [f"{name}-{value}" for name, value in sorted(init.items())]
    made = ready_made("-".join([engine, programs.version, *words]), make)
    return made / "data" / _standard_name(engine, programs.major, init)


def put_data(home: Path, engine: str = "postgres", bindir: Path | None = None) -> Path:
    """Put a ready-made data folder where replayer looks for it below a home; return where."""
    source = ready_data(engine, bindir)
    return copy(source, home / "data" / source.name)


def _standard_name(engine: str, major: int, init: Mapping[str, str]) -> str:
    return data_folder.standard(engine, major, init).name


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for a lock that one process at a time has, and hold it; `path` is its file."""
    # Anybody may put a link into /tmp, and this may be root.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
