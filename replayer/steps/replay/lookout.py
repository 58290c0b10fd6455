"""Who waits in the server for whom, asked while a replay goes on."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Iterator

from replayer.steps.replay.wire import blocked
from replayer.steps.replay.work import ReplayJob

_NO_MORE = -1
_SILENT_SECONDS = 0.5


class Lookout:
    """Asks, in a thread of its own, who waits in the server for whom."""

    def __init__(self, job: ReplayJob) -> None:
        assert job.blocked is not None
        self._wire, self._asked = job.wire, job.blocked
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """What can be read when there is an answer."""
        self._wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[tuple[int, list[tuple[int, int]]]] = queue.SimpleQueue()
        self._under_way = False
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Have it asked, unless it is already."""
        if self._under_way:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._under_way = True
        self._wanted.put(time.monotonic_ns())

    def answers(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield who waited for whom at a time, as far as that was answered meanwhile."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.bell)
        while not self._made.empty():
            self._under_way = False
            yield self._made.get()

    def close(self) -> None:
        """End the thread, unless it waits for a server that is silent: then it ends with all."""
        self._wanted.put(_NO_MORE)
        if self._thread is not None:
            self._thread.join(_SILENT_SECONDS)
            if self._thread.is_alive():
                return
        os.close(self.bell)

    def _run(self) -> None:
        asking = blocked(self._wire, self._asked.conninfo, self._asked.statement)
        with contextlib.closing(asking):
            while (at := self._wanted.get()) != _NO_MORE:
                waits = next(asking, None)
                if waits is None:
                    return
                self._made.put((at, waits))
                os.eventfd_write(self.bell, 1)
