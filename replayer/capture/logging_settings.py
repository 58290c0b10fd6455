"""Settings with which a server's log can be replayed, the size of that log, and its place.

The size is in bytes a second, estimated from the running load.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.engines import environment
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError, Skip
from replayer.servers import log_settings
from replayer.servers.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import URL

    from replayer.engines.connection import Database, Row
    from replayer.engines.engine import Engine

_WANTED = log_settings.WANTED
_OVERRIDDEN = VerbName("capture/overridden")
_ABOUT = VerbName("capture/about")
_PLACE = VerbName("capture/place")
_TOTALS = VerbName("capture/totals")
_STATEMENTS = VerbName("capture/statements")
_ACTIVITY = VerbName("capture/activity")
_EXTENSION = VerbName("profile/extension")
SAMPLE_SECONDS = 3.0
_EVERY = 0.1
_EFFECT_SECONDS = 5.0
_UNKNOWN_BYTES = 100.0
"""Assumed bytes of a statement's text, if no statement was seen."""


@dataclass(frozen=True, slots=True)
class LogSetting:
    """One logging setting of a server: its value, the value that a replay needs, and the reason."""

    name: str
    value: str
    wanted: str
    why: str

    @property
    def changes(self) -> bool:
        """Return whether the setting's value differs from the one that a replay needs."""
        return self.value != self.wanted


@dataclass(frozen=True, slots=True)
class Needs:
    """The log settings that a replay needs, and notes about them."""

    settings: tuple[LogSetting, ...]
    statements: tuple[str, ...]
    """SQL statements for a user to type, which change each setting that has another value."""
    notes: tuple[str, ...]

    @property
    def changes(self) -> dict[str, str]:
        """Return setting -> needed value, for the settings that have to be changed."""
        return {one.name: one.wanted for one in self.settings if one.changes}


def needs(database: Database) -> Needs:
    """Return the logging settings that a server needs so that its log can be replayed.

    Raises Skip for an engine that has no such settings.
    """
    settings = _settings(database)
    typed = [log_settings.statement(database, s.name, s.wanted) for s in settings if s.changes]
    about = database.row(_ABOUT)
    notes = [str(about["sentence"])] if about["sentence"] else []
    if database.engine.verb(_OVERRIDDEN) is not None:
        notes += [
            f"{row['whose']} has {row['setting']} of its own, which stays"
            for row in database.execute(_OVERRIDDEN)
        ]
    return Needs(settings, tuple(typed), tuple(notes))


def _settings(database: Database) -> tuple[LogSetting, ...]:
    return tuple(
        LogSetting(*(str(row[key]) for key in ("name", "value", "wanted", "why")))
        for row in database.execute(_WANTED)
    )


def check_effect(engine: Engine, url: URL) -> list[str]:
    """Return a sentence for each logging setting that was set but is still not in effect.

    Processes of the server read new settings only at certain moments.  So this waits up to five
    seconds until all are in effect.
    """
    end = time.monotonic() + _EFFECT_SECONDS
    while True:
        with log_settings.asking(engine, url) as database:
            lacking = [one for one in _settings(database) if one.changes]
        if not lacking or time.monotonic() > end:
            break
        time.sleep(_EVERY)
    return [
        f"{one.name} stays {one.value or 'empty'!r}, as something overrides it (the server's "
        f"command line, or the user's or the database's own setting)"
        for one in lacking
    ]


# The cost of logging


@dataclass(frozen=True, slots=True)
class LoggingCost:
    """The amount of log per second, estimated from the running load."""

    statements: float
    """Statements a second."""
    at_least: bool
    """True if the server does not count statements, so that there may be more of them."""
    text_bytes: float
    """Bytes of a statement's text, on average."""
    low: float
    """Bytes a second, with one line for each statement."""
    high: float
    """Bytes a second, with a line for each message that drivers may send for one statement."""


