"""Live rates per second, computed from growing totals and reported at most twice a second."""

import time
from collections.abc import Callable

from replayer.run.context import Progress
from replayer.run.event_stream.events import Figures, tidy

_EVERY = 0.5


class Rates:
    """Live rates per second of totals that grow; names of totals are keys of events.FIGURES.

    Create the object when the measured time begins: the totals count from that moment.
    """

    def __init__(self, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress, self._clock = progress, clock
        self._since = clock()
        self._before: dict[str, float] = {}

    def count(self, totals: dict[str, float], **figures: float) -> None:
        """Report how much each total grew per second since the last report; pass on `figures`.

        `totals` count from the begin of the measured time. Nothing is reported if the last report
        is less than half a second ago.
        """
        now = self._clock()
        passed = now - self._since
        if passed < _EVERY:
            return
        rates = {
            name: max(0.0, float(total) - self._before.get(name, 0.0)) / passed
            for name, total in totals.items()
        }
        self._since = now
        self._before |= {name: float(total) for name, total in totals.items()}
        self._progress.tell(Figures(values=tidy({**rates, **figures})))
