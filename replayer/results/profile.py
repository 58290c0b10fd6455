"""Profiles as JSON Lines: the resources that a source needed over time, and the table of columns.

The first line of a file is its head (format, replayer's version, source).  Each further line holds
one part of the data, mostly the rows of a minute.  Lines are only appended, each batch with one
write and one fsync.  So a kill loses only what was not yet written.  At most it leaves the last
line incomplete, and a reader ignores such a line.

The history of the format, newest first; every format that was ever released still loads.

1   the first
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeFloat, ValidationError

from replayer import __version__, assets, trusted_path
from replayer.errors import Impossible, NotFound, ReplayerError, nearest
from replayer.model import Fact, Noun

FORMAT = 1
"""The format that this replayer writes; if you raise it, add a line to the history above."""

MOST_ROWS = 1_300_000
"""Limit on the rows of a profile: two weeks of seconds."""
_MOST_LINES = 400_000
_MOST_LINE_BYTES = 8 << 20
_ROWS_A_LINE = 600
_DIGITS = 7
_LATE = 1.0
"""Seconds by which rows may overlap, because other tools' stamps have whole seconds."""

NO_ZONE = "does not say in which zone its times are"
"""Part of the note of a profile that has local times of a zone that is not known."""

Floats = NDArray[np.float64]
Kind = Literal["rate", "gauge"]


class Column(NamedTuple):
    """One column that a profile, or a CSV file for `--from`, may have."""

    name: str
    unit: str
    kind: Kind
    """A rate is the average over a row's span, a gauge the value at its end."""
    meaning: str


