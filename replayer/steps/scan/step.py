"""Scan the table with the database, usually from disk: what the engine adds to the kernel's time.

Before each statement, the table is dropped from memory, or read into it if the key `cold` is hot.
The server is started before the clock.  What it reads of the table by starting counts as data in
memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replayer.conditions import temperature
from replayer.conditions.residency import Residency, residency
from replayer.engines.connection import Database, Row
from replayer.engines.verbs import VerbName
from replayer.load import other_sessions
from replayer.load.machine_usage import block_counters
from replayer.load.other_sessions import OthersActivity
from replayer.model import Better, Cold, Foreign, StepSpec, Temperature
from replayer.run.context import Context
from replayer.run.step_recorder import MeasuredWindow
from replayer.servers import protocol
from replayer.tables import buffers, checksum, persons, relations
from replayer.units import show_size
from replayer.watch import interference, ledger

_FULL = "full count"
_STATEMENTS = {"avg": VerbName("table/scan"), _FULL: VerbName("table/count")}
"""Name of a statement in the report -> its verb; the last one reads all of the table."""
_READ_AT_LEAST = 0.5
"""The least share of the stored bytes of the table's files that a full count must read.

It need not read the indexes in them."""
_WARM_UP = VerbName("table/warm_up")
_BUFFERED = VerbName("buffered")
_AROUND = 0.05
"""If the page cache grew by no more than this share of the server's reads, the server bypasses
it."""


class Spec(StepSpec):
    """The keys of the step `scan`, which reads the table by SQL statements."""

    cold: Temperature = Temperature.COLD
    """cold: the table is dropped from memory before each statement; hot: its files are read into
    the page cache before."""


@dataclass(frozen=True, slots=True)
class _Scanned:
    """One statement that scanned the table, with the time and the reads that were measured.

    `begin_ns` and `end_ns` are by the monotonic clock.  `cold` shows how much was in memory before
    it, `foreign` the work of other programs during it.  `row` is its answer.  `device_bytes` is all
    that the disk read in this time; None if the disk is not known.
    """

    name: str
    cold: Cold
    foreign: Foreign
    begin_ns: int
    end_ns: int
    row: Row
    device_bytes: int | None
    read_bytes: int | None
    """Bytes that the statement had to read, by the growth of the page cache or by the blocks that
    the server missed; None if the page cache cannot be measured."""

    @property
    def seconds(self) -> float:
        """Return the seconds that the statement took."""
        return (self.end_ns - self.begin_ns) / 1e9


def describe(spec: Spec) -> str:
    """Return a sentence on the scan for its key `cold`: data in memory, on disk, or as it is."""
    if spec.cold is Temperature.HOT:
        return "Scan the table with the database, data in memory: measures processor and engine"
    if spec.cold is Temperature.COLD:
        return "Scan the table with the database, from cold: the engine's cost on top of the disk's"
    return "Scan the table with the database, as it lies in memory and on the disk"


def run(spec: Spec, context: Context) -> None:
    """Execute two statements that scan the table, and record their time and reads.

    Before each statement, the table is dropped from memory or read into it, as the key `cold` asks.
    """
    files: list[Path] = []
    with context.database() as database:
        state = persons.needs(database)
        folder = context.server.data_directory()
        if folder is not None:
            files = relations.files(database, folder)
        sums = checksum.expected(database, state)
        persons.execute_if_known(database, _WARM_UP)
    with context.progress.task("scan", total=len(_STATEMENTS)) as task:
        scanned: list[_Scanned] = []
        for name, verb in _STATEMENTS.items():
            task.update(note=f"{name} of {state.rows:,} rows")
            scanned.append(_scan(spec, context, files, name, verb))
            task.advance(1)
    checksum.check(scanned[-1].row, state.rows, sums)
    findings = context.findings
    findings.measure("scan.elapsed", sum(one.seconds for one in scanned), "s", Better.LESS)
    findings.cold = _warmest(scanned)
    findings.foreign = interference.busiest([one.foreign for one in scanned])
    findings.series = context.sampler.series(scanned[0].begin_ns, scanned[-1].end_ns)
    findings.window = _window(scanned, state.rows)
    for one in scanned:
        findings.row("statements", **_row(one, state.rows))
    findings.facts |= {"layout": state.shape.layout, "rows": state.rows}


def _scan(spec: Spec, context: Context, files: list[Path], name: str, verb: VerbName) -> _Scanned:
    cold = _made(spec, context, files)
    with context.database() as database:
        cold, before = _after_start(cold, files, database)
        counters = _counters(database)
        others_before = other_sessions.look(database)
        first = context.account()
        begin = context.sampler.mark()
        row = database.row(verb)
        end = context.sampler.mark()
        last = context.account()
        after = residency(files).resident_bytes
        counted = _counters(database)
        their_bytes, uncounted = _theirs(database, others_before, cold)
        block = database.engine.block_size
    # A remote server's machine has other devices.
    delta = context.sampler.device_delta(begin, end) if files else None
    read = delta.read_bytes if delta is not None else None
    own = interference.server_moved(first, last)
    missed = max(0, counted.reads - counters.reads) * block
    needed = None if after is None or before is None else _needed(after - before, missed)
    brought = max(needed or 0, own.read_bytes if own is not None else 0)
    # Each statement reads a column of all rows: one that read nothing had it in memory.
    nothing = needed is not None and needed <= temperature.COLD_SHARE * (cold.file_bytes or 0)
    cold = temperature.finish(
        cold,
        read,
        own.read_bytes if own is not None else None,
        needed_bytes=None if nothing else needed,
    )
    apart = ledger.missed_apart(counters, counted) * block
    cold = _less_apart(cold, apart, None if nothing else needed)
    if name == _FULL and needed is not None:
        cold = _held_against_the_table(cold, brought)
    cold = _beside(cold, their_bytes, uncounted)
    others = interference.between(first, last, delta)
    return _Scanned(name, cold, others, begin, end, row, read, needed)


def _held_against_the_table(cold: Cold, brought: int) -> Cold:
    """Return `cold`, changed to lukewarm if a statement that reads the whole table read too little.

    `cold` is the temperature of the table for the statement, `brought` is the bytes that it read.
    Less than half of the table's bytes on disk are too little; the result then has the reason.
    """
    stored = cold.stored_bytes or 0
    if cold.got is not Temperature.COLD or brought >= _READ_AT_LEAST * stored:
        return cold
    why = (
        f"the statement that reads all of the table read {show_size(brought)} of "
        f"{show_size(stored)}: it was answered without reading the table"
    )
    todo = "have the engine's table/count read every value"
    return cold.model_copy(update={"got": Temperature.LUKEWARM, "why": why, "todo": todo})


def _theirs(database: Database, before: OthersActivity | None, cold: Cold) -> tuple[int, int]:
    """Return (bytes that other sessions read meanwhile, number of sessions with unknown reads).

    `before` is the activity of other sessions before the statement.
    """
    block = database.engine.block_size
    proven = cold.got is Temperature.COLD
    after, uncounted = other_sessions.look_counted(
        database, before if proven else None, _spare(cold) / block
    )
    work = other_sessions.work_between(before, after)
    return (work.reads or 0) * block if work else 0, uncounted


def _spare(cold: Cold) -> float:
    """Return the limit in bytes of what may come from memory in a scan that counts as cold.

    It is one twentieth of the table's bytes on disk.  Reads of other sessions are compared with the
    same limit.
    """
    return (1 - temperature.DEVICE_SHARE) * (cold.stored_bytes or 0)


def _beside(cold: Cold, their_bytes: int, uncounted: int) -> Cold:
    """Return `cold`, changed to `unknown` if other sessions hide how much a statement read itself.

    The server counts the reads of all sessions together.  `their_bytes` were read by other
    sessions; `uncounted` is the number of sessions whose reads are not known.  If `their_bytes` are
    many, or any session is uncounted, the server's reads do not prove that the table was cold for
    this statement.
    """
    many = their_bytes > _spare(cold)
    if cold.got is not Temperature.COLD or not (many or uncounted):
        return cold
    if many:
        read = f"read {show_size(their_bytes)} meanwhile, which may have been of this table"
    else:
        read = "worked or left meanwhile, and the server has not counted what they read"
    why = f"other sessions of this database {read}"
    todo = (
        "stop what else uses this database; `replayer check --engine URL` shows whether this user "
        "lacks the right to see when it works"
    )
    return cold.model_copy(update={"got": Temperature.UNKNOWN, "why": why, "todo": todo})


def _less_apart(cold: Cold, apart_bytes: int, needed_bytes: int | None) -> Cold:
    """Return `cold`, changed to `unknown` if reads for other databases may be its only proof.

    The server's processes read for all of its databases.  `apart_bytes` were missing in its buffers
    for the others, and may have come from the device.  What is left must be enough for the
    `needed_bytes` of the statement.
    """
    delivered = cold.device_bytes if cold.own_bytes is None else cold.own_bytes
    needed = (cold.stored_bytes or 0) if needed_bytes is None else needed_bytes
    if cold.got is not Temperature.COLD or not apart_bytes or delivered is None:
        return cold
    if delivered - ledger.COUNTED_LATE * apart_bytes >= temperature.DEVICE_SHARE * needed:
        return cold
    what = f"{show_size(apart_bytes)} were read for other databases of this server meanwhile"
    if apart_bytes >= ledger.UNCOUNTED:
        what = "a statement for another database of this server had not ended"
    why = f"{what}, and how much of the device's reads was for it is not known"
    todo = "stop what uses the other databases of this server"
    return cold.model_copy(update={"got": Temperature.UNKNOWN, "why": why, "todo": todo})


def _needed(grew: int, missed: int) -> int:
    """Return the bytes that a statement had to read from disk: `grew` or `missed`.

    `grew` is the growth of the page cache in bytes.  `missed` is the server's count of bytes read.
    It includes all users and may come late, so it is used only if the server bypasses the page
    cache.
    """
    return missed if grew <= _AROUND * missed else grew


def _made(spec: Spec, context: Context, files: list[Path]) -> Cold:
    """Drop the table from memory, or read it into memory, as the key `cold` asks.

    Returns the temperature that was reached: how much of `files` is in memory.  It is `unknown` if
    there are no files, because they cannot be reached from here.
    """
    if files:
        return temperature.make(spec.cold, context.server, files, context.host)
    why, todo = context.server.explain_missing_files()
    got = Temperature.UNKNOWN
    return Cold(asked=spec.cold, got=got, method="nothing", proof="", why=why, todo=todo)


def _counters(database: Database) -> ledger.ServerCounters:
    """Return the server's counters of blocks, all 0 if it does not count them."""
    if database.engine.verb(protocol.COUNTERS) is None:
        return ledger.ServerCounters(0, 0, 0)
    return block_counters(database)


