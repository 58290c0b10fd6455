"""The metrics of a run while it runs, served by a process beside it that ends with it.

The process that measures only listens before it begins, so that a port that is taken is told then,
and starts the other, which inherits that socket and reads the run's file as it grows.
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
    """Who serves a run's metrics; nobody where none were asked for."""

    def __init__(self, bound: socket.socket | None) -> None:
        self._bound = bound
        self._path: Path | None = None
        self._process: shell.Conversation | None = None

    @property
    def link(self) -> str:
        """Return where the metrics are; "" where nobody serves any."""
        return address.link(self._bound) if self._bound else ""

    def follow(self, path: Path | None) -> None:
        """Serve the metrics of the run in this file from now on."""
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
        """End the process."""
        if self._process is not None:
            self._process.kill()
            shell.ended(self._process, within=_PATIENCE)


@contextlib.contextmanager
def served(wanted: str | None, *, public: bool) -> Iterator[MetricsSidecar]:
    """Give who serves the metrics at an address until the `with` ends; None is nowhere.

    Raises Impossible as `address.listening` does.
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
