"""MariaDB: building against the plain statement, sessions against sysbench and fio."""

import contextlib
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from replayer import shell
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError
from replayer.machine import page_cache
from replayer.machine.host import Host
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server, open_server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.sessions import feasibility as sessions_feasibility
from replayer.steps.sessions import preparation as sessions_preparation
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions import window as sessions_window
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row
from tests.benchmarks.sessions import spec_of, value
from tests.known import known
from tests.performed import context_of, performed

NAME = "mariadb"
SAMPLES = 3
SECONDS = 6
ROWS = 12_582_912
TABLES = {"num_schemas": 4, "num_threads": 1, "scale": "256M"}
PAGE = 16384
PLAIN = (
    "INSERT INTO plain SELECT id + n, CONCAT(lastname, n), NOW(6) FROM "
    "(SELECT id, lastname, ROW_NUMBER() OVER () AS n FROM plain) AS s"
)
LUA = """\
-- The step's own statement, with keys drawn as it draws them.
function thread_init()
    drv = sysbench.sql.driver()
    con = drv:connect()
    con:query("SET time_zone = '+00:00'")
    con:query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    local name = "pgio" .. (sysbench.tid % 4 + 1)
    stmt = con:prepare("SELECT SUM(scratch) FROM " .. name ..
                       " FORCE INDEX (mykey) WHERE mykey BETWEEN ? AND ?")
    first = stmt:bind_create(sysbench.sql.type.BIGINT)
    last = stmt:bind_create(sysbench.sql.type.BIGINT)
    stmt:bind_param(first, last)
end
function event()
    local key = math.random(1, ROWS - UNIT + 1)
    first:set(key)
    last:set(key + UNIT - 1)
    stmt:execute()
end
function thread_done()
    con:disconnect()
end
"""


def run(workdir: Path) -> list[Row]:
    """Return all rows; a server that is not installed is said."""
    engine = engines.load("mariadb")
    try:
        with open_server(engine, data_dir=workdir / "data") as server:
            server.start()
            return [
                *building(server, workdir),
                *cached(server, workdir),
                *physical(server, workdir),
            ]
    except ReplayerError as error:
        if "mariadbd" not in str(error):
            raise
        what = "all of MariaDB"
        return [{"what": what, "against": "", "bar": "", "ratio": None, "samples": [],
                 "skipped": str(error)}]  # fmt: skip


def build_of(rows: int) -> BuildSpec:
    """Return the keys of a step that builds."""
    return BuildSpec.model_validate({"step": "build", "rows": rows})


@contextlib.contextmanager
def surroundings(server: Server, workdir: Path) -> Iterator[Context]:
    """Yield a step's context on the server."""
    host = Host()
    device = host.device_of(known(server.data_directory()))
    with Sampler(host, device) as sampler:
        yield context_of(server, host, sampler, workdir)


def row(what: str, against: str, bar: str, pairs: Pairs) -> Row:
    """Return a row with the median of the ratios of (one, other)."""
    ratios = [one / other for one, other in pairs]
    for pair, ratio in zip(pairs, ratios, strict=True):
        print(f"  {what}: {pair[0]:,.2f} / {pair[1]:,.2f} = {ratio:.3f}", file=sys.stderr)
    return {"what": what, "against": against, "bar": bar, "ratio": statistics.median(ratios),
            "samples": pairs}  # fmt: skip


def skipped(what: str, against: str, bar: str, why: str) -> Row:
    """Return a row of what could not be compared."""
    return {"what": what, "against": against, "bar": bar, "ratio": None, "samples": [],
            "skipped": why}  # fmt: skip


# Building


def building(server: Server, workdir: Path) -> list[Row]:
    """Compare the last doubling with one session that runs the plain statement."""
    pairs = []
    with surroundings(server, workdir) as here:
        for _ in range(SAMPLES):
            theirs = plain(here)
            outcome = performed(build, build_of(ROWS), here)
            pairs.append((theirs, value(outcome, "build.last_doubling")))
            with here.database() as database:
                database.execute(VerbName("flush"))
    title = f"rowstore: times faster, doubling to {ROWS:,} rows"
    return [row(title, "one client session, plain INSERT..SELECT", ">= 1.4", pairs)]


