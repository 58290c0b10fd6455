"""The output of a run, published as events to other processes.

A separate thread writes the events. So neither a slow disk nor a reader that stands still ever
delays a measurement. Events that find no room in the queue are dropped and counted.
"""

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from replayer import units
from replayer.analysis.advice.as_asked import other_than_asked
from replayer.analysis.advice.leading_metrics import leader
from replayer.model import Cold, Ledger, Run, StepResult
from replayer.run.context import Progress, Task
from replayer.run.event_stream import events
from replayer.run.event_stream.events import Event

_EVERY = 0.5
"""The least seconds between two progress events of one task, or two events of live figures."""
_WAITING = 2000
"""The most events that may wait in the queue.

Progress, live figures and the machine's activity are dropped while half as many or more wait."""
_KEPT = 500
_MOST_NUMBERS = 4
_PATIENCE = 2.0
"""Seconds that the end of a run waits until the queue is written."""
_HOST = (
    "host.name",
    "os.name",
    "kernel.release",
    "cpu.model",
    "cpu.threads",
    "device.name",
    "device.model",
)

Clock = Callable[[], float]


class EventWriter(threading.Thread):
    """A thread that passes queued events to `write` as lines of bytes.

    `write` may block or raise OSError.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__(name="replayer-events", daemon=True)
        self.dropped = 0
        self._write = write
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._ended = False

    def tell(self, event: Event) -> None:
        """Put an event into the queue, and return at once; drop it if the queue is full.

        The steps that a resumed run had done are never dropped: they come all at once.
        """
        with self._changed:
            often = isinstance(event, events.FREQUENT)
            kept = isinstance(event, events.StepEnded) and event.earlier
            if not kept and len(self._waiting) >= (_WAITING // 2 if often else _WAITING):
                self.dropped += 1
                return
            self._waiting.append(event)
            self._changed.notify()

    def end(self) -> None:
        """Let the thread write the queue and end; return after 2 s even if it has not ended."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self.join(_PATIENCE)

    def run(self) -> None:
        """Write the events of the queue until `end` was called and the queue is empty."""
        while (batch := self._next()) is not None:
            # A reader that went away, or a full disk, must not end a measurement.
            with contextlib.suppress(OSError, ValueError):
                self._write(b"".join(self._lines(batch)))

    def _lines(self, batch: list[Event]) -> Iterator[bytes]:
        """Yield the lines of events; an event that cannot be a line is dropped and counted."""
        for event in batch:
            try:
                yield events.line(event)
            except (TypeError, ValueError):
                with self._changed:
                    self.dropped += 1

    def _next(self) -> list[Event] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            batch = list(self._waiting)
            self._waiting.clear()
        return batch or None


class EventPublisher:
    """A Progress (the output of a run) that also publishes what `conversation` shows, as events.

    Call `end` after the last event.
    """

    def __init__(self, conversation: Progress, clock: Clock = time.monotonic) -> None:
        self._conversation, self._clock = conversation, clock
        self._numbers = itertools.count(1)
        self._outlets: list[EventWriter] = []
        self._before: deque[Event] = deque(maxlen=_KEPT)
        """Earlier events, which a `write` that is added later gets first."""
        self._next_figures = 0.0

    def end(self) -> None:
        """End all writers after they have written their queues; wait at most 2 s for each."""
        for outlet in self._outlets:
            outlet.end()

    def add(self, write: Callable[[bytes], object]) -> EventWriter:
        """Pass all later events to `write` as lines of bytes, after at most 500 earlier ones.

        Returns the thread that calls `write`.
        """
        outlet = EventWriter(write)
        for event in self._before:
            outlet.tell(event)
        outlet.start()
        self._outlets.append(outlet)
        return outlet

    @property
    def dropped(self) -> int:
        """Return how many events were dropped because the readers were too slow."""
        return sum(outlet.dropped for outlet in self._outlets)

    def tell(self, event: Event) -> None:
        """Publish an event; drop live figures that come within half a second of the last ones."""
        if isinstance(event, events.Figures):
            now = self._clock()
            if now < self._next_figures:
                return
            self._next_figures = now + _EVERY
        if not isinstance(event, events.FREQUENT):
            self._before.append(event)
        for outlet in self._outlets:
            outlet.tell(event)

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator["_ToldTask"]:
        """Show and publish a task until the `with` block ends; yield the task, to report progress.

        `total` is its amount of work, None if it is not known.
        """
        number, began = next(self._numbers), self._clock()
        whole = None if total is None else float(total)
        self.tell(events.TaskBegin(number=number, title=title, total=whole))
        try:
            with self._conversation.task(title, total) as shown:
                yield _ToldTask(self, shown, number, whole, self._clock)
        finally:
            seconds = round(self._clock() - began, 3)
            self.tell(events.TaskEnd(number=number, seconds=seconds))

    def say(self, text: str) -> None:
        """Print one line, and publish it."""
        self._conversation.say(text)
        self.tell(events.MessageEvent(text=text))


