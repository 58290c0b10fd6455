"""requirement: what follows from the profile of a PostgreSQL at a known rate is that rate."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from replayer.engines.connection import Database
from replayer.results import profile
from replayer.servers.open import Server
from replayer.sizing import requirement
from replayer.sizing.requirement import Need, Requirement
from tests.command import Replayer
from tests.end_to_end.test_profile import PGBENCH, pgbench, typed

RATE = 150


@pytest.fixture
def shop(server: Server) -> Iterator[URL]:
    """Return the URL of a database of pgbench's."""
    own = server.start()
    there = own.set(database="sized")
    with closing(Database(server.engine, own, first=())) as database:
        database.query("CREATE DATABASE sized")
    pgbench(there, "-i", "-q", "-s", "5")
    yield there
    with closing(Database(server.engine, server.start(), first=())) as database:
        database.query("DROP DATABASE sized WITH (FORCE)")


def need(of: Requirement, name: str) -> Need:
    """Return what is required of one thing, which must be known."""
    found = of.need(name)
    assert found is not None
    return found


@pytest.mark.slow
def test_pgbench_at_a_rate_requires_that_rate_and_its_rows(
    shop: URL, tmp_path: Path, replayer: Replayer
) -> None:
    """As many commits, rows and syncs as pgbench makes; twice of it with growth 2."""
    out = tmp_path / "shop.profile"
    at_a_rate = [str(PGBENCH), "-n", "-R", str(RATE), "-T", "120", "-c", "2", typed(shop)]
    with subprocess.Popen(at_a_rate, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        # Its sessions tell the server what they did once a second.
        time.sleep(2)
        replayer("profile", typed(shop), "--for", "8s", "--out", out)
        load.terminate()
    profiled = profile.load(out)
    today = requirement.of(profiled, percentile=50, window=5.0)
    later = requirement.of(profiled, percentile=50, window=5.0, growth=2.0)
    work = today.work

    assert today.transactions is not None
    assert today.transactions == pytest.approx(RATE, rel=0.15)
    assert need(today, "wal_syncs").measured <= today.transactions * 1.1
    assert need(later, "transactions").required == pytest.approx(2 * RATE, rel=0.15)
    # A transaction updates three rows and inserts one, in one commit.
    assert work.insert + work.update == pytest.approx(RATE, rel=0.15)
    assert work.update * work.update_rows == pytest.approx(3 * RATE, rel=0.2)
    assert work.scanned_blocks == 0
    assert today.database_bytes is not None
    assert today.database_bytes > 50 << 20
