"""The address of the metrics: one socket, which listens before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.cli.bind_address import LOOPBACK, bound, is_loopback, parsed
from replayer.errors import Impossible

if TYPE_CHECKING:
    import socket


def listening(address: str, option: str, *, public: bool) -> socket.socket:
    """Return a socket that listens only at `address`, ADDR:PORT; port 0 selects a free port.

    Raises Impossible, which names the option, if `address` is not an address or cannot be bound, or
    if other hosts can reach the address and the metrics are not `public`.
    """
    where = parsed(address, option)
    if not public and not is_loopback(where, option):
        raise Impossible(
            f"{option} {where.shown}: there others could read the figures, and what the host and "
            f"the kernel are called: add --metrics-public if they may, or use {LOOPBACK}"
        )
    return bound(where, option)


def link(listener: socket.socket) -> str:
    """Return the URL of the metrics that a listening socket serves."""
    address, port = listener.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/metrics"