COLUMNS = tuple(
    Column(*row)
    for row in (
        ("cpu_cores", "cores", "rate", "processors of the host that were busy"),
        ("cpu_user", "cores", "rate", "of those in user mode, nice included"),
        ("cpu_system", "cores", "rate", "of those in the kernel, interrupts included"),
        ("cpu_iowait", "cores", "rate", "idle processors with a request for I/O under way"),
        ("cpu_steal", "cores", "rate", "processors that the hypervisor gave to others"),
        ("server_cpu_cores", "cores", "rate", "processors that the server's processes used"),
        ("memory_bytes", "bytes", "gauge", "memory of the host that is not available"),
        ("page_cache_bytes", "bytes", "gauge", "page cache of the host"),
        ("read_iops", "1/s", "rate", "reads that the device of the data completed"),
        ("write_iops", "1/s", "rate", "writes that it completed"),
        ("read_mbps", "MB/s", "rate", "10^6 bytes that it read"),
        ("write_mbps", "MB/s", "rate", "10^6 bytes that it wrote"),
        ("read_await_ms", "ms", "gauge", "milliseconds of a read in the row, in the middle"),
        ("write_await_ms", "ms", "gauge", "milliseconds of a write in the row, in the middle"),
        ("queue_depth", "requests", "gauge", "requests under way at the device, in the middle"),
        ("net_in_mbps", "MB/s", "rate", "10^6 bytes received by the host, loopback left out"),
        ("net_out_mbps", "MB/s", "rate", "10^6 bytes sent by the host, loopback left out"),
        ("commits", "1/s", "rate", "transactions committed"),
        ("rollbacks", "1/s", "rate", "transactions rolled back"),
        ("statements", "1/s", "rate", "statements completed"),
        ("selects", "1/s", "rate", "of those SELECT"),
        ("inserts", "1/s", "rate", "of those INSERT"),
        ("updates", "1/s", "rate", "of those UPDATE"),
        ("deletes", "1/s", "rate", "of those DELETE"),
        ("blocks_hit", "1/s", "rate", "blocks found in the server's own buffers"),
        ("blocks_read", "1/s", "rate", "blocks that were not, wherever they came from"),
        ("blocks_written_by_backends", "1/s", "rate", "blocks that sessions wrote themselves"),
        ("blocks_written_by_checkpointer", "1/s", "rate", "blocks that checkpoints wrote"),
        ("blocks_written_by_bgwriter", "1/s", "rate", "blocks written in advance of need"),
        ("io_read_client_mbps", "MB/s", "rate", "10^6 bytes that sessions read into buffers"),
        ("io_read_bulk_mbps", "MB/s", "rate", "10^6 bytes that sessions' large scans read"),
        ("io_read_vacuum_mbps", "MB/s", "rate", "10^6 bytes that vacuums read"),
        ("io_write_client_mbps", "MB/s", "rate", "10^6 bytes that sessions wrote, bulk too"),
        ("io_write_vacuum_mbps", "MB/s", "rate", "10^6 bytes that vacuums wrote"),
        ("io_extend_mbps", "MB/s", "rate", "10^6 bytes that relations grew by"),
        ("io_fsyncs", "1/s", "rate", "fsyncs of data files"),
        ("temp_mbps", "MB/s", "rate", "10^6 bytes written to temporary files"),
        ("wal_mbps", "MB/s", "rate", "10^6 bytes of write-ahead or redo log"),
        ("wal_records", "1/s", "rate", "records of that log"),
        ("wal_full_pages", "1/s", "rate", "full page images in it"),
        ("wal_writes", "1/s", "rate", "writes of it to its file"),
        ("wal_syncs", "1/s", "rate", "syncs of it to the device"),
        ("tuples_returned", "1/s", "rate", "rows read by scans"),
        ("tuples_fetched", "1/s", "rate", "rows fetched by indexes"),
        ("tuples_inserted", "1/s", "rate", "rows inserted"),
        ("tuples_updated", "1/s", "rate", "rows updated"),
        ("tuples_deleted", "1/s", "rate", "rows deleted"),
        ("sessions", "sessions", "gauge", "clients connected"),
        ("sessions_active", "sessions", "gauge", "clients whose statement is running"),
        ("sessions_idle_in_transaction", "sessions", "gauge", "clients idle in a transaction"),
        ("sessions_waiting", "sessions", "gauge", "active clients that wait for something"),
        ("sessions_waiting_io", "sessions", "gauge", "of those for I/O"),
        ("sessions_waiting_lock", "sessions", "gauge", "of those for a lock of another client"),
        ("sessions_waiting_lwlock", "sessions", "gauge", "of those for an internal lock"),
        ("lock_waits", "locks", "gauge", "locks asked for and not granted"),
        ("deadlocks", "1/s", "rate", "deadlocks"),
        ("checkpoints", "1/s", "rate", "checkpoints begun"),
        ("database_bytes", "bytes", "gauge", "size of all databases of the server"),
        ("profiler_cpu_cores", "cores", "rate", "processors that the profiler itself used"),
    )
)
"""All columns that a profile can have, in the order in which they are shown."""

KNOWN: Mapping[str, Column] = {column.name: column for column in COLUMNS}

SELDOM_SECONDS = 10.0
SELDOM = frozenset({"server_cpu_cores", "statements"})
"""Columns that a live profile reads less often, because reading them costs more.

Each value is the average over SELDOM_SECONDS, and is repeated in all rows of that time."""


SERVER_ID = "server.id"
"""The fact of a live profile that identifies its server; older profiles do not have it."""


class ProfileSource(Noun):
    """The server that was profiled, and the kind of the profile."""

    kind: Literal["live", "iostat", "sadf", "csv"]
    engine: str = ""
    """Name of the engine's folder in schemas/; "" if no database is known."""
    version: str = ""
    place: str = ""
    """The server's URL without its secret, or the file from which the profile was made."""
    averaged_seconds: float = Field(gt=0, allow_inf_nan=False)
    """Longest time, in seconds, over which a value is an average; it hides shorter peaks."""
    cores: NonNegativeFloat | None = None
    memory_bytes: int | None = Field(default=None, ge=0)
    database_bytes: int | None = Field(default=None, ge=0)
    block_bytes: int | None = Field(default=None, gt=0)
    """Size of one of the blocks that the columns blocks_* count."""
    device: str | None = None
    facts: dict[str, Fact] = Field(default_factory=dict)
    probes: dict[str, float] = Field(default_factory=dict)
    """Metrics of the probes `cpu` and `memory`, if they were run at the source."""


