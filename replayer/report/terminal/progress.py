"""The progress display on stderr: bars with the time left on a terminal, else occasional lines.

Drawing is done inside the calls that report progress, at most twice a second, and not by a thread
of rich, because its CPU time counts against replayer.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TaskID, TextColumn
from rich.progress import Progress as Rich
from rich.progress import Task as RichTask
from rich.table import Column
from rich.text import Text

from replayer.report.sanitize import sanitize
from replayer.run.event_stream.events import Event
from replayer.units import show_duration

_REDRAW = 0.5
_TOLD_FROM = 0.01
"""The share of a task that must be done before the time left is shown: earlier it is a guess."""
_LINE_EVERY = 10.0
_WORTH_TELLING = 2.0
"""Minimum duration in seconds of a task whose end is reported."""
_NARROW = 100

Clock = Callable[[], float]


class ProgressLine(Protocol):
    """The line of one task in a progress display: the work done, the total, and a text."""

    def advance(self, done: float) -> None:
        """Add `done` to the work that is done; it is in the unit of the task's total."""
        ...

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        """Set the work done, the total work, or the text after the bar; None leaves it as it is."""
        ...


class Conversation(Protocol):
    """A progress display that is used in a `with`: at its end, no bar is left on the screen."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def task(
        self, title: str, total: float | None = None
    ) -> contextlib.AbstractContextManager[ProgressLine]:
        """Show the progress of one task while the `with` block runs, which gets its line.

        `total` is the amount of its work, in any unit; None if it is not known.
        """
        ...

    def say(self, text: str) -> None:
        """Print one line above the bars."""
        ...

    def tell(self, event: Event) -> None:
        """Take an event of the run, such as the start of a step, to show it or to ignore it.

        Other programs that watch the run get the same event.
        """
        ...


def conversation(stream: TextIO | None = None, *, clock: Clock = time.monotonic) -> Conversation:
    """Return a progress display for a stream: bars if it is a terminal, else occasional lines.

    Use it in a `with`.  `stream` None is stderr.  `clock` returns seconds.
    """
    stream = stream or sys.stderr
    terminal = stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Bars(stream, clock) if terminal else Lines(stream, clock)


class Silence:
    """A progress display that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator[ProgressLine]:
        """Do nothing for as long as the `with` block runs."""
        del title, total
        yield _SilentTask()

    def say(self, text: str) -> None:
        """Print nothing."""

    def tell(self, event: Event) -> None:
        """Print nothing."""


class _SilentTask:
    def advance(self, done: float) -> None:
        """Do nothing."""

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        """Do nothing."""