def _after_start(cold: Cold, files: list[Path], database: Database) -> tuple[Cold, int | None]:
    """Return the table's temperature just before a statement, and its bytes in the page cache.

    `cold` is the temperature before the server was started.  Its start and its other users may have
    read some of the table.  The bytes are None if they cannot be measured.
    """
    seen = residency(files)
    if cold.got is Temperature.COLD and (seen.share or 0.0) > temperature.COLD_SHARE:
        # A server that opens one large file has some MiB of it read ahead, which it never uses.
        cold = cold.model_copy(
            update={"method": f"{cold.method}, server started, {temperature.forget(files)}"}
        )
        seen = residency(files)
    if seen.resident_bytes is None or seen.share is None:
        return cold, None
    achieved = cold.model_copy(update={"resident_bytes": seen.resident_bytes})
    if cold.asked is Temperature.HOT and cold.got is Temperature.LUKEWARM:
        why = f"when the statement began, {seen.share:.1%} of the table was in the page cache"
        return achieved.model_copy(update={"why": why}), seen.resident_bytes
    held = _held(seen, database) if cold.got is Temperature.COLD else ""
    if held:
        why = f"when the statement began, {held}: the server read it by starting, or for others"
        achieved = achieved.model_copy(update={"got": Temperature.LUKEWARM, "why": why})
    return achieved, seen.resident_bytes


