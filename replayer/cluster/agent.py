"""The agent: a worker of Dask's distributed that accepts only replayer's own calls.

A normal worker of distributed has about two dozen handlers and runs any function that is sent to
it. This worker has none of these handlers and unpickles nothing. `replayer agent` starts it on a
host that was reached by ssh. The agent reads from stdin its order: its key, and the addresses and
certificates of the coordinator, the replayer that started it. It ends when stdin is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from replayer.cluster import agent_line, dask_settings, require_libraries
from replayer.errors import Impossible, ReplayerError

_STDIN = 0


def main() -> int:
    """Run as an agent until the coordinator is gone; return the exit status, 1 after an error."""
    order = _read_order()
    try:
        require_libraries()
        dask_settings.configured()
        # Not at the top: Dask reads its settings while it is imported.
        from replayer.cluster import registration  # noqa: PLC0415

        asyncio.run(registration.serve_agent(order))
    except (ReplayerError, OSError, RuntimeError) as error:
        # If a worker did not start, Dask raises a RuntimeError; the reason is in its cause.
        agent_line.print_line({"error": str(error.__cause__ or error)})
        return 1
    return 0


def _read_order() -> dict[str, Any]:
    """Return the order that the coordinating replayer wrote to stdin: one line of JSON.

    Raises Impossible if stdin is a terminal, ends too early or contains no such order.
    """
    refused = Impossible(
        "`replayer agent` is started by replayer itself, on the hosts of --clients and --watch: on "
        "stdin it reads for whom it works, and that was not there"
    )
    if os.isatty(_STDIN):
        raise refused
    data = b""
    while not data.endswith(b"\n"):
        piece = os.read(_STDIN, 1 << 16)
        if not piece:
            raise refused
        data += piece
    try:
        order: dict[str, Any] = json.loads(data)
        order["key"], order["certificate"], order["authority"], order["candidates"]
    except (ValueError, KeyError, TypeError):
        raise refused from None
    return order
