"""Sessions of the SLOB method, as pgio runs them: random reads of tables with one row per block.

Every session runs a loop inside the server, in slices of 1/4 to 2 seconds.  RIOPS are the blocks
that the server missed in its own buffers, per second of the server's clock; the ledger says how
many of them came from the page cache and how many from the device.
"""

import contextlib
import hashlib
import itertools
import math
import os
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from hdrh.histogram import HdrHistogram
from pydantic import AfterValidator, Field

from replayer import __version__, units
from replayer.analysis import steadiness
from replayer.conditions import memory_bound, temperature
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.engine_spec import Sessions
from replayer.engines.verbs import Asked
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.machine.free_space import free_bytes
from replayer.model import (
    Better,
    Cold,
    Foreign,
    Ledger,
    MemoryKind,
    Reads,
    Series,
    Steadiness,
    StepSpec,
    Temperature,
    Verdict,
)
from replayer.run.context import Context
from replayer.run.findings import Findings
from replayer.run.footprint import Footprint
from replayer.servers import protocol
from replayer.tables import pgio, relations
from replayer.tables.pgio import Lost, SessionJob, SessionResult, TableSet
from replayer.watch import foreign, ledger
from replayer.watch.foreign import Traffic
from replayer.watch.ledger import Counters
from replayer.watch.sampler import DeviceDelta
from replayer.watch.workers import WorkerPool

_ACCESS = {"index": Asked("slob/access_index"), "planner": Asked("slob/access_planner")}
_NAME = Asked("slob/name")
_PLAN = Asked("slob/plan")
_PROCEDURE = Asked("slob/procedure")
_SEED = Asked("slob/seed")
_SETTLE = Asked("slob/settle")
_SLICE = Asked("slob/slice")
_UPDATES = Asked("slob/updates")
_FLUSH = Asked("flush")
_MIB = 1 << 20
_LARGEST_NS = 3600 * 10**9
_PAGE_CACHE_SHARE = 0.85
_LOADERS = 8
_ORDINARY_SESSIONS = 350
"""More sessions than this need a higher limit of connections."""
_PERCENTILES = {"p50": 50, "p95": 95, "p99": 99, "p999": 99.9}
_SETTLE_SECONDS = 0.6
_SETTLE_TRIES = 20
_SHORTEST_SLICE = 0.25
_LONGEST_SLICE = 2.0
_GRID_SECONDS = 0.25
_GRACE = 2.0
"""Seconds in which other sessions may also say that the server is gone."""


def _scale(value: str | int) -> str | int:
    try:
        if units.size(value) <= 0:
            raise ValueError("it must be more than nothing")
    except Impossible as error:
        raise ValueError(str(error)) from error
    return value


class Spec(StepSpec):
    """The keys of a sessions step: pgio's names in lower case, and some of its own."""

    num_schemas: int = Field(4, ge=1, le=8192)
    """Tables."""
    num_threads: int = Field(2, ge=1, le=4096)
    """Sessions for each table."""
    work_unit: int = Field(255, ge=1, le=1_000_000)
    """Keys, and so blocks, that one SELECT reads."""
    update_pct: int = Field(0, ge=0, le=100)
    """Share of the statements that are UPDATEs, in percent: exactly so many of every 100."""
    update_work_unit: int = Field(8, ge=1, le=1_000_000)
    """Keys that one UPDATE changes."""
    scale: Annotated[str | int, AfterValidator(_scale)] = "1G"
    """Size of each table: bytes with a unit such as 1G, or a bare number of blocks."""
    run_time: units.Duration = Field(120.0, gt=0)
    operations: units.Count | None = Field(None, ge=1)
    """A fixed number of statements for each session, instead of a run time."""
    access: Literal["index", "planner"] = "index"
    """`index` pins an index scan; `planner` plans every statement anew, as pgio does."""
    seed: int = Field(1, ge=0, le=1 << 31)
    memory: MemoryKind = "direct"
    """`cached` reads from the page cache; the others are ways to physical reads."""
    shared_buffers: units.Size | None = Field(None, ge=128 << 10)
    """The server's own cache; small unless it is given."""
    memory_limit: units.Size | None = Field(None, ge=16 << 20)
    """What a cgroup leaves to the server and its page cache."""
    keep: units.Size = Field(1 << 30, ge=64 << 20)
    """Memory that huge pages or ballast leave free."""

    def lasts(self) -> float:
        """Return the run time, 0 for a number of operations."""
        return self.run_time if self.operations is None else 0.0

    @property
    def sessions(self) -> int:
        """Return the number of sessions."""
        return self.num_schemas * self.num_threads

    @property
    def asked(self) -> Verdict:
        """Return the verdict that this kind of memory is for."""
        return Verdict.CACHED if self.memory == "cached" else Verdict.PHYSICAL

    def rows(self, block_size: int) -> int:
        """Return the rows, and so the blocks, of each table."""
        if isinstance(self.scale, int) or self.scale.strip().isdigit():
            return int(self.scale)
        return units.size(self.scale) // block_size

    def tables(self, block_size: int) -> TableSet:
        """Return the tables that these keys ask for."""
        return TableSet(self.num_schemas, self.rows(block_size), self.seed)

    def bytes(self, block_size: int) -> int:
        """Return the bytes of all tables, without their indexes."""
        return self.num_schemas * self.rows(block_size) * block_size

    def buffers(self, block_size: int, least: int = _MIB) -> int:
        """Return the bytes of the server's own cache: as given, else tables / 16, 1 to 16 MiB.

        Never less than 8 blocks for each session, as every session holds some of them, nor than
        `least`, without which the server does not work.
        """
        if self.shared_buffers is not None:
            return max(least, self.shared_buffers)
        share = self.bytes(block_size) // 16
        return max(least, self.sessions * 8 * block_size, min(16 * _MIB, share))

    def needs(self, memory_of: "_ServerMemory") -> int:
        """Return the memory that the server's processes need for themselves."""
        buffers = self.buffers(memory_of.block_size, memory_of.least_buffers)
        return buffers + memory_of.base + memory_of.per_session * self.sessions

    def limit(self, memory_of: "_ServerMemory") -> int:
        """Return the limit of a cgroup: as given, else what the server itself needs and 40 MiB."""
        return self.memory_limit or self.needs(memory_of) + 40 * _MIB


