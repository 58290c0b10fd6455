"""Survey of a source (a server to profile): what its user can read, and the rights it lacks."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.engines import credentials
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, ReplayerError
from replayer.machine import processors
from replayer.results.profile import SERVER_ID, ProfileSource
from replayer.servers import protocol
from replayer.sizing import machine

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from replayer.engines.connection import Row
    from replayer.engines.engine import Engine
    from replayer.machine.host import Host
    from replayer.model import Fact
    from replayer.sizing.session import SourceSession

_TOTALS = VerbName("profile/database")
_BEATS = {
    _TOTALS: "what the databases did",
    VerbName("profile/transactions"): "the number of transactions",
    VerbName("profile/sessions"): "what sessions do",
    VerbName("profile/wal"): "the log",
    VerbName("profile/io"): "I/O by who does it",
    VerbName("profile/writers"): "who writes blocks",
}
"""Verb -> what it reads, in words.  These verbs are executed for every row of a profile."""
_ABOUT = VerbName("profile/about")
_RIGHTS = VerbName("profile/rights")
_LOCATION = VerbName("profile/location")
_PLACES = VerbName("profile/places")
_EXTENSION = VerbName("profile/extension")
CALLS = VerbName("profile/calls")
_NOT_SETTINGS = ("block_bytes", "cache_bytes", "server_id")


@dataclass(frozen=True, slots=True)
class Survey:
    """The parts of a source (a server to profile) that can be read, and the facts about it."""

    source: ProfileSource
    beats: tuple[VerbName, ...]
    cache_bytes: float
    """Size of the server's own buffers."""
    schema: str
    """Schema of the functions of pg_stat_statements; "" where they cannot be read."""
    here: machine.Location | None
    """Location of the server on this machine; None if it is not proven to run here."""
    notes: tuple[str, ...]


def surveyed(session: SourceSession, url: URL, host: Host, every: float) -> Survey:
    """Return the parts of a source (a server) that can be read; raise Impossible if there are none.

    `session` is a connection to it, `url` its address, `host` this machine.  `every` is the number
    of seconds between two readings.
    """
    try:
        return _Look(session, host).survey(url, every)
    except Impossible:
        raise
    except ReplayerError as error:
        raise Impossible(f"the source cannot be profiled: {error}") from error


def location(session: SourceSession) -> machine.Location | None:
    """Return the data folder and main process of the source's server; None if they are not known.

    They are known if they can be read, and if it is proven that the server runs on this machine.
    """
    try:
        row = session.rows(_LOCATION)[0]
    except ReplayerError:
        return None
    return machine.located(session.engine.name, row, session.listener())


