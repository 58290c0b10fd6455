"""Benchmarks: each compares replayer with a peer in the same run; `python -m tests.benchmarks`."""

from pathlib import Path
from typing import Any

from replayer.servers.open import Server
from replayer.servers.private import PrivateServer

Row = dict[str, Any]
"""A row of the table: what, against, bar, ratio, samples, and a reason where it was skipped."""
Pairs = list[tuple[float, float]]


def programs(server: Server) -> Path:
    """Return the folder of a private server's programs."""
    assert isinstance(server, PrivateServer)
    return server.programs.folder
