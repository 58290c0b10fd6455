"""Perform one step as the runner does; `from tests.performed import context_of, performed`."""

import dataclasses
import io
from pathlib import Path
from typing import Any, Protocol

from replayer.machine.host import Host
from replayer.model import Outcome, StepResult, Workload
from replayer.report.terminal.progress import Lines
from replayer.run.context import Context
from replayer.run.step_recorder import StepRecorder
from replayer.servers.open import Server
from replayer.watch.sampler import Sampler
from tests.known import known


class Step(Protocol):
    """A step's module."""

    def run(self, spec: Any, context: Context, /) -> None:
        """Do what the step does."""


def context_of(
    server: Server | None, host: Host, sampler: Sampler, storage: Path | None = None
) -> Context:
    """Return a step's context, whose progress nobody sees; `storage` is first the server's data."""
    return Context(
        host=host,
        workload=Workload(name="test", source="", description="", comment="", steps=()),
        progress=Lines(io.StringIO()),
        sampler=sampler,
        storage=known(storage or (server.data_directory() if server else None)),
        database_server=server,
    )


def performed(module: Step, spec: object, context: Context) -> Outcome:
    """Run a step with a recorder of its own and return what it found."""
    context = dataclasses.replace(context, findings=StepRecorder())
    module.run(spec, context)
    return context.findings.outcome()


def values(found: Outcome | StepResult) -> dict[str, float]:
    """Return metric -> value of what a step found."""
    return {one.metric: one.value for one in found.measurements}
