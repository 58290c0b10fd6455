"""The HTTP server of the metrics: read-only, at one address."""

from __future__ import annotations

import contextlib
import io
import re
import threading
import time
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client.exposition import ThreadingWSGIServer, make_wsgi_app

from replayer.cli.bind_address import reaches_only_itself

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from _typeshed import WriteableBuffer
    from prometheus_client import CollectorRegistry

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?")
_PATIENCE = 10
"""Seconds in which a client must have sent its whole request, and then received the answer."""
_MOST = 64
"""Limit on active threads, one for each connection; above it, new connections are closed."""


def serve(listener: socket.socket, registry: CollectorRegistry) -> None:
    """Serve the metrics of a registry by HTTP on a listening socket until the process ends."""
    with server_of(listener, registry) as server:
        server.serve_forever()


def server_of(listener: socket.socket, registry: CollectorRegistry) -> ThreadingWSGIServer:
    """Return an HTTP server of a registry's metrics, which uses the listening socket `listener`.

    The server closes the socket at its end.
    """
    host, port = listener.getsockname()[:2]
    server = _CappedServer((host, port), _Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_name, server.server_port = host, port
    server.setup_environ()
    server.set_app(guarded(make_wsgi_app(registry), loopback=reaches_only_itself(host)))
    return server


class _CappedServer(ThreadingWSGIServer):
    """A server that closes a new connection if too many are open.

    Each connection needs a thread and a file descriptor.  A server without free file descriptors
    would try to accept connections again and again without a pause.
    """

    def verify_request(self, _request: object, _address: object) -> bool:
        """Return whether to answer a new connection: False if too many threads are active."""
        return threading.active_count() <= _MOST


def guarded(application: WSGIApplication, *, loopback: bool) -> WSGIApplication:
    """Return `application`, which serves the metrics, with a protection from DNS rebinding.

    If `loopback` is True, requests are refused whose Host header does not name this machine.  In
    DNS rebinding, a web site lets its name resolve to this machine, and so reads the metrics
    through the browser of a visitor.
    """

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if not loopback or _own(environ.get("HTTP_HOST", "")):
            return application(environ, start)
        start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"this address is asked for as 127.0.0.1, [::1] or localhost\n"]

    return answer


def _own(header: str) -> bool:
    """Return whether a Host header names this machine itself, or is empty, as in HTTP/1.0."""
    parts = _HOST.fullmatch(header)
    name = parts[1].strip("[]").lower() if parts else header
    return not header or name == "localhost" or reaches_only_itself(name)


class _Request(io.RawIOBase):
    """The bytes of one request, which must all have come within a number of seconds.

    A connection's own timeout begins anew with each byte.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Receive bytes into a buffer; return their number, 0 at the end of the connection.

        Raises TimeoutError if the seconds are over.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            # The answer has its own time.
            self._connection.settimeout(self._seconds)


class _Handler(WSGIRequestHandler):
    """A request handler without a log of requests and errors: stderr belongs to the run."""

    timeout = _PATIENCE

    def setup(self) -> None:
        """Begin the time in which the request must come."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection, self.timeout))

    def handle(self) -> None:
        """Answer the request; do nothing if it does not come in time, or if the client has left."""
        with contextlib.suppress(OSError):
            super().handle()

    def get_stderr(self) -> io.StringIO:
        """Return a stream for the errors of an answer, which is dropped."""
        return io.StringIO()

    def log_message(self, *_words: object) -> None:
        """Log nothing."""
