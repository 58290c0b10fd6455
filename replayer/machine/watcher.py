"""A thread that only watches a step: marks of windows start and wake it, and its end is limited."""

import threading
from collections.abc import Callable

from replayer.machine import threads

_END_SECONDS = 4.0


class WatcherThread:
    """A thread that runs a function that watches something, until `end` is called."""

    def __init__(self, watch: Callable[[], None]) -> None:
        """Take the thread's function, which has to return soon after `ended` is set."""
        self.ended = False
        self.cost = 0.0
        """CPU seconds used so far; the function `watch` has to set this."""
        self._watch = watch
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def wake(self) -> None:
        """End the `wait` of the thread; the first call starts the thread."""
        if self._thread.ident is None:
            self._thread.start()
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until `wake` is called; the thread itself calls this."""
        self._woken.wait(seconds)
        self._woken.clear()

    def end(self) -> float:
        """Set `ended` and wait at most 4 s for the thread's end; return `cost`."""
        self.ended = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self.cost

    def _run(self) -> None:
        threads.call_this(threads.WATCHING)
        self._watch()
