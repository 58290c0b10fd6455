"""Addresses to listen at, as users write them; the default host is the loopback address."""

import contextlib
import errno
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Any

from replayer.errors import Impossible

LOOPBACK = "127.0.0.1"
_WRITTEN = re.compile(
    r"(?P<bare>[0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(%\w+)?)"
    r"|:?(?P<alone>[0-9]+)"
    r"|(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>.*))?"
)
"""The forms of an address: `::1`, `8080` or `:8080`, `[::1]:8080` or `db:8080`."""
_FIRST_FREE = 1024
"""The first port that a program without privileges can use, by the kernel's default."""
_WAITING = 64
"""Backlog of the listening socket: the most connections that wait to be accepted."""


@dataclass(frozen=True)
class Address:
    """A host (a name or a numeric address) and a port; port 0 means any free port."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """Return the address in the form of a link: `host:port`, `[::1]:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parsed(text: str, option: str) -> Address:
    """Parse `ADDR:PORT`, `ADDR`, `:PORT` or a port; raise Impossible for any other text.

    Without a host, the address is on 127.0.0.1; without a port, the port is 0.  `option` is the
    command-line option that the error names.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise Impossible(
            f"{option} {text[:100]!r} is not an address: give ADDR:PORT, such as {LOOPBACK}:8080"
        )
    port = written["alone"] or written["port"] or "0"
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise Impossible(
            f"{option} {text[:100]!r}: {port[:20]!r} is not a port from 0 to 65535, as in "
            f"{LOOPBACK}:8080"
        )
    host = written["bare"] or written["six"] or written["host"] or LOOPBACK
    return Address(host, int(port))


def reaches_only_itself(number: str) -> bool:
    """Return whether a text is a numeric loopback address, such as 127.0.0.1.

    Only this host can reach such an address.  Returns False for any name.
    """
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(number.partition("%")[0]).is_loopback
    return False


def is_loopback(address: Address, option: str) -> bool:
    """Return whether only this host can reach an address.

    For a name, all the addresses that it resolves to must be loopback.  Raises Impossible, which
    names the command-line option `option`, if it does not resolve.
    """
    return all(reaches_only_itself(str(place[4][0])) for place in _places(address, option))


def bound(address: Address, option: str) -> socket.socket:
    """Return a socket that listens at an address of this host.

    Raises Impossible, which names the command-line option `option`, if the address is in use, or if
    this host cannot listen there.
    """
    family, kind, protocol, _, where = _places(address, option)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        # Reuse the port even if connections of a server that has just ended are still closing.
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        raise Impossible(_refused(address, error, option)) from error
    return listening


def _places(address: Address, option: str) -> list[Any]:
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Impossible(
            f"{option} {address.host[:100]}: there is no such address; give one of this host's, "
            f"such as {LOOPBACK}:8080"
        ) from error


def _refused(address: Address, error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{option} {address.shown}: another program listens there; name another port, or port "
            f"0 for one that is free"
        )
    if error.errno == errno.EACCES and 0 < address.port < _FIRST_FREE:
        return (
            f"{option} {address.shown}: ports below {_FIRST_FREE} are for root; name a higher one, "
            f"such as 8080"
        )
    return f"{option} {address.shown}: this host cannot listen there: {error.strerror}"
