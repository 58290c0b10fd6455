"""Keys shared by the steps that run levels of load, and the preparation for these levels.

A step uses `with ready(spec, sessions, context) as (database, asked, _)` and measures variants of
`asked`, with other sessions, seconds and rates.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field

from replayer import units
from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, Interrupted, ReplayerError, Skip
from replayer.load import cpu_burn, dataset
from replayer.load.level import LevelRequest, check
from replayer.load.mix import WeightedMix
from replayer.load.resources import READS, WRITES
from replayer.model import StepSpec, Temperature
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.servers import protocol
from replayer.tables import pgio, relations
from replayer.tables.pgio import TableSet
from replayer.units import show_size

_FILL = VerbName("mix/fill")
_SCAN = VerbName("mix/scan")
_FILLED = 0.95
"""Share of the server's buffers to fill: the rest is for indexes."""


def check_scale(value: str | int) -> str | int:
    """Return the size of tables unchanged; raise ValueError if it is not a size above 0."""
    try:
        if units.size(value) <= 0:
            raise ValueError("it must be more than nothing")
    except Impossible as error:
        raise ValueError(str(error)) from error
    return value


def rows_of(scale: str | int, block_size: int) -> int:
    """Return the rows of a table of the size `scale`, which check_scale has accepted.

    A row fills one block of `block_size` bytes.  A number without a unit is one of blocks.
    """
    number = units.size(scale)
    return number // block_size if units.has_unit(scale) else number


class LoadSpec(StepSpec):
    """The tables, the mix of statements on them, and how they are kept in memory."""

    mix: WeightedMix = WeightedMix(point=1)
    """Kinds of statements with their weights, as `point=70 range=10 update=15 insert=4 scan=1`; the
    step `sessions` describes the other keys of a mix."""
    num_schemas: int = Field(4, ge=1, le=8192)
    """Number of tables."""
    scale: Annotated[str | int, AfterValidator(check_scale)] = "256M"
    """Size of each table: bytes with a unit such as 1G, or a bare number of blocks."""
    seed: int = Field(1, ge=0, le=1 << 31)
    memory: Literal["cached", "direct"] = "cached"
    """`cached` reads blocks that are not in the server's buffers from the page cache, `direct`
    reads them from the device."""
    shared_buffers: units.Size | None = Field(None, ge=128 << 10)
    """Size of the server's own cache; as configured if not given."""
    read_ceiling: float | None = Field(None, gt=0)
    """Reads a second that the data's device can do, if that is known; without it, the limit of the
    server's cgroup, or a probe before this step in the workload, is used."""
    write_ceiling: float | None = Field(None, gt=0)
    """Writes a second that the data's device can do, if that is known; without it, as for reads."""

    @property
    def given_ceilings(self) -> dict[str, float | None]:
        """Return resource -> the limit per second that its key sets; None if it is not given."""
        return {READS: self.read_ceiling, WRITES: self.write_ceiling}

    def tables(self, block_size: int) -> TableSet:
        """Return the tables that the step's keys describe: their number, rows and seed.

        `block_size` is in bytes; each row of a table fills one such block.
        """
        return TableSet(self.num_schemas, rows_of(self.scale, block_size), self.seed)

    def footprint(self, block_size: int) -> Footprint:
        """Return the bytes of the tables on disk, and those that are to stay in the page cache.

        `block_size` is the size of a database block in bytes.
        """
        tables = self.tables(block_size)
        size = tables.tables * tables.rows * block_size
        return Footprint(tables, size, size if self.memory == "cached" else 0)

    def asked(self, block_size: int) -> LevelRequest:
        """Return a request for a level of one session and one second, which the caller adapts.

        `block_size` is the size of a database block in bytes.
        """
        tables = self.tables(block_size)
        return LevelRequest(sessions=1, seconds=1, mix=self.mix, tables=tables, seed=self.seed)


class ServerBuffers(NamedTuple):
    """The server's own buffers when a load begins."""

    bytes: int | None
    """Their size as the server shows it; None if it does not."""
    filled: int
    """Blocks of the tables that were read into them before."""


class Ready(NamedTuple):
    """A server that is ready for levels, and a request for a level, which a step adapts."""

    database: Database
    asked: LevelRequest
    buffers: ServerBuffers


def check_load(spec: LoadSpec, context: Context) -> None:
    """Raise Impossible for tables that are too small or too large, Skip for missing features.

    Direct I/O is a server setting: on a server that is not replayer's own, it is left as it is.
    """
    block_size = context.engine.block_size
    rows = spec.tables(block_size).rows
    if rows < spec.mix.longest:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks, less than one statement of "
            f"{spec.mix.longest:,}"
        )
    if rows > pgio.MOST_ROWS:
        raise Impossible(
            f"scale = {spec.scale!r} is {rows:,} blocks for each table, and at most "
            f"{pgio.MOST_ROWS:,} can be: use more tables (num_schemas)"
        )
    check(spec.asked(block_size), context.engine)
    keys = context.engine.spec.sessions.memory.get("direct")
    if spec.memory == "direct" and context.server.can_stop:
        if keys is None:
            raise Skip(f"{context.engine.title} has no direct I/O setting in its engine.toml")
        if context.server.version < keys.since:
            raise Skip(
                f"direct I/O came with {context.engine.title} {keys.since}, and this one is "
                f"{context.server.version}: memory = 'cached' remains"
            )


