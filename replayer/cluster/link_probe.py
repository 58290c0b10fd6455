"""The network between a client host and a database server: round trip and bytes per second.

The measurement runs on the client host.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replayer.engines import driver
from replayer.watch.workers import distributable

if TYPE_CHECKING:
    from replayer.cluster.worker_process import ReportLink
    from replayer.engines.driver import Connector

_TRIPS = 50
_BLOCK_BYTES = 1 << 20
_SECONDS = 0.5
_NOTHING = "SELECT 1"
_BLOCK = f"SELECT repeat('x', {_BLOCK_BYTES})"


@dataclass(frozen=True, slots=True)
class Reach:
    """The speed of one connection to a database server."""

    trip_seconds: float
    """The median round trip of statements that return almost nothing."""
    bytes_per_second: float


@distributable
def measure_link(connector: Connector, _: ReportLink) -> Reach:
    """Measure the round trip of small statements and the speed of large results; return both.

    This makes one connection to the server, by `connector`, and takes about half a second. The
    second argument, the link to the requesting host, is not used. Raises ReplayerError if the
    server does not answer.
    """
    with contextlib.closing(driver.connect(connector)) as connection:
        cursor = connection.cursor()
        trips = [_timed(cursor, _NOTHING) for _ in range(_TRIPS)]
        blocks: list[float] = []
        while sum(blocks) < _SECONDS:
            blocks.append(_timed(cursor, _BLOCK))
    return Reach(statistics.median(trips), len(blocks) * _BLOCK_BYTES / sum(blocks))


def _timed(cursor: Any, statement: str) -> float:
    begin = time.perf_counter()
    cursor.execute(statement)
    cursor.fetchall()
    return time.perf_counter() - begin