@dataclass(frozen=True, slots=True)
class _ServerMemory:
    """What an engine's engine.toml says about the memory that its server needs, in bytes."""

    block_size: int
    least_buffers: int
    base: int
    per_session: int

    @classmethod
    def of(cls, context: Context) -> "_ServerMemory":
        """Read it from [sessions]."""
        keys = _keys(context)
        return cls(
            context.engine.block_size,
            keys.buffers.least if keys.buffers else _MIB,
            keys.memory_base,
            keys.memory_per_session,
        )


def footprint(spec: Spec, block_size: int) -> Footprint:
    """Return what the tables take, and how much of them a cached run keeps in memory."""
    size = spec.bytes(block_size)
    return Footprint(spec.tables(block_size), size, size if spec.memory == "cached" else 0)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for what cannot be done here, naming the ways that remain.

    What somebody else's server does not allow is a Skip, and so is direct I/O where no other way to
    physical reads can take its place: the other steps go on.
    """
    _check_numbers(spec, context.engine.block_size)
    context.engine.needs(_SLICE)
    _possible(spec, context)


def _possible(spec: Spec, context: Context) -> tuple[Spec, list[str]]:
    """Return the keys with a kind of memory that can be had here, and what to say of it."""
    refused = _refused(spec.memory, spec, context)
    if not refused:
        return spec, []
    if spec.memory == "direct" and context.server.can_stop:
        return _instead_of_direct(refused, spec, context)
    error = _impossible(refused, spec, context)
    raise error if context.server.can_stop else Skip(str(error))


def _instead_of_direct(refused: str, spec: Spec, context: Context) -> tuple[Spec, list[str]]:
    """Return the keys with the next way to physical reads, and what to say of it.

    Raises Skip with the reason against each way when there is none.
    """
    reasons = [f"memory = 'direct': {refused}"]
    for kind in memory_bound.KINDS:
        other = spec.model_copy(update={"memory": kind})
        reason = _refused(kind, other, context)
        if not reason:
            return other, [f"{'; '.join(reasons)}; it was done with memory = {kind!r} instead"]
        reasons.append(f"memory = {kind!r}: {reason}")
    raise Skip("; ".join(reasons))


def _impossible(refused: str, spec: Spec, context: Context) -> Impossible:
    others = [kind for kind in _kinds() if kind != spec.memory]
    ways = [kind for kind in others if not _refused(kind, spec, context)]
    remain = f"what remains: {', '.join(ways)}" if ways else "no other way remains"
    return Impossible(f"memory = {spec.memory!r}: {refused}; {remain}")


def _kinds() -> Sequence[MemoryKind]:
    return get_args(MemoryKind)


def _check_numbers(spec: Spec, block_size: int) -> None:
    rows = spec.rows(block_size)
    longest = max(spec.work_unit, spec.update_work_unit if spec.update_pct else 1)
    if rows < longest:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks, less than one work unit of {longest:,}"
        )
    if rows > pgio.MOST_ROWS:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks for each table, and at most "
            f"{pgio.MOST_ROWS:,} can be: use more tables (num_schemas)"
        )


def _refused(kind: MemoryKind, spec: Spec, context: Context) -> str:
    """Return why a kind of memory cannot be used with these keys on this machine; "" if it can."""
    if not context.server.can_stop:
        return _lacking(kind, context)
    if kind == "cached":
        return _no_cached(spec, context)
    if kind == "direct":
        return _no_direct(context)
    return _no_bound(kind, spec, context) or str(memory_bound.refusal(kind, context.host) or "")


def _lacking(kind: MemoryKind, context: Context) -> str:
    """Return what a kind of memory needs that somebody else's server does not have; "" if none."""
    wanted = _keys(context).of(kind).settings
    if kind in memory_bound.KINDS or (kind == "direct" and not wanted):
        return "it needs a restart of the server, and this server is not replayer's own"
    with context.database() as database:
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    for name, value in wanted.items():
        if shown.get(name) != value:
            return (
                f"it needs {name} = {value}, which this server does not have, and only its owner "
                f"can change that"
            )
    return ""


