"""A thread that only watches a step.

A call at the begin and at the end of each measured window wakes it; the first such call starts it.
The wait for the end of the thread is limited.
"""

import threading
from collections.abc import Callable

from replayer.machine import threads

_END_SECONDS = 4.0


class WatcherThread:
    """A thread that runs a function, which observes a step until `end` is called."""

    def __init__(self, watch: Callable[[], None]) -> None:
        """Take `watch`, the function that the thread runs.

        The function has to return soon after `ended` is set, and to set `cost`, the CPU seconds
        used so far.
        """
        self.ended = False
        self.cost = 0.0
        """CPU seconds used so far; the function `watch` has to set this."""
        self._watch = watch
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replayer-watch", daemon=True)

    def wake(self) -> None:
        """Wake the thread, so that its `wait` returns; the first call starts the thread."""
        if self._thread.ident is None:
            self._thread.start()
        self._woken.set()

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, or until `wake` is called; the thread itself calls this."""
        self._woken.wait(seconds)
        self._woken.clear()

    def end(self) -> float:
        """Set `ended` and wait at most 4 s for the thread's end; return its CPU seconds."""
        self.ended = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(_END_SECONDS)
        return self.cost

    def _run(self) -> None:
        threads.call_this(threads.WATCHING)
        self._watch()
