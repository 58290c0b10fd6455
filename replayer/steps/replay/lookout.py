"""Queries for lock waits, sent to the server in a thread while a replay runs."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from replayer.engines import driver
from replayer.steps.replay.work import ReplayJob

_NO_MORE = -1
_SILENT_SECONDS = 0.5


class Lookout:
    """Asks the server, in a separate thread, which sessions wait for locks of which other ones."""

    def __init__(self, job: ReplayJob) -> None:
        assert job.blocked is not None
        self._asked = job.blocked
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """An eventfd that becomes readable when there is an answer."""
        self._wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[tuple[int, list[tuple[int, int]]]] = queue.SimpleQueue()
        self._under_way = False
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Start a query for lock waits, and return at once; `answers` yields its result.

        Does nothing if the answer to an earlier query has not been taken yet.
        """
        if self._under_way:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._under_way = True
        self._wanted.put(time.monotonic_ns())

    def answers(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the answers that have come since the last call.

        An answer has the time at which the query was asked for (monotonic, in ns), and pairs of
        session numbers in the server: the session that waits, and the session that it waits for.
        """
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)
        while not self._made.empty():
            self._under_way = False
            yield self._made.get()

    def close(self) -> None:
        """End the thread that sends the queries.

        A thread that still waits for the server after half a second ends with the process.
        """
        self._wanted.put(_NO_MORE)
        if self._thread is not None:
            self._thread.join(_SILENT_SECONDS)
            if self._thread.is_alive():
                return
        os.close(self.bell)

    def _run(self) -> None:
        """Send each query that is asked for, and store its answer.

        A query that fails gets an answer without pairs, and the next query connects again.  Without
        an answer no further query would begin, and a deadlock would last until a timeout.
        """
        with contextlib.ExitStack() as connected:
            connection: Any = None
            while (at := self._wanted.get()) != _NO_MORE:
                waits: list[tuple[int, int]] = []
                try:
                    if connection is None:
                        connection = driver.connect_worker(self._asked.connector)
                        connected.enter_context(contextlib.closing(connection))
                    waits = self._pairs(connection)
                except Exception:  # noqa: BLE001 - of whatever kind, by any driver
                    connection = None
                    with contextlib.suppress(Exception):
                        connected.close()
                self._made.put((at, waits))
                os.eventfd_write(self.bell, 1)

    def _pairs(self, connection: Any) -> list[tuple[int, int]]:
        with connection.cursor() as cursor:
            cursor.execute(self._asked.statement)
            return [(int(one), int(whom)) for one, whom in cursor.fetchall()]
