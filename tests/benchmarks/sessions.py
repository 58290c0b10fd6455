"""Sessions against pgbench and fio, and what replayer itself costs meanwhile.

fio reads into one buffer for each job, and a database into a pool of buffers.  Where the pool is on
small pages, this costs physical reads by itself, whatever the program: a C program with a pause of
6.3 us after each read, which is what PostgreSQL takes for one, did as many reads/s as without the
pause into one buffer (0.97 at 16 threads), 0.906 of them into 128 MiB of small pages, and 1.02 of
them into 128 MiB of huge pages.  So the rows with the bar of 0.95 have the pool, and fio its
buffers, on huge pages.
"""

import contextlib
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from replayer import shell
from replayer.engines import engine
from replayer.engines.connection import Database
from replayer.machine import page_cache, processes
from replayer.machine.host import Host
from replayer.model import Outcome
from replayer.run import step_collectors
from replayer.servers.open import Server, open_server
from replayer.steps.sessions import feasibility as sessions_feasibility
from replayer.steps.sessions import preparation as sessions_preparation
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions import window as sessions_window
from replayer.steps.sessions.spec import Spec
from replayer.storage import reference_tools
from replayer.watch import active_collectors
from replayer.watch.sampler import Sampler
from tests.benchmarks import Pairs, Row, programs
from tests.benchmarks.storage import huge_pages
from tests.known import known
from tests.performed import context_of, performed

NAME = "sessions"
SAMPLES = 3
SECONDS = 6
TABLES = {"num_schemas": 4, "scale": "256M"}
SESSIONS = (4, 16, 64, 256)
"""Of the physical rows."""
BAR, SMALL_PAGES_BAR = ">= 0.95", ">= 0.85"
_FIO = "fio psync direct 8 KiB randread"
POOL_BYTES = 1536 << 20
"""Huge pages: the pool with which tables are loaded has 1 GiB, and there is more than the pool."""


def run(workdir: Path) -> list[Row]:
    """Return all rows; one server and one set of tables for all of them."""
    rows = []
    with open_server(engine.load("postgres"), data_dir=workdir / "data") as server:
        rows += cached(server, workdir)
        for count in SESSIONS:
            rows += physical(server, workdir, count)
        rows += own_cpu(server)
    return [*rows, *on_huge_pages(workdir), *own_memory(workdir)]


def on_huge_pages(workdir: Path) -> list[Row]:
    """Return the physical rows with the server's pool and fio's buffers on huge pages."""
    with huge_pages(POOL_BYTES) as why:
        if why:
            return [
                {"what": _physical(count, huge=True), "against": _FIO, "bar": BAR, "ratio": None,
                 "skipped": why}
                for count in SESSIONS
            ]  # fmt: skip
        settings = {"huge_pages": "on"}
        folder = workdir / "data"
        with open_server(engine.load("postgres"), data_dir=folder, settings=settings) as server:
            return [
                one for count in SESSIONS for one in physical(server, workdir, count, huge=True)
            ]


def spec_of(**keys: object) -> Spec:
    """Return the keys of a step of sessions."""
    return Spec.model_validate({"step": "sessions", "name": "sessions", **keys})


def step(server: Server, *, watched: Sequence[str] = (), **keys: object) -> Outcome:
    """Run one step with these keys, watched by these collectors, and return its outcome."""
    host = Host()
    device = host.device_of(known(server.data_directory()))
    spec = spec_of(**{**TABLES, "run_time": f"{SECONDS}s", **keys})
    with (
        step_collectors.recordings(watched, host, device, server) as recorded,
        Sampler(host, device, watcher=recorded) as sampler,
    ):
        found: Outcome = performed(sessions, spec, context_of(server, host, sampler))
        return found


def value(outcome: Outcome, metric: str) -> float:
    """Return one measurement of an outcome."""
    return next(m.value for m in outcome.measurements if m.metric == metric)


def row(what: str, against: str, bar: str, pairs: Pairs, unit: str = "") -> Row:
    """Return a row with the median of the ratios of (ours, theirs)."""
    ratios = [ours / theirs for ours, theirs in pairs]
    return {
        "what": what, "against": against, "bar": bar, "unit": unit,
        "ratio": statistics.median(ratios), "samples": pairs,
    }  # fmt: skip


def cached(server: Server, workdir: Path) -> list[Row]:
    """Compare block reads per second with pgbench running the same statement."""
    server.start()
    pgbench = shell.find("pgbench", programs(server))
    title, peer, bar = "cached sessions, access=index, 4 sessions", "pgbench -M prepared", ">= 0.97"
    if pgbench is None:
        return [{"what": title, "against": peer, "bar": bar, "ratio": None, "samples": [],
                 "skipped": "pgbench is not installed"}]  # fmt: skip
    step(server, memory="cached", num_threads=1, run_time="1s")
    pairs = []
    for _ in range(SAMPLES):
        ours = value(step(server, memory="cached", num_threads=1), "sessions.riops")
        pairs.append((ours, peer_reads(server, workdir, pgbench)))
    return [row(title, peer, bar, pairs)]


