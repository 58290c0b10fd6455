"""Measurements of the machine without a database: one file each, all over one I/O engine.

A probe module has a docstring (its first line says which tool's job it does), a `Spec` (a subclass
of `ProbeSpec`: the keys of the TOML table) and `run(spec, context) -> None`, which adds what it
finds to `context.findings` as it goes.  It may have `needs(spec, host) -> int`, the bytes of files
it will make, `ON_DEVICE = False` if it makes files but cannot work on a raw device instead, and
`ON_HOSTS = True` if all that it does with them is `run_io`, which hosts can do as its clients.
"""

from typing import Any, Protocol

from replayer.machine.host import Host
from replayer.run.probe_context import ProbeContext, ProbeSpec


class Probe(Protocol):
    """What the probe step needs of a probe module."""

    Spec: type[ProbeSpec]

    def needs(self, spec: Any, host: Host) -> int:
        """Return the bytes of files that one client's part takes."""
        ...

    def run(self, spec: Any, context: ProbeContext) -> None:
        """Measure, and add every figure to the context's findings as soon as it is known."""
        ...
