"""Watch a run of another process: the steps that are done, and the present one.

RUN is a run's id or the start of one, a label, a path or `latest`. Without RUN it is the newest run
that is under way. Only files are read, the result and the events next to it: the run is not
disturbed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Self

from replayer.cli import run_options
from replayer.errors import NotFound, ReplayerError
from replayer.model import Status
from replayer.report.messages import say
from replayer.report.sanitize import sanitize
from replayer.report.terminal import run_output
from replayer.report.terminal.progress import conversation
from replayer.results import editing, store
from replayer.results.store import StoredRun
from replayer.run.event_stream import events, publisher
from replayer.run.event_stream.event_file import Follower
from replayer.units import show_duration

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from replayer.model import Run
    from replayer.report.terminal.progress import Conversation, ProgressLine

EPILOG = """\
examples:
  replayer watch                    the run that is under way in ./results
  replayer watch stock --results /mnt/shared/results
exit status: that of the run, as far as it is known: 1 if it did not end well
"""
_LOOK_SECONDS = 0.25


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "which", nargs="?", metavar="RUN", help="an id or its start, a label, a path or latest"
    )
    run_options.add_results(parser.add_argument)


def run(args: argparse.Namespace) -> int:
    """Follow a run to its end, in lines on stderr, and print its path; return the exit status."""
    where = store.folder_to_read(args.results)
    path = store.find(args.which, where) if args.which else _under_way(where)
    with conversation() as progress:
        last = _followed(path, progress)
    words = f": {last.error}" if last.error else ""
    say(f"{last.id} is {last.status.value}{words}")
    # A script reads the path as it is; a terminal must not be steered by it.
    print(sanitize(path) if sys.stdout.isatty() else path)  # noqa: T201
    return 0 if last.status is Status.DONE else 1


def _under_way(where: Path) -> Path:
    """Return the file of the newest run that is under way; raise NotFound if there is none.

    A run does not count if the process that writes it is known to be gone.
    """
    listed = [one for one in store.runs(where) if isinstance(one, StoredRun)]
    for one in reversed(listed):
        running = one.status == Status.RUNNING.value
        if running and not editing.cut(one.status, one.writer):
            return one.path
    raise NotFound(f"no run is under way in {where}: name the RUN, or its folder with --results")


def _followed(path: Path, progress: Conversation) -> Run:
    """Show the events of the run in the file `path` until that run ends, and return the run.

    Raises ReplayerError if the process that writes the run is gone.
    """
    current, seen = store.load(path), path.stat().st_mtime_ns
    progress.say(f"watching {current.id}, which began at {current.started}")
    with contextlib.closing(Follower(path)) as follower, _Screen(progress) as screen:
        if current.status is Status.RUNNING and not follower.there:
            progress.say("what it does now cannot be read, only which of its steps have ended")
        screen.catch_up(follower.fresh())
        while True:
            screen.show(follower.fresh())
            for step in current.steps:
                screen.end_step(publisher.step_end(step))
            if current.status is not Status.RUNNING:
                return current
            _refuse_cut(current)
            threading.Event().wait(_LOOK_SECONDS)
            if path.stat().st_mtime_ns != seen:
                seen = path.stat().st_mtime_ns
                current = store.load(path)


def _refuse_cut(current: Run) -> None:
    if editing.cut(current.status.value, current.writer):
        raise ReplayerError(
            f"the process that wrote {current.id} is gone: `replayer run --resume "
            f"{current.id}` does what is missing"
        )


class _Screen:
    """The output on this terminal about a run's events: printed lines, and the present progress."""

    def __init__(self, progress: Conversation) -> None:
        self._progress = progress
        self._reader = events.EventReader()
        self._ended: set[tuple[int, str]] = set()
        self._tasks: dict[int, tuple[contextlib.ExitStack, ProgressLine]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for number in list(self._tasks):
            self._end(number)

    def catch_up(self, data: bytes) -> None:
        """Show the state of a run that began earlier, from `data`: its events up to now, as bytes.

        It prints a line for each step that has ended, and shows what is under way.
        """
        for event in self._reader.feed(data):
            if isinstance(event, events.StepEnded):
                self.end_step(event)
        state = self._reader.state()
        for step in state.steps:
            if step.state == events.RUNNING:
                self._progress.say(self._beginning(step))
        for task in state.tasks:
            self._begin(task.number, task.title, task.total)
            self._tasks[task.number][1].update(done=task.done, note=task.note)

    def show(self, data: bytes) -> None:
        """Show the new events of the run; `data` are the new bytes of its file of events."""
        for event in self._reader.feed(data):
            match event:
                case events.TaskBegin():
                    self._begin(event.number, event.title, event.total)
                case events.TaskProgress() if event.number in self._tasks:
                    task = self._tasks[event.number][1]
                    task.update(done=event.done, total=event.total, note=event.note)
                case events.TaskEnd():
                    self._end(event.number)
                case events.MessageEvent():
                    self._progress.say(event.text)
                case events.StepEnded():
                    self.end_step(event)
                case events.Begin():
                    at = event.repeat, event.name
                    steps = {(one.repeat, one.name): one for one in self._reader.state().steps}
                    self._progress.say(self._beginning(steps[at]))
                case _:
                    pass

    def end_step(self, step: events.StepEnded) -> None:
        """Print that a step has ended, unless that was printed already."""
        if (step.repeat, step.name) not in self._ended:
            self._ended.add((step.repeat, step.name))
            self._progress.say(run_output.line(step))

    def _beginning(self, step: events.StepState) -> str:
        many = len(self._reader.state().steps)
        expected = "" if step.expected is None else f", about {show_duration(step.expected)}"
        return f"step {step.number} of {many}: {step.name} (repeat {step.repeat}){expected}"

    def _begin(self, number: int, title: str, total: float | None) -> None:
        stack = contextlib.ExitStack()
        self._tasks[number] = stack, stack.enter_context(self._progress.task(title, total))

    def _end(self, number: int) -> None:
        if number in self._tasks:
            self._tasks.pop(number)[0].close()
