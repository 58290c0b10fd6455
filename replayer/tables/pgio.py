"""The tables of the SLOB method (one row in each block), and the work of one of its sessions.

The functions that run in worker processes are here and not in the step, because a worker imports
this module and nothing heavier: 256 sessions must fit into little memory.
"""

import contextlib
import hashlib
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from replayer.engines import driver
from replayer.engines.driver import Connector
from replayer.engines.server_message import explain
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.watch.workers import Barrier, Counter, Report, WorkerPool, distributable

if TYPE_CHECKING:
    from replayer.engines.connection import Database

MOST_ROWS = 1 << 31
"""Most rows of a table: products of two numbers below it fit into the server's 64-bit integers."""
_CHUNK_ROWS = 16_384
_LAYOUT = VerbName("slob/layout")
_TABLES = VerbName("slob/tables")
_DROP = VerbName("slob/drop")
_LOAD = VerbName("slob/load")
_CREATE = VerbName("slob/create")
_INDEX = VerbName("slob/index")
_FINISH = VerbName("slob/finish")
FILES = VerbName("slob/files")
SESSIONS_PER_PROCESS = 256
_FOREVER = 1e11
"""A deadline that no server's clock reaches, in seconds since 1970."""
_LONG = 1e9
"""The length of a slice that has no limit of time, in seconds."""
_MANY = 1 << 62
_ANSWER_SECONDS = 2.0
"""Seconds that the server has to answer a session whose statement failed."""


@dataclass(frozen=True, slots=True)
class TableSet:
    """Tables pgio1..pgioN with the same number of rows; `seed` sets the order of their keys."""

    tables: int
    rows: int
    seed: int

    @property
    def names(self) -> list[str]:
        """Return the names of the tables, pgio1 to pgioN, which pgio uses, too."""
        return [f"pgio{number}" for number in range(1, self.tables + 1)]

    @property
    def mark(self) -> str:
        """Return the text that marks a table as loaded to its end: its rows and seed.

        The end of a load stores this text on the server, with the table.
        """
        return f"{self.rows} rows, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Facts about a table in the database; they decide whether the SLOB method can use it.

    `correlation` is that of the keys with their places (-1 to 1); None if the table was never
    analysed.
    """

    name: str
    rows: int
    blocks: int
    bytes: int
    indexed: bool
    correlation: float | None

    def flaw(self, rows: int) -> str:
        """Return why the SLOB method cannot use this table with that many rows, "" if it can."""
        if self.blocks != self.rows:
            return (
                f"{self.name} has {self.rows:,} rows in {self.blocks:,} blocks, "
                f"where each block must hold one row"
            )
        if self.rows < rows:
            return f"{self.name} has {self.rows:,} rows, fewer than the {rows:,} of scale"
        if not self.indexed:
            return f"{self.name} has no index on mykey"
        if self.correlation is None:
            return f"{self.name} was never analysed, so the order of mykey is not known"
        if abs(self.correlation) > _chance(self.rows):
            return (
                f"{self.name} has mykey in nearly the physical order "
                f"(correlation {self.correlation:.2f}), where it must be near 0"
            )
        return ""


def _chance(rows: int) -> float:
    """Return the largest correlation that a random order of the keys may show by chance.

    The correlation is that of the key of a row with its place in the table.  The limit is 4
    standard deviations, and 0.02 more.
    """
    # ANALYZE takes a sample of 30,000 rows, and the standard deviation of n random pairs is 1 /
    # sqrt(n).
    return 0.02 + 4 / math.sqrt(min(rows, 30_000))


def layout(database: "Database", names: Sequence[str]) -> list[TableLayout]:
    """Return the layouts of those of the named tables that exist; this counts their rows.

    Return [] for an engine that cannot report a layout, because its rows do not fill blocks.
    """
    if database.engine.verb(_LAYOUT) is None:
        return []
    known = _known(database)
    rows = [
        (name, database.execute(_LAYOUT, {"table": name}, name=name))
        for name in names
        if name in known
    ]
    return [TableLayout(name=name, **columns[0]) for name, columns in rows if columns]


def _known(database: "Database") -> dict[str, Mapping[str, Any]]:
    return {row["name"]: row for row in database.execute(_TABLES)}


def flaws(database: "Database", wanted: TableSet) -> list[str]:
    """Return the reasons why the wanted tables cannot be used as they are; [] if they can."""
    known = _known(database)
    missing = [name for name in wanted.names if name not in known]
    if missing:
        more = ", …" if len(missing) > 3 else ""
        return [f"not there yet: {', '.join(missing[:3])}{more}"]
    reasons = [_unfinished(known[name], wanted) for name in wanted.names]
    if not any(reasons):
        reasons = [table.flaw(wanted.rows) for table in layout(database, wanted.names)]
    return [reason for reason in reasons if reason]


def loaded_rows(database: "Database", wanted: TableSet) -> int:
    """Return the most rows of one of the wanted tables, as they were loaded; all must be there."""
    known = _known(database)
    return max(int(_made_as(known[name])[0]) for name in wanted.names)


def _made_as(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the rows and the seed of a table as its load noted them; "" for what is not there."""
    rows, _, seed = str(row["made_as"]).partition(" rows, seed ")
    return rows, seed


