"""Addresses to listen at, as people write them: loopback, unless somebody says who may come."""

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
"""`::1`, `8080` or `:8080`, `[::1]:8080` or `db:8080`."""
_WAITING = 64
"""Who may wait to be answered."""


@dataclass(frozen=True)
class Address:
    """A host, as a name or a number, and a port; 0 is any that is free."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        """Return it as it stands in a link."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parsed(text: str, option: str) -> Address:
    """Return the address of `ADDR:PORT`, `ADDR`, `:PORT` or a port; raise Impossible for none."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise Impossible(
            f"{option} {text[:100]!r} is no address: give ADDR:PORT, such as {LOOPBACK}:8080"
        )
    port = written["alone"] or written["port"] or "0"
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise Impossible(
            f"{option} {text[:100]!r}: {port[:20]!r} is no port from 0 to 65535, as in "
            f"{LOOPBACK}:8080"
        )
    host = written["bare"] or written["six"] or written["host"] or LOOPBACK
    return Address(host, int(port))


def reaches_only_itself(number: str) -> bool:
    """Tell whether a numeric address is loopback; a name is none."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(number.partition("%")[0]).is_loopback
    return False


def is_loopback(address: Address, option: str) -> bool:
    """Tell whether only this host reaches it; a name counts if all that it stands for does.

    Raises Impossible for what stands for nothing.
    """
    return all(reaches_only_itself(str(place[4][0])) for place in _places(address, option))


def bound(address: Address, option: str) -> socket.socket:
    """Return a listening socket; raise Impossible where that is taken, or no address of ours."""
    family, kind, protocol, _, where = _places(address, option)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        # The connections of a server that has just ended are no reason to refuse a new one.
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
    return f"{option} {address.shown}: this host cannot listen there: {error.strerror}"