def peer_reads(server: Server, workdir: Path, pgbench: Path) -> float:
    """Return the block reads per second of pgbench with the settings and tables of the step."""
    spec = spec_of(memory="cached", num_threads=1, **TABLES)
    context = context_of(server, Host(), Sampler(Host(), None))
    settings = sessions_preparation.settings_of(spec, context)
    rows = spec.rows(8192)
    scripts = []
    for table in spec.tables(8192).names:
        script = workdir / f"{table}.sql"
        script.write_text(
            f"\\set k random(1, {rows - spec.work_unit + 1})\n"
            f"SELECT sum(scratch) FROM replayer.{table} "
            f"WHERE mykey BETWEEN :k AND :k + {spec.work_unit} - 1;\n"
        )
        scripts += ["-f", str(script)]
    options = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off"
    with (
        server.settings(settings) as url,
        contextlib.closing(Database(server.engine, url)) as database,
    ):
        for file in sessions_feasibility.files_of(database, spec.tables(8192), context):
            page_cache.load(file)
        before = sessions_window._counters(database)
        said = shell.run(
            [pgbench, "-n", "-M", "prepared", "-c", "4", "-j", "2", "-T", str(SECONDS), *scripts,
             "-h", str(url.query["host"]), "-p", str(url.query.get("port", 5432)),
             "-U", str(url.username), str(url.database)],
            environment={"PGOPTIONS": options},
        )  # fmt: skip
        after = sessions_window._counters(database)
    done = int(known(re.search(r"transactions actually processed: (\d+)", said))[1])
    rate = float(known(re.search(r"tps = ([\d.]+)", said))[1])
    return rate * (after.reads - before.reads) / done


def _physical(count: int, *, huge: bool) -> str:
    pages = "huge" if huge else "small"
    return f"physical sessions, memory=direct, {count} sessions, default collectors, {pages} pages"


def physical(server: Server, workdir: Path, count: int, *, huge: bool = False) -> list[Row]:
    """Compare physical reads with fio's on a file of the same size, and with the device's count.

    All collectors that watch by default are on, as they are in a run.
    """
    watched = active_collectors.chosen()
    pairs: Pairs = []
    counted: Pairs = []
    has_fio = reference_tools.installed("fio") is not None
    step(server, memory="direct", num_threads=count // 4, run_time="1s")
    for _ in range(SAMPLES):
        outcome = step(server, watched=watched, memory="direct", num_threads=count // 4)
        ours = value(outcome, "sessions.riops")
        counted.append((known(outcome.ledger).device_reads or 0.0, ours))
        if has_fio:
            pairs.append((ours, fio_iops(workdir, count, huge=huge)))
    title, bar = _physical(count, huge=huge), BAR if huge else SMALL_PAGES_BAR
    within = row(f"device reads / RIOPS, {title}", "itself", ">= 0.98, <= 1.02", counted)
    if not has_fio:
        missing: Row = {"what": title, "against": _FIO, "bar": bar, "ratio": None, "samples": []}
        return [{**missing, "skipped": "fio is not installed"}, within]
    return [row(title, _FIO, bar, pairs), within]


def fio_iops(workdir: Path, jobs: int, *, huge: bool) -> float:
    """Return fio's IOPS on a file as large as the tables, on the same file system."""
    return reference_tools.fio(
        str(workdir / "fio"),
        mode="randread",
        block_size=8192,
        jobs=jobs,
        seconds=SECONDS,
        size=1 << 30,
        huge=huge,
    ).iops


def own_cpu(server: Server) -> list[Row]:
    """Return the CPU that replayer uses beside 64 sessions, in cores."""
    used = [
        value(step(server, memory="cached", num_threads=16, run_time="15s"), "sessions.client_cpu")
        for _ in range(SAMPLES)
    ]
    title = "replayer's own CPU, 64 sessions, sampler on"
    return [{"what": title, "against": "one core", "bar": "<= 0.02", "unit": "cores",
             "ratio": statistics.median(used), "samples": used}]  # fmt: skip


def own_memory(workdir: Path) -> list[Row]:
    """Return the peak memory of all of replayer's processes with 256 sessions, in MB (PSS)."""
    workload = workdir / "many.toml"
    workload.write_text(
        '# 256 sessions\ndescription = "256 sessions"\n[[step]]\nstep = "sessions"\n'
        'memory = "cached"\nnum_schemas = 4\nnum_threads = 64\nscale = "64M"\nrun_time = "6s"\n'
    )
    command = [sys.executable, "-m", "replayer", "run", str(workload), "--results",
               str(workdir / "results"), "--data-dir", str(workdir / "data")]  # fmt: skip
    with (workdir / "log").open("wb") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
        peak = 0
        while child.poll() is None:
            peak = max(peak, sum(map(_pss, _of_replayer(child.pid))))
            time.sleep(0.1)
    if child.returncode:
        raise RuntimeError((workdir / "log").read_text()[-500:])
    return [
        {
            "what": "peak memory of replayer, 256 sessions",
            "against": "all its processes",
            "bar": "<= 150",
            "unit": "MB",
            "ratio": peak / 1e6,
            "samples": [peak / 1e6],
        }
    ]


def _of_replayer(pid: int) -> list[int]:
    """Return the processes of a run that are Python, not the server."""
    return [member for member in processes.family(pid) if "python" in _program(member)]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def _pss(pid: int) -> int:
    """Return a process's share of memory in bytes; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0