def _no_cached(spec: Spec, context: Context) -> str:
    usable = context.host.usable_memory_bytes()
    tables = spec.bytes(context.engine.block_size)
    if not usable or tables <= _PAGE_CACHE_SHARE * usable:
        return ""
    return (
        f"the tables are {units.show_size(tables)}, more than fits into the page cache of a "
        f"machine with {units.show_size(usable)} of memory"
    )


def _no_bound(kind: str, spec: Spec, context: Context) -> str:
    server = _ServerMemory.of(context)
    tables = spec.bytes(server.block_size)
    left = spec.limit(server) if kind == "cgroup" else spec.keep
    if left >= tables:
        key = "memory_limit" if kind == "cgroup" else "keep"
        return (
            f"it would leave {units.show_size(left)}, where all {units.show_size(tables)} of the "
            f"tables fit in: set {key} lower or scale higher"
        )
    if kind == "cgroup" and left < spec.needs(server):
        return (
            f"memory_limit is {units.show_size(left)}, and the server's processes alone need about "
            f"{units.show_size(spec.needs(server))}"
        )
    return ""


def _no_direct(context: Context) -> str:
    keys = _keys(context)
    if "direct" not in keys.memory:
        return f"{context.engine.title} has no direct I/O setting in its engine.toml"
    since = keys.of("direct").since
    if context.server.version < since:
        return (
            f"direct I/O came with {context.engine.title} {since}, "
            f"and this one is {context.server.version}"
        )
    return ""


def _no_direct_reads(wanted: TableSet, context: Context) -> str:
    """Return why the file system of the tables refuses direct I/O, "" if it does not."""
    with context.database() as database:
        files = _files(database, wanted, context)
    for file in files[:1]:
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            return f"the file system refuses direct I/O ({error.strerror}) for {file}"
    return ""


def _keys(context: Context) -> Sessions:
    return context.engine.spec.sessions


def run(spec: Spec, context: Context) -> None:
    """Load the tables if they are not there, bring memory into the state asked for, and measure."""
    check(spec, context)
    spec, instead = _possible(spec, context)
    wanted = spec.tables(context.engine.block_size)
    findings = context.findings
    findings.writes = spec.update_pct > 0
    # With the server's ordinary settings: direct I/O would write block by block.
    findings.notes += _provide(wanted, context)
    refused = _no_direct_reads(wanted, context) if spec.memory == "direct" else ""
    if refused:
        spec, instead = _instead_of_direct(refused, spec, context)
    settings = _settings(spec, context)
    with _serving(settings, context), context.database() as database:
        files = _files(database, wanted, context)
        with _bounded(spec, context) as taken:
            cold = _temperature(spec, files, context)
            with _memory_told(taken):
                window = _measure(spec, wanted, context, database)
            findings.notes += _displaced(spec, files)
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    _record(spec, context, window, cold)
    findings.facts |= {f"settings.{name}": shown[name] for name in settings if name in shown}
    findings.facts |= {
        "memory.kind": spec.memory,
        "block_size_bytes": context.engine.block_size,
    }
    if taken:
        findings.facts |= {"memory.bytes": taken.bytes, "memory.how": taken.how}
    # First of all that there is to say.
    findings.notes[:0] = instead


