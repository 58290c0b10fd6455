"""The members that a module in replayer/steps must have or may have."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from replayer import registry

if TYPE_CHECKING:
    from collections.abc import Collection

    from replayer.model import StepSpec
    from replayer.run.context import Context


class Footprint(NamedTuple):
    """The sizes of one step's data; data that several steps share is counted once."""

    data: object
    """Identifies the data: equal values mean the same data."""
    disk_bytes: int
    """Most bytes on disk, including those that are written next to the data during the step."""
    cached_bytes: int = 0
    """The bytes of the data that are to stay in the page cache."""


class Step(Protocol):
    """A step module with a default for each member that it leaves out."""

    Spec: type[StepSpec]
    """The keys of the step's table in TOML."""
    OPTIONS: Collection[str] = frozenset()
    """Keys that `replayer run` also takes as options, such as --clients."""
    HAS_WINDOW: bool = True
    """False if the step has no single measured window; then no active collector watches it."""

    @abstractmethod
    def run(self, spec: Any, context: Context) -> None:
        """Do the step's work, and write each measurement into the context's recorder at once."""

    def spec_of(self, table: dict[str, Any]) -> type[StepSpec]:  # noqa: ARG002
        """Return the Spec for one TOML table; for the step `probe` it depends on the table."""
        return self.Spec

    def describe(self, spec: Any) -> str:  # noqa: ARG002
        """Return what the step does with these keys, for a reader who does not know it.

        "" stands for the first line of the module's docstring.
        """
        return ""

    def check(self, spec: Any, context: Context) -> None:
        """Raise Impossible or Skip if the step cannot be done; called before the first step."""

    def check_files(self, spec: Any) -> None:
        """Raise Impossible if the files that the step names show that the step cannot be done.

        A dry run calls this method: there is no server.
        """

    def needs_database(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether the step works on a database."""
        return True

    def measures_machine(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether a run on the same server, in another database, would disturb the step."""
        return True

    def run_here_reason(self, spec: Any) -> str:  # noqa: ARG002
        """Return why the step cannot run on the database's host, "" if it can."""
        return ""

    def uses_client_hosts(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether other hosts can do a part of the step's work (`Context.pool`)."""
        return False

    def footprint(self, spec: Any, block_size: int) -> Footprint | None:  # noqa: ARG002
        """Return the sizes of the step's data, for `replayer check`; None if it makes no data."""
        return None


def load(name: str) -> Step:
    """Return the step of that name.

    Raises NotFound if there is none, and Impossible if its module is not a step.
    """
    return cast("Step", registry.plugin("steps", name))
