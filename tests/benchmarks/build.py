"""Building against one psql session that runs the plain doubling statement on a heap table."""

import contextlib
import os
import re
import statistics
import subprocess
import sys

from replayer.engines import engine as engines
from replayer.machine.host import Host
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.steps.build import step as build
from replayer.watch.sampler import Sampler
from tests.performed import performed

NAME = "build"
ROWS = int(os.environ.get("REPLAYER_BENCH_ROWS", "25165824"))
SAMPLES = 3
PLAIN = (
    "INSERT INTO plain SELECT id + n, lastname || n, now() "
    "FROM (SELECT *, row_number() OVER () AS n FROM plain) s"
)
KINDS = {
    "rowstore": {"layout": "rowstore"},
    "pglz": {"layout": "columnstore", "compression": "pglz"},
    "none": {"layout": "columnstore", "compression": "none"},
}


class Quiet:
    """A conversation without words."""

    @contextlib.contextmanager
    def task(self, title, total=None):
        """Show nothing."""
        yield self

    def advance(self, done):
        """Show nothing."""

    def update(self, **shown):
        """Show nothing."""

    def say(self, text):
        """Show nothing."""

    def tell(self, event):
        """Show nothing."""


def context(server, host, sampler, folder):
    """Return what a build step needs."""
    return Context(
        host=host, workload=None, progress=Quiet(), sampler=sampler, storage=folder,
        database_server=server,
    )  # fmt: skip


def plain(server, database, rows):
    """Double a heap table of `rows` rows in psql; return its seconds and the table's bytes."""
    database.query("DROP TABLE IF EXISTS plain")
    database.query('CREATE TABLE plain (id bigint, lastname varchar(255), "time" timestamp)')
    database.query("INSERT INTO plain SELECT * FROM persons1_base")
    assert database.query("SELECT count(*) AS n FROM plain")[0]["n"] == rows
    database.query("CHECKPOINT")
    url = server.start()
    command = [
        server.programs.folder / "psql", "-X", "-q", "-h", url.query["host"], "-U", url.username,
        "-c", "SET search_path = replayer", "-c", r"\timing on", "-c", PLAIN, url.database,
    ]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = float(re.search(r"Time: ([\d.]+) ms", said)[1]) / 1000
    size = database.query("SELECT pg_total_relation_size('plain') AS bytes")[0]["bytes"]
    database.query("DROP TABLE plain")
    database.query("CHECKPOINT")
    return seconds, size


def samples(workdir):
    """Return seconds and bytes of every kind, measured in turn."""
    found = {kind: ([], []) for kind in ("plain", *KINDS)}
    host = Host()
    with (
        open_server(engines.load(engines.default()), data_dir=workdir / "server") as server,
        Sampler(host, None) as sampler,
    ):
        here = context(server, host, sampler, workdir)
        with here.database() as database:
            base = build.Spec(step="build", rows=ROWS // 2, layout="rowstore")
            performed(build, base, here)
            database.query("CREATE SCHEMA IF NOT EXISTS bench")
            database.query("DROP TABLE IF EXISTS bench.base")
            database.query("CREATE TABLE bench.base AS SELECT * FROM persons1")
            for number in range(SAMPLES):
                database.query("SET search_path = replayer, bench")
                database.query("CREATE OR REPLACE VIEW bench.persons1_base AS TABLE bench.base")
                kept(found, "plain", *plain(server, database, ROWS // 2))
                for kind, keys in KINDS.items():
                    outcome = performed(build, build.Spec(step="build", rows=ROWS, **keys), here)
                    values = {m.metric: m.value for m in outcome.measurements}
                    kept(found, kind, values["build.last_doubling"], values["build.table_bytes"])
                    database.query("CHECKPOINT")
                print(f"build: sample {number + 1} of {SAMPLES}", file=sys.stderr, flush=True)
    return found


def kept(found, kind, seconds, size):
    """Keep one sample."""
    print(f"  {kind}: {seconds:.2f} s, {size:,} bytes", file=sys.stderr, flush=True)
    found[kind][0].append(seconds)
    found[kind][1].append(size)


def run(workdir):
    """Return the rows of the table: how often faster, what share of the time and of the bytes."""
    found = samples(workdir)
    seconds = {kind: statistics.median(times) for kind, (times, _) in found.items()}
    size = {kind: statistics.median(sizes) for kind, (_, sizes) in found.items()}
    what = f"doubling to {ROWS:,} rows"
    against = "one psql session, plain INSERT..SELECT"

    def row(name, bar, ratio, kind, which):
        return {
            "what": f"{name} {what}", "against": against, "bar": bar, "ratio": ratio,
            "samples": {kind: found[kind][which], "plain": found["plain"][which]},
        }  # fmt: skip

    rows = [
        row("rowstore: times faster,", ">= 1.6", seconds["plain"] / seconds["rowstore"],
            "rowstore", 0),
    ]  # fmt: skip
    for kind, time_bar, bytes_bar in (
        ("pglz", "<= 1.5", "<= 0.45"),
        ("none", "<= 0.65", "<= 0.75"),
    ):
        rows += [
            row(f"columnstore {kind}: time,", time_bar, seconds[kind] / seconds["plain"], kind, 0),
            row(f"columnstore {kind}: bytes,", bytes_bar, size[kind] / size["plain"], kind, 1),
        ]
    return rows
