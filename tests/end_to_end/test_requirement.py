"""requirement: what follows from the profile of a PostgreSQL at a known rate is that rate."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
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


def completions(log: str) -> dict[str, list[float]]:
    """Return client -> the times of its transactions' ends, in seconds since 1970, of a log."""
    ends: dict[str, list[float]] = {}
    for line in log.splitlines():
        client, _, _, _, seconds, microseconds, *_ = line.split()
        ends.setdefault(client, []).append(float(seconds) + float(microseconds) / 1e6)
    return ends


@pytest.mark.slow
def test_pgbench_at_a_rate_requires_that_rate_and_its_rows(
    shop: URL, tmp_path: Path, replayer: Replayer
) -> None:
    """As many commits, rows and syncs as pgbench makes; twice of it with growth 2."""
    out = tmp_path / "shop.profile"
    words = [str(PGBENCH), "-n", "-R", str(RATE), "-T", "25", "-c", "8", typed(shop)]
    words += ["-l", f"--log-prefix={tmp_path / 'log'}"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as load:
        # Its sessions tell the server what they did once a second.
        time.sleep(2)
        replayer("profile", typed(shop), "--for", "8s", "--out", out)
        load.wait()
    (log,) = tmp_path.glob("log.*")
    ends = completions(log.read_text())
    profiled = profile.load(out)
    today = requirement.of(profiled, percentile=50, window=5.0)
    later = requirement.of(profiled, percentile=50, window=5.0, growth=2.0)
    work = today.work

    # A session reports at the first end that is a second after its last report.
    late = 1.1 + max(later - sooner for one in ends.values() for sooner, later in pairwise(one))
    begun, ended = float(profiled.ends[0] - profiled.spans[0]), float(profiled.ends[-1])
    counted = profiled.mean("commits") * profiled.seconds
    assert sum(begun < end < ended - late for one in ends.values() for end in one) <= counted
    assert counted <= sum(begun - late < end < ended for one in ends.values() for end in one)
    assert today.transactions is not None
    rates = profiled.column("commits")
    assert rates.min() <= today.transactions <= rates.max()
    assert need(later, "transactions").required == pytest.approx(2 * today.transactions)
    assert need(today, "wal_syncs").measured <= today.transactions * 1.1
    # A transaction updates three rows and inserts one, in one commit.  On a busy disk several of
    # them share a sync of the log, and only as many as there were syncs are known to write.
    synced = min(today.transactions, need(today, "wal_syncs").measured)
    assert work.insert + work.update == pytest.approx(synced, rel=0.15)
    assert work.update * work.update_rows == pytest.approx(3 * today.transactions, rel=0.2)
    assert work.scanned_blocks == 0
    assert today.database_bytes is not None
    assert today.database_bytes > 50 << 20
