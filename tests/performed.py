"""Perform one step as the runner does; `from tests.performed import performed`."""

import dataclasses
from typing import Any, Protocol

from replayer.model import Outcome
from replayer.run.context import Context
from replayer.run.step_recorder import StepRecorder


class Step(Protocol):
    """A step's module."""

    def run(self, spec: Any, context: Context, /) -> None:
        """Do what the step does."""


def performed(module: Step, spec: object, context: Context) -> Outcome:
    """Run a step with a recorder of its own and return what it found."""
    context = dataclasses.replace(context, findings=StepRecorder())
    module.run(spec, context)
    return context.findings.outcome()