class _ToldTask:
    def __init__(
        self, telling: EventPublisher, shown: Task, number: int, total: float | None, clock: Clock
    ) -> None:
        self._telling, self._shown, self._number, self._clock = telling, shown, number, clock
        self._done, self._total, self._note = 0.0, total, ""
        self._next = 0.0

    def advance(self, done: float) -> None:
        self._shown.advance(done)
        self._done += float(done)
        self._tell()

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        self._shown.update(done=done, total=total, note=note)
        self._done = self._done if done is None else float(done)
        self._total = self._total if total is None else float(total)
        self._note = self._note if note is None else note
        self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + _EVERY
            self._telling.tell(
                events.TaskProgress(
                    number=self._number, done=self._done, total=self._total, note=self._note
                )
            )


def run_state(run: Run, path: Path | None) -> events.RunState:
    """Return the event that describes a run as a whole; `path` is its result file, if any."""
    return events.RunState(
        id=run.id,
        path=str(path or ""),
        status=run.status.value,
        error=run.error,
        label=run.label,
        workload=run.workload.name,
        started=run.started,
        notes=run.notes,
        advice=tuple(map(str, run.advice)),
    )


def about(run: Run) -> events.RunLocation:
    """Return the event that names the engine and the host of a run."""
    engine = run.engine
    # The time is the run's start: so the event stays equal, and is not published twice.
    return events.RunLocation(
        at=run.started,
        engine="" if engine is None else f"{engine.name} {engine.version}",
        host={name: str(run.host[name]) for name in _HOST if run.host.get(name) is not None},
    )


def step_end(step: StepResult, *, earlier: bool = False) -> events.StepEnded:
    """Return the event that reports a step's end, with its main numbers and the proof of its reads.

    `earlier` is True for a step that a resumed run had done before it was interrupted.
    """
    shown = {one.metric: one for one in (*leader(step), *step.measurements)}
    return events.StepEnded(
        name=step.name,
        repeat=step.repeat,
        status=step.status.value,
        reason=step.reason,
        seconds=round(step.elapsed, 3),
        measured={m.metric: m.value for m in step.measurements},
        figures=tuple(
            events.Number(
                metric=one.metric,
                value=one.value,
                unit=one.unit,
                text=units.show(one.value, one.unit),
            )
            for one in list(shown.values())[:_MOST_NUMBERS]
        ),
        proof="; ".join(filter(None, (_cold(step.cold), _ledger(step.ledger)))),
        doubt=other_than_asked(step),
        earlier=earlier,
    )


def _cold(cold: Cold | None) -> str:
    if cold is None:
        return ""
    if cold.resident_share is None:
        return cold.got.value
    return f"{cold.got.value}: {cold.resident_share:.1%} was in memory ({cold.proof})"


def _ledger(ledger: Ledger | None) -> str:
    if ledger is None:
        return ""
    ratio = "" if ledger.ratio is None else f": {ledger.ratio:.3f} device reads a block"
    return f"{ledger.verdict.value}{ratio}"
