"""Serve metrics over HTTP, at one address: to read, and nothing else."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

_WRITTEN = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<address>[^:\[\]]*)):(?P<port>[0-9]{1,5})")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_WAITING = 16
"""Who may wait to be answered."""
_PATIENCE = 10
"""Seconds in which somebody must have asked."""


def listening(address: str, option: str, *, public: bool) -> socket.socket:
    """Return a socket that listens at ADDR:PORT, and nowhere else; port 0 is a free one.

    Raises Impossible, which names the option, for what is no address, for one that others than this
    machine reach unless the metrics are `public`, and where nothing can listen.
    """
    written = _WRITTEN.fullmatch(address)
    if written is None or int(written["port"]) > 65535:
        raise Impossible(f"{option} {address}: it must be ADDR:PORT, such as 127.0.0.1:9464")
    name = written["six"] or written["address"] or "127.0.0.1"
    try:
        family, _, _, _, where = socket.getaddrinfo(
            name, int(written["port"]), type=socket.SOCK_STREAM
        )[0]
    except (OSError, UnicodeError) as error:
        raise Impossible(
            f"{option} {address}: there is no address {name}: give one of this machine's, such as "
            f"127.0.0.1"
        ) from error
    if not public and not _loopback(str(where[0])):
        raise Impossible(
            f"{option} {address}: there others could read the figures, and what the host and the "
            f"kernel are called: add --metrics-public if they may, or use 127.0.0.1"
        )
    return _bound(family, where, f"{option} {address}")


def _bound(family: int, where: tuple[Any, ...], asked: str) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        # The connections of a server that has just ended are no reason to refuse a new one.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(_WAITING)
    except OSError as error:
        bound.close()
        raise Impossible(
            f"{asked}: nothing can listen there ({error.strerror}): give another address or port; "
            f"port 0 is one that is free"
        ) from error
    return bound


def link(bound: socket.socket) -> str:
    """Return where the metrics of a listening socket are."""
    address, port = bound.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/metrics"


def serve(bound: socket.socket, registry: CollectorRegistry) -> None:
    """Answer who asks there until the process ends."""
    host, port = bound.getsockname()[:2]
    server = ThreadingWSGIServer((host, port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = bound
    server.server_name, server.server_port = host, port
    server.setup_environ()
    server.set_app(guarded(make_wsgi_app(registry), loopback=_loopback(host)))
    with server:
        server.serve_forever()


def guarded(application: WSGIApplication, *, loopback: bool) -> WSGIApplication:
    """Return an application that answers only who calls this machine by a name of its own.

    Else a page of the web, whose name is made to lead here, could read with its visitor's browser
    what is for this machine alone.
    """

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if not loopback or _own(environ.get("HTTP_HOST", "")):
            return application(environ, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this address is asked for as 127.0.0.1, [::1] or localhost\n"]

    return answer


def _own(header: str) -> bool:
    """Tell whether a Host header names this machine; there is none in the oldest HTTP."""
    parts = _HOST.fullmatch(header)
    name = parts[1].strip("[]").lower() if parts else header
    return not header or name == "localhost" or _loopback(name)


def _loopback(address: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    return False


class _Handler(WSGIRequestHandler):
    """Tells nobody who asked: stderr is the run's."""

    timeout = _PATIENCE

    def log_message(self, *_words: object) -> None:
        """Say nothing."""
