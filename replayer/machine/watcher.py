"""A thread that only watches: begun by the first mark of a window, woken by each, ended in time."""

import threading
from collections.abc import Callable

from replayer.machine import threads

_END_SECONDS = 4.0


class WatcherThread:
    """One such thread."""

    def __init__(self, watch: Callable[[], None]) -> None:
        """Take what it does, which returns soon after `ended`."""
        self.ended = False
        self.cost = 0.0
        """CPU seconds, as whoever watches counts them."""
        self._watch = watch
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def wake(self) -> None:
        """Have it look now; the first time begins it."""
        if self._thread.ident is None:
            self._thread.start()
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait so long, or until it is woken; called by the thread itself."""
        self._woken.wait(seconds)
        self._woken.clear()

    def end(self) -> float:
        """Have it end, within some seconds; return what it cost."""
        self.ended = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self.cost

    def _run(self) -> None:
        threads.call_this(threads.WATCHING)
        self._watch()
