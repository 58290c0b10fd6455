"""A thread that only watches: begun by a window's first mark, woken by each, ended in time."""

import threading
from collections.abc import Callable

from replayer.machine import threads

_END_SECONDS = 4.0


class WatcherThread:
    """A thread that runs a function that watches something, until `end` is called."""

    def __init__(self, watch: Callable[[], None]) -> None:
        """Take its function, which returns soon after `ended` is set."""
        self.ended = False
        self.cost = 0.0
        """CPU seconds, as `watch` counts them."""
        self._watch = watch
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def wake(self) -> None:
        """End the thread's current wait; the first call starts the thread."""
        if self._thread.ident is None:
            self._thread.start()
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait `seconds`, or until it is woken; called by the thread itself."""
        self._woken.wait(seconds)
        self._woken.clear()

    def end(self) -> float:
        """Make it end, within some seconds; return its cost in CPU seconds."""
        self.ended = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self.cost

    def _run(self) -> None:
        threads.call_this(threads.WATCHING)
        self._watch()
