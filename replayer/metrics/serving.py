"""The HTTP server of the metrics: read-only, at one address."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from replayer.cli.bind_address import reaches_only_itself

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client import CollectorRegistry

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_PATIENCE = 10
"""Seconds in which a client must have sent its request."""


def serve(listener: socket.socket, registry: CollectorRegistry) -> None:
    """Serve a registry on a listening socket until the process ends."""
    host, port = listener.getsockname()[:2]
    server = ThreadingWSGIServer((host, port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_name, server.server_port = host, port
    server.setup_environ()
    server.set_app(guarded(make_wsgi_app(registry), loopback=reaches_only_itself(host)))
    with server:
        server.serve_forever()


def guarded(application: WSGIApplication, *, loopback: bool) -> WSGIApplication:
    """Return an application that, on loopback, accepts only the machine's own names as Host.

    This prevents DNS rebinding: a web site could let its name resolve to this machine, and read
    the metrics through the browser of a visitor.
    """

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if not loopback or _own(environ.get("HTTP_HOST", "")):
            return application(environ, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this address is asked for as 127.0.0.1, [::1] or localhost\n"]

    return answer


def _own(header: str) -> bool:
    """Return whether a Host header names this machine; true if empty, as HTTP/1.0 has none."""
    parts = _HOST.fullmatch(header)
    name = parts[1].strip("[]").lower() if parts else header
    return not header or name == "localhost" or reaches_only_itself(name)


class _Handler(WSGIRequestHandler):
    """A request handler without a log of requests: stderr belongs to the run."""

    timeout = _PATIENCE

    def log_message(self, *_words: object) -> None:
        """Log nothing."""
