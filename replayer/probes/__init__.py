"""Measurements of the machine without a database: one file each, all using one I/O engine.

A probe module has a docstring (its first line names the tool that does the same), a `Spec` (a
subclass of `ProbeSpec`: the keys of the TOML table) and `run(spec, context) -> None`, which adds
each figure to `context.findings` as soon as it is known.  Optional members are in `Probe`.
"""

from abc import abstractmethod
from typing import Any, Protocol, cast

from replayer import registry
from replayer.machine.host import Host
from replayer.run.probe_context import ProbeContext, ProbeSpec


class Probe(Protocol):
    """The members of a probe module; a value here is the default of a missing member."""

    Spec: type[ProbeSpec]
    """The keys of the probe's table in TOML."""
    ON_DEVICE: bool = True
    """False if the probe needs files, so that it cannot work on a raw device."""
    ON_HOSTS: bool = False
    """True if the probe uses files only by `context.run_io`, which also works on client hosts."""

    @abstractmethod
    def run(self, spec: Any, context: ProbeContext) -> None:
        """Measure, and add every result to the context's findings as soon as it is known."""

    def needs(self, spec: Any, host: Host) -> int:  # noqa: ARG002
        """Return the total size in bytes of one client's files; 0 if the probe makes none."""
        return 0


FACE = Probe


def load(name: str) -> Probe:
    """Return the probe module with a name as written in TOML, such as `pg-fsync`."""
    return cast("Probe", registry.plugin("probes", name.replace("-", "_")))
