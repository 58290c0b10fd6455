"""Where the page is served: loopback, unless somebody says who may look."""

import contextlib
import errno
import ipaddress
import socket
from dataclasses import dataclass
from typing import Any

from replayer.errors import Impossible

LOOPBACK = "127.0.0.1"
_SHORTEST_TOKEN = 16


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


def parsed(text: str, option: str = "--live") -> Address:
    """Return the address of `ADDR:PORT`, `ADDR`, `:PORT` or a port; raise Impossible for none."""
    host, colon, port = text.rpartition(":")
    if text.isdigit():
        host, port = "", text
    elif not colon or text.endswith("]") or (text.count(":") > 1 and not text.startswith("[")):
        host, port = text, ""
    if port and not (port.isdigit() and int(port) < 1 << 16):
        raise Impossible(f"{option} {text[:100]!r}: {port[:20]!r} is no port from 0 to 65535")
    return Address(host.strip("[]") or LOOPBACK, int(port or 0))


def is_loopback(address: Address, option: str = "--live") -> bool:
    """Tell whether only this host reaches it; a name counts if all that it stands for does.

    Raises Impossible for what stands for nothing.
    """
    numbers = [str(place[4][0]).partition("%")[0] for place in _places(address, option)]
    return all(ipaddress.ip_address(number).is_loopback for number in numbers)


def refuse_open(address: Address, token: str | None, option: str = "--live") -> None:
    """Raise Impossible for an address that others reach without a token, and for a short token."""
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise Impossible(
            f"the {option}-token has {len(token)} characters: give {_SHORTEST_TOKEN} or more, as "
            f"whoever knows it sees the run"
        )
    if token is None and not is_loopback(address, option):
        raise Impossible(
            f"{option} {address.host}: others reach that address, so say who may look with "
            f"{option}-token TOKEN, or leave the address out and use an ssh tunnel"
        )


def bound(address: Address, option: str = "--live") -> socket.socket:
    """Return a listening socket; raise Impossible where that is taken, or no address of ours."""
    family, kind, protocol, _, where = _places(address, option)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(64)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise Impossible(_refused(address, error, option)) from error
    return listening


def _places(address: Address, option: str) -> list[Any]:
    try:
        return socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Impossible(
            f"{option} {address.host[:100]}: there is no such address; give ADDR:PORT, or nothing"
        ) from error


def _refused(address: Address, error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{option} {address.shown}: another program listens there; name another port, or none "
            f"for one that is free"
        )
    return f"{option} {address.shown}: this host cannot listen there: {error.strerror}"