class Lines:
    """A progress display of plain lines, for a log: at most one in ten seconds.

    A task that took two seconds or more has one more line at its end.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self.next_line = clock() + _LINE_EVERY

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.flush()

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator["_LineTask"]:
        """Print lines on one task while the `with` block runs.

        `total` is the amount of its work, in any unit; None if it is not known.
        """
        task = _LineTask(self, title, total, self._clock)
        yield task
        if task.elapsed >= _WORTH_TELLING:
            self.say(f"{title}: done in {show_duration(task.elapsed)}")

    def say(self, text: str) -> None:
        """Print one line."""
        # The measurement must continue if the reader of stderr went away.
        with contextlib.suppress(OSError):
            self._stream.write(_encodable(sanitize(text), self._stream) + "\n")
            self._stream.flush()

    def tell(self, event: Event) -> None:
        """Print nothing: events are for other programs."""

    def maybe(self, line: Callable[[], str]) -> None:
        """Print the text that `line` returns, if ten seconds have passed since the last one."""
        now = self._clock()
        if now >= self.next_line:
            self.next_line = now + _LINE_EVERY
            self.say(line())


class _LineTask:
    def __init__(self, lines: Lines, title: str, total: float | None, clock: Clock) -> None:
        self._lines, self._title, self._total = lines, title, total
        self._done, self._note, self._clock, self._started = 0.0, "", clock, clock()

    @property
    def elapsed(self) -> float:
        return self._clock() - self._started

    def advance(self, done: float) -> None:
        self.update(done=self._done + done)

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        self._done = self._done if done is None else done
        self._total = self._total if total is None else total
        self._note = self._note if note is None else note
        self._lines.maybe(self._line)

    def _line(self) -> str:
        words = [_clock_text(self.elapsed)]
        if self._total and self._done > 0:
            share = min(1.0, self._done / self._total)
            left = self.elapsed / share - self.elapsed
            left_words = [f"{_clock_text(left)} left"] if share >= _TOLD_FROM else []
            words = [f"{share:.0%}", *words, *left_words]
        return f"{self._title}: {', '.join([*words, *filter(None, [self._note])])}"


class Bars:
    """A progress display of bars on a terminal; a bar disappears when its task ends.

    A task that took two seconds or more prints one line at its end.
    """

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._console = _Console(file=stream, highlight=False, markup=False, emoji=False)
        narrow = self._console.width < _NARROW
        self._rich = Rich(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=10 if narrow else 20),
            _Share(table_column=Column(no_wrap=True)),
            _Left(table_column=Column(no_wrap=True)),
            _Note(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=self._console,
            auto_refresh=False,
            transient=True,
            # Results go to stdout unchanged, even while bars are on stderr.
            redirect_stdout=False,
            redirect_stderr=False,
            expand=True,
            get_time=clock,
        )
        self._open = 0
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._rich.stop()

    @contextlib.contextmanager
    def task(self, title: str, total: float | None = None) -> Iterator["_BarTask"]:
        """Show a bar for one task while the `with` block runs.

        `total` is the amount of its work, in any unit; None if it is not known.
        """
        title, started = sanitize(title), self._clock()
        with contextlib.ExitStack() as stack:
            self._open += 1
            stack.callback(self._close)
            with contextlib.suppress(OSError):
                self._rich.start()
            number = self._rich.add_task(title, total=total, note="")
            stack.callback(self._rich.remove_task, number)
            self.redraw()
            yield _BarTask(self, self._rich, number)
        took = self._clock() - started
        if took >= _WORTH_TELLING:
            self.say(f"{title}: done in {show_duration(took)}")

    def say(self, text: str) -> None:
        """Print one line above the bars."""
        with contextlib.suppress(OSError):
            self._console.print(Text(sanitize(text)), soft_wrap=True)

    def tell(self, event: Event) -> None:
        """Print nothing: events are for other programs."""

    def redraw(self) -> None:
        """Draw the bars if they were last drawn at least half a second ago."""
        now = self._clock()
        if now >= self._next:
            self._next = now + _REDRAW
            # The measurement must continue if the terminal went away.
            with contextlib.suppress(OSError):
                self._rich.refresh()

    def _close(self) -> None:
        self._open -= 1
        if not self._open:
            self._rich.stop()


class _Console(Console):
    """A console that prints nothing more if its stream is closed; rich would end the program."""

    def on_broken_pipe(self) -> None:
        """Print nothing more."""
        self.quiet = True


class _BarTask:
    def __init__(self, bars: Bars, rich: Rich, number: TaskID) -> None:
        self._bars, self._rich, self._number = bars, rich, number

    def advance(self, done: float) -> None:
        self._rich.advance(self._number, done)
        self._bars.redraw()

    def update(
        self, *, done: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        fields: dict[str, Any] = {} if note is None else {"note": sanitize(note)}
        self._rich.update(self._number, completed=done, total=total, **fields)
        self._bars.redraw()


class _Share(ProgressColumn):
    """The percentage done, rounded down, if the total is known."""

    def render(self, task: RichTask) -> Text:
        return Text(f"{int(task.percentage):3d}%" if task.total else "")


class _Left(ProgressColumn):
    """The elapsed time, and the time left if it can be estimated."""

    def render(self, task: RichTask) -> Text:
        gone, left = task.elapsed or 0.0, task.time_remaining
        if not task.total or not task.completed:
            return Text(_clock_text(gone))
        if task.total and task.completed < _TOLD_FROM * task.total:
            return Text(_clock_text(gone))
        if left is None:
            # rich has too few reports to know the speed: use the mean speed so far.
            left = gone * max(0.0, task.total - task.completed) / task.completed
        return Text(f"{_clock_text(gone)}, {_clock_text(left)} left")


class _Note(ProgressColumn):
    """The text that a task shows after its bar."""

    def render(self, task: RichTask) -> Text:
        return Text(task.fields["note"], no_wrap=True, overflow="ellipsis")


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
