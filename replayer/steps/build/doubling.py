"""Double a table: the order of the rows, the queue of segments, and the sessions that process it.

The rows are in one order, whatever the layout, the engine and the number of sessions.  A doubling
appends to it.  N rows are there, and n counts them from 1:

    rows += [(id + n, lastname + str(n), now) for n, (id, lastname, _) in enumerate(rows, 1)]

Segments are contiguous ranges of that order.  While all rows fit into one segment, it is doubled in
place.  After that, each of S segments makes a new one: segment S + s from segment s.  So sessions
share the work, and the rows do not depend on which session did which segment.

The code that runs in worker processes is here and not in the step, because a worker imports this
module and nothing heavier.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.engines.server_message import explain
from replayer.engines.verbs import Verb, VerbName
from replayer.errors import ReplayerError
from replayer.tables import persons
from replayer.tables.persons import SEEDS, Shape
from replayer.watch.workers import Barrier, Counter, Report, WorkerPool

if TYPE_CHECKING:
    from replayer.engines.connection import Database

LONGEST_NAME = 255

_POLL_SECONDS = 0.002

_SESSION = VerbName("table/session")
_BEGIN = VerbName("table/begin")
_COMPLETE = VerbName("table/complete")
_CREATE = VerbName("{layout}/create")
_SEED = VerbName("{layout}/seed")
_GROW = VerbName("{layout}/grow")
_DOUBLE = VerbName("{layout}/double")
_BYTES = VerbName("{layout}/bytes")
_PUBLISH = VerbName("{layout}/publish")
_SEGMENT = VerbName("{layout}/segment")
_STORE = VerbName("{layout}/store_{compression}")


class Doubling(NamedTuple):
    """One doubling of the table's rows: its number, from 1, and the number of rows before it."""

    number: int
    rows: int


class DoublingTask(NamedTuple):
    """The task to make one new segment (part of the table) from an old one.

    `source` and `target` are the numbers of the old and of the new segment, from 1.  Each of them
    has `rows` rows.
    """

    doubling: int
    source: int
    target: int
    first_row: int
    """The number of rows before the first row of the old segment."""
    target_row: int
    """The number of rows before the first row of the new segment."""
    rows: int


class NewSegment(NamedTuple):
    """A new segment (part of the table) that was committed, with its size in bytes."""

    task: DoublingTask
    bytes: int


def doublings(rows_wanted: int, after: int = 0) -> list[Doubling]:
    """Return the doublings that lead to at least `rows_wanted` rows.

    The first `after` of them are left out, because they are done already.
    """
    planned: list[Doubling] = []
    rows = len(SEEDS)
    while rows < rows_wanted:
        planned.append(Doubling(len(planned) + 1, rows))
        rows *= 2
    return planned[after:]


def rows_after(doubling: int) -> int:
    """Return the number of rows after that many doublings of the first six rows."""
    return len(SEEDS) << doubling


def longest_name(doublings_: int) -> int:
    """Return the greatest number of characters that a last name can have after so many doublings.

    The true number may be smaller.
    """
    suffixes = sum(len(str(rows_after(number))) for number in range(doublings_))
    return max(map(len, SEEDS)) + suffixes


def average_name(doublings_: int) -> float:
    """Return the exact average length of a last name, in characters, after that many doublings.

    Each doubling appends a number to the last names of half of all rows.  The numbers 1 to N are
    used equally often, where N is the number of rows before the doubling.
    """
    seed = sum(map(len, SEEDS)) / len(SEEDS)
    return seed + sum(_digits(rows_after(number)) / 2 for number in range(doublings_))


def _digits(last: int) -> float:
    """Return the average number of digits of the whole numbers from 1 to `last`."""
    longest = len(str(last))
    shorter = sum(9 * int(10 ** (k - 1)) * k for k in range(1, longest))
    return (shorter + (last - int(10 ** (longest - 1)) + 1) * longest) / last


def tasks(doubling: Doubling, segment_rows: int) -> list[DoublingTask]:
    """Return one task for each new segment of a doubling; [] if the table is less than one segment.

    A segment is a part of the table with `segment_rows` rows.
    """
    sources = doubling.rows // segment_rows
    return [
        DoublingTask(
            doubling.number,
            source=number + 1,
            target=sources + number + 1,
            first_row=number * segment_rows,
            target_row=doubling.rows + number * segment_rows,
            rows=segment_rows,
        )
        for number in range(sources)
    ]


@dataclass(frozen=True, slots=True)
class DoublingJob:
    """The work of one session: it takes one task after another from a queue that sessions share.

    `first` are the statements to execute after connecting.  `queue` counts the tasks taken so far.
    """

    connector: Connector
    first: tuple[str, ...]
    verbs: tuple[Verb, ...]
    """Executed for each task, in one transaction; the last one returns the new segment's bytes."""
    tasks: tuple[DoublingTask, ...]
    queue: Counter
    opened: Counter
    """The number of the doubling whose tasks may be begun."""
    begin: tuple[str, ...] = ()
    commit: tuple[str, ...] = ()
    """`begin` and `commit`: the statements that begin and end the transaction of a task."""


