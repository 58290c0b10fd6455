"""Servers that tests share: the fixture `server_pool`."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from replayer.engines import engine as engines
from replayer.servers.open import Server, open_server
from tests.ready_made import copy, ready_data

_Key = tuple[str, Path | None, tuple[tuple[str, str], ...]]


class ServerPool:
    """Private servers, each started once by engine, programs and settings, and ended together.

    Whoever stops one, or creates something in it, leaves it as it was found.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = contextlib.ExitStack()
        self._servers: dict[_Key, Server] = {}

    def __call__(
        self,
        engine: str = "postgres",
        *,
        bindir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Server:
        """Return the running server of an engine with these settings."""
        asked = dict(settings or {})
        key = engine, bindir, tuple(sorted(asked.items()))
        if key not in self._servers:
            number = len(self._servers) + 1
            data = copy(ready_data(engine, bindir, **asked), self._folder / f"{engine}-{number}")
            self._servers[key] = self._open.enter_context(
                open_server(engines.load(engine), bindir=bindir, data_dir=data, settings=asked)
            )
        self._servers[key].start()
        return self._servers[key]

    def close(self) -> None:
        """Stop every server."""
        self._open.close()
