"""requirement: what follows from the profile of a PostgreSQL at a known rate is that rate."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import mean

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
_PROGRESS = re.compile(r"progress: ([0-9.]+) s, ([0-9.]+) tps")


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
    words = [str(PGBENCH), "-n", "-R", str(RATE), "-T", "120", "-c", "8", "-P", "1", typed(shop)]
    begun = time.monotonic()
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as load:
        # Its sessions tell the server what they did once a second.
        time.sleep(2)
        replayer("profile", typed(shop), "--for", "8s", "--out", out)
        passed = time.monotonic() - begun
        load.terminate()
        printed = _PROGRESS.findall(load.communicate()[1])
    # On a busy disk it falls behind its rate.
    done = mean(float(tps) for at, tps in printed if 3 <= float(at) <= passed)
    profiled = profile.load(out)
    today = requirement.of(profiled, percentile=50, window=5.0)
    later = requirement.of(profiled, percentile=50, window=5.0, growth=2.0)
    work = today.work

    assert today.transactions is not None
    assert today.transactions == pytest.approx(done, rel=0.15)
    assert need(today, "wal_syncs").measured <= today.transactions * 1.1
    assert need(later, "transactions").required == pytest.approx(2 * done, rel=0.15)
    # A transaction updates three rows and inserts one, in one commit.  On a busy disk several of
    # them share a sync of the log, and only as many as there were syncs are known to write.
    synced = min(today.transactions, need(today, "wal_syncs").measured)
    assert work.insert + work.update == pytest.approx(synced, rel=0.15)
    assert work.update * work.update_rows == pytest.approx(3 * today.transactions, rel=0.2)
    assert work.scanned_blocks == 0
    assert today.database_bytes is not None
    assert today.database_bytes > 50 << 20