class Builder:
    """The sessions of a build, which share the work of each doubling and wait between doublings.

    A doubling copies all rows of the table once more with new keys.  `todo` are the doublings to
    do, `sessions` is the largest number of sessions.
    """

    def __init__(
        self, database: "Database", shape: Shape, todo: list[Doubling], sessions: int
    ) -> None:
        self._database = database
        self._shape = shape
        self._opened = Counter()
        self._said: Iterator[Any] = iter(())
        every = [task for doubling in todo for task in tasks(doubling, shape.segment_rows)]
        jobs = [self._job(every)] * min(sessions, len(every)) if every else []
        self.sessions = max(1, len(jobs))
        # Never on client hosts: the sessions take their segments from a counter in shared memory,
        # and the measurement is of the server's work, in which the clients have no part.
        self._pool = (
            WorkerPool(double_segments, jobs, processes=1, awaited=database.waiting())
            if jobs
            else None
        )

    def __enter__(self) -> Self:
        execute(self._database, _SESSION)
        if self._pool is not None:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._pool)
                self._pool.ready()
                self._pool.open()
                self._said = self._pool.reports(timeout=1.0)
                # From here on `__exit__` ends the pool.
                stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            if kind is None:
                self._pool.results()
            self._pool.__exit__(kind, error, trace)

    def seed(self) -> None:
        """Make the table with its first six rows."""
        execute(self._database, _BEGIN, doubling=0)
        with persons.transaction(self._database):
            self._in_layout(_CREATE)
            self._empty_segment(1)
            self._in_layout(_SEED)
            self._publish(Doubling(0, 0))

    def double(self, doubling: Doubling) -> Iterator[NewSegment | None]:
        """Double the table; yield each new segment (part of the table) when it is made.

        After each second without a new segment, yield None.  The new rows are visible in the table
        only at the end.
        """
        execute(self._database, _BEGIN, doubling=doubling.number)
        todo = tasks(doubling, self._shape.segment_rows)
        if not todo:
            with persons.transaction(self._database):
                self._empty_segment(0)
                self._in_layout(_GROW, rows=doubling.rows, doubling=doubling.number)
                self._publish(doubling)
            return
        self._opened.take(doubling.number - self._opened.value())
        left = len(todo)
        while left:
            made_one = next(self._said)
            left -= made_one is not None
            yield made_one
        with persons.transaction(self._database):
            self._publish(doubling)

    def _publish(self, doubling: Doubling) -> None:
        self._in_layout(_PUBLISH, doubling=doubling.number)
        rows = rows_after(doubling.number)
        execute(self._database, _COMPLETE, doubling=doubling.number, rows=rows)

    def _empty_segment(self, number: int) -> None:
        for verb in self._making():
            self._database.execute(verb, {"segment": number})

    def _in_layout(self, verb: VerbName, **holes: int) -> None:
        persons.execute_if_known(self._database, verb.of(layout=self._shape.layout), holes)

    def _making(self) -> list[Verb]:
        """Return the verbs (SQL files) that make an empty segment; a layout may have none.

        A segment is a part of the table.
        """
        engine, shape = self._database.engine, self._shape
        making = [engine.verb(_SEGMENT.of(layout=shape.layout))]
        if shape.compression:
            making.append(
                engine.needs(_STORE.of(layout=shape.layout, compression=shape.compression))
            )
        return [verb for verb in making if verb is not None]

    def _job(self, every: list[DoublingTask]) -> DoublingJob:
        engine, layout = self._database.engine, self._shape.layout
        session = engine.verb(_SESSION)
        around = persons.transaction_verbs(engine)[:2]
        return DoublingJob(
            self._database.connector(),
            session.statements() if session is not None else (),
            (
                *self._making(),
                engine.needs(_DOUBLE.of(layout=layout)),
                engine.needs(_BYTES.of(layout=layout)),
            ),
            tuple(every),
            Counter(),
            self._opened,
            *((verb.statements() if verb is not None else ()) for verb in around),
        )


def execute(database: "Database", verb: VerbName, **holes: int) -> None:
    """Execute an SQL file of the engine (a verb), or do nothing if the engine does not have it.

    `holes` are the values for `{{name}}` in its SQL.
    """
    persons.execute_if_known(database, verb, holes)


def double_segments(job: DoublingJob, barrier: Barrier, report: Report) -> None:
    """Make new segments (parts of the table) as one session, until no task is left; report each."""
    with contextlib.closing(driver.connect_worker(job.connector, *job.first)) as connection:
        cursor = connection.cursor()
        barrier.wait()
        while (number := job.queue.take()) < len(job.tasks):
            task = job.tasks[number]
            # A doubling needs all segments of the one before it.
            while job.opened.value() < task.doubling:
                time.sleep(_POLL_SECONDS)
            try:
                report(NewSegment(task, _make(cursor, job, task)))
            except driver.driver_error(job.connector) as error:
                raise ReplayerError(
                    f"doubling {task.doubling}, segment {task.target}: the database reported: "
                    f"{explain(error)}"
                ) from error


def _make(cursor: Any, job: DoublingJob, task: DoublingTask) -> int:
    """Make the new segment of a task in one transaction, and return its size in bytes."""
    _execute(cursor, job.begin)
    for verb in job.verbs:
        for statement in verb.statements(**task._asdict(), segment=task.target):
            cursor.execute(statement)
    size = int(cursor.fetchone()[0])
    _execute(cursor, job.commit)
    return size


def _execute(cursor: Any, statements: tuple[str, ...]) -> None:
    for statement in statements:
        cursor.execute(statement)
