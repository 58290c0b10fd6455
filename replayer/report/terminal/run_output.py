"""How a run talks on stderr while it runs, and what it says when it is over."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Self

from replayer import units
from replayer.errors import Impossible, ReplayerError
from replayer.report.sanitize import sanitize
from replayer.report.terminal.progress import Bars, Lines, Silence, conversation
from replayer.run.event_stream import publisher
from replayer.run.event_stream.event_file import EventFile
from replayer.run.event_stream.events import MessageEvent, StepEnded
from replayer.run.event_stream.publisher import EventPublisher
from replayer.units import show_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TextIO

    from replayer.model import Run
    from replayer.report.terminal.progress import Conversation
    from replayer.run.event_stream.events import PlannedSteps, RunLocation

FORMS: Mapping[str, Callable[[TextIO], Conversation]] = {
    "auto": conversation,
    "bars": Bars,
    "lines": Lines,
    "json": lambda _stream: Silence(),
    "none": lambda _stream: Silence(),
}
"""What --progress may be."""
_LONGEST = 1e8


def seconds(text: str, option: str = "--timeout") -> float:
    """Return a time on a command line in seconds; raise Impossible for what is none."""
    length = units.duration(text)
    if not 0 < length < _LONGEST:
        raise Impossible(f"{option} {text}: it must be more than nothing and less than years")
    return length


class RunOutput:
    """What is said on stderr in one run, and told to those who watch it; use it in a `with`."""

    def __init__(
        self, conversation: Conversation, *, json: bool = False, verbose: bool = False
    ) -> None:
        self.telling = EventPublisher(conversation)
        self.file: EventFile | None = None
        """Where those who watch read; None before the run has a place, or where it cannot be."""
        self.followers: list[Callable[[Path], None]] = []
        """Called when there is something to read of the run that is stored there."""
        self._conversation = conversation
        self._json = self.telling.add(_written(sys.stderr)) if json else None
        self._verbose = verbose
        self._steps: int | None = None
        """How many steps were told of; None before the run was."""
        self._about: RunLocation | None = None
        self._open = contextlib.ExitStack()

    @classmethod
    def of(cls, args: argparse.Namespace) -> RunOutput:
        """Return the voice that a command line asks for."""
        form = "none" if args.quiet and args.progress == "auto" else args.progress
        return cls(FORMS[form](sys.stderr), json=form == "json", verbose=args.verbose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.telling.end()
        self._open.close()

    @contextlib.contextmanager
    def conversation(self, plan: PlannedSteps | None = None) -> Iterator[EventPublisher]:
        """Give the conversation of the run, whose steps are to be as planned."""
        with self._conversation:
            if plan is not None:
                self.telling.tell(plan)
            yield self.telling

    def told(self, run: Run, path: Path | None) -> None:
        """Tell of the steps that a run has more than before."""
        if self._steps is None:
            self._begun(run, path)
        if run.host and (about := publisher.about(run)) != self._about:
            self._about = about
            self.telling.tell(about)
        fresh = run.steps[self._steps or 0 :]
        self._steps = len(run.steps)
        for step in map(publisher.step_end, fresh):
            self.telling.tell(step)
            if self._verbose:
                self._conversation.say(line(step))

    def _begun(self, run: Run, path: Path | None) -> None:
        self.telling.tell(publisher.run_state(run, path))
        # Of a run that is taken up the steps are not news.
        for step in run.steps:
            self.telling.tell(publisher.step_end(step, earlier=True))
        self._steps = len(run.steps)
        if path is None:
            return
        try:
            self.file = self._open.enter_context(EventFile(path))
        except (OSError, ReplayerError) as error:
            self.telling.say(f"nobody can watch this run, whose events cannot be written: {error}")
        else:
            self.telling.add(self.file.write)
            for follow in self.followers:
                follow(path)

    def say_here(self, text: str) -> None:
        """Say what is for who started the run and nobody else, in a quiet run too."""
        if self._json is not None:
            self._json.tell(MessageEvent(text=text))
        elif isinstance(self._conversation, Silence):
            print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201
        else:
            self._conversation.say(text)

    def ended(self, run: Run, path: Path | None, left: str) -> None:
        """Say where the result is, and what stays on somebody else's server."""
        if left:
            self.telling.tell(MessageEvent(text=left))
        self.telling.tell(publisher.run_state(run, path))
        if self._json is not None:
            return
        if path is not None:
            print(f"result: {path}", file=sys.stderr)  # noqa: T201
        if left:
            print(left, file=sys.stderr)  # noqa: T201


def line(step: StepEnded) -> str:
    """Return a step that has ended, and what it measured, in one line."""
    numbers = [f"{one.metric} {one.text}" for one in step.figures]
    parts = [
        f"{sanitize(step.name)} (repeat {step.repeat}): {step.status}",
        sanitize(step.reason),
        f"in {show_duration(step.seconds)}",
        *map(sanitize, numbers),
    ]
    return "; ".join(part for part in parts if part)


def _written(stream: TextIO) -> Callable[[bytes], object]:
    def write(data: bytes) -> None:
        stream.write(data.decode())
        stream.flush()

    return write
