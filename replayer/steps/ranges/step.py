"""Read random ranges of the built table by its sort key, from many sessions.

In a columnstore each block holds many rows, so that a session cannot read one block as in the SLOB
method.  Here it asks for a range of neighbouring rows, and the engine reads whole blocks of each
column for it.  The ledger is the balance of these reads.  It compares what the server's processes
asked the kernel for (`rchar` and `syscr` of /proc/PID/io) with what of it a device delivered
(`read_bytes`).
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from replayer.conditions import memory_bound, temperature
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, Skip
from replayer.load import dataset, session_path
from replayer.load.level import LevelRequest, LevelResult, check_ranges, measure_level
from replayer.load.mix import WeightedMix
from replayer.model import Better, Cold, Ledger, ReadOrigin, Temperature
from replayer.run.context import Context
from replayer.run.step_recorder import MeasuredWindow
from replayer.servers import protocol
from replayer.steps.ranges.spec import Spec
from replayer.tables import persons, relations
from replayer.tables.pgio import TableSet
from replayer.units import show_duration, show_size
from replayer.watch import interference, ledger
from replayer.watch.interference import Traffic

_GROUP = "cgroup"
_RANGE = VerbName("table/range")
_IDLE = 50
_LARGER = 4
"""For physical reads, the table must be at least this many times as large as the caches."""


@dataclass(frozen=True, slots=True)
class _Built(TableSet):
    """The table of the step `build` as the only table to read; its rows are numbered from 1."""

    @property
    def names(self) -> list[str]:
        """Return the name of the only table, in a list."""
        return [persons.NAME]


def describe(spec: Spec) -> str:
    """Return a sentence on the step for its key `reads`: rows from memory or from the device."""
    if spec.reads == "cached":
        return "Random ranges of rows, data in memory: measures processor and engine"
    return "Random ranges of rows, past the memory: measures the disk and the engine"


def check(spec: Spec, context: Context) -> None:
    """Raise Skip if the engine cannot read ranges by a sort key, or if reads cannot be counted.

    Also raise Skip if the key `reads` asks for reads from the device, and neither direct I/O of the
    engine nor a limit on its memory is possible.
    """
    check_ranges(context.engine)
    if context.server.data_directory() is None:
        raise Skip("what the server reads cannot be counted: its processes are on another host")
    if spec.reads == "physical" and not _is_direct(context):
        if not context.server.can_stop:
            raise Skip("physical reads need a restart, and this server is not replayer's own")
        refused = memory_bound.refusal(_GROUP, context.host)
        if refused is not None:
            raise Skip(f"{context.engine.title} has no direct I/O, and no cgroup here: {refused}")


def run(spec: Spec, context: Context) -> None:
    """Let sessions read ranges of the table, and record the results.

    Before that, the table is read into the page cache or dropped from it, as the key `reads` asks.
    """
    check(spec, context)
    with context.database() as database:
        rows = persons.needs(database).rows
    if rows < spec.work_unit:
        raise Impossible(f"work_unit = {spec.work_unit:,}, and the table has {rows:,} rows")
    settings = _settings(spec, context)
    with dataset.serving(settings, context), context.database() as database:
        folder = context.server.data_directory()
        files = [] if folder is None else relations.files(database, folder)
        # An error has the name of the verb's file here, which the sessions do not know.
        database.execute(_RANGE, {"table": persons.NAME}, first=1, last=spec.work_unit)
        path = None if database.has_own_sessions else session_path.measure_empty(database)
        idle = _measure_idle(database, context)
        with _bounded(spec, files, context):
            cold = _brought(spec, files, context)
            level = measure_level(_asked(spec, rows), context, database)
        kept = residency(files).share
        shown = {row["name"]: row["value"] for row in database.execute(protocol.SETTINGS)}
    context.findings.facts |= {
        f"settings.{name}": shown[name] for name in settings if name in shown
    }
    _record(spec, context, _without(idle, level), cold)
    if spec.reads == "cached" and kept is not None and kept < temperature.HOT_SHARE:
        context.findings.note(
            f"only {kept:.1%} of the table was in the page cache at the end: something dropped or "
            f"displaced the rest meanwhile"
        )
    if path is not None:
        _tell_path(context, level, path)


def _asked(spec: Spec, rows: int) -> LevelRequest:
    return LevelRequest(
        sessions=spec.sessions,
        seconds=spec.run_time,
        mix=WeightedMix(range=1, work_unit=spec.work_unit),
        tables=_Built(1, rows, spec.seed),
        seed=spec.seed,
        title="ranges",
        by_sort_key=True,
    )


def _is_direct(context: Context) -> bool:
    return bool(context.engine.spec.sessions.of("direct").settings)


def _settings(spec: Spec, context: Context) -> dict[str, str]:
    """Return name -> value of the server's settings that make it read from the device.

    Returns {} if the key `reads` asks for reads from memory.
    """
    if spec.reads == "cached":
        return {}
    keys = context.engine.spec.sessions
    settings = dict(keys.of("direct").settings)
    if keys.buffers:
        size = max(keys.buffers.least, spec.buffers)
        settings[keys.buffers.setting] = f"{size >> 10}{keys.buffers.unit}"
    return settings


@contextlib.contextmanager
def _bounded(spec: Spec, files: list[Path], context: Context) -> Iterator[None]:
    """Limit the server's memory during the `with` block, so that reads must reach the device.

    `files` are the files of the table.  Nothing is limited for reads from memory, or if the engine
    reads with direct I/O.  Raises Skip if the table is too small for the limit.
    """
    context.findings.facts |= {"reads.kind": spec.reads}
    if spec.reads == "cached":
        yield
        return
    if _is_direct(context):
        context.findings.facts |= {"reads.how": "direct I/O of the engine"}
        yield
        return
    keys = context.engine.spec.sessions
    own = max(keys.buffers.least, spec.buffers) if keys.buffers else 0
    cached = own + spec.page_cache
    size = residency(files).file_bytes
    if size < _LARGER * cached:
        raise Skip(
            f"the table has {show_size(size)}, where {show_size(cached)} are left to cache it: "
            f"build at least {_LARGER} times as much, or set buffers and page_cache lower"
        )
    # Memory that the process holds already is not charged to the group.
    limit = cached + keys.memory_per_session * spec.sessions
    changed = partial(context.findings.facts.__setitem__, memory_bound.CHANGED)
    with memory_bound.bound(
        _GROUP, context.server, context.host, limit_bytes=limit, changed=changed
    ) as taken:
        context.findings.facts |= {"reads.how": taken.how, "reads.limit_bytes": taken.bytes}
        yield


def _brought(spec: Spec, files: list[Path], context: Context) -> Cold:
    """Read the table into the page cache, or drop it from there, as the key `reads` asks.

    `files` are the files of the table.  Returns how much of them is in memory after that.
    """
    ours = context.server.can_stop
    wanted = Temperature.HOT if spec.reads == "cached" else Temperature.COLD
    if wanted is Temperature.COLD and ours:
        # Its buffers hold what it read to open the table.
        return temperature.make_files(wanted, files, context.host, others=False)
    return temperature.make_files(wanted, files, context.host, others=not ours)


def _measure_idle(database: Database, context: Context) -> Traffic:
    """Return what the server reads by itself during 50 statements that read no table.

    These are the reads that it asks the kernel for.  For example, ClickHouse reads counters in
    /proc for every statement.
    """
    first = context.account()
    for _ in range(_IDLE):
        database.query("SELECT 1")
    last = context.account()
    return interference.server_moved(first, last) or Traffic(0, 0)


def _without(idle: Traffic, level: LevelResult) -> LevelResult:
    """Return measured results without the reads that the server makes for any statement.

    `idle` are the reads of 50 statements that read no table.  Their mean is subtracted once for
    each statement.
    """
    own, done = level.use.own, level.completed * level.seconds / _IDLE
    if own is None:
        return level
    left = replace(
        own,
        asks=max(0, own.asks - round(done * idle.asks)),
        asked_bytes=max(0, own.asked_bytes - round(done * idle.asked_bytes)),
    )
    return replace(level, use=replace(level.use, own=left))


def _record(spec: Spec, context: Context, level: LevelResult, cold: Cold) -> None:
    findings, done = context.findings, level.completed * level.seconds
    use = level.use
    findings.measure("ranges.completed", level.completed, "1/s")
    findings.measure(
        "ranges.rows", level.completed * spec.work_unit, "1/s", says="ranges.completed"
    )
    findings.percentiles("ranges.service", level.service)
    findings.histogram("service", level.service)
    own = use.own
    if own is not None and done:
        findings.measure("ranges.asked_bytes", own.asked_bytes / done, "bytes", Better.LESS)
        findings.measure("ranges.device_bytes", own.read_bytes / done, "bytes", Better.NEITHER)
    if use.server is not None and level.completed:
        findings.measure("ranges.server_cpu", use.server / level.completed, "s", Better.LESS)
    findings.measure("ranges.client_cpu", use.client / max(1e-9, level.completed), "s", Better.LESS)
    findings.cold = cold.model_copy(
        update={
            "device_bytes": use.device.read_bytes if use.device else None,
            "own_bytes": own.read_bytes if own is not None else None,
        }
    )
    findings.ledger = _balance(spec, context, level)
    findings.foreign = use.foreign
    findings.series = context.sampler.series(level.begin_ns, level.end_ns)
    findings.window = MeasuredWindow(
        begin_ns=level.begin_ns,
        end_ns=level.end_ns,
        operations=done,
        operation="range",
        sessions=spec.sessions,
        whose="server",
    )
    findings.facts |= {"rows": level.asked.tables.rows, "work_unit": spec.work_unit}


def _balance(spec: Spec, context: Context, level: LevelResult) -> Ledger | None:
    """Return the ledger: reads per second from the engine's buffers, the page cache and the device.

    One block of the ledger is one read that the server asked the kernel for.  A range without such
    a read counts as found in the engine's own buffers.  The result is None if the reads of the
    server or of the device are not counted.
    """
    own, seconds = level.use.own, level.use.seconds
    if own is None or level.use.device is None:
        return None
    ranges = round(level.completed * level.seconds)
    block = round(own.asked_bytes / own.asks) if own.asks else context.engine.block_size
    in_buffers = max(0, ranges - own.asks)
    asked = spec.asked
    if asked is ReadOrigin.CACHED and own.asks <= ledger.BUFFERED_AT_MOST * (own.asks + in_buffers):
        asked = ReadOrigin.BUFFERED
    return ledger.balance(
        asked,
        seconds,
        own.asks,
        in_buffers,
        level.use.device,
        context.sampler.device,
        max(1, block),
        own_bytes=own.read_bytes,
        own_write_bytes=own.write_bytes,
    )


def _tell_path(context: Context, level: LevelResult, empty_s: float) -> None:
    """Record the time of an empty statement, and a note that the sessions use a Python driver.

    `empty_s` is that time in seconds: the part of each range's time that the driver needs.
    """
    median = level.service.percentile_ns(50) / 1e9
    context.findings.measure("ranges.path", empty_s, "s", Better.NEITHER)
    context.findings.note(
        f"the sessions are a driver's cursor (DBAPI), as this wire has no sessions: an empty "
        f"statement takes {show_duration(empty_s)} by it, of {show_duration(median)} for a range; "
        f"{session_path.ON_POSTGRES}"
    )
