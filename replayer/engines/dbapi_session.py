"""Sessions of a load that use the driver's cursor, for drivers without a faster way.

A cursor blocks until its answer is there, so each session has a thread that waits for it.  Each
statement costs the driver's work and two changes of threads: see `replayer.load.session_path`.
"""

import contextlib
import os
import queue
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Any

from replayer.engines.server_message import explain
from replayer.engines.wire_session import LOST, ConnectionGone, DriverStatement, Packing

_END_SECONDS = 5.0


class DbapiSession:
    """A session over any DBAPI connection; its statements have parameters in the form `%s`."""

    packing = Packing("<")

    def __init__(self, connection: Any, error: type[Exception], descriptor: int) -> None:
        """Take a connection, the driver's `Error`, and the descriptor of its socket."""
        self._connection = connection
        self._error = error
        self._socket = descriptor
        self._statements: list[tuple[str, struct.Struct]] = []
        self._asked: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()
        self._failed: Exception | None = None
        self.sqlstate = ""
        """The code of the last answer's error, by the driver; "" if it has none."""
        self._message = ""
        self._answered = os.eventfd(0)
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def prepare(self, statements: Sequence[DriverStatement]) -> None:
        """Keep the texts of the statements: a cursor sends the whole text at each execution."""
        self._statements = [
            (statement.text, struct.Struct(f"<{len(statement.names)}q")) for statement in statements
        ]

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when the session's thread has an answer."""
        return self._answered

    def send_prepared(self, place: int, payload: bytes) -> None:
        """Let the session's thread execute the statement with the index `place`.

        `payload` are its packed parameters.
        """
        self._asked.put((place, payload))

    def receive(self) -> bool:
        """Take the answer that the session's thread has got, and return True.

        Call it once for each answer.  Raises ConnectionGone for an exception that is not an error
        of the driver.
        """
        os.eventfd_read(self._answered)
        failed, self._failed = self._failed, None
        self.sqlstate = ""
        if failed is not None:
            self._message = explain(failed)
            if not isinstance(failed, self._error):
                raise ConnectionGone(self._message) from failed
            code = getattr(failed, "sqlstate", None) or next(iter(failed.args), "")
            self.sqlstate = str(code) or LOST
        return True

    def refusal(self) -> tuple[str, str]:
        """Return the code and the message of the last answer that has an error."""
        return self.sqlstate, self._message

    def run(self, texts: Sequence[str]) -> None:
        """Execute statements one after the other in the calling thread, and wait for each.

        The caller must first receive the answer to each statement of `send_prepared`: the
        connection is shared with the session's own thread.  Raises ConnectionGone for any error of
        the driver.
        """
        try:
            with contextlib.closing(self._connection.cursor()) as cursor:
                for text in texts:
                    cursor.execute(text)
        except self._error as error:
            raise ConnectionGone(explain(error)) from error

    def close(self) -> None:
        """Close the connection; a statement that is under way is cut off."""
        self._asked.put(None)
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._socket)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
        self._thread.join(_END_SECONDS)
        with contextlib.suppress(self._error):
            self._connection.close()
        # A thread that outlives the wait still writes into the descriptor, whose number may be that
        # of another file once it is closed.
        if not self._thread.is_alive():
            os.close(self._answered)

    def _work(self) -> None:
        with contextlib.closing(self._connection.cursor()) as cursor:
            while (asked := self._asked.get()) is not None:
                text, numbers = self._statements[asked[0]]
                try:
                    cursor.execute(text, numbers.unpack(asked[1]))
                    if cursor.description:
                        cursor.fetchall()
                except Exception as error:  # noqa: BLE001 - receive() raises it
                    self._failed = error
                os.eventfd_write(self._answered, 1)
