"""Profile <-> JSON Lines: what a source needed over time, and the one table of its columns.

The first line of a file is its head (format, replayer's version, source); each further line holds
one thing more, mostly the rows of a minute.  Lines are only ever added, each lot with one write and
one fsync, so that a kill loses what was not yet written and at most tears the last line, which is
left out when the file is read.

The history of the format, newest first; every format that was ever released still loads.

1   the first
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeFloat, ValidationError

from replayer import __version__, assets, trusted_path
from replayer.errors import Impossible, NotFound, ReplayerError, nearest
from replayer.model import Fact, Noun

FORMAT = 1
"""The format that this replayer writes: raise it with a line above."""

MOST_ROWS = 1_300_000
"""Of a profile: two weeks of seconds."""
_MOST_LINES = 400_000
_MOST_LINE_BYTES = 8 << 20
_ROWS_A_LINE = 600
_DIGITS = 7
_WORK = (
    *("cpu_cores", "server_cpu_cores", "read_iops", "write_iops", "read_mbps", "write_mbps"),
    *("commits", "statements", "blocks_hit", "blocks_read", "wal_mbps", "tuples_returned"),
)
"""Columns of which at least one is above 0 where anything is done."""
_LATE = 1.0
"""Seconds that rows may overlap: clocks of other tools have whole seconds."""

Floats = NDArray[np.float64]
Kind = Literal["rate", "gauge"]


class Column(NamedTuple):
    """One column that a profile may have, and of a CSV that `--from` reads."""

    name: str
    unit: str
    kind: Kind
    """A rate is the average of a row's span, a gauge what held at its end."""
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
"""Every column that is known, in the order in which it is shown."""

KNOWN: Mapping[str, Column] = {column.name: column for column in COLUMNS}

SELDOM_SECONDS = 10.0
SELDOM = frozenset({"server_cpu_cores", "statements"})
"""Columns that a live profile may have less often, as reading them costs more: each of their values
is the average of SELDOM_SECONDS and stands in all the rows of that time."""


class ProfileSource(Noun):
    """What was profiled, and how."""

    kind: Literal["live", "iostat", "sadf", "csv"]
    engine: str = ""
    """Name of its folder in schemas/, "" where no database is known."""
    version: str = ""
    place: str = ""
    """The URL without its secret, or the file that it was imported from."""
    averaged_seconds: float = Field(gt=0, allow_inf_nan=False)
    """What one value is an average of, at most: peaks shorter than it are not in the profile."""
    cores: NonNegativeFloat | None = None
    memory_bytes: int | None = Field(default=None, ge=0)
    database_bytes: int | None = Field(default=None, ge=0)
    block_bytes: int | None = Field(default=None, gt=0)
    """Of what blocks_* count."""
    device: str | None = None
    facts: dict[str, Fact] = Field(default_factory=dict)
    probes: dict[str, float] = Field(default_factory=dict)
    """Metrics of the probes `cpu` and `memory`, if they were run at the source."""


class Gap(Noun):
    """A time in which nothing is known: a restart, a reset, a lost connection, a clock step."""

    begin: FiniteFloat
    """Seconds since 1970."""
    end: FiniteFloat
    reason: str


class TableUse(Noun):
    """What was read of one table, its indexes and its TOAST included, while it was profiled."""

    name: str
    bytes: int = Field(ge=0)
    blocks_hit: NonNegativeFloat = 0
    blocks_read: NonNegativeFloat = 0
    tuples_read: NonNegativeFloat = 0
    tuples_written: NonNegativeFloat = 0


class WorkingSet(Noun):
    """How much of the data is in use."""

    bytes: int | None = Field(default=None, ge=0)
    """None where it is not known."""
    method: str = "the source was not asked for it"
    """A sentence without a full stop: how it was estimated, or why it is not known."""


class StatementUse(Noun):
    """Statements of one kind while it was profiled; no text of a statement is kept."""

    kind: str
    """select, insert, update, delete or other."""
    calls: NonNegativeFloat
    share: float = Field(ge=0, le=1)
    rows: NonNegativeFloat | None = None
    seconds: NonNegativeFloat | None = None
    blocks_hit: NonNegativeFloat | None = None
    blocks_read: NonNegativeFloat | None = None
    wal_bytes: NonNegativeFloat | None = None


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False, slots=True)
class ResourceProfile:
    """What a source needed: `n` rows, each of a span of time that ends at `ends`.

    Rows do not overlap; where one does not begin at the end of the one before nothing is known.
    """

    source: ProfileSource
    ends: Floats = field(default_factory=_nothing)
    """Seconds since 1970, rising."""
    spans: Floats = field(default_factory=_nothing)
    """Seconds."""
    columns: Mapping[str, Floats] = field(default_factory=dict)
    """A name of COLUMNS -> one value a row, 0 or more; NaN where it is not known."""
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
        """Return the seconds from the begin of the first row to the end of the last."""
        return float(self.ends[-1] - self.ends[0] + self.spans[0]) if self.ends.size else 0.0

    def column(self, name: str) -> Floats:
        """Return a column, all NaN if the profile does not have it."""
        return self.columns[name] if name in self.columns else np.full(self.ends.size, np.nan)

    def mean(self, name: str) -> float:
        """Return a column's average over the time in which it is known, NaN if it never is."""
        values = self.column(name)
        known = ~np.isnan(values)
        spans = self.spans[known]
        return float((values[known] * spans).sum() / spans.sum()) if spans.size else float("nan")

    def coverage(self, name: str) -> float:
        """Return the share of the whole time in which a column is known, 0 to 1."""
        known = float(self.spans[~np.isnan(self.column(name))].sum())
        return min(1.0, known / self.whole_seconds) if self.ends.size else 0.0


