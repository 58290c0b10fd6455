"""A database server that somebody else started, on this machine or another."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import place, processes
from replayer.database import Database, url_of
from replayer.errors import Impossible, Interrupted, ReplayerError, Skip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.engine import URL

    from replayer.engine import Engine
    from replayer.model import EngineFacts, Fact

_CONNECT_TIMEOUT = 10
"""Seconds; the name of the parameter is the same for both wires."""


class Remote:
    """A server that is not replayer's: it is asked, never stopped and never configured."""

    kind: place.Kind = "url"
    can_stop = False

    def __init__(self, engine: Engine, url: URL, version: int, lock: Database) -> None:
        self.engine = engine
        self.version = version
        self._where = url
        self._lock = lock
        self._data: tuple[Path, int] | None = None
        self._looked = False

    def start(self, settings: Mapping[str, str] | None = None) -> URL:
        """Return the URL; raise Skip for settings, which only the server's owner can change."""
        if settings:
            raise Skip(
                f"the settings {', '.join(settings)} of a server that replayer did not start "
                f"cannot be changed"
            )
        return self._where

    def stop(self) -> None:
        """Raise Skip: a server that replayer did not start is never stopped."""
        raise Skip("the server was not started by replayer, and is never stopped by it")

    def data_directory(self) -> Path | None:
        """Return the server's data directory if it is proven to be on this machine, else None."""
        found = self._found()
        return found[0] if found else None

    def pids(self) -> list[int]:
        """Return the server's processes, if they are on this machine and may be seen."""
        found = self._found()
        return self._family(found, ended=False)

    def cpu_seconds(self) -> processes.CpuSeconds:
        """Return the CPU seconds of the server's processes, if they are on this machine."""
        return processes.cpu_seconds(self._family(self._found(), ended=True))

    def facts(self) -> EngineFacts:
        """Return what the server is, and every setting that is not its default."""
        data = self.data_directory()
        known: dict[str, Fact] = {
            "server.host": self._where.host or str(self._where.query.get("host", "")),
            "data.directory": str(data) if data else None,
        }
        with contextlib.closing(Database(self.engine, self._where)) as database:
            return place.facts(database, self.kind, known)

    def lost(self) -> str:
        """Return "": what happened to somebody else's server is not known here."""
        return ""

    def last_words(self) -> str:
        """Return "": the log of somebody else's server is not ours to read."""
        return ""

    def _family(self, found: tuple[Path, int] | None, *, ended: bool) -> list[int]:
        if found is None or processes.working_folder(found[1]) != found[0]:
            return []
        return processes.family(found[1], ended=ended)

    def _found(self) -> tuple[Path, int] | None:
        """Return the data directory and the main process, if they are on this machine.

        The server is asked where its files are, and what is in a file that no other server has: a
        server elsewhere, or in a container, may name a folder that exists here too.
        """
        if not self._looked:
            self._looked = True
            try:
                self._data = self._look()
            except Interrupted:
                raise
            except (ReplayerError, OSError):
                # Without the right to ask the server, or to look here, nothing is proven.
                self._data = None
        return self._data

    def _look(self) -> tuple[Path, int] | None:
        with contextlib.closing(Database(self.engine, self._where)) as database:
            row = database.execute("location")[0]
        folder = Path(row["directory"])
        here = (folder / row["file"]).read_text(encoding="utf-8", errors="replace")
        return (folder, int(row["process"] or 0)) if here == row["content"] else None


@contextlib.contextmanager
def connected(engine: Engine, text: str) -> Iterator[Remote]:
    """Yield the server at a URL, with replayer's schema in its database and other replayers out.

    Raises Impossible when it cannot be reached, is too old, is in use by another replayer, or has
    a schema of replayer's name that replayer did not make.
    """
    url = url_of(text, engine)
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(_CONNECT_TIMEOUT)})
    try:
        database = Database(engine, url)
    except Interrupted:
        raise
    except ReplayerError as error:
        raise Impossible(str(error)) from error
    with contextlib.closing(database):
        version = _version(database)
        known = engine.at(version)
        database.engine = known
        _refuse_foreign(database, url.database or "")
        if not all(row["locked"] for row in database.execute("lock")):
            raise Impossible(
                "the server is in use by another replayer: two runs at once would measure each "
                "other"
            )
        database.execute("prepare")
        yield Remote(known, url, version, database)


def _version(database: Database) -> int:
    row: Mapping[str, Any] = database.execute("version")[0]
    oldest = database.engine.keys.get("server", {}).get("oldest", 0)
    if int(row["major"]) < oldest:
        raise Impossible(
            f"the server is {database.engine.title} {row['version']}: replayer needs {oldest} or "
            f"later"
        )
    return int(row["major"])


def _refuse_foreign(database: Database, name: str) -> None:
    if not all(row["ours"] for row in database.execute("claim")):
        raise Impossible(
            f"the database {name} has a schema `replayer` that replayer did not make: give another "
            f"database, or rename that schema"
        )