class Gap(Noun):
    """A time without data: a restart, a reset of counters, a lost connection, a clock step."""

    begin: FiniteFloat
    """Seconds since 1970."""
    end: FiniteFloat
    reason: str


class TableUse(Noun):
    """Reads and writes of one table, with its indexes and TOAST, during the profile."""

    name: str
    bytes: int = Field(ge=0)
    """Size of the table, with its indexes and TOAST."""
    blocks_hit: NonNegativeFloat = 0
    blocks_read: NonNegativeFloat = 0
    tuples_read: NonNegativeFloat = 0
    tuples_written: NonNegativeFloat = 0


class WorkingSet(Noun):
    """The amount of data that is in use."""

    bytes: int | None = Field(default=None, ge=0)
    """None if the amount is not known."""
    method: str = "the source was not asked for it"
    """A sentence without a full stop: the method of the estimate, or why there is none."""


class StatementUse(Noun):
    """Counters of all statements of one kind during the profile; statement texts are not kept."""

    kind: str
    """select, insert, update, delete or other."""
    calls: NonNegativeFloat
    share: float = Field(ge=0, le=1)
    """Calls of this kind, divided by the calls of all kinds."""
    rows: NonNegativeFloat | None = None
    seconds: NonNegativeFloat | None = None
    blocks_hit: NonNegativeFloat | None = None
    blocks_read: NonNegativeFloat | None = None
    wal_bytes: NonNegativeFloat | None = None


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False, slots=True)
class ResourceProfile:
    """The resources that a source needed, as rows; each row is for one span of time.

    Rows do not overlap.  If a row begins after the end of the row before, the time between them
    has no data.
    """

    source: ProfileSource
    ends: Floats = field(default_factory=_nothing)
    """The end of each row in seconds since 1970, rising."""
    spans: Floats = field(default_factory=_nothing)
    """The length of each row in seconds."""
    columns: Mapping[str, Floats] = field(default_factory=dict)
    """Name of a column (see COLUMNS) -> one value for each row, 0 or more; NaN if not known."""
    gaps: tuple[Gap, ...] = ()
    tables: tuple[TableUse, ...] = ()
    statements: tuple[StatementUse, ...] = ()
    working_set: WorkingSet | None = None
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Return the seconds that the rows cover."""
        return float(self.spans.sum())

    @property
    def whole_seconds(self) -> float:
        """Return the seconds from the beginning of the first row to the end of the last."""
        return float(self.ends[-1] - self.ends[0] + self.spans[0]) if self.ends.size else 0.0

    @property
    def has_zone(self) -> bool:
        """Return whether the times are in UTC; if not, they are local, of an unknown zone."""
        return not any(NO_ZONE in note for note in self.notes)

    def column(self, name: str) -> Floats:
        """Return a column, one value for each row; all NaN if the profile does not have it."""
        return self.columns[name] if name in self.columns else np.full(self.ends.size, np.nan)

    def mean(self, name: str) -> float:
        """Return a column's average over the time in which it is known; NaN if it never is."""
        values = self.column(name)
        known = ~np.isnan(values)
        spans = self.spans[known]
        return float((values[known] * spans).sum() / spans.sum()) if spans.size else float("nan")

    def coverage(self, name: str) -> float:
        """Return the share of the whole time in which a column is known, 0 to 1."""
        known = float(self.spans[~np.isnan(self.column(name))].sum())
        return min(1.0, known / self.whole_seconds) if self.ends.size else 0.0