class _Minute(Noun):
    ends: list[FiniteFloat]
    spans: list[FiniteFloat] | FiniteFloat
    columns: dict[str, list[FiniteFloat | None] | FiniteFloat]
    """One number for all rows where it is the same in each."""


class _Head(Noun):
    profile: int
    replayer: str
    source: ProfileSource


class _Line(Noun):
    """One of these."""

    minute: _Minute | None = None
    gap: Gap | None = None
    tables: tuple[TableUse, ...] | None = None
    statements: tuple[StatementUse, ...] | None = None
    working_set: WorkingSet | None = None
    note: str | None = None
    source: ProfileSource | None = None


class ProfileWriter:
    """A profile's new file, to which more is added as it becomes known."""

    def __init__(self, path: Path, source: ProfileSource) -> None:
        """Create the file with its head; raise Impossible if it is there or cannot be written."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def append(self, more: ResourceProfile) -> None:
        """Add rows, gaps and notes; what it has of tables and the like replaces what was said.

        Raises ReplayerError if it cannot be written; the file is then as before.
        """
        self._add(_lines(more))

    def describe(self, source: ProfileSource) -> None:
        """Replace what is said of the source, once more of it is known."""
        self._add([_text(_Line(source=source))])

    def _add(self, lines: Iterable[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
        before = os.fstat(self._fd).st_size
        try:
            written = 0
            while written < len(data):
                # A second write, where there is room for a part only, tells why.
                written += os.pwrite(self._fd, data[written:], before + written)
            os.fsync(self._fd)
        except OSError as error:
            # What is torn must not stay in front of whole lines.
            os.ftruncate(self._fd, before)
            raise ReplayerError(
                f"the profile {self.path} cannot be written: {error.strerror}"
            ) from error


def save(path: Path, profile: ResourceProfile) -> None:
    """Write a whole profile as a new file; raise Impossible or ReplayerError as Writer does."""
    _check(str(path), profile)
    with ProfileWriter(path, profile.source) as writer:
        writer.append(profile)


def load(path: Path) -> ResourceProfile:
    """Read a profile of any format that was ever written.

    A last line that is torn is left out, and a note says so.  Raises Impossible, in one sentence
    that names the file, when it is not there, no profile, of a newer format, has a line that is
    wrong, or no row at all.
    """
    try:
        with assets.open_regular(path) as file:
            lines = _read(str(path), file)
            head = _head(str(path), next(lines, b""))
            profile = _gathered(str(path), head.source, lines)
    except FileNotFoundError as error:
        raise NotFound(f"the profile {path} is not there") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror}") from error
    if not profile.ends.size:
        raise Impossible(
            f"{path}: it holds no measured second: profile the source for longer than a minute"
        )
    _check(str(path), profile)
    return profile


def refuse_idle(path: Path | str, profile: ResourceProfile) -> None:
    """Raise Impossible for a profile in which nothing was done, of which no size follows."""
    if not any(np.nansum(profile.column(name)) > 0 for name in _WORK):
        raise Impossible(
            f"{path}: it has no load, nothing was read, written or committed in its "
            f"{profile.seconds:,.0f} s: profile the source while it is in use"
        )


def _text(line: Noun) -> str:
    return line.model_dump_json(exclude_unset=True)


def _lines(profile: ResourceProfile) -> Iterator[str]:
    """Yield a profile without its head as the lines of its file."""
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
    """Return values as they are written; one where all are alike, None where none is known."""
    numbers = [float(f"{value:.{_DIGITS}g}") if value == value else None for value in values]  # noqa: PLR0124
    alike = len(set(numbers)) == 1
    return numbers[0] if alike else numbers


def _read(name: str, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file that ended whole, and b"" at last for one that did not."""
    for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE_BYTES + 1), b""), 1):
        if len(line) > _MOST_LINE_BYTES or number > _MOST_LINES:
            raise Impossible(f"{name}: it is no profile of replayer, it is too large for one")
        yield line if line.endswith(b"\n") or number == 1 else b""


def _head(name: str, line: bytes) -> _Head:
    """Return the head of a file; raise Impossible for what is none, or of a newer replayer."""
    try:
        about = _Format.model_validate_json(line)
    except ValidationError:
        if line.startswith(b'{"profile":') and not line.endswith(b"\n"):
            raise Impossible(f"{name}: it is cut off in its first line, nothing is left") from None
        raise Impossible(
            f"{name}: it is no profile of replayer: `replayer profile URL` writes one, "
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
    """The part of a head that tells whether the rest can be read."""

    model_config = ConfigDict(extra="ignore")

    profile: Annotated[int, Field(strict=True, ge=1)]
    source: dict[str, Any]


def _gathered(name: str, source: ProfileSource, lines: Iterator[bytes]) -> ResourceProfile:
    """Return what the lines after the head hold together."""
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
    """Return a profile with what a line says anew."""
    new: dict[str, Any] = {
        key: getattr(line, key)
        for key in ("tables", "statements", "working_set", "source")
        if getattr(line, key) is not None
    }
    return replace(profile, **new) if new else profile


class _Rows(NamedTuple):
    """A minute of the file as arrays, which need a fraction of a list's memory."""

    ends: Floats
    spans: Floats
    columns: dict[str, Floats | float]


def _rows(where: str, minute: _Minute) -> _Rows:
    """Return a minute's rows; raise Impossible where its columns do not fit them."""
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
    """Return ends, spans and columns of all minutes in a row."""
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
    """Refuse what no source can have done, although each value is a number."""
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
