"""The verbs of a workload: one file each, whose name is the step's name.

A step module has a docstring, a `Spec` (a subclass of plan's `StepSpec`: the keys of the TOML
table) and `run(spec, context) -> None`, which writes what it finds into `context.findings` as it
goes.  It may have `check(spec, context) -> None`, which is
called for every step before the first one starts and raises Impossible or Skip, and
`needs_database(spec) -> bool` if it can do without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    # Not at run time: `replayer list` names the steps without loading a database library.
    from replayer.model import StepSpec
    from replayer.run.context import Context


class Step(Protocol):
    """What the runner needs of a step module."""

    Spec: type[StepSpec]

    def run(self, spec: Any, context: Context) -> None:
        """Do the step's work and write what is measured into the context's findings."""
        ...
