"""The agent: a worker of Dask's distributed that does what replayer's calls ask, and nothing else.

A worker of distributed runs whatever function it is sent, by some two dozen handlers.  This one
has none of them, and unpickles nothing.  It is started by `replayer agent` on a host that ssh has
led to, reads on stdin for whom it works, and ends when that is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from replayer.cluster import agent_line, dask_settings, needed
from replayer.errors import Impossible, ReplayerError

_STDIN = 0


def main() -> int:
    """Be an agent until whoever started it is gone; return the exit status."""
    order = _read_order()
    try:
        needed()
        dask_settings.configured()
        # Not at the top: Dask reads its settings while it is imported.
        from replayer.cluster import registration  # noqa: PLC0415

        asyncio.run(registration.live(order))
    except (ReplayerError, OSError, RuntimeError) as error:
        # Dask says in a RuntimeError that a worker did not start, and why in its cause.
        agent_line.print_line({"error": str(error.__cause__ or error)})
        return 1
    return 0


def _read_order() -> dict[str, Any]:
    """Return what the coordinating replayer wrote on stdin: one line of JSON."""
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
