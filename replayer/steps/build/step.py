"""Build the table: six rows, doubled until there are as many as asked for.

The last doubling by itself is a benchmark of the CPU: half of all rows are made in it.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from replayer import __version__, units
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.engine_spec import Layout
from replayer.engines.verbs import Asked
from replayer.errors import Impossible, ReplayerError, Skip, nearest
from replayer.machine.free_space import free_bytes
from replayer.machine.processes import CpuSeconds
from replayer.model import Better, Fact, StepSpec
from replayer.run.context import Context, Task
from replayer.run.findings import Findings
from replayer.run.footprint import Footprint
from replayer.tables import doubling, persons
from replayer.tables.doubling import Builder, Doubling
from replayer.tables.persons import Shape, State

_MOST_SEGMENTS = 1024
"""Where the size of a segment is not given it grows, so that there are no more than this."""
_MARGIN_BYTES = 256 << 20
_MARGIN_SHARE = 0.05
_LOG_BYTES = 256 << 20


_CREATE = Asked("table/create")
_DOUBLINGS = Asked("table/doublings")
_MEASURED = Asked("table/measured")
_COMPRESSIONS = Asked("{layout}/compressions")
_LOCKS = Asked("{layout}/locks")
_ESTIMATE = Asked("{layout}/estimate")


class Spec(StepSpec):
    """The keys of a build step."""

    rows: units.Count = Field(50_331_648, ge=1)
    """The table is doubled until it has at least so many."""
    layout: str | None = None
    """A folder of the engine: columnstore, or rowstore as the control; the engine's own choice if
    not given."""
    sessions: int | None = Field(None, ge=1, le=1024)
    """Sessions that build; one for each core if not given."""
    segment_rows: units.Count | None = Field(None, ge=1)
    """Rows of a segment: 6 times a power of 2; the engine's choice if not given."""
    compression: str | None = None
    """lz4, pglz or none, where the layout compresses; the best that the server has if not given."""
    rebuild: bool = True
    """Build again if the table is there as a whole; false takes it as it is."""


