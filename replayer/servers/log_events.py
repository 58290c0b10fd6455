"""Events of the server during a step, such as checkpoints, read from its log.

The section `[server.log_events]` of engine.toml describes the log: `time` is the pattern of a
line's time in UTC, `format` is the format of that time, and every other key is a kind of event with
the pattern of its lines.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from replayer import assets
from replayer.engines.engine_spec import LogEvents
from replayer.model import Mark, Series
from replayer.servers.data_folder import DataFolder
from replayer.servers.protocol import Server

_LONGEST = 200
_MOST = 500
_PIECE = 1 << 20


def marked(series: Series, server: Server) -> Series:
    """Return a copy of a time series with a mark for each event that the server logged during it.

    A mark has a time, a kind and a text.  The series is returned unchanged if replayer did not
    start the server, or if the engine has no patterns for events.
    """
    data = server.data_directory() if server.kind == "private" else None
    keys = server.engine.spec.server.log_events
    began = _instant(series.started)
    if data is None or keys is None or began is None or not series.seconds:
        return series
    events = [
        mark
        for log in _logs(DataFolder(data.parent).log)
        for mark in marks(log, keys, began)
        if 0 <= mark.at <= series.seconds[-1]
    ]
    events.sort(key=lambda mark: mark.at)
    return series.model_copy(update={"marks": (*series.marks, *events[:_MOST])})


def marks(log: Path, keys: LogEvents, began: datetime) -> Iterator[Mark]:
    """Yield a mark (time, kind and text) for each event in the log file `log`.

    The time is in seconds since `began`; it is negative for an event before that.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        event = _event(line, keys)
        if event is not None:
            at = round((event.when - began).total_seconds(), 3)
            yield Mark(at=at, kind=event.kind, text=event.text)


class LogEvent(NamedTuple):
    """One event of the server's log, such as a checkpoint."""

    when: datetime
    kind: str
    text: str


class Tail:
    """A reader of the new events in the log of a server, for calls at intervals.

    It yields events of a private server only, which replayer started itself.
    """

    def __init__(self, server: Server) -> None:
        """Begin at the current end of the server's log."""
        data = server.data_directory() if server.kind == "private" else None
        self._log = None if data is None else DataFolder(data.parent).log
        self._keys = server.engine.spec.server.log_events
        self._inode, self._at = 0, 0
        self._rest = b""
        with contextlib.suppress(OSError):
            if self._log is not None:
                about = self._log.stat()
                self._inode, self._at = about.st_ino, about.st_size

    def fresh(self) -> Iterator[LogEvent]:
        """Yield the events logged since the last call."""
        if self._log is None or self._keys is None:
            return
        data = self._read(self._log)  # a new log has no use for the rest of the old one
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = _event(line.decode(errors="replace"), self._keys)
            if event is not None:
                yield event

    def _read(self, log: Path) -> bytes:
        """Return the log's new bytes; a new log (after a server start) is read from its start."""
        try:
            with assets.open_regular(log) as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._at:
                    self._inode, self._at, self._rest = about.st_ino, 0, b""
                file.seek(self._at)
                data = file.read(_PIECE)
                self._at += len(data)
                return data
        except OSError:
            return b""


def _event(line: str, keys: LogEvents) -> LogEvent | None:
    stamp = keys.time.match(line)
    if stamp is None:
        return None
    message = line[stamp.end() :]
    kind = next((kind for kind, words in keys.kinds.items() if words.search(message)), None)
    if kind is None:
        return None
    when = datetime.strptime(stamp[1], keys.format).replace(tzinfo=UTC)
    return LogEvent(when, kind, _short(message))


def _short(message: str) -> str:
    """Return an event's message without process id and severity, cut to a maximum length."""
    words = re.sub(r"^\W*\[\d+\]\s*\w+:\s*", "", message).strip()
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _logs(log: Path) -> list[Path]:
    """Return the paths of two logs: before the server's last start, and since then."""
    return [log.with_name(f"{log.name}.1"), log]


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
