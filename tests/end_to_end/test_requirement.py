"""requirement: what follows from the profile of a PostgreSQL at a known rate is that rate."""

import subprocess
import sys
import time
from contextlib import closing

import pytest

from replayer.engines.connection import Database
from replayer.results import profile
from replayer.sizing import requirement
from tests.end_to_end.test_profile import PGBENCH, pgbench

RATE = 150


@pytest.fixture
def shop(server):
    """Return the URL of a database of pgbench's."""
    own = server.start()
    there = own.set(database="sized")
    with closing(Database(server.engine, own, first=())) as database:
        database.query("CREATE DATABASE sized")
    pgbench(there, "-i", "-q", "-s", "5")
    yield there
    with closing(Database(server.engine, server.start(), first=())) as database:
        database.query("DROP DATABASE sized WITH (FORCE)")


@pytest.mark.slow
def test_pgbench_at_a_rate_requires_that_rate_and_its_rows(shop, tmp_path):
    """As many commits, rows and syncs as pgbench makes; twice of it with growth 2."""
    out = tmp_path / "shop.profile"
    url = shop.set(drivername="postgresql").render_as_string(hide_password=False)
    words = ["profile", url, "--for", "8s", "--out", str(out)]
    at_a_rate = [PGBENCH, "-n", "-R", str(RATE), "-T", "120", "-c", "2", url]
    with subprocess.Popen(at_a_rate, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        # Its sessions tell the server what they did once a second.
        time.sleep(2)
        subprocess.run([sys.executable, "-m", "replayer", *words], check=True, timeout=100)
        load.terminate()
    profiled = profile.load(out)
    today = requirement.of(profiled, percentile=50, window=5.0)
    later = requirement.of(profiled, percentile=50, window=5.0, growth=2.0)
    work = today.work

    assert today.transactions == pytest.approx(RATE, rel=0.15)
    assert today.need("wal_syncs").measured <= today.transactions * 1.1
    assert later.need("transactions").required == pytest.approx(2 * RATE, rel=0.15)
    # A transaction updates three rows and inserts one, in one commit.
    assert work.insert + work.update == pytest.approx(RATE, rel=0.15)
    assert work.update * work.update_rows == pytest.approx(3 * RATE, rel=0.2)
    assert work.scanned_blocks == 0
    assert today.database_bytes > 50 << 20
