"""The metrics sidecar: a process that serves the metrics of a run and ends with the run.

The run's own process only opens the listening socket, before it measures anything: so a port in use
is reported early.  Then it starts the sidecar, which inherits the socket and reads the run's file
again when it has changed.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import interpreter, shell
from replayer.metrics import address

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_PATIENCE = 5.0


class MetricsSidecar:
    """The process that serves a run's metrics; it does nothing if no address was given."""

    def __init__(self, bound: socket.socket | None) -> None:
        self._bound = bound
        self._path: Path | None = None
        self._process: shell.Conversation | None = None

    @property
    def link(self) -> str:
        """Return the URL of the metrics; "" if none are served."""
        return address.link(self._bound) if self._bound else ""

    def follow(self, path: Path | None) -> None:
        """Serve the metrics of the run in this file from now on; do nothing for None."""
        if self._bound is None or path is None or path == self._path:
            return
        self.end()
        self._path = path
        number = self._bound.fileno()
        self._process = shell.start(
            [*interpreter.module(str(__package__)), str(number), path.absolute()],
            folder=Path("/"),
            passed=(number,),
            bound=True,
        )

    def end(self) -> None:
        """End the process that serves the metrics, if there is one."""
        if self._process is not None:
            self._process.kill()
            shell.wait_until_ended(self._process, within=_PATIENCE)


@contextlib.contextmanager
def served(wanted: str | None, *, public: bool) -> Iterator[MetricsSidecar]:
    """Yield a sidecar for the address `wanted`, and end it after the `with` block.

    If `wanted` is None, the sidecar serves nothing.  Raises Impossible if `wanted` is not an
    address or cannot be bound, or if other hosts can reach it and the metrics are not `public`.
    """
    if wanted is None:
        yield MetricsSidecar(None)
        return
    with address.listening(wanted, "--metrics", public=public) as bound:
        beside = MetricsSidecar(bound)
        try:
            yield beside
        finally:
            beside.end()
