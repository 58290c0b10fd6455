"""What all tests share: a home of their own, and one PostgreSQL that is started once."""

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from replayer import engine as engines
from replayer.database import Database
from replayer.server import open_place


@pytest.fixture(scope="session", autouse=True)
def server_home():
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
def shared_place(server_home):
    """Start the private server once for the whole test run."""
    with open_place(engines.load(engines.default())) as place:
        place.start()
        yield place


@pytest.fixture
def place(shared_place):
    """Return the private server, running with its base settings."""
    shared_place.start({})
    return shared_place


@pytest.fixture
def engine(place):
    """Return the engine at the version of the private server."""
    return place.engine


@pytest.fixture
def database(place):
    """Connect to the private server's database."""
    with closing(Database(place.engine, place.start())) as found:
        yield found
