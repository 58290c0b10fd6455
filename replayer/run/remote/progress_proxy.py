"""Progress of a remote run: sent by the database's host, shown on stderr here."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from replayer.run.context import Progress, Task
from replayer.run.event_stream import events
from replayer.run.event_stream.events import Event

_SECONDS = 0.2
"""Seconds between two updates of running tasks; their beginnings and ends are sent at once."""

Post = Callable[[Mapping[str, Any]], None]


class ProgressSender:
    """A context.Progress that sends tasks, lines and events to another host, which shows them."""

    def __init__(self, post: Post, clock: Callable[[], float] = time.monotonic) -> None:
        self._post, self._clock = post, clock
        self._numbers = itertools.count()
        self._waiting: dict[int, dict[str, Any]] = {}
        self._next = 0.0

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator["_ToldTask"]:
        """Let the other host show a line of progress until the `with` block ends; yield its task.

        `total` is the amount of all work, None if it is not known.
        """
        number = next(self._numbers)
        whole = _number(total)
        self._post({"kind": "task", "number": number, "title": title, "total": whole})
        try:
            yield _ToldTask(self, number)
        finally:
            state = self._waiting.pop(number, {})
            self._post({"kind": "end", "number": number, "state": state})

    def say(self, text: str) -> None:
        """Let the other host print a line."""
        self._post({"kind": "say", "text": text})

    def tell(self, event: Event) -> None:
        """Send an event to the programs that watch the run on the host where it was requested."""
        self._post({"kind": "event", "event": event.model_dump(mode="json")})

    def changed(self, number: int, state: Mapping[str, Any]) -> None:
        """Keep the new state of a task; send all kept states if the last sending is 0.2 s ago.

        `number` is the number of the task.
        """
        self._waiting.setdefault(number, {}).update(state)
        now = self._clock()
        if now >= self._next:
            self._next = now + _SECONDS
            states, self._waiting = self._waiting, {}
            tasks = [[number, state] for number, state in states.items()]
            self._post({"kind": "tasks", "tasks": tasks})


class _ToldTask:
    def __init__(self, told: ProgressSender, number: int) -> None:
        self._told, self._number = told, number
        self._done = 0.0

    def advance(self, done: float) -> None:
        self.update(done=self._done + done)

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        self._done = self._done if done is None else done
        # Counts may be of numpy's types, which JSON does not know.
        state = {"done": _number(done), "total": _number(total), "note": note}
        self._told.changed(self._number, {k: v for k, v in state.items() if v is not None})


class ProgressReceiver:
    """The receiver of progress messages from another host, which it shows on a local Progress.

    Use it in a `with` block.  Tasks that are still shown when the block ends are closed.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._open: dict[int, tuple[contextlib.ExitStack, Task, str]] = {}
        self.last = ""
        """The title of the task that changed last, and the words behind its bar."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for number in list(self._open):
            self._close(number)

    def show(self, message: Mapping[str, Any]) -> None:
        """Show one message of a ProgressSender.

        Raises KeyError, TypeError or ValueError for any other message.
        """
        if message["kind"] == "say":
            self._progress.say(str(message["text"]))
        elif message["kind"] == "event":
            self._progress.tell(events.of_keys(message["event"]))
        elif message["kind"] == "task":
            self._begin(int(message["number"]), str(message["title"]), message["total"])
        elif message["kind"] == "tasks":
            for number, state in message["tasks"]:
                self._update(int(number), state)
        else:
            self._update(int(message["number"]), message["state"])
            self._close(int(message["number"]))

    def _begin(self, number: int, title: str, total: float | None) -> None:
        stack = contextlib.ExitStack()
        task = stack.enter_context(self._progress.task(title, _number(total)))
        self._open[number] = (stack, task, title)
        self.last = title

    def _update(self, number: int, state: Mapping[str, Any]) -> None:
        _, task, title = self._open[number]
        if state:
            note = state.get("note")
            words = None if note is None else str(note)
            done, total = _number(state.get("done")), _number(state.get("total"))
            task.update(done=done, total=total, note=words)
            self.last = f"{title}: {words}" if words else title

    def _close(self, number: int) -> None:
        self._open.pop(number)[0].close()


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} of something that is done")
    return number