def _unfinished(row: Mapping[str, Any], wanted: TableSet) -> str:
    """Return why a table is not a complete load with the wanted seed and rows, or "" if it is.

    More rows than wanted are accepted.
    """
    rows, seed = _made_as(row)
    if not rows.isdigit() or not seed:
        return f"{row['name']} was not loaded to its end"
    if seed != str(wanted.seed):
        return f"{row['name']} was loaded with seed {seed}, not {wanted.seed}"
    if int(rows) < wanted.rows:
        return f"{row['name']} has {int(rows):,} rows, fewer than the {wanted.rows:,} of scale"
    return ""


def refuse_foreign(database: "Database", wanted: TableSet) -> None:
    """Raise Impossible if a table has one of the wanted names but replayer did not make it."""
    known = _known(database)
    foreign = [name for name in wanted.names if name in known and not known[name]["ours"]]
    if foreign:
        raise Impossible(
            f"the table {foreign[0]} is there and was not made by replayer, so it is not touched: "
            f"rename it, or use another database"
        )


def drop(database: "Database") -> None:
    """Drop every table of the SLOB method that replayer made in the database."""
    for name, row in _known(database).items():
        if row["ours"]:
            database.execute(_DROP, {"table": name})


def drop_one(database: "Database", name: str) -> None:
    """Drop one table of the SLOB method if it exists and replayer made it."""
    row = _known(database).get(name)
    if row is not None and row["ours"]:
        database.execute(_DROP, {"table": name})


# Loading


@dataclass(frozen=True, slots=True)
class LoadJob:
    """The job of one session that loads tables: it takes one after another from the queue."""

    connector: Connector
    tables: tuple["TableJob", ...]
    queue: Counter


@dataclass(frozen=True, slots=True)
class TableJob:
    """The statements that load one table, in the order `before`, `chunk`, `after`, `finish`.

    The statements of `chunk` are executed once for each range of keys, with the parameters low and
    high and those in `numbers`.  The first statement of `chunk` inserts the rows.  `finish` comes
    after the commit, all other statements are in one transaction.
    """

    name: str
    before: tuple[tuple[str, Mapping[str, Any]], ...]
    chunk: tuple[str, ...]
    numbers: Mapping[str, int]
    after: tuple[tuple[str, Mapping[str, Any]], ...]
    finish: tuple[tuple[str, Mapping[str, Any]], ...]