def plain(here: Context) -> float:
    """Return the seconds of the plain statement on a plain table of half the rows."""
    with here.database() as database:
        database.query("DROP TABLE IF EXISTS plain")
        database.query(
            "CREATE TABLE plain (id bigint, lastname varchar(255), `time` timestamp(6) NULL)"
        )
        performed(build, build_of(ROWS // 2), here)
        for segment in range(1, ROWS // 2 // 786_432 + 1):
            database.query(
                f"INSERT INTO plain SELECT id, lastname, `time` FROM persons1_s{segment}"
            )
        database.execute(VerbName("flush"))
        clock = "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) AS DOUBLE) AS clock"
        began = database.query(clock)[0]["clock"]
        database.query(PLAIN)
        ended = database.query(clock)[0]["clock"]
        rows = database.query("SELECT COUNT(*) AS n FROM plain")[0]["n"]
        assert rows == ROWS, rows
        database.query("DROP TABLE plain")
        database.execute(VerbName("flush"))
    return float(ended - began)


# Sessions


def step(server: Server, workdir: Path, **keys: object) -> Outcome:
    """Run one step with these keys and return its outcome."""
    keys = {**TABLES, "run_time": f"{SECONDS}s", **keys}
    with surroundings(server, workdir) as here:
        found: Outcome = performed(sessions, spec_of(**keys), here)
        return found


def cached(server: Server, workdir: Path) -> list[Row]:
    """Compare pages read per second with sysbench running the same statement."""
    what, against, bar = (
        "MariaDB cached sessions, 4 sessions",
        "sysbench, same statement",
        ">= 0.95",
    )
    program = shell.find("sysbench")
    if program is None:
        return [skipped(what, against, bar, "sysbench is not installed")]
    step(server, workdir, memory="cached", run_time="1s")
    pairs = []
    for _ in range(SAMPLES):
        ours = value(step(server, workdir, memory="cached"), "sessions.riops")
        pairs.append((ours, peer_reads(server, workdir, program)))
    return [row(what, against, bar, pairs)]


def peer_reads(server: Server, workdir: Path, program: Path) -> float:
    """Return the pages per second that sysbench reads with the step's settings and tables."""
    spec = spec_of(memory="cached", **TABLES)
    script = workdir / "step.lua"
    numbers = {"ROWS": str(spec.rows(PAGE)), "UNIT": str(spec.work_unit)}
    script.write_text(re.sub("ROWS|UNIT", lambda found: numbers[found[0]], LUA))
    with surroundings(server, workdir) as here:
        settings = sessions_preparation.settings_of(spec, here)
        with (
            server.settings(settings) as url,
            contextlib.closing(Database(server.engine, url)) as database,
        ):
            for file in sessions_feasibility.files_of(database, spec.tables(PAGE), here):
                page_cache.load(file)
            before = sessions_window._counters(database)
            said = shell.run(
                [program, str(script), "--db-driver=mysql", "--threads=4", f"--time={SECONDS}",
                 f"--mysql-socket={url.query['unix_socket']}", f"--mysql-user={url.username}",
                 f"--mysql-db={url.database}", "run"],
            )  # fmt: skip
            after = sessions_window._counters(database)
    done = int(known(re.search(r"total number of events:\s+(\d+)", said))[1])
    seconds = float(known(re.search(r"total time:\s+([\d.]+)s", said))[1])
    assert done > 0
    return (after.reads - before.reads) / seconds


def physical(server: Server, workdir: Path) -> list[Row]:
    """Compare physical reads with fio's on files of the same size."""
    what, against = "MariaDB physical sessions, 4 sessions", "fio psync direct 16 KiB randread"
    bar, program = ">= 0.75", shell.find("fio")
    if program is None:
        return [skipped(what, against, bar, "fio is not installed")]
    step(server, workdir, memory="direct", run_time="1s")
    pairs = []
    for _ in range(SAMPLES):
        ours = value(step(server, workdir, memory="direct"), "sessions.riops")
        said = shell.run(
            [program, "--name=peer", f"--filename={workdir / 'fio'}", "--size=1G",
             "--ioengine=psync", "--direct=1", "--bs=16k", "--rw=randread", "--numjobs=4",
             f"--runtime={SECONDS}", "--time_based", "--group_reporting",
             "--output-format=json", "--randrepeat=0"],
        )  # fmt: skip
        peer = json.loads(said[said.index("{") :])["jobs"][0]["read"]["iops"]
        pairs.append((ours, peer))
    return [row(what, against, bar, pairs)]
