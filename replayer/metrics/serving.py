"""Serve metrics over HTTP, at one address: to read, and nothing else."""

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
"""Seconds in which somebody must have asked."""


def serve(listener: socket.socket, registry: CollectorRegistry) -> None:
    """Answer who asks there until the process ends."""
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
    return not header or name == "localhost" or reaches_only_itself(name)


class _Handler(WSGIRequestHandler):
    """Tells nobody who asked: stderr is the run's."""

    timeout = _PATIENCE

    def log_message(self, *_words: object) -> None:
        """Say nothing."""