def load(database: "Database", wanted: TableSet, sessions: int, made_by: str) -> Iterator[int]:
    """Load the tables, several at once; yield the numbers of rows as they are loaded.

    After each second without a loaded row it yields 0.  `sessions` is the largest number of tables
    that are loaded at a time, `made_by` a text on replayer's version that is stored with each.

    A table becomes visible in the database when it is complete, because it is loaded in one
    transaction.  Raises ReplayerError with the server's message when a statement fails.
    """
    jobs = tuple(_table_job(database, wanted, name, made_by) for name in wanted.names)
    queue = Counter()
    connector = database.connector()
    # Never on client hosts: the sessions take their tables from a counter in shared memory.
    pool = WorkerPool(
        load_tables,
        [LoadJob(connector, jobs, queue)] * min(sessions, len(jobs)),
        processes=1,
        awaited=database.waiting(),
    )
    with pool:
        pool.open()
        for report in pool.reports(timeout=1.0):
            yield report or 0
        pool.results()


def _table_job(database: "Database", wanted: TableSet, name: str, made_by: str) -> TableJob:
    def told(verb: VerbName, holes: Mapping[str, str | int], **parameters: Any) -> Any:
        statements = database.engine.needs(verb).statements(**holes)
        return tuple((database.render(statement), parameters) for statement in statements)

    table = {"table": name}
    mark: dict[str, str | int] = {**table, "rows": wanted.rows, "seed": wanted.seed}
    chunk = tuple(statement for statement, _ in told(_LOAD, table))
    return TableJob(
        name,
        told(_CREATE, table, name=name, made_by=made_by),
        chunk,
        _permutation(wanted, name),
        told(_INDEX, mark),
        told(_FINISH, table),
    )


def _permutation(wanted: TableSet, name: str) -> dict[str, int]:
    """Return the constants by which a load puts the keys of a table in random order.

    They depend only on the seed, the number of rows and the name of the table.
    """
    bits = max(2, (wanted.rows - 1).bit_length())
    mask = (1 << bits) - 1
    drawn = hashlib.blake2b(f"{wanted.seed} {name}".encode(), digest_size=48).digest()
    words = [int.from_bytes(drawn[place : place + 8], "little") for place in range(0, 48, 8)]
    # An odd factor and a shift of at least one bit make each round reversible, so no key is lost.
    factors = {f"factor{n}": (words[n - 1] & mask & (MOST_ROWS - 1)) | 1 for n in (1, 2, 3)}
    addends = {f"addend{n}": words[n + 2] & mask for n in (1, 2, 3)}
    shift = (bits + 1) // 2
    return {**factors, **addends, "mask": mask, "shift": shift, "rows": wanted.rows}


