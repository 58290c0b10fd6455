"""Building against one psql session that runs the plain doubling statement on a heap table."""

import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.machine.host import Host
from replayer.servers.open import Server, open_server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec
from replayer.watch.sampler import Sampler
from tests.benchmarks import Row, programs
from tests.known import known
from tests.performed import context_of, performed

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


Found = dict[str, tuple[list[float], list[float]]]


def spec_of(**keys: object) -> Spec:
    """Return the keys of a step that builds."""
    return Spec.model_validate({"step": "build", **keys})


def plain(server: Server, database: Database, rows: int) -> tuple[float, float]:
    """Double a heap table of `rows` rows in psql; return its seconds and the table's bytes."""
    database.query("DROP TABLE IF EXISTS plain")
    database.query('CREATE TABLE plain (id bigint, lastname varchar(255), "time" timestamp)')
    database.query("INSERT INTO plain SELECT * FROM persons1_base")
    assert database.query("SELECT count(*) AS n FROM plain")[0]["n"] == rows
    database.query("CHECKPOINT")
    url = server.start()
    command = [
        str(programs(server) / "psql"), "-X", "-q",
        "-h", str(url.query["host"]), "-U", str(url.username),
        "-c", "SET search_path = replayer", "-c", r"\timing on", "-c", PLAIN, str(url.database),
    ]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = float(known(re.search(r"Time: ([\d.]+) ms", said))[1]) / 1000
    size = database.query("SELECT pg_total_relation_size('plain') AS bytes")[0]["bytes"]
    database.query("DROP TABLE plain")
    database.query("CHECKPOINT")
    return seconds, size


def samples(workdir: Path) -> Found:
    """Return seconds and bytes of every kind, measured in turn."""
    found: Found = {kind: ([], []) for kind in ("plain", *KINDS)}
    host = Host()
    with (
        open_server(engines.load(engines.default()), data_dir=workdir / "server") as server,
        Sampler(host, None) as sampler,
    ):
        here = context_of(server, host, sampler)
        with here.database() as database:
            base = spec_of(rows=ROWS // 2, layout="rowstore")
            performed(build, base, here)
            database.query("CREATE SCHEMA IF NOT EXISTS bench")
            database.query("DROP TABLE IF EXISTS bench.base")
            database.query("CREATE TABLE bench.base AS SELECT * FROM persons1")
            for number in range(SAMPLES):
                database.query("SET search_path = replayer, bench")
                database.query("CREATE OR REPLACE VIEW bench.persons1_base AS TABLE bench.base")
                kept(found, "plain", *plain(server, database, ROWS // 2))
                for kind, keys in KINDS.items():
                    outcome = performed(build, spec_of(rows=ROWS, **keys), here)
                    values = {m.metric: m.value for m in outcome.measurements}
                    kept(found, kind, values["build.last_doubling"], values["build.table_bytes"])
                    database.query("CHECKPOINT")
                print(f"build: sample {number + 1} of {SAMPLES}", file=sys.stderr, flush=True)
    return found


def kept(found: Found, kind: str, seconds: float, size: float) -> None:
    """Keep one sample."""
    print(f"  {kind}: {seconds:.2f} s, {size:,} bytes", file=sys.stderr, flush=True)
    found[kind][0].append(seconds)
    found[kind][1].append(size)


def run(workdir: Path) -> list[Row]:
    """Return the rows of the table: how often faster, what share of the time and of the bytes."""
    found = samples(workdir)
    seconds = {kind: statistics.median(times) for kind, (times, _) in found.items()}
    size = {kind: statistics.median(sizes) for kind, (_, sizes) in found.items()}
    what = f"doubling to {ROWS:,} rows"
    against = "one psql session, plain INSERT..SELECT"

    def row(name: str, bar: str, ratio: float, kind: str, which: int) -> Row:
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
