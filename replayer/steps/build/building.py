"""One build of the table: six rows, whose number is doubled again and again."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replayer import __version__, units
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError, Skip
from replayer.machine.processes import CpuSeconds
from replayer.model import Better
from replayer.run.context import Context, Task
from replayer.run.event_stream.rates import Rates
from replayer.run.step_recorder import MeasuredWindow, StepRecorder
from replayer.steps.build import doubling
from replayer.steps.build.doubling import Builder, Doubling
from replayer.steps.build.shape import facts_of, rows_built
from replayer.steps.build.spec import Spec
from replayer.tables import persons
from replayer.tables.persons import BuildState, Shape
from replayer.watch import interference

_CREATE = VerbName("table/create")
_DOUBLINGS = VerbName("table/doublings")
_MEASURED = VerbName("table/measured")


@dataclass(frozen=True, slots=True)
class _Point:
    """The clock, the size of the server's log, and CPU seconds, just before or after a doubling.

    `clock_ns` is by the monotonic clock.  `wal_bytes` is None if the engine does not report its
    log.  `cpu` is the CPU time of the server's processes.
    """

    clock_ns: int
    wal_bytes: int | None
    cpu: CpuSeconds


@dataclass(frozen=True)
class Build:
    """One build of the table, or the rest of a build that was interrupted.

    Each doubling is recorded as soon as it is done.
    """

    spec: Spec
    context: Context
    database: Database
    shape: Shape

    @property
    def findings(self) -> StepRecorder:
        """Return the recorder of this step's measurements."""
        return self.context.findings

    @property
    def doublings(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the result's table `doublings`, one for each doubling that is done."""
        return self.findings.tables.get("doublings", ())

    def run(self, existing: BuildState | None) -> None:
        """Build the table; if the build is cut short, the doublings that are done are kept.

        `existing` is the interrupted build to continue, None for a new one.
        """
        self.findings.writes = True
        self.findings.facts |= facts_of(self.shape, 0)
        with self._told_what_is_kept():
            done = self._resume(existing) if existing is not None else None
            elapsed = self._double_all(done)
        self._measure(elapsed, whole=existing is None)

    def _double_all(self, done: int | None) -> float:
        """Do the doublings that are left, and return the seconds that they took.

        `done` is the number of the last doubling that is done; None stands for a new table.
        """
        todo = doubling.doublings(self.spec.rows, after=done or 0)
        sessions = self.spec.sessions or len(os.sched_getaffinity(0))
        rows = rows_built(self.spec)
        title, left = f"build {rows:,} rows", rows - doubling.rows_after(done or 0)
        with (
            self.context.progress.task(title, total=left) as task,
            Builder(self.database, self.shape, todo, sessions) as builder,
        ):
            self.findings.facts["sessions"] = builder.sessions
            first = self.context.account()
            begin_ns = self.context.sampler.mark()
            if done is None:
                self._create()
                with self._watched(0, len(persons.SEEDS)):
                    builder.seed()
            for one in todo:
                with self._watched(one.number, one.rows):
                    self._double(builder, one, task)
            end_ns = self.context.sampler.mark()
            last = self.context.account()
            self.findings.foreign = interference.judged(first, last)
            self.findings.window = MeasuredWindow(
                begin_ns, end_ns, left, operation="row", sessions=builder.sessions, whose="server"
            )
            return (end_ns - begin_ns) / 1e9

    def _measure(self, elapsed: float, *, whole: bool) -> None:
        """Record the final numbers of a build; the total time only if `whole`.

        `whole` is False for the rest of an interrupted build.
        """
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

    def _resume(self, existing: BuildState) -> int:
        """Remove the parts of an interrupted doubling; return the number of the last whole one."""
        done = existing.doubling or 0
        every = persons.segments(self.database)
        unfinished = [segment for segment in every if segment.doubling > done]
        persons.discard(self.database, existing.shape.layout, unfinished)
        for row in self.database.execute(_DOUBLINGS):
            new = row["rows"] // 2 if row["doubling"] else row["rows"]
            speed = new / row["seconds"] if row["seconds"] else None
            self._add({**row, "rows_per_second": speed})
        self.findings.note(
            f"an interrupted build went on after doubling {done} ({existing.rows:,} rows), so its "
            f"time as a whole was not measured"
        )
        return done

    @contextlib.contextmanager
    def _watched(self, number: int, new_rows: int) -> Iterator[None]:
        """Measure the doubling that is done in the `with` block, and record it.

        `number` is the number of the doubling; 0 is the making of the first six rows. `new_rows` is
        the number of rows that it adds.
        """
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
            user, system = after.cpu.since(before.cpu)
            self.findings.facts["last_doubling.server_user"] = round(user, 2)
            self.findings.facts["last_doubling.server_system"] = round(system, 2)

    def _add(self, row: Mapping[str, Any]) -> None:
        self.findings.row("doublings", **row)
        self.findings.facts |= facts_of(self.shape, row["rows"])

    def _double(self, builder: Builder, one: Doubling, task: Task) -> None:
        """Do one doubling (copy all rows of the table once more), and show its progress."""
        begun = time.monotonic_ns()
        size = self.doublings[-1]["table_bytes"] or 0
        made = 0
        rates = Rates(self.context.progress)
        for made_one in builder.double(one):
            if made_one is not None:
                made += made_one.task.rows
                size += made_one.bytes
                task.advance(made_one.task.rows)
            speed = made * 1e9 / (time.monotonic_ns() - begun)
            task.update(
                note=f"doubling {one.number}, {one.rows + made:,} rows, "
                f"{units.show_count(round(speed))} rows/s, {units.show_size(size)}"
            )
            rates.count({"rows": made})
        task.advance(one.rows - made)

    @contextlib.contextmanager
    def _told_what_is_kept(self) -> Iterator[None]:
        """Add to a ReplayerError of the `with` block how many rows are kept for the next build.

        An error that is a Skip or of another special kind is raised unchanged.
        """
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
        wal = self.database.number(verb) if verb is not None else None
        return _Point(time.monotonic_ns(), wal, cpu)


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before
