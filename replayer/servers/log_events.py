"""What the server did by itself while a step ran, from its log, such as checkpoints.

An engine says in `[server.log_events]` of its engine.toml how its log tells: `time` is how a line
begins with its time in UTC, `format` how that is read; every other key is a kind of event and the
words that a line of it has.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from replayer.engines.engine_spec import LogEvents
from replayer.model import Mark, Series
from replayer.servers.data_folder import DataFolder
from replayer.servers.protocol import Server

_LONGEST = 200
_MOST = 500


def marked(series: Series, server: Server) -> Series:
    """Return the series with a mark for every event that fell into it; private servers only."""
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
    """Yield every event of a log, in seconds since `began`, below 0 before it."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        stamp = keys.time.match(line)
        if stamp is None:
            continue
        message = line[stamp.end() :]
        kind = next((kind for kind, words in keys.kinds.items() if words.search(message)), None)
        if kind is not None:
            when = datetime.strptime(stamp[1], keys.format).replace(tzinfo=UTC)
            at = round((when - began).total_seconds(), 3)
            yield Mark(at=at, kind=kind, text=_short(message))


def _short(message: str) -> str:
    """Return an event's words without the server's process id and severity, at most so long."""
    words = re.sub(r"^\W*\[\d+\]\s*\w+:\s*", "", message).strip()
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _logs(log: Path) -> list[Path]:
    """Return the log before the server's last start, and the one since."""
    return [log.with_name(f"{log.name}.1"), log]


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
