"""How a run talks on stderr while it runs, and what it says when it is over."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer import units
from replayer.errors import Impossible
from replayer.report.events import Events
from replayer.report.progress import Bars, Lines, Silence, conversation
from replayer.report.words import clean
from replayer.units import show, show_duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import TextIO

    from replayer.model import Run, StepResult
    from replayer.report.progress import Conversation

FORMS: Mapping[str, Callable[[TextIO], Conversation]] = {
    "auto": conversation,
    "bars": Bars,
    "lines": Lines,
    "json": Events,
    "none": lambda _stream: Silence(),
}
"""What --progress may be."""
_MOST_NUMBERS = 4
_LONGEST = 1e8


def seconds(text: str) -> float:
    """Return a time on a command line in seconds; raise Impossible for what is none."""
    length = units.duration(text)
    if not 0 < length < _LONGEST:
        raise Impossible(f"--timeout {text}: it must be more than nothing and less than years")
    return length


@dataclass
class Voice:
    """What is said on stderr in one run."""

    conversation: Conversation
    quiet: bool = False
    verbose: bool = False
    steps: int | None = None
    """How many steps were told of; None before the run was."""

    @classmethod
    def of(cls, args: argparse.Namespace) -> Voice:
        """Return the voice that a command line asks for."""
        form = "none" if args.quiet and args.progress == "auto" else args.progress
        return cls(FORMS[form](sys.stderr), quiet=args.quiet, verbose=args.verbose)

    def told(self, run: Run, path: Path | None) -> None:
        """Tell of the steps that a run has more than before."""
        if self.steps is None:
            self._begun(run, path)
        fresh = run.steps[self.steps or 0 :]
        self.steps = len(run.steps)
        for step in fresh:
            if isinstance(self.conversation, Events):
                self.conversation.tell("step", **_step(step))
            elif self.verbose:
                self.conversation.say(_line(step))

    def _begun(self, run: Run, path: Path | None) -> None:
        # Of a run that is taken up the steps are not news.
        self.steps = len(run.steps)
        if isinstance(self.conversation, Events):
            self.conversation.tell("run", **_run(run, path))

    def ended(self, run: Run, path: Path | None, left: str) -> None:
        """Say where the result is, and what stays on somebody else's server."""
        if isinstance(self.conversation, Events):
            if left:
                self.conversation.say(left)
            self.conversation.tell("run", **_run(run, path))
            return
        if path is not None:
            print(f"result: {path}", file=sys.stderr)  # noqa: T201
        if left:
            print(left, file=sys.stderr)  # noqa: T201


def _run(run: Run, path: Path | None) -> dict[str, object]:
    return {"id": run.id, "path": str(path or ""), "status": run.status.value, "error": run.error}


def _step(step: StepResult) -> dict[str, object]:
    return {
        "name": step.name,
        "repeat": step.repeat,
        "status": step.status.value,
        "reason": step.reason,
        "seconds": round(step.elapsed, 3),
        "measured": {m.metric: m.value for m in step.measurements},
    }


def _line(step: StepResult) -> str:
    numbers = [f"{m.metric} {show(m.value, m.unit)}" for m in step.measurements[:_MOST_NUMBERS]]
    parts = [
        f"{clean(step.name)} (repeat {step.repeat}): {step.status.value}",
        clean(step.reason),
        f"in {show_duration(step.elapsed)}",
        *map(clean, numbers),
    ]
    return "; ".join(part for part in parts if part)
