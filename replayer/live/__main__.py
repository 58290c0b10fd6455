"""The server process of the live page: it has a low priority and ends with the run's process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer.cli.bind_address import Address
from replayer.live.access import PageAccess
from replayer.live.server import Rooms, server_of
from replayer.live.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

_NICE = 10
_LOOK_SECONDS = 0.25
_LAST_SECONDS = 1.2
_ASKED_SECONDS = 8.0
"""Seconds to wait for open pages to request the report; their script does so by itself."""
_REPORT_SECONDS = 20.0
"""The longest time in seconds, after the run, for open pages to see its end and get the report.

The run's process waits for this.
"""


def main(arguments: Sequence[str]) -> None:
    """Serve the live page until the run's process ends it.

    The arguments are three file descriptors: the listening socket, a pipe from which the orders of
    the run's process are read as lines of JSON, and a pipe to which the links of the page are
    written.
    """
    os.nice(_NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)
    listening, orders, words = map(int, arguments)
    asyncio.run(_serve(socket.socket(fileno=listening), orders, words))


async def _serve(listening: socket.socket, orders: int, words: int) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(orders, "rb"))
    about = json.loads(await reader.readline())
    address = Address(about["host"], listening.getsockname()[1])
    access = PageAccess(address, about["token"], loopback=about["loopback"])
    view = View()

    def show_link() -> None:
        os.write(words, f"{access.link}\n".encode())

    rooms = Rooms(view, access, show_link)
    server = server_of(rooms)
    server.add_socket(listening)
    show_link()
    looking = asyncio.create_task(_look(view))
    # The run's process keeps the pipe of orders open until it ends.
    while line := await reader.readline():
        _obey(view, json.loads(line))
    # Nothing is measured any more, and the open pages wait for the report.
    with contextlib.suppress(OSError):  # only root may raise its priority again
        os.nice(-_NICE)
    last = loop.time() + _REPORT_SECONDS
    # On a busy machine, the last events are written only after the run's process closed the pipe.
    while rooms.readers and view.under_way:
        if loop.time() > last:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    looking.cancel()
    view.look()
    if access.is_used:
        # Give every browser time to receive the end of the run.
        await asyncio.sleep(_LAST_SECONDS)
    begun = loop.time()
    while rooms.is_awaited(soon=loop.time() - begun < _ASKED_SECONDS):
        if loop.time() > last:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    server.stop()


def _obey(view: View, order: dict[str, Any]) -> None:
    if "result" in order:
        view.follow(Path(order["result"]), Path(order["folder"]))


async def _look(view: View) -> None:
    while True:
        view.look()
        await asyncio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