def footprint(spec: Spec, _block_size: int) -> Footprint:
    """Return what the table takes, compressed as little as possible, with its image in the log."""
    doublings = len(doubling.doublings(spec.rows))
    row = 21.5 + doubling.average_name(doublings)
    size = int(1.2 * row * doubling.rows_after(doublings)) + _LOG_BYTES
    return Footprint(("built", spec.layout), size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for a table that could not be built on any server of this engine."""
    layout = _layout(spec, context.engine)
    _segment_rows(spec, context.engine, layout)
    _checked_length(spec.rows)


def run(spec: Spec, context: Context) -> None:
    """Build the table, go on with an interrupted build, or take the whole one that is there."""
    with context.database() as database:
        shape = _shape(spec, database)
        found = persons.state(database)
        if found is not None and not _goes_on(spec, shape, found):
            if not spec.rebuild and _fits(spec, shape, found):
                _reuse(context.findings, database, found)
                return
            _check_space(spec, shape, context, database, freed=persons.bytes_(database))
            persons.drop(database, found.shape.layout)
            found = None
        else:
            there = persons.bytes_(database) if found is not None else 0
            _check_space(spec, shape, context, database, freed=there)
        _Build(spec, context, database, shape).run(found)


# What is to be built


def _layout(spec: Spec, engine: Engine) -> str:
    layouts = engine.layouts()
    layout = spec.layout or engine.spec.layout
    if layout not in layouts:
        raise Impossible(f"{engine.title} has no layout {layout!r}{nearest(layout, layouts)}")
    return layout


def _segment_rows(spec: Spec, engine: Engine, layout: str) -> int:
    seeds = len(doubling.SEEDS)
    keys = engine.spec.layouts.get(layout, Layout())
    if spec.segment_rows is None:
        rows = keys.segment_rows
        while spec.rows > rows * _MOST_SEGMENTS:
            rows *= 2
        return rows
    times, rest = divmod(spec.segment_rows, seeds)
    if rest or times & (times - 1):
        raise Impossible(
            f"segment_rows = {spec.segment_rows} must be {seeds} times a power of 2, such as 98304"
        )
    most = keys.most_segment_rows or spec.segment_rows
    if spec.segment_rows > most:
        raise Impossible(
            f"segment_rows = {spec.segment_rows} is too many: a segment of the {layout} holds at "
            f"most {most} rows"
        )
    return spec.segment_rows


def _checked_length(rows: int) -> None:
    most = 0
    while doubling.longest_name(most + 1) <= doubling.LONGEST_NAME:
        most += 1
    if rows > doubling.rows_after(most):
        raise Impossible(
            f"rows = {rows:,} is too many: after {most} doublings "
            f"({doubling.rows_after(most):,} rows) a last name would be longer than "
            f"{doubling.LONGEST_NAME} characters"
        )


def _shape(spec: Spec, database: Database) -> Shape:
    layout = _layout(spec, database.engine)
    compression = _compression(spec, database, layout)
    shape = Shape(layout, compression, _segment_rows(spec, database.engine, layout))
    _check_locks(spec, shape, database)
    return shape


def _compression(spec: Spec, database: Database, layout: str) -> str:
    """Return the compression to use; raise Impossible for one that this server does not have."""
    verb = database.engine.verb(_COMPRESSIONS.of(layout=layout))
    if verb is None:
        if spec.compression not in {None, "none"}:
            raise Impossible(
                f"compression = {spec.compression!r}: the layout {layout} has no compression; "
                f"leave the key out"
            )
        return ""
    names = [row["name"] for row in database.execute(verb)]
    if spec.compression is None:
        return str(names[0])
    if spec.compression not in names:
        raise Impossible(
            f"compression = {spec.compression!r} is not in this server ({database.engine.title} "
            f"{database.engine.version}); it has {' and '.join(names)}"
        )
    return spec.compression


def _check_locks(spec: Spec, shape: Shape, database: Database) -> None:
    """Raise Impossible if one query could not lock all segments."""
    verb = database.engine.verb(_LOCKS.of(layout=shape.layout))
    if verb is None:
        return
    segments = _segments(spec, shape)
    (row,) = database.execute(verb, segments=segments)
    if row["needed"] > row["available"]:
        raise Impossible(
            f"{segments:,} segments need about {row['needed']:,} locks and the server has "
            f"{row['available']:,}: set {row['setting']} to {row['value']} or more, or give a "
            f"larger segment_rows"
        )


def _segments(spec: Spec, shape: Shape) -> int:
    return max(1, _rows_built(spec) // shape.segment_rows)


def _rows_built(spec: Spec) -> int:
    return doubling.rows_after(len(doubling.doublings(spec.rows)))


def _goes_on(spec: Spec, shape: Shape, found: State) -> bool:
    """Tell whether an interrupted build of the same table is there."""
    same = found.shape == shape and found.rows_wanted == spec.rows
    return same and not found.whole and found.doubling is not None


def _fits(spec: Spec, shape: Shape, found: State) -> bool:
    return found.whole and found.shape == shape and found.rows == _rows_built(spec)


def _check_space(
    spec: Spec, shape: Shape, context: Context, database: Database, *, freed: int
) -> None:
    """Raise Impossible when the data's file system is too small, with both numbers."""
    folder = context.server.data_directory()
    verb = database.engine.verb(_ESTIMATE.of(layout=shape.layout))
    if folder is None or verb is None:
        return
    doublings = len(doubling.doublings(spec.rows))
    (row,) = database.execute(
        verb,
        rows=doubling.rows_after(doublings),
        lastname_bytes=doubling.average_name(doublings),
        compression=shape.compression,
        segments=_segments(spec, shape),
    )
    data, wal = int(row["table_bytes"]), int(row["wal_bytes"])
    wanted = data + wal + _MARGIN_BYTES + int(_MARGIN_SHARE * (data + wal))
    free = free_bytes(folder) + freed
    if wanted > free:
        raise Impossible(
            f"building {doubling.rows_after(doublings):,} rows needs about "
            f"{units.show_size(wanted)} ({units.show_size(data)} of table, "
            f"{units.show_size(wal)} of WAL, the rest as margin) and {folder} has "
            f"{units.show_size(free)} free: free some space, ask for fewer rows, or put the data "
            f"on another disk with --data-dir"
        )


# Building


@dataclass(frozen=True, slots=True)
class _Point:
    """The counters at one end of a doubling."""

    clock_ns: int
    wal_bytes: int | None
    cpu: CpuSeconds


@dataclass(frozen=True)
class _Build:
    """One build, or the rest of one; each doubling is in the findings as soon as it is done."""

    spec: Spec
    context: Context
    database: Database
    shape: Shape

    @property
    def findings(self) -> Findings:
        """Return what was found so far."""
        return self.context.findings

    @property
    def doublings(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the doublings that are done."""
        return self.findings.tables.get("doublings", ())

    def run(self, found: State | None) -> None:
        """Do it; a build that is cut short leaves what was committed, and says so."""
        self.findings.writes = True
        self.findings.facts |= _facts(self.shape, 0)
        with self._told_what_is_kept():
            done = self._resume(found) if found is not None else None
            elapsed = self._double_all(done)
        self._measure(elapsed, whole=found is None)

    def _double_all(self, done: int | None) -> float:
        """Do every doubling that is left, all of them if `done` is None; return the seconds."""
        todo = doubling.doublings(self.spec.rows, after=done or 0)
        sessions = self.spec.sessions or len(os.sched_getaffinity(0))
        rows = _rows_built(self.spec)
        title, left = f"build {rows:,} rows", rows - doubling.rows_after(done or 0)
        with (
            self.context.progress.task(title, total=left) as task,
            Builder(self.database, self.shape, todo, sessions) as builder,
        ):
            self.findings.facts["sessions"] = builder.sessions
            begun = time.monotonic_ns()
            if done is None:
                self._create()
                with self._watched(0, len(doubling.SEEDS)):
                    builder.seed()
            for one in todo:
                with self._watched(one.number, one.rows):
                    self._double(builder, one, task)
            return (time.monotonic_ns() - begun) / 1e9

    def _measure(self, elapsed: float, *, whole: bool) -> None:
        """Add the figures of a build that is done; the rest of one has no time of its own."""
        measure, last = self.findings.measure, self.doublings[-1]
        measure("build.rows", last["rows"], "rows", Better.NEITHER)
        measure("build.table_bytes", last["table_bytes"], "bytes", Better.LESS)
        if last["doubling"] > 0 and last["seconds"] is not None:
            measure("build.last_doubling", last["seconds"], "s", Better.LESS)
        if not whole:
            return
        measure("build.elapsed", elapsed, "s", Better.LESS, "build.rows_per_second")
        measure("build.rows_per_second", last["rows"] / elapsed, "rows/s")
        wal = [row["wal_bytes"] for row in self.doublings]
        if None not in wal:
            measure("build.wal_bytes", sum(wal), "bytes", Better.LESS)

    def _create(self) -> None:
        shape = self.shape
        with persons.transaction(self.database):
            self.database.execute(
                _CREATE,
                made_by=f"replayer {__version__}",
                layout=shape.layout,
                compression=shape.compression,
                segment_rows=shape.segment_rows,
                rows_wanted=self.spec.rows,
            )

    def _resume(self, found: State) -> int:
        """Remove what is left of a doubling that was cut short; return the last whole one."""
        done = found.doubling or 0
        every = persons.segments(self.database)
        unfinished = [segment for segment in every if segment.doubling > done]
        persons.discard(self.database, found.shape.layout, unfinished)
        for row in self.database.execute(_DOUBLINGS):
            new = row["rows"] // 2 if row["doubling"] else row["rows"]
            speed = new / row["seconds"] if row["seconds"] else None
            self._add({**row, "rows_per_second": speed})
        self.findings.note(
            f"an interrupted build went on after doubling {done} ({found.rows:,} rows), so its "
            f"time as a whole was not measured"
        )
        return done

    @contextlib.contextmanager
    def _watched(self, number: int, new_rows: int) -> Iterator[None]:
        """Note what a doubling took; doubling 0 makes the first six rows."""
        before = self._point()
        yield
        after = self._point()
        seconds = (after.clock_ns - before.clock_ns) / 1e9
        row = {
            "doubling": number,
            "rows": doubling.rows_after(number),
            "seconds": seconds,
            "rows_per_second": new_rows / seconds,
            "table_bytes": persons.bytes_(self.database),
            "wal_bytes": _difference(before.wal_bytes, after.wal_bytes),
        }
        self.database.execute(_MEASURED, {"doubling": number}, **row)
        self._add(row)
        if any(after.cpu):  # else the server's processes are not seen from here
            user, system = after.cpu.user - before.cpu.user, after.cpu.system - before.cpu.system
            self.findings.facts["last_doubling.server_user"] = round(user, 2)
            self.findings.facts["last_doubling.server_system"] = round(system, 2)

    def _add(self, row: Mapping[str, Any]) -> None:
        self.findings.row("doublings", **row)
        self.findings.facts |= _facts(self.shape, row["rows"])

    def _double(self, builder: Builder, one: Doubling, task: Task) -> None:
        """Do one doubling and show how it goes."""
        begun = time.monotonic_ns()
        size = self.doublings[-1]["table_bytes"] or 0
        made = 0
        for said in builder.double(one):
            if said is not None:
                made += said.task.rows
                size += said.bytes
                task.advance(said.task.rows)
            speed = made * 1e9 / (time.monotonic_ns() - begun)
            task.update(
                note=f"doubling {one.number}, {one.rows + made:,} rows, "
                f"{units.show_count(round(speed))} rows/s, {units.show_size(size)}"
            )
        task.advance(one.rows - made)

    @contextlib.contextmanager
    def _told_what_is_kept(self) -> Iterator[None]:
        """Add to what went wrong on the server what is left of the table."""
        try:
            yield
        except ReplayerError as error:
            if (
                isinstance(error, Skip)
                or error.status != ReplayerError.status
                or not self.doublings
            ):
                raise
            last = self.doublings[-1]
            raise ReplayerError(
                f"{error}; {last['rows']:,} rows ({last['doubling']} doublings) are kept, and the "
                f"next build goes on from there"
            ) from error

    def _point(self) -> _Point:
        verb = self.database.engine.verb(persons.WAL)
        cpu = self.context.server.cpu_seconds()
        wal = int(self.database.value(verb)) if verb is not None else None
        return _Point(time.monotonic_ns(), wal, cpu)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _facts(shape: Shape, rows: int) -> dict[str, Fact]:
    return {
        "layout": shape.layout,
        "compression": shape.compression or "none",
        "segment_rows": shape.segment_rows,
        "segments": max(1, rows // shape.segment_rows),
    }


def _reuse(findings: Findings, database: Database, found: State) -> None:
    """Add what is known of a whole table of an earlier run; nothing was measured."""
    findings.measure("build.rows", found.rows, "rows", Better.NEITHER)
    findings.measure("build.table_bytes", persons.bytes_(database), "bytes", Better.LESS)
    findings.facts |= {**_facts(found.shape, found.rows), "reused": True}
    findings.note("the table of an earlier build was reused, so no time was measured")
