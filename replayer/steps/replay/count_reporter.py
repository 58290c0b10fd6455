"""Counting of a replay's statements in a separate thread: the event loop does not wait for it."""

import queue
import sys
import threading
from dataclasses import replace

from replayer.steps.replay.replay_counts import ReplayCounts, tally
from replayer.steps.replay.replay_statistics import Uncounted
from replayer.watch.workers import Report

_SWITCH_SECONDS = 1e-4
"""Time after which the interpreter changes to another thread: counting must not stop the loop."""


class CountReporter:
    """Counts records in a separate thread, and reports the counts.

    A record has the times and the result of one statement.  With `timed`, statements have intended
    starts, so that lags are counted.
    """

    def __init__(self, report: Report, *, timed: bool) -> None:
        self._timed = timed
        self._report = report
        self._failure: BaseException | None = None
        self._waiting: queue.SimpleQueue[Uncounted | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._count, daemon=True)
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()

    def put(self, uncounted: Uncounted) -> None:
        """Queue records; the thread counts them and sends the report with their counts."""
        self._waiting.put(uncounted)

    def finish(self) -> None:
        """Wait until all counts are reported; raise the error that the thread met, if any."""
        self._waiting.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _count(self) -> None:
        try:
            while (uncounted := self._waiting.get()) is not None:
                self._count_one(uncounted)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._failure = error

    def _count_one(self, uncounted: Uncounted) -> None:
        progress, rows, hashes, begin_ns = uncounted
        counted = tally(rows, hashes, begin_ns, timed=self._timed)
        self._report(replace(progress, tally=ReplayCounts.of([counted, progress.tally])))