def _held(seen: Residency, database: Database) -> str:
    """Return as text how much of the table is in memory.

    Returns "" if that is little enough for cold, or if it is not known.
    """
    share = seen.share or 0.0
    if share > temperature.COLD_SHARE:
        return f"{share:.1%} of the table was in the page cache"
    # A server that bypasses the page cache leaves no trace in it.
    own, _ = buffers.counted(database, _BUFFERED, "bytes")
    if own and own > temperature.COLD_SHARE * seen.file_bytes:
        return f"{show_size(own)} of the table was in the server's own buffers"
    return ""


def _warmest(scanned: Sequence[_Scanned]) -> Cold:
    """Return the temperature of that statement which is furthest from the one asked for.

    `unknown` counts as furthest.  Of equal ones, the last statement's is returned.
    """
    order = [Temperature.COLD, Temperature.LUKEWARM, Temperature.HOT]
    if scanned[0].cold.asked is Temperature.HOT:
        order.reverse()
    order.append(Temperature.UNKNOWN)
    # Of equals take the last one: it read all of the table.
    return max((one.cold for one in reversed(scanned)), key=lambda cold: order.index(cold.got))


def _window(scanned: Sequence[_Scanned], rows: int) -> MeasuredWindow:
    """Return the measured time of the longest of the scans; only this time is analysed.

    The time of all together would include dropping the table from memory between them.  `rows` is
    the number of rows in the table.
    """
    longest = max(scanned, key=lambda one: one.seconds)
    return MeasuredWindow(
        begin_ns=longest.begin_ns,
        end_ns=longest.end_ns,
        operations=rows,
        operation="row",
        sessions=1,
        whose="server",
    )


def _row(one: _Scanned, rows: int) -> dict[str, Any]:
    return {
        "statement": one.name,
        "seconds": one.seconds,
        "rows": rows,
        "rows_per_second": rows / one.seconds,
        "result": str(next(iter(one.row.values()))),
        "file_bytes": one.read_bytes,
        "device_bytes": one.device_bytes,
        "cold": one.cold.got.value,
    }
