"""JSON lines of PostgreSQL: jsonlog, CloudNativePG, Cloud SQL, Azure, and lines in an envelope."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from replayer.capture import assembly, holes, prefix
from replayer.capture.action import Action
from replayer.capture.entry import LogEntry, ReadCounts, query_number
from replayer.capture.holes import HOLE
from replayer.capture.inputs import CUT, Input
from replayer.capture.lines import Joiner
from replayer.capture.logs import ReadRequest
from replayer.capture.stamps import StampReader
from replayer.errors import Impossible

ENGINE = "postgres"
RANK = 2
_OTHERS = frozenset({"client backend", "not initialized", "postmaster", "startup", "walsender", ""})
_TEXTS = ("textPayload", "log", "message", "msg", "line", "MESSAGE")
"""Keys under which a JSON envelope may hold a line of a log."""
_TIMES = ("timestamp", "time", "ts", "@timestamp")
_LONG = re.compile(r'\{"[^\n]{1,2000}"error_severity": ?"')
_MESSAGE = re.compile(r'"message": ?"([^"]{20})')
_OF_STATEMENTS = re.compile(r"(?:duration: |statement: |execute )")
_FAILED = re.compile(r'"error_severity": ?"(?:ERROR|FATAL)"')
_STRINGS = {str}
_SAMPLES = 500
_WINDOW = 16


def fits(head: str) -> bool:
    """Return whether `head`, the beginning of a log, has JSON lines with PostgreSQL's entries.

    A single line may be cut off.
    """
    if "\n" not in head:
        return _LONG.match(head) is not None
    return any(_fields(one) or _text(one) for one in _objects(head))


def find_start(head: str, order: ReadRequest) -> int | None:
    """Return the time of the earliest entry in `head`, the beginning of a log, in ns since 1970.

    Returns None if no entry there has a time.
    """
    reader = _Reader(order)
    return min(reader.times(head), default=None)


def read(inputs: Iterable[Input], order: ReadRequest) -> Iterator[list[Action]]:
    """Yield lists of clients' actions in the order of the log."""
    reader, whole = _Reader(order), assembly.SessionAssembly(order.reading, order.announce)
    for source in inputs:
        for entries in reader.entries(source):
            yield whole.take(entries)
    assembly.note_zones(reader.clock, order.reading)
    yield whole.finish()


class _Reader:
    """A reader of PostgreSQL's log entries from JSON lines, as several programs write them."""

    def __init__(self, order: ReadRequest) -> None:
        self.clock = StampReader()
        self._order = order
        self._joiner: Joiner | None = None

    def times(self, head: str) -> Iterator[int]:
        """Yield the times of the entries in `head`, a log's beginning, in ns since 1970."""
        for one in _objects(head):
            try:
                fields = _fields(one)
                if fields is not None:
                    yield self.clock.ns(fields["log_time"])
                elif (stamp := _stamp(one)) is not None:
                    yield self.clock.ns(stamp)
            except (ValueError, KeyError, TypeError):
                continue

    def entries(self, source: Input) -> Iterator[list[LogEntry]]:
        """Yield lists of a file's entries; read it backwards if its newest entry is first."""
        head = source.head()
        times = list(self.times(head))
        # Exports of a cluster's logs have the newest line first.
        descending = len(times) > 1 and times[0] > times[-1] and times == sorted(times)[::-1]
        self._joiner = None
        objects = list(_objects(head))
        if objects and not any(_fields(one) for one in objects):
            self._joined([text for one in objects if (text := _text(one))])
        batches = (source.backwards if descending else source.lines)(self._order.advance)
        number, step = (0, 0) if descending else (1, 1)
        for lines in batches:
            made: list[LogEntry] = []
            for at, line in enumerate(lines):
                where = f"{source.name}: line {number + at * step:,}" if step else source.name
                made += self._line(line, where)
            number += len(lines) * step
            yield made
        if self._joiner is not None:
            yield self._joiner.finish()

    def _joined(self, texts: list[str]) -> Joiner:
        """Create, keep and return the Joiner, which makes entries from log lines in JSON envelopes.

        `texts` are the first such lines, from which the prefix is found if the user gave none.
        Raises Impossible if no prefix fits.
        """
        asked = self._order.prefix
        begin = (
            prefix.compiled(asked, timed=False)
            if asked is not None
            else prefix.guessed((text.split("\n")[0] for text in texts[:_SAMPLES]), timed=False)
        )
        if begin is None:
            raise Impossible(
                "the lines in this JSON have no prefix that is known: --prefix gives the "
                "log_line_prefix of their server"
            )
        self._joiner = Joiner(begin, self.clock, self._order.reading, _WINDOW)
        return self._joiner

    def _line(self, line: str, where: str) -> Iterable[LogEntry]:
        if not line or line.isspace():
            return ()
        reading = self._order.reading
        if line[-1] == CUT:
            return self._cut(line)
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            reading.hurt(f"{where} is not a whole JSON object")
            return ()
        if not isinstance(one, dict):
            reading.hurt(f"{where} is JSON, but no object")
            return ()
        fields = _fields(one)
        if fields is None:
            return self._enveloped(one)
        return _entry(fields, self.clock, reading, where)

    def _cut(self, line: str) -> Iterable[LogEntry]:
        """Count the statement of a line that is too long, or that a hole cut off, as lost.

        Returns the entries that the hole ends.
        """
        if not line.endswith(HOLE):
            self._order.reading.skip(assembly.CUT_TEXT)
            return ()
        message = _MESSAGE.search(line)
        statement = message is None or _OF_STATEMENTS.search(message[1]) or _FAILED.search(line)
        if statement and line.startswith("{"):
            self._order.reading.skip(holes.LOST)
        return self._joiner.break_off() if self._joiner is not None else ()

    def _enveloped(self, one: Mapping[str, Any]) -> Iterable[LogEntry]:
        """Add the log line in the JSON envelope `one`; return the entries that are now complete."""
        text = _text(one)
        joiner = self._joiner
        if not text or joiner is None:
            # Log collectors add their own lines between those of the server.
            return ()
        stamp = _stamp(one)
        try:
            time_ns = self.clock.ns(stamp) if stamp is not None else 0
        except ValueError:
            time_ns = 0
        first, *others = text.rstrip("\n").split("\n")
        joiner.add(first, time_ns)
        for other in others:
            joiner.add(other if other.startswith("\t") else f"\t{other}", time_ns)
        return joiner.ready()


