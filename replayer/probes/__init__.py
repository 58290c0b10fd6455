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
    """A probe module with a default for each member that it leaves out."""

    Spec: type[ProbeSpec]
    """The keys of the probe's table in TOML."""
    ON_DEVICE: bool = True
    """False if the probe makes files, and cannot work on a raw device instead."""
    ON_HOSTS: bool = False
    """True if its files are only used by `run_io`, which client hosts can do as well."""

    @abstractmethod
    def run(self, spec: Any, context: ProbeContext) -> None:
        """Measure, and add every figure to the context's findings as soon as it is known."""

    def needs(self, spec: Any, host: Host) -> int:  # noqa: ARG002
        """Return the bytes of files that one client's part takes; 0 if it makes none."""
        return 0


FACE = Probe


def load(name: str) -> Probe:
    """Return the probe of that name, as it is written in TOML."""
    return cast("Probe", registry.plugin("probes", name.replace("-", "_")))
