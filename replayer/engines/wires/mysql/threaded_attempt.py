"""Attempts to connect by PyMySQL, which blocks: so each attempt has its own thread."""

import json
import os
import select
import threading
from typing import Any

from replayer.engines import driver
from replayer.engines.server_message import explain
from replayer.engines.wire_session import Refused
from replayer.engines.wires.mysql.mysql_connection import MySQLConnection

_PASSING = frozenset({1040, 1203, 1226, 2002, 2003, 2006, 2013, 1053})
"""Numbers of errors that may pass: too many connections, or a server that is down or shuts down.

The limit of connections may be that of all users or of one user.
"""


class MySQLConnectionAttempt:
    """An attempt to connect to a MySQL server, which a separate thread makes.

    `go_on` does not wait for the server.  `close` does: it waits until the thread ends.
    """

    events = select.EPOLLIN

    def __init__(self, conninfo: str) -> None:
        """Begin to connect.

        `conninfo` is a JSON object of PyMySQL's arguments; its key `first` lists statements to run
        first.  Raises Refused if no descriptor or thread can be created.
        """
        self._arguments = json.loads(conninfo)
        try:
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError as error:
            raise Refused(f"no connection can be begun: {error.strerror}", passing=True) from error
        self._made: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._connect, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            os.close(self._bell)
            raise Refused(f"no connection can be begun: {error}", passing=True) from error

    def _connect(self) -> None:
        arguments = dict(self._arguments)
        first = arguments.pop("first", [])
        try:
            self._made = driver.open_connection("mysql", {**arguments, "autocommit": None})
            with self._made.cursor() as cursor:
                for statement in first:
                    cursor.execute(statement)
        except Exception as error:  # noqa: BLE001 - go_on raises it, whatever it is
            self._error = error
        os.eventfd_write(self._bell, 1)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the attempt has succeeded or failed."""
        return self._bell

    def go_on(self) -> bool:
        """Return whether the connection is made; raise Refused if the attempt failed."""
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return False
        if self._error is not None:
            number = self._error.args[0] if self._error.args else 0
            self.close()
            raise Refused(explain(self._error), passing=number in _PASSING)
        return True

    def connection(self, *, hashes: bool, read_only: bool) -> MySQLConnection:
        """Return the connection that was made; with `hashes`, it hashes the rows of each answer.

        `read_only` has no effect: this server does not report when a session becomes writable.
        """
        del read_only
        os.close(self._bell)
        return MySQLConnection(self._made, hashes=hashes, waits=False)

    def close(self) -> None:
        """Wait until the thread ends; close the descriptor, and the connection if it was made.

        This blocks while the thread connects to the server.
        """
        self._thread.join()
        os.close(self._bell)
        if self._made is not None:
            self._made._force_close()  # noqa: SLF001 - sends no message to the server