class _Look:
    """One examination of a source (a server to profile), with notes on what could not be read."""

    def __init__(self, session: SourceSession, host: Host) -> None:
        self._session = session
        self._host = host
        self._notes: list[str] = []

    def survey(self, url: URL, every: float) -> Survey:
        """Return the facts of the source (a server), and which of its counters can be read.

        `url` is its address; `every` is the number of seconds between two readings.
        """
        (about,) = self._session.rows(_ABOUT)
        self._lacking()
        beats = tuple(verb for verb in _BEATS if self._can_be_read(verb))
        here = self._here()
        cache = about["cache_bytes"]
        engine = self._session.engine
        source = ProfileSource(
            kind="live",
            engine=engine.name,
            version=str(self._session.rows(protocol.VERSION)[0]["version"]),
            place=credentials.show(url.difference_update_query(_added(engine))),
            averaged_seconds=every,
            block_bytes=int(about["block_bytes"]),
            cores=_cores(self._host) if here else None,
            memory_bytes=self._host.memory_bytes() if here else None,
            device=self._disks(here) if here else None,
            facts=_facts(about),
        )
        return Survey(
            source=source,
            beats=beats,
            cache_bytes=math.inf if cache is None else float(cache),
            schema=self._schema(),
            here=here,
            notes=tuple(self._notes),
        )

    def _lacking(self) -> None:
        """Add a note for each right that the user of the source lacks."""
        for right in self._rows(_RIGHTS, "what this user may see"):
            if not right["allowed"]:
                self._notes.append(f"{right['what']} cannot be seen: {right['grants']} would help")

    def _can_be_read(self, verb: VerbName) -> bool:
        if self._session.engine.verb(verb) is None:
            return False
        try:
            self._session.reading([verb])
        except Impossible:
            raise
        except ReplayerError as error:
            if verb == _TOTALS:
                raise
            self._refused(_BEATS[verb], error)
            return False
        return True

    def _here(self) -> machine.Location | None:
        here = location(self._session)
        if here is None:
            self._notes.append(
                "the server is not proven to be on this machine, so its processors, memory, device "
                "and network are not in the profile: run this on the server's machine, as root or "
                "as the server's user"
            )
        return here

    def _disks(self, here: machine.Location) -> str | None:
        """Return the device of the data, and those of the log and of tablespaces, with + between.

        `here` is the server's location.  Return None if the device of the data is not known.
        """
        data = self._disk(here.directory)
        if data is None:
            self._notes.append(_unseen(f"the disk of {here.directory}", "are not"))
            return None
        devices = [data]
        for row in self._rows(_PLACES, "where the log and the tablespaces are"):
            if not row["path"]:
                continue
            place = Path(str(row["path"]))
            if place.is_relative_to(here.served):
                place = place.relative_to(here.served)
            of_container = place.is_absolute() and here.directory != here.served
            place = here.directory / place
            device = None if of_container or not _is_there(place) else self._disk(place)
            if device is None:
                self._notes.append(_unseen(f"the disk of {row['what']} in {place}", "may not be"))
            elif device != data:
                self._notes.append(
                    f"{row['what']} is on {device}, and the data on {data}: the reads and writes "
                    f"of these disks are added up"
                )
                devices += [device] if device not in devices else []
        return "+".join(devices)

    def _disk(self, place: Path) -> str | None:
        with contextlib.suppress(OSError):
            return self._host.block_device(place)
        return None

    def _schema(self) -> str:
        if self._session.engine.verb(CALLS) is None:
            return ""
        rows = self._rows(_EXTENSION, "pg_stat_statements")
        if not rows:
            self._notes.append(
                "pg_stat_statements is not in this database, so statements are not counted: the "
                "rows that were read and written tell their mix"
            )
            return ""
        schema = str(rows[0]["schema"])
        try:
            self._session.rows(CALLS, schema=schema)
        except ReplayerError as error:
            self._refused("pg_stat_statements", error)
            return ""
        return schema

    def _rows(self, verb: VerbName, words: str) -> list[Row]:
        """Return the rows of the engine's query for `verb`, such as profile/rights.

        Return [] if the engine has no such query.  If the server refuses it, return [] and add a
        note; `words` names the subject in this note.
        """
        if self._session.engine.verb(verb) is None:
            return []
        try:
            return self._session.rows(verb)
        except ReplayerError as error:
            self._refused(words, error)
            return []

    def _refused(self, words: str, error: ReplayerError) -> None:
        """Add a note that the server refused to show `words`, the subject of a query.

        Raise `error` instead if the connection itself is lost.
        """
        if not self._session.answers():
            raise error
        self._notes.append(f"{words} is not read: {error}")


def _unseen(what: str, verb: str) -> str:
    """Return a note that a disk is not known."""
    return (
        f"{what} is not known or may not be seen, so its reads and writes {verb} in the "
        f"profile: root or the server's user may see it"
    )


def _is_there(place: Path) -> bool:
    """Return whether this user can see a file; False if a folder above it is another user's."""
    return os.path.exists(place)  # noqa: PTH110 - a Path would raise


def _added(engine: Engine) -> list[str]:
    """Return the names of the parameters that replayer itself adds to an engine's URL."""
    return [*engine.spec.connect.query, *engine.spec.profile.query]


def _cores(host: Host) -> float:
    return float(len(processors.ticks(host.path(processors.FILE).read_bytes())) - 1)


def _facts(about: Row) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        f"setting.{name}": value if isinstance(value, bool) else str(value)
        for name, value in about.items()
        if name not in _NOT_SETTINGS
    }
    if about.get("server_id"):
        facts[SERVER_ID] = str(about["server_id"])
    cache = about["cache_bytes"]
    return facts if cache is None else {"cache_bytes": int(cache), **facts}
