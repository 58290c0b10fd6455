"""replayer profile: what a source did is what the profile says, and the source does not notice."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from replayer.engines.connection import Database
from replayer.results import profile
from tests.conftest import missing

PGBENCH = Path("/usr/lib/postgresql/15/bin/pgbench")
BLOCK = 8192


@pytest.fixture
def shop(server):
    """Return the owner's URL of a database, with a role `monitor` that has pg_monitor."""
    own = server.start()
    there = own.set(database="shop")
    with closing(Database(server.engine, own, first=())) as database:
        database.query("CREATE DATABASE shop")
        database.query("CREATE ROLE monitor LOGIN IN ROLE pg_monitor")
        database.query("CREATE ROLE nobody_special LOGIN")
    yield there
    with closing(Database(server.engine, server.start(), first=())) as database:
        database.query("DROP DATABASE shop WITH (FORCE)")
        database.query("DROP ROLE monitor")
        database.query("DROP ROLE nobody_special")


@pytest.fixture
def owner(server, shop):
    """Return a function that executes a statement in the shop as the server's owner."""

    def execute(statement):
        with closing(Database(server.engine, shop, first=())) as database:
            return database.query(statement)

    return execute


@pytest.fixture
def profiler(shop, tmp_path):
    """Return a function that starts `replayer profile` as a user and returns it once it watches."""
    started = []

    def start(*words, user="monitor", patch="", engine="postgresql"):
        out = tmp_path / f"{len(started)}.jsonl"
        url = shop.set(username=user, drivername=engine).render_as_string(hide_password=False)
        code = f"import sys; {patch}\nfrom replayer.__main__ import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "profile", url, "--out", str(out), *words]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
        )
        process.out = out
        started.append(process)
        process.first = process.stderr.readline()
        assert process.first.startswith("profiling postgresql://"), process.first
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(process, status=0, timeout=120):
    """Wait for a profiler's end; return its profile and all that it printed."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == status, out + err
    assert "Traceback" not in err
    loaded = profile.load(process.out)
    for name, values in loaded.columns.items():
        assert not (values < 0).any(), name
    return loaded, out + err


def total(loaded, column):
    """Return what a column adds up to; a row in which it is not known is an error."""
    values = loaded.column(column)
    assert not np.isnan(values).any(), column
    return float((values * loaded.spans).sum())


def pgbench(shop, *words):
    """Run pgbench on the shop; return how many transactions it made."""
    if not PGBENCH.is_file():
        missing("postgresql-15", f"{PGBENCH} is not there")
    url = shop.set(drivername="postgresql").render_as_string(hide_password=False)
    done = subprocess.run(
        [PGBENCH, *words, url], capture_output=True, text=True, check=True, timeout=300
    )
    count = re.search(r"transactions actually processed: (\d+)", done.stdout)
    return int(count[1]) if count else 0


def wal_position(owner):
    """Return the bytes of log that the server has written since it was made."""
    return float(owner("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS n")[0]["n"])


def test_known_rates_are_found_again(server, shop, owner, profiler, tmp_path):
    """Commits, WAL bytes, statements' rows and block reads of `pgbench -R`, within 2 percent."""
    script = tmp_path / "one_block.sql"
    with server.settings({"shared_buffers": "4MB", "checkpoint_timeout": "1h"}):
        pgbench(shop, "-i", "-q", "-s", "20")
        owner("VACUUM")
        pages = "SELECT relpages AS n FROM pg_class WHERE relname = 'pgbench_accounts'"
        blocks = owner(pages)[0]["n"]
        script.write_text(
            f"\\set block random(0, {blocks - 1})\n"
            "SELECT abalance FROM pgbench_accounts WHERE ctid = ('(' || :block || ',1)')::tid;\n"
        )
        owner("CHECKPOINT")
        running = profiler()
        time.sleep(1.5)
        before = wal_position(owner)
        writes = pgbench(shop, "-n", "-N", "-R", "150", "-T", "6", "-c", "2")
        bytes_of_log = wal_position(owner) - before
        # A session tells what it has done once a second, and when it ends.
        time.sleep(2.5)
        changed = time.time() - 1
        reads = pgbench(shop, "-n", "-R", "1000", "-T", "6", "-c", "2", "-f", str(script))
        time.sleep(2.5)
        running.send_signal(signal.SIGINT)
        loaded, text = ended(running)

    assert total(loaded, "commits") == pytest.approx(writes + reads, rel=0.02)
    assert total(loaded, "wal_mbps") * 1e6 == pytest.approx(bytes_of_log, rel=0.02)
    assert total(loaded, "tuples_inserted") == pytest.approx(writes, rel=0.02)
    assert total(loaded, "tuples_updated") == pytest.approx(writes, rel=0.02)
    # Of the blocks a share of 512 / `blocks`, 1.6 percent, is found in the buffers.
    later = loaded.ends > changed
    for column, unit in (("blocks_read", 1), ("io_read_client_mbps", BLOCK / 1e6)):
        read = (loaded.column(column) * loaded.spans)[later].sum() / unit
        assert read == pytest.approx(reads * (1 - 512 / blocks), rel=0.02), column
    assert loaded.gaps == ()
    assert "of a core" in text
