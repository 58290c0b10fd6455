"""Progress for programs: one JSON object a line on stderr.

{"event": "task", "number": 1, "title": …, "total": …}     something begins; total may be null
{"event": "progress", "number": 1, "done": …, "total": …, "note": …}     at most twice a second
{"event": "end", "number": 1, "seconds": …}                 it is over
{"event": "say", "text": …}                                 a sentence
{"event": "step", "name": …, "repeat": …, "status": …, "reason": …, "seconds": …, "measured": {…}}
{"event": "run", "id": …, "path": …, "status": …}           the run began, and ended
{"event": "error", "text": …, "status": …}                  the last line of what went wrong

Each has `at`, its time in UTC, but the error.  Keys may be added.
"""

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Self, TextIO

from replayer.report.progress import Task

_EVERY = 0.5

Clock = Callable[[], float]


class Events:
    """A conversation whose words are for a program."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator[Task]:
        """Tell of a task for as long as the `with` block runs."""
        number, began = next(self._numbers), self._clock()
        self.tell("task", number=number, title=title, total=total)
        try:
            yield _Told(self, number, total, self._clock)
        finally:
            self.tell("end", number=number, seconds=round(self._clock() - began, 3))

    def say(self, text: str) -> None:
        """Tell a sentence."""
        self.tell("say", text=text)

    def tell(self, event: str, **about: Any) -> None:
        """Write one line; a reader that went away must not end a measurement."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"event": event, "at": at, **about}, default=_number, allow_nan=False)
        with contextlib.suppress(OSError):
            self._stream.write(f"{line}\n")
            self._stream.flush()


class _Told:
    def __init__(self, events: Events, number: int, total: float | None, clock: Clock) -> None:
        self._events, self._number, self._clock = events, number, clock
        self._done, self._total, self._note = 0.0, total, ""
        self._next = 0.0

    def advance(self, done: float) -> None:
        self.update(done=self._done + done)

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        self._done = self._done if done is None else float(done)
        self._total = self._total if total is None else float(total)
        self._note = self._note if note is None else note
        now = self._clock()
        if now >= self._next:
            self._next = now + _EVERY
            self._events.tell(
                "progress",
                number=self._number,
                done=self._done,
                total=self._total,
                note=self._note,
            )


def _number(value: Any) -> float:
    """Return a count of numpy's, which JSON does not know."""
    return float(value)