# Before the window


@contextlib.contextmanager
def _serving(settings: Mapping[str, str], context: Context) -> Iterator[None]:
    """Have the server run with these settings, where it is ours."""
    if context.server.can_stop:
        with context.server.settings(settings):
            yield
        return
    context.findings.note(
        "the server's own settings were left as they are: it is not replayer's own"
    )
    yield


def _provide(wanted: TableSet, context: Context) -> list[str]:
    """See to it that the tables are there and as the method needs them; return what was done."""
    notes = []
    with context.database() as database:
        pgio.refuse_foreign(database, wanted)
        flaws = pgio.flaws(database, wanted)
        if flaws:
            seconds = _load(database, wanted, context, flaws[0])
            notes.append(f"the tables were loaded in {seconds:.1f} s ({flaws[0]})")
            flaws = pgio.flaws(database, wanted)
        if flaws:
            raise ReplayerError(f"the layout of the tables is not as it must be: {flaws[0]}")
        for name in wanted.names:
            database.execute(_PROCEDURE, {"table": name})
    return notes


def _load(database: Database, wanted: TableSet, context: Context, why: str) -> float:
    """Drop what there is of the tables and load them; return the seconds."""
    began = time.monotonic()
    context.progress.say(f"loading {wanted.tables} tables of {wanted.rows:,} blocks: {why}")
    pgio.drop(database)
    _check_space(database, wanted, context)
    sessions = min(wanted.tables, max(2, os.cpu_count() or 1), _LOADERS)
    with context.progress.task("load tables", wanted.tables * wanted.rows) as task:
        for rows in pgio.load(database, wanted, sessions, f"replayer {__version__}"):
            task.advance(rows)
    try:
        database.execute(_FLUSH)
    except ReplayerError as error:
        context.progress.say(f"what was loaded may still be written during the run: {error}")
    return time.monotonic() - began


def _check_space(database: Database, wanted: TableSet, context: Context) -> None:
    folder = context.server.data_directory()
    if folder is None:
        return
    # The index takes about 1 percent, vacuum's maps and the log of it less than that.
    needed = int(wanted.tables * wanted.rows * database.engine.block_size * 1.03) + 64 * _MIB
    free = free_bytes(folder)
    if free < needed:
        raise Impossible(
            f"loading {wanted.tables} tables of {wanted.rows:,} blocks needs "
            f"{units.show_size(needed)} and {folder} has {units.show_size(free)} free: "
            f"make scale or num_schemas smaller"
        )


def _settings(spec: Spec, context: Context) -> dict[str, str]:
    """Return the server settings of a run."""
    keys, server = _keys(context), _ServerMemory.of(context)
    settings = {
        name: setting.value
        for name, setting in keys.settings.items()
        if context.server.version >= setting.since
    }
    settings |= keys.of(spec.memory).settings
    if keys.buffers:
        size = spec.buffers(server.block_size, server.least_buffers)
        settings[keys.buffers.setting] = f"{size >> 10}{keys.buffers.unit}"
    if keys.connections and spec.sessions > _ORDINARY_SESSIONS:
        settings[keys.connections] = str(spec.sessions + 50)
    return settings


def _files(database: Database, wanted: TableSet, context: Context) -> list[Path]:
    """Return every file of the tables and their indexes; [] if they are not on this machine."""
    folder = context.server.data_directory()
    if folder is None:
        return []
    return [
        file
        for name in wanted.names
        for file in relations.files(database, folder, pgio.FILES, name=name)
    ]


@contextlib.contextmanager
def _bounded(spec: Spec, context: Context) -> Iterator[memory_bound.Bound | None]:
    if spec.memory not in memory_bound.KINDS:
        yield None
        return
    limit = spec.limit(_ServerMemory.of(context))
    with memory_bound.bound(
        spec.memory, context.server, context.host, limit_bytes=limit, keep_bytes=spec.keep
    ) as taken:
        yield taken


@contextlib.contextmanager
def _memory_told(taken: memory_bound.Bound | None) -> Iterator[None]:
    """Say so when it was the limit that ended the server."""
    try:
        yield
    except ReplayerError as error:
        killed = memory_bound.killed_for_memory(taken) if taken else 0
        if not killed:
            raise
        raise ReplayerError(
            f"the kernel killed {killed} server processes for want of memory in the cgroup: "
            f"set memory_limit higher ({error})"
        ) from error


