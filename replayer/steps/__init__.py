"""The verbs of a workload: one file or folder each, whose name is the step's name.

A step module has a docstring, a `Spec` (a subclass of plan's `StepSpec`: the keys of the TOML
table) and `run(spec, context) -> None`, which writes what it finds into `context.findings` as it
goes.  It may have

- `check(spec, context) -> None`, called for every step before the first one starts, which raises
  Impossible or Skip,
- `needs_database(spec) -> bool`, if it can do without one,
- `measures_machine(spec) -> bool`, if another run on the same server, in another database, does not
  touch what it measures,
- `stays(spec) -> str`: why it is not run on the database's host when the rest is, "" if it can be,
- `on_client_hosts(spec) -> bool`, if other hosts can have a part of its work (`Context.pool`),
- `OPTIONS`, the keys that `replayer run` also takes as options, such as --clients,
- `footprint(spec, block_size) -> Footprint`: what its data takes, for `replayer check`,
- `HAS_WINDOW = False`, if there is no one window in which its work was done: no collector that does
  something beside a step watches it,
- a module `display` beside it, if it is a folder: how its results are shown (run/display.py).

What it read of the device, that it wrote, whether it was steady, what its window was and what was
done in it, it says in its findings.
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
