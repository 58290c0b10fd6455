"""Where metrics are served: one address, which is listened at before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.cli.bind_address import LOOPBACK, bound, is_loopback, parsed
from replayer.errors import Impossible

if TYPE_CHECKING:
    import socket


def listening(address: str, option: str, *, public: bool) -> socket.socket:
    """Return a socket that listens at ADDR:PORT, and nowhere else; port 0 is a free one.

    Raises Impossible, which names the option, for what is no address, for one that others than this
    machine reach unless the metrics are `public`, and where nothing can listen.
    """
    where = parsed(address, option)
    if not public and not is_loopback(where, option):
        raise Impossible(
            f"{option} {where.shown}: there others could read the figures, and what the host and "
            f"the kernel are called: add --metrics-public if they may, or use {LOOPBACK}"
        )
    return bound(where, option)


def link(listener: socket.socket) -> str:
    """Return where the metrics of a listening socket are."""
    address, port = listener.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/metrics"