def _objects(head: str) -> Iterator[dict[str, Any]]:
    for line in head.split("\n")[:_SAMPLES]:
        if line.startswith("{"):
            try:
                one = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(one, dict):
                yield one


def _fields(one: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the fields of the log entry in a JSON object, under csvlog's names.

    Returns None if it has no such fields, as an object that only has a line of text.
    """
    if "error_severity" in one and "timestamp" in one:
        return _Json(one)
    record = one.get("record")
    if isinstance(record, dict) and "error_severity" in record:
        return record
    inner = one.get("jsonPayload")
    if isinstance(inner, dict):
        return _fields(inner)
    return None


class _Json(dict[str, Any]):
    """An object of a jsonlog, whose fields can be read under csvlog's names."""

    _NAMES = {  # noqa: RUF012 - never changed
        "log_time": "timestamp",
        "user_name": "user",
        "database_name": "dbname",
        "session_line_num": "line_num",
        "sql_state_code": "state_code",
        "query": "statement",
        "session_start_time": "session_start",
    }

    def __missing__(self, name: str) -> Any:
        return super().__getitem__(self._NAMES[name])

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field by csvlog's name for it; `default` if it is missing."""
        return super().get(self._NAMES.get(name, name), default)


def _entry(
    fields: Mapping[str, Any], clock: StampReader, reading: ReadCounts, where: str
) -> Iterable[LogEntry]:
    get = fields.get
    if str(get("backend_type", "")) not in _OTHERS:
        reading.entries += 1
        return ()
    try:
        texts = (
            get("session_id") or str(get("process_id") or get("pid") or ""),
            get("error_severity") or "",
            get("message") or "",
            get("detail") or "",
            get("sql_state_code") or "",
            get("query") or "",
            get("context") or "",
            get("user_name") or "",
            get("database_name") or "",
            get("application_name") or "",
            _remote(get),
            get("vxid") or get("virtual_transaction_id") or "",
        )
        if set(map(type, texts)) == _STRINGS:
            number = int(get("session_line_num") or 0)
            return (
                LogEntry(
                    clock.ns(fields["log_time"]),
                    *texts[:-1],
                    query_number(get("query_id", 0)),
                    number,
                    texts[-1],
                ),
            )
    except (ValueError, TypeError, KeyError):
        pass
    reading.hurt(f"{where} has no time, or fields that are no text")
    return ()


def _remote(get: Any) -> str:
    host = get("connection_from") or get("remote_host") or ""
    port = get("remote_port")
    return f"{host}:{port}" if port else host


def _text(one: Mapping[str, Any]) -> str:
    """Return the log line in the JSON object `one`, which a log collector made; "" if none."""
    inner = one.get("properties")
    if isinstance(inner, dict):
        one = inner
    return next((text for key in _TEXTS if isinstance(text := one.get(key), str) and text), "")


def _stamp(one: Mapping[str, Any]) -> str | None:
    """Return the time in the JSON object `one` around a log line, as text; None without a date."""
    for key in _TIMES:
        stamp = one.get(key)
        if isinstance(stamp, str) and stamp[4:5] == "-":
            return stamp
    return None