def _temperature(spec: Spec, files: Sequence[Path], context: Context) -> Cold:
    """Fill the page cache with the tables, or drop them from it, and measure what was achieved.

    A server of replayer's own has just been restarted, so its buffers hold nothing of them.
    """
    ours = context.server.can_stop
    dropped = Temperature.COLD if ours else Temperature.LUKEWARM
    asked = Temperature.HOT if spec.asked is Verdict.CACHED else dropped
    if not files:
        why, todo = context.server.no_files()
        got = Temperature.UNKNOWN
        return Cold(asked=asked, got=got, method="", proof="", why=why, todo=todo)
    total = sum(file.stat().st_size for file in files) if asked is Temperature.HOT else None
    title = "warm page cache" if asked is Temperature.HOT else "drop page cache"
    with context.progress.task(title, total) as task:
        cold = temperature.make_files(
            asked, files, context.host, others=not ours, done=task.advance
        )
    restarted = "server restarted, " if ours else ""
    return cold.model_copy(update={"method": restarted + cold.method})


def _displaced(spec: Spec, files: Sequence[Path]) -> list[str]:
    """Say so if the tables did not stay in the page cache, which explains device reads."""
    if spec.asked is not Verdict.CACHED or not files:
        return []
    share = residency(files).share
    if share is None or share >= temperature.HOT_SHARE:
        return []
    why = "something dropped or displaced the rest meanwhile"
    return [f"only {share:.1%} of the tables was in the page cache at the end: {why}"]


# The window


@dataclass
class _Window:
    """What was measured between the barrier's opening and the last session's end."""

    before: Counters
    after: Counters
    begin_ns: int
    end_ns: int = 0
    results: list[SessionResult] = field(default_factory=list)
    cpu_seconds: float = 0.0
    first_done: float = 0.0
    last_done: float = 0.0
    updated: int = 0
    hot: int = 0
    own: Traffic | None = None
    """What the server's processes read from the device and wrote, if they can be asked."""
    accounts: tuple[foreign.Point, foreign.Point] | None = None
    """The accounts of everybody at both ends."""
    slice_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the length by the server's clock."""
        return self.after.clock - self.before.clock


def _counters(database: Database) -> Counters:
    """Return the server's counters and clock; what this connection itself reads is in them.

    That is a handful of catalogue blocks for each poll, against the sessions' hundred thousands.
    """
    row = database.execute(protocol.COUNTERS)[0]
    return Counters(float(row["clock"]), int(row["hits"]), int(row["reads"]))


def _settled(database: Database) -> Counters:
    """Return the counters when they no longer move, on a server that is late in counting."""
    found = _counters(database)
    if database.engine.verb(_SETTLE) is None:
        return found
    for _ in range(_SETTLE_TRIES):
        time.sleep(_SETTLE_SECONDS)
        earlier, found = found, _counters(database)
        if (found.hits, found.reads) == (earlier.hits, earlier.reads):
            break
    return found


def _measure(spec: Spec, wanted: TableSet, context: Context, database: Database) -> _Window:
    """Connect every session, open the barrier, watch; read the counters after the last slice."""
    slice_seconds = min(_LONGEST_SLICE, max(_SHORTEST_SLICE, spec.sessions / 32))
    jobs = list(_jobs(spec, wanted, database, slice_seconds))
    pool = WorkerPool(
        pgio.session,
        jobs,
        processes=math.ceil(len(jobs) / pgio.SESSIONS_PER_PROCESS),
        awaited=database.waiting(),
    )
    with pool:
        with context.progress.task(f"connect {len(jobs)} sessions"):
            pool.ready(timeout=60 + len(jobs))
        updates = database.execute(_UPDATES)[0]
        first = foreign.point(context.host, foreign.pids_of(context.server))
        before = _settled(database)
        cpu = _own_cpu()
        begin_ns = context.sampler.mark()
        window = _Window(before, before, begin_ns, slice_seconds=slice_seconds)
        opened_ns = pool.open()
        _watch(pool, spec, context, database, window)
        results = pool.results()
        window.end_ns = context.sampler.mark()
        window.after = _settled(database)
        last = foreign.point(context.host, foreign.pids_of(context.server))
        window.accounts = (first, last)
        window.own = foreign.server_moved(first, last)
        window.cpu_seconds = sum(pool.usage) + _own_cpu() - cpu
        window.first_done = ((pool.first_done_ns or opened_ns) - opened_ns) / 1e9
        window.last_done = ((pool.last_done_ns or opened_ns) - opened_ns) / 1e9
    window.results = [result for result in results if isinstance(result, SessionResult)]
    _refuse_lost([result for result in results if isinstance(result, Lost)], len(jobs), context)
    if database.engine.verb(_SETTLE) is not None:
        # Counted late, but done by then: the last slice's end closes the window.
        ended = max(result.ended for result in window.results)
        window.after = Counters(ended, window.after.hits, window.after.reads)
    moved = database.execute(_UPDATES)[0]
    window.updated = moved["updated"] - updates["updated"]
    window.hot = moved["hot"] - updates["hot"]
    return window


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _watch(
    pool: WorkerPool, spec: Spec, context: Context, database: Database, window: _Window
) -> None:
    """Poll the server's counters once a second until all sessions are done."""
    lost: list[Lost] = []
    patience = math.inf
    last = window.before
    total = spec.run_time if spec.operations is None else None
    with context.progress.task("sessions", total) as task:
        for said in pool.reports(timeout=1.0):
            if isinstance(said, Lost):
                lost.append(said)
                patience = min(patience, time.monotonic() + _GRACE)
            elif not lost:
                point = _counters(database)
                now = ledger.riops(last, point)
                task.update(done=point.clock - window.before.clock, note=f"{now:,.0f} RIOPS")
                last = point
            if time.monotonic() > patience:
                break
    _refuse_lost(lost, spec.sessions, context)


