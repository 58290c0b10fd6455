"""What the clients of a load cost at 5,000 statements a second, and pgbench -R beside them."""

import statistics
from pathlib import Path
from typing import Any

from replayer import shell
from replayer.engines import engine
from replayer.engines.connection import Database
from replayer.load import dataset
from replayer.load.level import LevelRequest, LevelResult, measure_level
from replayer.load.mix import WeightedMix
from replayer.machine.host import Host
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.tables.pgio import TableSet
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row, programs
from tests.performed import context_of

NAME = "load"
SAMPLES = 3
SECONDS = 10
TABLES = TableSet(1, 8192, 1)
RATE = 5000
PEER_RATE = 200
WORK_UNIT = 2000
SESSIONS = 8
PINNED = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off"


def run(workdir: Path) -> list[Row]:
    """Return all rows; one server with all tables in its buffers."""
    host = Host()
    with (
        open_server(engine.load("postgres"), data_dir=workdir / "data") as server,
        server.settings({"shared_buffers": "256MB"}),
        Sampler(host, host.device_of(workdir)) as sampler,
    ):
        context = context_of(server, host, sampler, workdir)
        dataset.provide_tables(TABLES, context)
        with context.database() as database:
            return [
                *costs(context, database),
                *by_driver(context, database),
                *agreement(context, database, workdir),
            ]


def level(context: Context, database: Database, **keys: Any) -> LevelResult:
    """Measure one level."""
    asked = LevelRequest(seconds=SECONDS, tables=TABLES, **{"sessions": SESSIONS, **keys})
    return measure_level(asked, context, database)


def by_driver(context: Context, database: Database) -> list[Row]:
    """Return what sessions by the driver's cursor cost, against those of the wire itself."""
    rates: Pairs = []
    cores: Pairs = []
    for number in range(SAMPLES):
        pair = [
            level(context, database, mix=WeightedMix(point=1), seed=number + 1, by_driver=kind)
            for kind in (True, False)
        ]
        slow, fast = pair
        rates.append((slow.completed, fast.completed))
        cores.append((slow.use.client / slow.completed, fast.use.client / fast.completed))
    title = f"sessions by DBAPI, reads of one row, {SESSIONS} sessions, closed loop"
    return [
        {"what": title, "against": "sessions of the wire", "bar": "", "unit": "statements/s",
         "ratio": statistics.median(a / b for a, b in rates), "samples": rates},
        {"what": title, "against": "sessions of the wire", "bar": "", "unit": "client CPU each",
         "ratio": statistics.median(a / b for a, b in cores), "samples": cores},
    ]  # fmt: skip


def costs(context: Context, database: Database) -> list[Row]:
    """Return the CPU of the clients, at once and each 2 ms, and how well the rate was kept."""
    used: dict[float, list[float]] = {0.0: [], 0.002: []}
    kept = []
    for _ in range(SAMPLES):
        for resolution, cores in used.items():
            one = level(
                context, database, rate=RATE, mix=WeightedMix(point=1), resolution=resolution
            )
            cores.append(one.use.client)
            kept.append(one.completed / RATE)
    title = f"clients at {RATE:,} reads of one row a second, {SESSIONS} sessions"
    return [
        *({"what": f"{title}, resolution {resolution:g} s", "against": "one core",
           "bar": "<= 0.10", "unit": "cores", "ratio": statistics.median(cores), "samples": cores}
          for resolution, cores in used.items()),
        {"what": "statements answered", "against": "the rate asked for",
         "bar": ">= 0.995, <= 1.005", "ratio": statistics.median(kept), "samples": kept},
    ]  # fmt: skip


def agreement(context: Context, database: Database, workdir: Path) -> list[Row]:
    """Hold response times against those of pgbench -R with the same statement, in turn."""
    what = {"p50": 50, "p99": 99}
    peer = f"pgbench -M prepared -R {PEER_RATE}"
    bar = ">= 0.90, <= 1.10"
    pgbench = shell.find("pgbench", programs(context.server))
    if pgbench is None:
        return [{"what": "response time", "against": peer, "bar": bar, "ratio": None,
                 "samples": [], "skipped": "pgbench is not installed"}]  # fmt: skip
    mix = WeightedMix(range=1, work_unit=WORK_UNIT)
    pairs: dict[str, Pairs] = {name: [] for name in what}
    for number in range(SAMPLES + 2):
        theirs = peer_times(pgbench, context, database, workdir)
        ours = level(context, database, rate=PEER_RATE, mix=mix, seed=number + 1)
        for name, percent in what.items():
            mine = ours.response.percentile_ns(percent) / 1e9
            pairs[name].append((mine, theirs[min(len(theirs) - 1, len(theirs) * percent // 100)]))
    return [
        {"what": f"response time, {name}", "against": peer, "bar": bar,
         "ratio": statistics.median(mine / other for mine, other in pairs[name]),
         "samples": pairs[name]}
        for name in what
    ]  # fmt: skip


def peer_times(pgbench: Path, context: Context, database: Database, workdir: Path) -> list[float]:
    """Return pgbench's times from the intended start in seconds, sorted."""
    script = workdir / "peer.sql"
    script.write_text(
        f"\\set k random(1, {TABLES.rows - WORK_UNIT + 1})\n"
        f"SELECT sum(scratch) FROM replayer.pgio1 WHERE mykey BETWEEN :k AND :k+{WORK_UNIT - 1};\n"
    )
    url = context.server.start()
    for old in workdir.glob("times.*"):
        old.unlink()
    shell.run(
        [pgbench, "-n", "-M", "prepared", "-c", str(SESSIONS), "-j", "1", "-T", str(SECONDS),
         "-R", str(PEER_RATE), "-l", f"--log-prefix={workdir / 'times'}", "-f", str(script),
         "-h", str(url.query["host"]), "-p", str(url.query.get("port", 5432)),
         "-U", str(url.username), str(url.database)],
        environment={"PGOPTIONS": PINNED},
    )  # fmt: skip
    lines = [line.split() for path in workdir.glob("times.*") for line in path.open()]
    # Client, number, microseconds from the scheduled start, script, second, microsecond, lag.
    return sorted(int(line[2]) / 1e6 for line in lines)