def load_tables(job: LoadJob, barrier: Barrier, report: Report) -> int:
    """Load tables as one session until the job's queue is empty; return how many it loaded.

    The session waits for the `barrier` first, and reports the number of rows of each insert.
    Raises ReplayerError if a statement fails.
    """
    with (
        contextlib.closing(driver.connect(job.connector)) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        barrier.wait()
        loaded = 0
        while (number := job.queue.take()) < len(job.tables):
            table = job.tables[number]
            try:
                _load_table(cursor, table, report)
            except driver.driver_error(job.connector) as error:
                raise ReplayerError(
                    f"loading {table.name}: the database reported: {explain(error)}"
                ) from error
            loaded += 1
        return loaded


def _load_table(cursor: Any, table: TableJob, report: Report) -> None:
    cursor.execute("BEGIN")
    for statement, parameters in table.before:
        cursor.execute(statement, parameters)
    last = table.numbers["mask"] + 1
    for low in range(0, last, _CHUNK_ROWS):
        high = min(low + _CHUNK_ROWS, last)
        rows = 0
        for number, statement in enumerate(table.chunk):
            cursor.execute(statement, {**table.numbers, "low": low, "high": high})
            rows = rows if number else cursor.rowcount
        report(rows)
    for statement, parameters in table.after:
        cursor.execute(statement, parameters)
    cursor.execute("COMMIT")
    for statement, parameters in table.finish:
        cursor.execute(statement, parameters)


# Sessions


@dataclass(frozen=True, slots=True)
class SessionJob:
    """The job of one session of the SLOB method; its statements are in the driver's form."""

    number: int
    table: str
    connector: Connector
    first: tuple[str, ...]
    slice: str
    seed: str
    settle: tuple[str, ...]
    own_rows: tuple[str, ...]
    """Statements that return the rows read so far by this session.

    They are used if the server does not count blocks for each session.
    """
    plan: tuple[str, ...]
    """Statements that show the plan; only one session has them, and reports the plan."""
    numbers: Mapping[str, Any]
    """Values of the parameters work_unit, update_work_unit, rows and update_pct of each slice."""
    random_seed: float
    run_time: float | None
    operations: int | None
    slice_seconds: float
    first_slice_seconds: float
    """Seconds of the first slice; they differ by session, so that the counters move smoothly."""
    tells: bool = False
    """True if the session reports its progress after each slice."""


class Slice(NamedTuple):
    """One slice (a short piece) of a session's work; times are seconds since 1970.

    They are by the server's clock.
    """

    began: float
    ended: float
    reads: float
    """Blocks that were not in the server's buffers; all blocks touched if they are not counted."""
    hits: float
    """Blocks found in the server's buffers; all blocks touched if they are not counted."""


@dataclass(slots=True)
class SessionResult:
    """The result of one session.

    A histogram of latencies (`select`, `update`) is bucket -> number of work units.  Times are
    in seconds; `began` and `ended` are seconds since 1970, by the server's clock.
    """

    number: int
    table: str
    work_unit: int
    update_work_unit: int
    selects: int = 0
    updates: int = 0
    deadlocks: int = 0
    counts_blocks: bool = False
    """True if the server counted the reads and hits of the slices for this session alone."""
    rows_read: int | None = None
    """Rows read by this session in the window; None if the server does not count them."""
    history: "array[float]" = field(default_factory=lambda: array("d"))
    """Four numbers for each slice, one after another: start, end, blocks missed, blocks found."""
    began: float = 0.0
    ended: float = 0.0
    select_max: float = 0.0
    update_max: float = 0.0
    select: dict[int, int] = field(default_factory=dict)
    update: dict[int, int] = field(default_factory=dict)
    plan: tuple[str, ...] = ()

    @property
    def slices(self) -> Iterator[Slice]:
        """Yield the slices, each with its start and end and its blocks missed and found."""
        values = iter(self.history)
        return map(Slice._make, zip(values, values, values, values, strict=True))

    @property
    def operations(self) -> int:
        """Return how many work units were done."""
        return self.selects + self.updates

    @property
    def select_blocks(self) -> int:
        """Return how many blocks of the table the selects read, wherever these came from."""
        return self.selects * self.work_unit

    @property
    def update_blocks(self) -> int:
        """Return how many blocks of the table the updates touched."""
        return self.updates * self.update_work_unit

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the results of one slice: the row that the server returned for it."""
        touched = row["selects"] * self.work_unit + row["updates"] * self.update_work_unit
        reads, hits = (
            touched if row[counted] is None else row[counted] for counted in ("reads", "hits")
        )
        self.counts_blocks = row["reads"] is not None and row["hits"] is not None
        self.history.extend((row["began"], row["ended"], reads, hits))
        self.selects += row["selects"]
        self.updates += row["updates"]
        self.deadlocks += row["deadlocks"]
        self.began = self.began or row["began"]
        self.ended = row["ended"]
        self.select_max = max(self.select_max, row["select_max"])
        self.update_max = max(self.update_max, row["update_max"])
        merge(self.select, _buckets(row["select_histogram"]))
        merge(self.update, _buckets(row["update_histogram"]))


def merge(into: dict[int, int], buckets: Iterable[tuple[int, int]]) -> None:
    """Add the amounts in `buckets`, pairs of a bucket and its amount, to the histogram `into`."""
    for bucket, amount in buckets:
        into[bucket] = into.get(bucket, 0) + amount


def _buckets(text: str | None) -> Iterator[tuple[int, int]]:
    """Yield pairs of a bucket and its amount, from a text `bucket amount bucket amount ...`."""
    words = iter(map(int, (text or "").split()))
    return zip(words, words, strict=True)


@dataclass(frozen=True, slots=True)
class Done:
    """A progress report of a session after each slice: the number of work units done so far."""

    number: int
    operations: int


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The report of a session whose connection is lost, or whose statement the server refused."""

    number: int
    why: str
    refused: bool = False
    """True if the server only refused a statement, and still answers on the connection."""


@distributable
def session(job: SessionJob, barrier: Barrier, report: Report) -> SessionResult | ConnectionLost:
    """Run one session: connect, warm up, wait for the barrier, work slice by slice.

    Returns ConnectionLost if the connection or a statement fails during the work.  Raises
    ReplayerError if that happens during the warm-up.
    """
    driver_error = driver.driver_error(job.connector)
    with contextlib.closing(driver.connect_worker(job.connector, *job.first)) as connection:
        own = _Session(job, connection.cursor(), report if job.tells else None)
        try:
            own.warm_up()
        except driver_error as error:
            raise ReplayerError(
                f"session {job.number}: the database reported: {explain(error)}"
            ) from error
        barrier.wait()
        try:
            own.work()
        except driver_error as error:
            answers = driver.answers(job.connector.wire, connection, _ANSWER_SECONDS)
            lost = ConnectionLost(job.number, explain(error), refused=answers)
            report(lost)
            return lost
    return own.result


class _Session:
    """The work of one session: its cursor, and its results so far."""

    def __init__(self, job: SessionJob, cursor: Any, report: Report | None) -> None:
        self._job = job
        self._cursor = cursor
        self._report = report
        self._names: list[str] = []
        self._rows_before: int | None = None
        units = (job.numbers["work_unit"], job.numbers["update_work_unit"])
        self.result = SessionResult(job.number, job.table, *units)

    def warm_up(self) -> None:
        """Run one work unit of each kind, then seed the random numbers.

        The server compiles the procedure and makes its plans before the window begins.
        """
        self.result.plan = tuple(self._lines(self._job.plan))
        for percentage in (0, 100) if self._job.numbers["update_pct"] else (0,):
            self._slice({"update_pct": percentage, "operations": 1, "seconds": _LONG})
        self._lines(self._job.settle)
        self._cursor.execute(self._job.seed, {"seed": self._job.random_seed})
        self._rows_before = self._own_rows()

    def work(self) -> None:
        """Execute slices (calls on the server) until the time is over or all work is done."""
        job, result = self._job, self.result
        left, until = job.operations, _FOREVER
        seconds = min(job.first_slice_seconds, job.run_time or _LONG)
        state: dict[str, Any] = {"window_left": 0, "updates_left": 0}
        while left != 0 and result.ended < until:
            operations = _MANY if left is None else left
            row = self._slice(
                {**state, "operations": operations, "stop_at": until, "seconds": seconds}
            )
            result.add(row)
            if self._report is not None:
                self._report(Done(job.number, result.operations))
            state = {name: row[name] for name in state}
            if job.run_time is not None:
                # The deadline is by the server's clock: the start of the first slice plus the run
                # time.
                until = result.began + job.run_time
            if left is not None:
                left -= row["selects"] + row["updates"]
            seconds = job.slice_seconds
        rows = self._own_rows()
        if rows is not None and self._rows_before is not None:
            result.rows_read = rows - self._rows_before
        self._lines(job.settle)

    def _own_rows(self) -> int | None:
        lines = self._lines(self._job.own_rows)
        return int(lines[0]) if lines else None

    def _slice(self, own: Mapping[str, Any]) -> dict[str, Any]:
        start = {"window_left": 0, "updates_left": 0, "stop_at": _FOREVER}
        self._cursor.execute(self._job.slice, {**start, **self._job.numbers, **own})
        # The columns are the same each time, and a driver needs some time to describe them.
        self._names = self._names or [column[0] for column in self._cursor.description]
        return dict(zip(self._names, self._cursor.fetchone(), strict=True))

    def _lines(self, statements: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for statement in statements:
            self._cursor.execute(statement)
            if self._cursor.description:
                rows = self._cursor.fetchall()
                lines += [" ".join(str(part) for part in row if part is not None) for row in rows]
        return lines