def _refuse_lost(lost: Sequence[Lost], sessions: int, context: Context) -> None:
    if lost:
        said = context.server.last_words()
        ending = f"; the server's log says: {said}" if said else ""
        raise ReplayerError(
            f"{len(lost)} of {sessions} sessions lost the server ({lost[0].why}){ending}"
        )


def _jobs(
    spec: Spec, wanted: TableSet, database: Database, slice_seconds: float
) -> Iterator[SessionJob]:
    connector = database.connector()
    number = 0
    for thread in range(spec.num_threads):
        for table in wanted.names:
            number += 1
            share = (number - 0.5) / spec.sessions
            yield SessionJob(
                number=number,
                table=table,
                connector=connector,
                first=_told(database, _ACCESS[spec.access]) + _told(database, _NAME, number=number),
                slice=_told(database, _SLICE, table=table)[0],
                seed=_told(database, _SEED)[0],
                settle=_told(database, _SETTLE),
                plan=(
                    _told(database, _PLAN, table=table, work_unit=spec.work_unit)
                    if thread == 0 and table == wanted.names[0]
                    else ()
                ),
                numbers={
                    "work_unit": spec.work_unit,
                    "update_work_unit": spec.update_work_unit,
                    "rows": wanted.rows,
                    "update_pct": spec.update_pct,
                },
                random_seed=_random_seed(spec.seed, number),
                run_time=None if spec.operations else spec.run_time,
                operations=spec.operations,
                slice_seconds=slice_seconds,
                first_slice_seconds=slice_seconds * share,
            )


def _told(database: Database, verb: Asked, **holes: str | int) -> tuple[str, ...]:
    found = database.engine.verb(verb)
    if found is None:
        return ()
    return tuple(database.render(statement) for statement in found.statements(**holes))


def _random_seed(seed: int, number: int) -> float:
    """Return a number from -1 to 1 that is each session's own and the same in every run."""
    drawn = hashlib.blake2b(f"{seed} session {number}".encode(), digest_size=6).digest()
    return int.from_bytes(drawn, "little") / (1 << 47) - 1


# The result


def _record(spec: Spec, context: Context, window: _Window, cold: Cold) -> None:
    """Write what the window came to into the findings."""
    findings = context.findings
    delta = context.sampler.device_delta(window.begin_ns, window.end_ns)
    local = context.server.data_directory() is not None
    balance = ledger.balance(
        spec.asked,
        window.seconds,
        window.after.reads - window.before.reads,
        window.after.hits - window.before.hits,
        delta if local else None,
        context.sampler.device if local else None,
        context.engine.block_size,
        own_bytes=window.own.read_bytes if window.own else None,
        own_write_bytes=window.own.write_bytes if window.own else 0,
    )
    histograms = _histograms(window.results)
    _measure_rates(findings, spec, window, balance)
    _measure_latency(findings, window, histograms["all"])
    for kind in ("select", "update"):
        findings.histogram(kind, histograms[kind])
    device_bytes = None if delta is None or not local else delta.read_bytes
    findings.cold = cold.model_copy(
        update={
            "device_bytes": device_bytes,
            "own_bytes": window.own.read_bytes if window.own else None,
        }
    )
    findings.ledger = balance
    findings.foreign = _foreign(window, delta if local else None)
    findings.reads = _physical_reads(spec, context, balance)
    findings.series = _series(context, window)
    for result in window.results:
        findings.row("sessions", **_detail(result))
    _tell(findings, spec, context, window)
    findings.steady = _steadiness(window)
    if findings.steady.settled is False:
        words, rule = findings.steady.words, findings.steady.rule
        findings.note(f"RIOPS were {words} ({rule}): let it run longer")
    findings.notes += [*_update_notes(spec, window), *_count_notes(context)]