@contextlib.contextmanager
def ready(
    spec: LoadSpec, sessions: int, context: Context, *, rate: float | None = None
) -> Iterator[Ready]:
    """Load missing tables, and run the server as the keys require, for the `with` block.

    Yields a connection, a request for a level of load, which the caller adapts, and the server's
    buffers.  `sessions` is the largest number that will connect at a time.  If the mix sets `cpu`,
    it is measured first how much work a statement must do to cost that CPU time: in a closed loop
    if `rate` is None, else at the mix's `cpu_rate`, or at `rate` statements a second if the mix has
    none.
    """
    wanted = spec.tables(context.engine.block_size)
    context.findings.writes = spec.mix.writes
    context.findings.notes += dataset.provide_tables(wanted, context)
    settings = dataset.session_settings(
        context, spec.memory, sessions=sessions, buffers=spec.shared_buffers
    )
    with dataset.serving(settings, context), context.database() as database:
        # A server may round a size, and one that is not replayer's own keeps its settings.
        shown = protocol.read_settings(database, context.findings.facts)
        size, filled = dataset.size_of_buffers(shown, context.engine), 0
        if spec.memory == "cached":
            _warm(wanted, context, database)
        elif spec.shared_buffers is not None:
            filled = _fill(wanted, size or spec.shared_buffers, context, database)
        context.findings.facts |= {
            f"settings.{name}": shown[name] for name in settings if name in shown
        }
        context.findings.facts |= {"memory.kind": spec.memory}
        asked = spec.asked(context.engine.block_size)
        if spec.mix.cpu:
            loaded = replace(asked, rate=rate, sessions=sessions)
            burnt = cpu_burn.calibrate(loaded, context, database)
            context.findings.note(burnt.words)
            context.findings.facts |= burnt.facts
            asked = replace(asked, burn=burnt.units)
        context.findings.note(f"not tested by this mix: {'; '.join(spec.mix.untested())}")
        yield Ready(database, asked, ServerBuffers(size, filled))


def _warm(wanted: TableSet, context: Context, database: Database) -> None:
    """Read the tables into the page cache, if they are on this machine."""
    folder = context.server.data_directory()
    if folder is None:
        return
    files = [
        file
        for name in wanted.names
        for file in relations.files(database, folder, pgio.FILES, name=name)
    ]
    size = residency(files).file_bytes  # the server may remove a file meanwhile
    pids = context.server.pids()
    limit = context.host.memory_limit_bytes(pids[0]) if pids else None
    if limit is not None and limit < size:
        _warm_by_the_server(wanted, files, context, database)
        context.findings.note(
            f"the server read the tables itself before the load: its cgroup holds "
            f"{show_size(limit)} of their {show_size(size)}"
        )
        return
    with context.progress.task("warm page cache", size) as task:
        context.findings.cold = temperature.make_files(
            Temperature.HOT,
            files,
            context.host,
            others=not context.server.can_stop,
            done=task.advance,
        )


def _warm_by_the_server(
    wanted: TableSet, files: Sequence[Path], context: Context, database: Database
) -> None:
    """Have the server read the tables, so that its cgroup's memory limit holds.

    Pages that another process reads are charged to that process's cgroup, and the server finds them
    in the page cache as well.
    """
    context.findings.cold = temperature.make_files(
        Temperature.COLD, files, context.host, others=not context.server.can_stop
    )
    scan = context.engine.needs(_SCAN)
    with context.progress.task("the server reads the tables", wanted.tables) as task:
        for name in wanted.names:
            database.execute(scan, {"table": name})
            task.advance(1)


def _fill(wanted: TableSet, buffers: int, context: Context, database: Database) -> int:
    """Read as much of each table as fits into the server's own buffers; return the blocks read."""
    block_size = context.engine.block_size
    blocks = min(wanted.rows, int(_FILLED * buffers / block_size / wanted.tables))
    verb = context.engine.verb(_FILL)
    if verb is None or not context.server.can_stop or blocks < 1:
        context.findings.note("the server's buffers were empty when the load began")
        return 0
    try:
        with context.progress.task("fill the server's buffers", wanted.tables) as task:
            for name in wanted.names:
                database.execute(verb, {"table": name}, last=blocks - 1)
                task.advance(1)
    except Interrupted:
        raise
    except ReplayerError as error:
        context.findings.note(f"the server's buffers were not filled before the load: {error}")
        return 0
    return blocks * wanted.tables