def cost(database: Database, seconds: float) -> LoggingCost:
    """Watch the server's load for `seconds`, and return how much log it would write a second."""
    schema = _schema(database)
    before = _totals(database, schema)
    begin = time.monotonic()
    starts: dict[tuple[str, str], float] = {}
    while time.monotonic() - begin < seconds:
        if database.engine.verb(_ACTIVITY) is not None:
            for row in database.execute(_ACTIVITY):
                starts[str(row["pid"]), str(row["began"])] = row.real("bytes")
        time.sleep(_EVERY)
    after = _totals(database, schema)
    passed = max(1e-3, time.monotonic() - begin)
    moved = {name: max(0.0, after[name] - before[name]) for name in after if name in before}
    about = database.row(_ABOUT)
    return _estimated(moved, list(starts.values()), passed, about)


def _estimated(
    moved: Mapping[str, float], texts: list[float], seconds: float, about: Row
) -> LoggingCost:
    counted = moved.get("statements")
    # Without a count of statements, assume one in each transaction, and at least those seen.
    least = max(moved.get("transactions", 0.0), float(len(texts)))
    statements = (least if counted is None else counted) / seconds
    if counted and moved.get("bytes"):
        mean = moved["bytes"] / counted
    else:
        mean = sum(texts) / len(texts) if texts else _UNKNOWN_BYTES
    line, copies, most = (about.real(k) for k in ("line_bytes", "copies", "most_lines"))
    low = statements * (line + copies * mean)
    return LoggingCost(statements, counted is None, mean, low, most * low)


def _schema(database: Database) -> str:
    """Return the schema of pg_stat_statements' functions, or "" if they cannot be used."""
    if database.engine.verb(_STATEMENTS) is None:
        return ""
    try:
        rows = database.execute(_EXTENSION)
        schema = str(rows[0]["schema"]) if rows else ""
        if schema:
            database.execute(_STATEMENTS, {"schema": schema})
    except (ReplayerError, Impossible):
        # It is not loaded, or its schema's name is not usable: count nothing with it.
        return ""
    return schema


def _totals(database: Database, schema: str) -> dict[str, float]:
    totals = database.row(_TOTALS).reals()
    if schema:
        totals |= database.row(_STATEMENTS, {"schema": schema}).reals()
    return totals


# The place of the log


@dataclass(frozen=True, slots=True)
class LogLocation:
    """The place of a server's log: its path as the server reports it, and on this machine."""

    said: str
    """The path as the server reports it; "" if the server does not report one."""
    here: Path | None
    """The path on this machine, or a pattern of file names; None if it is not known."""
    prefix: str
    """The log_line_prefix that the log will have; "" if its lines need none."""
    rotated: bool = False
    """True if other files of the same folder and ending belong to the log."""


def place(engine: Engine, url: URL) -> LogLocation:
    """Return the place of a server's log.

    Its path on this machine is known only if the server's data folder is found on this machine.
    """
    with log_settings.asking(engine, url) as database:
        prefix = str(database.row(_ABOUT)["prefix"])
        try:
            row = database.row(_PLACE)
        except Skip:
            return LogLocation("", None, prefix)
        named = "" if row["file"] is None else str(row["file"])
        directory = Path(str(row["directory"]))
        server = Remote(engine, url)
        server.locate(database)
        folder = server.data_directory()
        shown = str(directory / named) if named else ""
        if folder is None:
            return LogLocation(shown, None, prefix)
        if not named:
            stream = _standard_error(server.pids())
            return LogLocation(str(stream or ""), stream, prefix)
    rotated = engine.wire.startswith("postgres")
    return LogLocation(shown, _here(engine.name, directory, named, folder), prefix, rotated)


def _here(engine: str, directory: Path, named: str, folder: Path) -> Path:
    """Return the path of a server's log file on this machine.

    `directory` is the data folder and `named` the log file as the server reports them.  The server
    may be in a container, where paths differ.  `folder` is its data folder on this machine.
    """
    path = Path(os.path.normpath(directory / named))
    if path.is_relative_to(directory):
        return folder / path.relative_to(directory)
    for parent in environment.folders(engine, path.parent):
        if parent.is_dir():
            return parent / path.name
    return path


def _standard_error(pids: list[int]) -> Path | None:
    """Return the file to which the server's standard error goes; None if it is not a file."""
    for pid in pids[:1]:
        with contextlib.suppress(OSError):
            target = Path(f"/proc/{pid}/fd/2").readlink()
            if target.is_file():
                return target
    return None