_RIOPS = "sessions.riops"
"""The number of a sessions step; a statement has so many blocks, so that others repeat it."""


def _foreign(window: _Window, delta: DeviceDelta | None) -> Foreign | None:
    if window.accounts is None:
        return None
    return foreign.between(*window.accounts, delta)


def _physical_reads(spec: Spec, context: Context, balance: Ledger) -> Reads | None:
    """Return the sessions' reads where they were the device's: one block at a time each."""
    if balance.verdict is not Verdict.PHYSICAL or balance.device is None:
        return None
    return Reads(
        per_second=balance.riops,
        block_bytes=context.engine.block_size,
        depth=spec.sessions,
        access="random",
        device=balance.device,
    )


def _measure_rates(findings: Findings, spec: Spec, window: _Window, balance: Ledger) -> None:
    # Where hardly a block was missed, the few that were are no measure of anything.
    buffered = balance.verdict is Verdict.BUFFERED
    findings.measure(_RIOPS, balance.riops, "1/s", Better.NEITHER if buffered else Better.MORE)
    findings.measure("sessions.cache_hits", balance.buffer_hits, "1/s", Better.NEITHER)
    if balance.device_reads is not None:
        findings.measure("sessions.device_reads", balance.device_reads, "1/s", Better.NEITHER)
    operations = sum(result.operations for result in window.results)
    per_second = operations / window.seconds
    says = "" if buffered else _RIOPS
    findings.measure("sessions.operations", per_second, "1/s", says=says)
    if spec.operations is not None:
        says = says or "sessions.operations"
        findings.measure("sessions.elapsed", window.seconds, "s", Better.LESS, says=says)


def _measure_latency(findings: Findings, window: _Window, every: HdrHistogram) -> None:
    for name, percentile in _PERCENTILES.items():
        value = every.get_value_at_percentile(percentile) / 1e9
        findings.measure(f"sessions.latency.{name}", value, "s", Better.LESS)
    longest = max(max(result.select_max, result.update_max) for result in window.results)
    findings.measure("sessions.latency.max", longest, "s", Better.LESS)
    cores = window.cpu_seconds / window.seconds
    findings.measure("sessions.client_cpu", cores, "cores", Better.LESS)


def _histograms(results: Sequence[SessionResult]) -> dict[str, Any]:
    """Return HdrHistograms in nanoseconds of the selects, the updates and all of them."""
    found = {kind: HdrHistogram(1, _LARGEST_NS, 3) for kind in ("select", "update", "all")}
    for kind in ("select", "update"):
        longest = max(getattr(result, f"{kind}_max") for result in results)
        buckets: dict[int, int] = {}
        for result in results:
            pgio.merge(buckets, getattr(result, kind).items())
        for bucket, amount in buckets.items():
            for name in (kind, "all"):
                found[name].record_value(_middle(bucket, longest), amount)
    return found


def _middle(bucket: int, longest: float) -> int:
    """Return the nanoseconds that stand for a bucket of the slice's histogram, at least one."""
    seconds = (math.exp((bucket + 0.5) / 50) - 1) * 1e-6
    return min(_LARGEST_NS, max(1, round(min(seconds, longest) * 1e9)))


def _steadiness(window: _Window) -> Steadiness:
    """Return whether RIOPS were steady, by the rule of steadiness.trend."""
    reads = _progress(window, "reads", 1.0)
    # The last point closes the window, and what it ends is no whole second.
    rates = [other - one for (_, one), (_, other) in itertools.pairwise(reads[:-1])]
    if len(rates) < steadiness.LEAST_SECONDS:
        return Steadiness(settled=None, words=f"too short to tell: {len(rates)} seconds")
    moved = steadiness.trend(rates)
    if moved is not None:
        return Steadiness(
            settled=False,
            words=f"drifting by {moved.share:+.0%} from second {moved.begin} to {moved.end}",
            rule="a line moved by more than 5 % and 2.6 standard errors",
        )
    if steadiness.wild(rates):
        rule = f"over {steadiness.WILD:.0%} of noise from second to second"
        return Steadiness(settled=False, words="never steady", rule=rule)
    return Steadiness(settled=True, words="steady")


