"""The output of a run on stderr: progress, events, messages, and the result's path."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Self

from replayer import units
from replayer.errors import Impossible, ReplayerError
from replayer.model import Status
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
    from replayer.run.event_stream.events import PlannedSteps, RunLocation, RunState

FORMS: Mapping[str, Callable[[TextIO], Conversation]] = {
    "auto": conversation,
    "bars": Bars,
    "lines": Lines,
    "json": lambda _stream: Silence(),
    "none": lambda _stream: Silence(),
}
"""Value of --progress -> function that makes the progress display for a stream."""
_LONGEST = 1e8


def seconds(text: str) -> float:
    """Return a duration from the command line, such as 2h, in seconds.

    Raises Impossible if the duration is 0, or 1e8 seconds (over three years) or more; it is also
    raised for an invalid text.
    """
    length = units.duration(text)
    if not 0 < length < _LONGEST:
        raise Impossible("it must be more than nothing and less than years")
    return length


class RunOutput:
    """The messages of one run on stderr, and its events for other programs; use it in a `with`."""

    def __init__(
        self, conversation: Conversation, *, json: bool = False, verbose: bool = False
    ) -> None:
        self.telling = EventPublisher(conversation)
        self.file: EventFile | None = None
        """The file of events that other programs read.

        None until the run has a result file, or if the file cannot be written.
        """
        self.followers: list[Callable[[Path], None]] = []
        """Functions to call with the result file's path once its file of events exists."""
        self._conversation = conversation
        self._json = self.telling.add(_written(sys.stderr)) if json else None
        self._verbose = verbose
        self._steps: int | None = None
        """The number of steps reported so far; None before the run itself was reported."""
        self._about: RunLocation | None = None
        self._open = contextlib.ExitStack()

    @classmethod
    def of(cls, args: argparse.Namespace) -> RunOutput:
        """Return the output that the arguments --progress, --quiet and --verbose select."""
        form = "none" if args.quiet and args.progress == "auto" else args.progress
        return cls(FORMS[form](sys.stderr), json=form == "json", verbose=args.verbose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.telling.end()
        self._open.close()

    @contextlib.contextmanager
    def conversation(self, plan: PlannedSteps | None = None) -> Iterator[EventPublisher]:
        """Show the progress display while the `with` block runs; yield the publisher of events.

        `plan`, the planned steps, is its first event; it is left out if it is None.
        """
        with self._conversation:
            if plan is not None:
                self.telling.tell(plan)
            yield self.telling

    def report_steps(self, run: Run, path: Path | None) -> None:
        """Report the steps of a run that ended since the last call.

        They are reported as events and, with --verbose, also as lines.  `path` is the run's result
        file; None if it has none.
        """
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
                self._conversation.say(line(_without_end(step)))

    def _begun(self, run: Run, path: Path | None) -> None:
        self.telling.tell(publisher.run_state(run, path))
        # The file must be there before the steps: a later one gets only the last earlier events.
        if path is not None:
            self._open_file(path)
        # If the run was resumed, its steps are not new.
        for step in run.steps:
            self.telling.tell(publisher.step_end(step, earlier=True))
        self._steps = len(run.steps)

    def _open_file(self, path: Path) -> None:
        try:
            self.file = self._open.enter_context(EventFile(path))
        except (OSError, ReplayerError) as error:
            self.telling.say(
                f"this run cannot be watched, as its events cannot be written: {error}"
            )
        else:
            self.telling.add(self.file.write)
            for follow in self.followers:
                follow(path)

    def say_here(self, text: str) -> None:
        """Print a message only for the user that started the run, even with --quiet.

        Programs that watch the run do not get it.
        """
        if self._json is not None:
            self._json.tell(MessageEvent(text=text))
        elif isinstance(self._conversation, Silence):
            print(sanitize(text), file=sys.stderr, flush=True)  # noqa: T201
        else:
            self._conversation.say(text)

    def ended(self, run: Run, path: Path | None, left: str, *, seen: bool = False) -> None:
        """Report the end of the run as an event, and print the result's path and `left` on stderr.

        `left` is a sentence on what replayer left on a server that it did not start.  With `seen`,
        nothing is printed, because the final screen of the run has both.
        """
        if left:
            self.telling.tell(MessageEvent(text=left))
        self.telling.tell(_end_state(run, path))
        if self._json is not None or seen:
            return
        if path is not None:
            print(f"result: {path}", file=sys.stderr)  # noqa: T201
        if left:
            print(left, file=sys.stderr)  # noqa: T201


def _end_state(run: Run, path: Path | None) -> RunState:
    """Return the event of a run's end, with the headline and the beliefs of the run's report."""
    from replayer.report.documents import summary  # noqa: PLC0415 - a run loads it at its end

    summed = summary.summarise([run])
    return publisher.run_state(run, path).model_copy(
        update={
            "headline": run.headline or str(summed.headline),
            "believed": {line.name: line.trust.value for line in summed.lines},
        }
    )


def line(step: StepEnded) -> str:
    """Return a line about a step that has ended: its status, duration and measurements."""
    numbers = [f"{one.metric} {one.text}" for one in step.figures]
    parts = [
        f"{sanitize(step.name)} (repeat {step.repeat}): {step.status}",
        sanitize(step.reason),
        f"in {show_duration(step.seconds)}",
        *map(sanitize, numbers),
    ]
    return "; ".join(part for part in parts if part)


def _without_end(step: StepEnded) -> StepEnded:
    """Return the step without its reason, unless it was done or skipped.

    The reason of a step that ended the run is the last line on stderr, and must not appear twice.
    """
    kept = step.status in {Status.DONE.value, Status.SKIPPED.value}
    return step if kept else step.model_copy(update={"reason": ""})


def _written(stream: TextIO) -> Callable[[bytes], object]:
    def write(data: bytes) -> None:
        stream.write(data.decode())
        stream.flush()

    return write
