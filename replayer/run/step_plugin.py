"""The members that a module in replayer/steps must have or may have."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from replayer import registry

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

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


class IgnoredKey(NamedTuple):
    """A key of a step that has no effect with the values of the other keys."""

    words: str
    """The reason and what to do: the rest of a sentence that begins with the key's name."""
    replaced_by: str = ""
    """The key that replaces this one; if only that one is an override, this one is left out."""


class Step(Protocol):
    """The members of a step's module; a member that the module leaves out has the default here."""

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
        """Return the class of the step's keys; the step `probe` chooses it by the probe's name.

        `table` is the step's table in the workload file.
        """
        return self.Spec

    def describe(self, spec: Any) -> str:  # noqa: ARG002
        """Return a sentence on what the step does with these keys, for a reader new to replayer.

        "" means that the first line of the module's docstring is used instead.
        """
        return ""

    def check(self, spec: Any, context: Context) -> None:
        """Raise Impossible or Skip if the step cannot be done here.

        The runner calls this for every step before the first step of the run.
        """

    def explain_ignored_keys(self, spec: Any) -> Mapping[str, IgnoredKey]:  # noqa: ARG002
        """Return key -> reason of each key that has no effect with the values of the others.

        Such a key is refused if the user gave it.
        """
        return {}

    def check_files(self, spec: Any) -> None:
        """Raise Impossible if the files that the step names show that it cannot be done.

        A dry run calls this method, so it must not need a server.
        """

    def needs_database(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether the step works on a database."""
        return True

    def measures_machine(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether another run on this machine at the same time changes the step's numbers.

        The other run may use another database of the same server.
        """
        return True

    def run_here_reason(self, spec: Any) -> str:  # noqa: ARG002
        """Return the reason why only the host where the user started replayer can do the step.

        Returns "" if the database's host can do it.
        """
        return ""

    def uses_client_hosts(self, spec: Any) -> bool:  # noqa: ARG002
        """Return whether other hosts can do a part of the step's work (`Context.pool`)."""
        return False

    def footprint(self, spec: Any, block_size: int) -> Footprint | None:  # noqa: ARG002
        """Return the sizes of the step's data, for `replayer check`; None if it makes no data.

        `block_size` is that of the database, in bytes.
        """
        return None


def load(name: str) -> Step:
    """Return the step of that name.

    Raises NotFound if there is none, and Impossible if its module is not a step.
    """
    return cast("Step", registry.plugin("steps", name))
