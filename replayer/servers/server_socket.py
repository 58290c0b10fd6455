"""The socket of a private server: where it listens, and whether it answers there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replayer import signals
from replayer.engines import driver, watchdog
from replayer.engines.connection import Database, connector_of, url_of
from replayer.errors import Interrupted, ReplayerError
from replayer.servers import socket_folder

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.engine import URL

    from replayer.engines.engine import Engine
    from replayer.journal import Note
    from replayer.servers.programs import Programs


class ServerSocket:
    """The private folder with the server's socket, and the connections through that socket.

    As long as the folder exists, the journal has a record of it: after a kill, the next replayer
    removes the folder.
    """

    def __init__(self, engine: Engine, server_programs: Programs, title: str) -> None:
        self.folder: Path | None = None
        self._engine, self._programs, self._title = engine, server_programs, title
        self._keys = engine.spec.server
        self._note: Note | None = None
        self._asking: tuple[str, Any] | None = None
        """The wire and the connection by which the watchdog asks the server."""

    def make(self) -> None:
        """Make the private folder for the socket, unless it was made before."""
        if self.folder is None:
            # A signal is handled only when both are stored where `close` finds them.
            with signals.shield():
                self.folder, self._note = socket_folder.make(self._keys, self._programs)

    def empty(self) -> None:
        """Remove the socket that a killed server left in the folder."""
        if self.folder is not None:
            socket_folder.empty(self.folder)

    def close(self) -> None:
        """Remove the folder with the socket, and its record in the journal."""
        if self.folder is not None:
            socket_folder.remove(self.folder)
            self.folder = None
        if self._note is not None:
            self._note.drop()
            self._note = None

    def url(self, database: str) -> URL:
        """Return the URL of a database of the server."""
        return url_of(self._keys.url.format(database=database, socket=self.folder), self._engine)

    def connect(self, database: str) -> Database:
        """Return a new connection to a database of the server."""
        return Database(self._engine, self.url(database))

    def try_to_connect(self) -> str | None:
        """Connect once; return "" if that succeeds, None if no process listens, else the error."""
        if self.folder is not None and not (self.folder / self._keys.socket_name).exists():
            return None
        try:
            self.connect(self._keys.first_database).close()
        except Interrupted:
            raise
        except ReplayerError as error:
            listens = socket_folder.listens(self.folder, self._keys.socket_name)
            return str(error) if listens else None
        return ""

    def watch(self) -> None:
        """Register the server with the watchdog, which detects a server that does not answer."""
        url = self.url(self._keys.first_database)
        watchdog.watch(watchdog.address(url), self._title, self._answers)

    def _answers(self, seconds: float) -> bool:
        """Return whether the server answers on the watchdog's own connection within `seconds`."""
        if self._asking is None:
            try:
                connector = connector_of(self.url(self._keys.first_database))
                self._asking = connector.wire, driver.connect(connector)
            except ReplayerError:
                return False
        return driver.answers(self._asking[0], self._asking[1], seconds)

    def unwatch(self) -> None:
        """Remove the server from the watchdog, and close the watchdog's own connection."""
        if self.folder is not None:
            watchdog.forget(watchdog.address(self.url(self._keys.first_database)))
        if self._asking is not None:
            driver.end(*self._asking)
            self._asking = None