class _Minute(Noun):
    """Rows of about one minute as one line of the file; ends and spans are in seconds."""

    ends: list[FiniteFloat]
    spans: list[FiniteFloat] | FiniteFloat
    columns: dict[str, list[FiniteFloat | None] | FiniteFloat]
    """Name -> one value for each row, or a single number that holds for all rows."""


class _Head(Noun):
    profile: int
    replayer: str
    source: ProfileSource


class _Line(Noun):
    """One line after the head; exactly one of these fields is set."""

    minute: _Minute | None = None
    gap: Gap | None = None
    tables: tuple[TableUse, ...] | None = None
    statements: tuple[StatementUse, ...] | None = None
    working_set: WorkingSet | None = None
    note: str | None = None
    source: ProfileSource | None = None


class ProfileWriter:
    """The file of a new profile, to which rows and other parts are appended."""

    def __init__(self, path: Path, source: ProfileSource) -> None:
        """Create the file with its head.

        Raises Impossible if the file exists already or cannot be written.
        """
        self.path = path
        try:
            with trusted_path.Folder(path.parent) as folder:
                self._fd = folder.create(path.name, 0o666)
        except FileExistsError as error:
            raise Impossible(
                f"the profile {path} is already there: remove it, or give another name with --out"
            ) from error
        except OSError as error:
            raise Impossible(f"the profile {path} cannot be written: {error.strerror}") from error
        head = _Head(profile=FORMAT, replayer=__version__, source=source)
        try:
            self._add([head.model_dump_json()])
        except ReplayerError as error:
            os.close(self._fd)
            path.unlink(missing_ok=True)
            raise Impossible(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._fd)

    def append(self, more: ResourceProfile) -> None:
        """Append rows, gaps and notes; tables, statements and working set replace earlier ones.

        Raises ReplayerError if the file cannot be written; it is then unchanged.
        """
        self._add(_lines(more))

    def describe(self, source: ProfileSource) -> None:
        """Append a description of the source, which replaces the one before.

        Raises ReplayerError if the file cannot be written; it is then unchanged.
        """
        self._add([_text(_Line(source=source))])

    def _add(self, lines: Iterable[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        before = os.fstat(self._fd).st_size
        try:
            written = 0
            while written < len(data):
                # A write may store only a part.  The next write then raises the reason.
                written += os.pwrite(self._fd, data[written:], before + written)
            os.fsync(self._fd)
        except OSError as error:
            # Later lines must not follow an incomplete one.
            os.ftruncate(self._fd, before)
            raise ReplayerError(
                f"the profile {self.path} cannot be written: {error.strerror}"
            ) from error


def save(path: Path, profile: ResourceProfile) -> None:
    """Write a whole profile as a new file.

    Raises Impossible for impossible values, and if the file exists or cannot be created.  Raises
    ReplayerError if it cannot be written, such as on a full disk.
    """
    _check(str(path), profile)
    with ProfileWriter(path, profile.source) as writer:
        writer.append(profile)


def load(path: Path) -> ResourceProfile:
    """Read a profile of any format that was ever released.

    An incomplete last line is left out, and a note reports it.  Raises NotFound if the file is not
    there.  Raises Impossible if it is not a profile, has a newer format, a wrong line, or no row.
    The error is one sentence that names the file.
    """
    try:
        with assets.open_regular(path) as file:
            lines = _read(str(path), file)
            head = _head(str(path), next(lines, b""))
            profile = _gathered(str(path), head.source, lines)
    except FileNotFoundError as error:
        raise NotFound(
            f"the profile {path} is not there", "give a file that `replayer profile` wrote"
        ) from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    if not profile.ends.size:
        raise Impossible(
            f"{path}: it holds no measured second: profile the source for longer than a minute"
        )
    _check(str(path), profile)
    return profile


def _text(line: Noun) -> str:
    return line.model_dump_json(exclude_unset=True)


def _lines(profile: ResourceProfile) -> Iterator[str]:
    """Yield the lines of a profile's file, without the head."""
    for begin in range(0, profile.ends.size, _ROWS_A_LINE):
        yield _text(_Line(minute=_minute(profile, slice(begin, begin + _ROWS_A_LINE))))
    for gap in profile.gaps:
        yield _text(_Line(gap=gap))
    if profile.tables:
        yield _text(_Line(tables=profile.tables))
    if profile.statements:
        yield _text(_Line(statements=profile.statements))
    if profile.working_set is not None:
        yield _text(_Line(working_set=profile.working_set))
    for note in profile.notes:
        yield _text(_Line(note=note))


def _minute(profile: ResourceProfile, rows: slice) -> _Minute:
    columns = {name: _short(values[rows]) for name, values in profile.columns.items()}
    return _Minute.model_construct(
        ends=[round(end, 3) for end in profile.ends[rows].tolist()],
        spans=_short(profile.spans[rows]),
        columns={name: values for name, values in columns.items() if values is not None},
    )


def _short(values: Floats) -> list[float | None] | float | None:
    """Return the values of a column, rounded for the file, None for each unknown one.

    If all of them are equal, return this one value instead of a list: None if none is known.
    """
    numbers = [float(f"{value:.{_DIGITS}g}") if value == value else None for value in values]  # noqa: PLR0124
    alike = len(set(numbers)) == 1
    return numbers[0] if alike else numbers


def _read(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file, and b"" instead of an incomplete last line.

    Raises Impossible if the file or one of its lines is too large for a profile.
    """
    for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE_BYTES + 1), b""), 1):
        if len(line) > _MOST_LINE_BYTES or number > _MOST_LINES:
            raise Impossible(f"{name}: it is not a profile of replayer, it is too large for one")
        yield line if line.endswith(b"\n") or number == 1 else b""


def _head(name: str, line: bytes) -> _Head:
    """Return the head of a file, from its first line.

    Raises Impossible if it is not the head of a profile, or if a newer replayer wrote it.
    """
    try:
        about = _Format.model_validate_json(line)
    except ValidationError:
        if line.startswith(b'{"profile":') and not line.endswith(b"\n"):
            raise Impossible(f"{name}: it is cut off in its first line, nothing is left") from None
        raise Impossible(
            f"{name}: it is not a profile of replayer: `replayer profile URL` writes one, "
            f"`replayer profile --from` makes one of other tools' files"
        ) from None
    if about.profile > FORMAT:
        raise Impossible(
            f"{name}: it has format {about.profile}, this replayer {__version__} reads up to "
            f"{FORMAT}: upgrade replayer"
        )
    try:
        return _Head.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise Impossible(f"{name}: line 1: {_explain(error)}") from error


class _Format(Noun):
    """The keys that the heads of all formats have; `profile` is the number of the format."""

    model_config = ConfigDict(extra="ignore")

    profile: Annotated[int, Field(strict=True, ge=1)]
    source: dict[str, Any]


def _gathered(name: str, source: ProfileSource, lines: Iterator[bytes]) -> ResourceProfile:
    """Return the profile with this source and the data of all lines after the head."""
    profile = ResourceProfile(source)
    minutes: list[_Rows] = []
    gaps: list[Gap] = []
    notes: list[str] = []
    rows = 0
    for number, text in enumerate(lines, 2):
        if not text:
            notes.append("the file's last line was cut off, so up to a minute of it is lost")
            break
        line = _line(name, number, text)
        if line.minute is not None:
            minutes.append(_rows(f"{name}: line {number}", line.minute))
            rows += minutes[-1].ends.size
        if rows > MOST_ROWS:
            raise Impossible(f"{name}: it has more rows than replayer reads, {MOST_ROWS:,}")
        gaps += [line.gap] if line.gap is not None else []
        notes += [line.note] if line.note is not None else []
        profile = _replaced(profile, line)
    ends, spans, columns = _joined(minutes)
    return replace(
        profile, ends=ends, spans=spans, columns=columns, gaps=tuple(gaps), notes=tuple(notes)
    )


def _line(name: str, number: int, text: bytes) -> _Line:
    try:
        return _Line.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise Impossible(f"{name}: line {number}: {_explain(error)}") from error


def _replaced(profile: ResourceProfile, line: _Line) -> ResourceProfile:
    """Return the profile with the tables, statements, working set or source that the line has."""
    new: dict[str, Any] = {
        key: getattr(line, key)
        for key in ("tables", "statements", "working_set", "source")
        if getattr(line, key) is not None
    }
    return replace(profile, **new) if new else profile


class _Rows(NamedTuple):
    """The rows of one line as arrays, which need a fraction of a list's memory."""

    ends: Floats
    spans: Floats
    columns: dict[str, Floats | float]


def _rows(where: str, minute: _Minute) -> _Rows:
    """Return the rows of a minute; raise Impossible if a column is unknown or has a wrong length.

    `where` names the file and the line in the error.
    """
    many = len(minute.ends)
    for column, values in {"spans": minute.spans, **minute.columns}.items():
        if column not in KNOWN and column != "spans":
            raise Impossible(f"{where}: there is no column {column!r}{_near(column)}")
        if isinstance(values, list) and len(values) != many:
            raise Impossible(
                f"{where}: the column {column} has {len(values)} values for {many} rows"
            )
    columns = {name: _array(values) for name, values in minute.columns.items()}
    spans = np.broadcast_to(_array(minute.spans), many)
    return _Rows(np.array(minute.ends, dtype=np.float64), spans, columns)


def _array(values: Sequence[float | None] | float) -> Floats | float:
    return values if isinstance(values, float) else np.array(values, dtype=np.float64)


def _near(column: str) -> str:
    close = nearest(column[:60], KNOWN)
    return close if close.startswith(" -") else ""


def _joined(minutes: Sequence[_Rows]) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Return ends, spans and columns of all minutes, joined into one array each."""
    names = {name for minute in minutes for name in minute.columns}
    rows = sum(minute.ends.size for minute in minutes)
    ends, spans = np.empty(rows), np.empty(rows)
    columns = {name: np.full(rows, np.nan) for name in KNOWN if name in names}
    begin = 0
    for minute in minutes:
        part = slice(begin, begin + minute.ends.size)
        ends[part], spans[part] = minute.ends, minute.spans
        for name, values in minute.columns.items():
            columns[name][part] = values
        begin = part.stop
    return ends, spans, columns


def _check(name: str, profile: ResourceProfile) -> None:
    """Raise Impossible for values that no source can have, such as a negative or infinite one."""
    ends, spans = profile.ends, profile.spans
    if spans.size and not (spans > 0).all():
        raise Impossible(f"{name}: the row {int(np.argmin(spans)) + 1} spans no time")
    late = np.flatnonzero(
        (np.diff(ends) <= 0) | (ends[1:] - spans[1:] < ends[:-1] - _LATE - spans[1:] / 10)
    )
    if late.size:
        raise Impossible(
            f"{name}: the row {int(late[0]) + 2} begins before the one in front of it has ended"
        )
    for column, values in profile.columns.items():
        if column not in KNOWN:
            raise Impossible(f"{name}: there is no column {column!r}{_near(column)}")
        if (values < 0).any() or np.isinf(values).any():
            row = int(np.flatnonzero((values < 0) | np.isinf(values))[0])
            raise Impossible(
                f"{name}: {column} is {values[row]:g} in row {row + 1}, and must be 0 or more"
            )


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        return "it is not JSON"
    if first["type"] == "extra_forbidden":
        return f"the key {where} is unknown to format {FORMAT} of replayer {__version__}"
    if first["type"] == "missing":
        return f"the key {where} is missing"
    return f"{where or 'it'} {first['msg'].removeprefix('Input ')}"