def _series(context: Context, window: _Window) -> Series:
    return context.sampler.series(
        window.begin_ns,
        window.end_ns,
        {
            "sessions.riops": _progress(window, "reads", _GRID_SECONDS),
            "sessions.cache_hits": _progress(window, "hits", _GRID_SECONDS),
        },
    )


def _progress(window: _Window, counted: str, step: float) -> list[tuple[int, float]]:
    """Return a counter of the whole window as points of (our clock in ns, total), `step` s apart.

    The server's counters move when a slice ends.  What a slice did is spread evenly over its time
    here, and all of it scaled to what the server's counters moved.
    """
    first, seconds = window.before.clock, window.seconds
    bins = [0.0] * max(1, math.ceil(seconds / step))
    for result in window.results:
        for done in result.slices:
            _spread(bins, step, done.began - first, done.ended - first, getattr(done, counted))
    known = sum(bins)
    moved = getattr(window.after, counted) - getattr(window.before, counted)
    ends = [min(seconds, step * number) for number in range(len(bins) + 1)]
    totals = itertools.accumulate(bins, initial=0.0)
    scale = moved / known if known else 0.0
    return [
        (window.begin_ns + round(end * 1e9), total * scale)
        for end, total in zip(ends, totals, strict=True)
    ]


def _spread(bins: list[float], step: float, began: float, ended: float, amount: float) -> None:
    """Add an amount to the bins that a time from `began` to `ended` touches, by their shares."""
    last = len(bins) - 1
    if ended <= began:
        bins[min(last, max(0, int(ended / step)))] += amount
        return
    for number in range(max(0, int(began / step)), min(last, int(ended / step)) + 1):
        end = math.inf if number == last else step * (number + 1)
        inside = min(ended, end) - max(began, step * number)
        bins[number] += amount * max(0.0, inside) / (ended - began)


def pgio_line(name: str, spec: Spec, seconds: float, riops: float, cache_hits: float) -> str:
    """Return the line that pgio's users look for, byte for byte; numbers are cut as by %ld."""
    return (
        f"DBNAME:  {name}. {spec.num_schemas} schemas, {spec.num_threads} threads(each). "
        f"Run time: {int(seconds)} seconds. "
        f"RIOPS >{int(riops)}< CACHE_HITS/s >{int(cache_hits)}<"
    )


def _tell(findings: Findings, spec: Spec, context: Context, window: _Window) -> None:
    """Add pgio's line and what else is known of the window."""
    riops = ledger.riops(window.before, window.after)
    hits = ledger.cache_hits(window.before, window.after)
    # Nobody chose the name of a private server's database; pgio's own is looked for.
    name = "pgio" if context.server.can_stop else str(context.server.start().database)
    findings.lines("pgio", [pgio_line(name, spec, window.seconds, riops, hits)])
    findings.facts |= {
        "sessions.window_s": round(window.seconds, 3),
        "sessions.first_done_s": round(window.first_done, 3),
        "sessions.last_done_s": round(window.last_done, 3),
        "sessions.slice_s": window.slice_seconds,
        "sessions.plan": window.results[0].plan,
        "sessions.deadlocks": sum(result.deadlocks for result in window.results),
    }
    if window.updated:
        findings.facts["sessions.hot_update_share"] = round(window.hot / window.updated, 4)


def _detail(result: SessionResult) -> dict[str, Any]:
    """Return one session's row, as pgio_session_detail.out has it, and what else is known."""
    return {
        "session": result.number,
        "table": result.table,
        "operations": result.operations,
        "selects": result.selects,
        "updates": result.updates,
        "select_max_s": result.select_max,
        "update_max_s": result.update_max,
        "select_blocks": result.select_blocks,
        "update_blocks": result.update_blocks,
        "deadlocks": result.deadlocks,
        "seconds": round(result.ended - result.began, 6),
    }


def _update_notes(spec: Spec, window: _Window) -> list[str]:
    if not spec.update_pct or not window.updated or window.hot >= 0.99 * window.updated:
        return []
    share = window.hot / window.updated
    grown = "the tables grow, and the next run will load them anew"
    return [f"only {share:.0%} of the updated rows stayed in their blocks (HOT): {grown}"]


def _count_notes(context: Context) -> list[str]:
    """Say what else is in the server's counters."""
    if context.engine.verb(_SETTLE) is None:
        return []
    return ["this server counts late: the counters were read when they stopped moving"]
