"""The web server of the live page: only GET, and only for browsers that have opened a link.

The Host header of a request must be one of the page's host names.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import secrets
from collections import Counter
from string import Template
from typing import TYPE_CHECKING, Any

from tornado import iostream, web
from tornado.httpserver import HTTPServer

from replayer import __version__
from replayer.errors import ReplayerError
from replayer.lazy_import import Later
from replayer.live import page
from replayer.report.pages import scripts
from replayer.report.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from replayer.live import report
    from replayer.live.access import PageAccess
    from replayer.live.view import View
else:
    # The import takes a second of CPU time, which belongs to the run until its end.
    report = Later("replayer.live.report")

_SECONDS = 0.5
"""Seconds between two messages to a browser."""
_QUIET_SECONDS = 10.0
"""Seconds without news after which a browser gets a message anyway.

Sending it shows whether the browser's host is still there.
"""
_MOST_OF_A_BROWSER = 5
"""The most pages that one browser (one cookie) may have open at a time.

Each holds a connection for its events. Browsers open six to a host: one is left for the refusal of
another page, and for the reports.
"""
_MOST_READERS = 320
"""The most open pages of all browsers: 64 cookies with 5 pages each."""
_MOST_CONNECTIONS = 800
"""The most open connections, with or without access.

Most systems allow a process a thousand open files. A server that cannot accept a connection would
try again without a pause.
"""
_IDLE_SECONDS = 10.0
"""Seconds in which a connection must send the head of a request, and then its body."""
_LARGEST = 4096
"""The largest size of a request's body in bytes; the body is never used."""
_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')
_COMMON = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "replayer",
    "X-Content-Type-Options": "nosniff",
}


class Rooms:
    """The state that all request handlers of a live page share.

    It has the run's state, the access control, the number of open pages, and the report.
    """

    def __init__(self, view: View, access: PageAccess, opened: Callable[[], None]) -> None:
        self.view, self.access = view, access
        self.opened = opened
        """The function to call when a browser has opened a link."""
        self._readers: Counter[str] = Counter()
        """Cookie -> number of its open pages; only cookies with an open page are in it."""
        self.delivering = self.delivered = 0
        """The number of requests that wait for the report, and that have received it."""
        self._report: asyncio.Task[str] | None = None

    @property
    def readers(self) -> int:
        """Return the number of open pages that follow the run."""
        return self._readers.total()

    @contextlib.contextmanager
    def reading(self, cookie: str) -> Iterator[bool]:
        """Count an open page while the `with` block runs, and yield True.

        `cookie` identifies the page's browser.  Yield False, and count nothing, if this browser or
        all browsers together have too many open pages.
        """
        if self._readers[cookie] >= _MOST_OF_A_BROWSER or self.readers >= _MOST_READERS:
            yield False
            return
        self._readers[cookie] += 1
        try:
            yield True
        finally:
            self._readers[cookie] -= 1
            self._readers += Counter()  # this drops the counts of zero

    def is_awaited(self, *, soon: bool) -> bool:
        """Return whether the server must not end yet, because a browser is receiving the report.

        With `soon`, the result is also True if an open page has not received the report yet.
        """
        return bool(self.delivering) or (soon and self.delivered < self.readers)

    async def report(self) -> str:
        """Return the report as HTML; it is made once, in a separate thread.

        Raises ReplayerError if the result file cannot be read.
        """
        if self._report is None:
            self._report = asyncio.create_task(asyncio.to_thread(self._made))
        return await asyncio.shield(self._report)

    def _made(self) -> str:
        return report.page_of(self.view.path)


def application(rooms: Rooms) -> web.Application:
    """Return the web application with all its request handlers."""
    about = {"rooms": rooms}
    return web.Application(
        [
            (r"/", _Page, about),
            (r"/events", _Events, about),
            (r"/report", _Report, about),
        ],
        default_handler_class=_Nothing,
        default_handler_args=about,
        log_function=lambda _handler: None,
    )


class PageServer(HTTPServer):
    """A web server that closes new connections while too many are open."""

    _open = 0

    def handle_stream(self, stream: iostream.IOStream, address: tuple[Any, ...]) -> None:
        """Accept a new connection, or close it if too many connections are open."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if self._open >= min(_MOST_CONNECTIONS, 3 * files // 4):
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        """Reduce the number of open connections by one that has ended."""
        self._open -= 1
        super().on_close(server_conn)


def server_of(rooms: Rooms) -> PageServer:
    """Return the web server of the live page; it has no listening socket yet."""
    return PageServer(
        application(rooms),
        max_body_size=_LARGEST,
        max_header_size=_LARGEST * 4,
        idle_connection_timeout=_IDLE_SECONDS,
        body_timeout=_IDLE_SECONDS,
    )


class _Guarded(web.RequestHandler):
    """A request handler that refuses requests of browsers that have not opened a link."""

    rooms: Rooms

    def initialize(self, rooms: Rooms) -> None:
        self.rooms = rooms

    def set_default_headers(self) -> None:
        for name, value in _COMMON.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")

    def prepare(self) -> None:
        if not self.rooms.access.is_ours(self.request.host):
            self._refuse(403, "this page goes by another name: use the link that the run printed")
        elif self.request.method != "GET":
            self._refuse(405, "nothing can be done from here: it is only for reading")
        elif not self.may_look():
            self._refuse(403, self.rooms.access.refusal)

    def may_look(self) -> bool:
        return self.rooms.access.knows(self.get_cookie(self.rooms.access.cookie))

    def write_error(self, status_code: int, **_: Any) -> None:
        self._refuse(status_code, "there is nothing here")

    def _refuse(self, status: int, words: str) -> None:
        self.set_status(status)
        if status == 405:
            self.set_header("Allow", "GET")
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{words}\n")


class _Nothing(_Guarded):
    """The handler of unknown paths: status 404."""

    def get(self) -> None:
        self._refuse(404, "there is nothing here")


class _Page(_Guarded):
    """The handler of the page that follows the run; it replaces a link's token by a cookie.

    The token is then removed from the browser's address.
    """

    def may_look(self) -> bool:
        if super().may_look():
            return True
        cookie = self.rooms.access.opened(self.get_query_argument("token", ""))
        if cookie is None:
            return False
        name = self.rooms.access.cookie
        self.set_cookie(name, cookie, path="/", httponly=True, samesite="Strict")
        self.rooms.opened()
        return True

    def get(self) -> None:
        nonce = secrets.token_urlsafe(16)
        if self.get_query_arguments("token"):
            # Do not redirect: after a link from another site, the browser would not send the
            # cookie with the redirected request.
            self.finish('<!DOCTYPE html><meta http-equiv="refresh" content="0;url=/">')
            return
        own = f"'nonce-{nonce}'"
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src {own}; style-src {own}; connect-src 'self'; "
            f"frame-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors 'none'",
        )
        self.finish(
            Template(page.part("live.html")).substitute(
                nonce=nonce,
                style=scripts.part("page.css") + page.part("live.css"),
                script=page.part("live.js"),
                kinds=page.kinds(),
                foot=f"replayer {escaped(__version__)}",
            )
        )


class _Events(_Guarded):
    """The handler of the run's event stream: its state, then updates while the browser listens."""

    def initialize(self, rooms: Rooms) -> None:
        super().initialize(rooms)
        self._closed = asyncio.Event()

    def on_connection_close(self) -> None:
        self._closed.set()

    async def get(self) -> None:
        with self.rooms.reading(self.get_cookie(self.rooms.access.cookie) or "") as may:
            if not may:
                self._refuse(
                    503,
                    "too many pages follow this run already: close another one of this browser, "
                    "and reload this one",
                )
                return
            with contextlib.suppress(iostream.StreamClosedError):
                await self._tell()

    async def _tell(self) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        heard, silent = 0, 0.0
        while True:
            if not heard or self.rooms.view.reader.heard > heard or silent >= _QUIET_SECONDS:
                heard, message = self.rooms.view.message(heard)
                silent = 0.0
                self.write(f"data: {message}\n\n")
                # This waits for a slow browser, which then gets the state of that time.
                await self.flush()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), _SECONDS)
                return
            silent += _SECONDS


class _Report(_Guarded):
    """The handler that sends the report of the run; status 404 until the run has ended."""

    async def get(self) -> None:
        if not self.rooms.view.ended:
            self._refuse(404, "the run is not over: its report comes then")
            return
        self.rooms.delivering += 1
        try:
            await self._deliver()
        finally:
            self.rooms.delivering -= 1
            self.rooms.delivered += 1

    async def _deliver(self) -> None:
        try:
            text = await self.rooms.report()
        except ReplayerError as error:
            self._refuse(500, f"the report cannot be made: {error}")
            return
        known = _POLICY.search(text)
        policy = known[1] if known else "default-src 'none'"
        self.set_header("Content-Security-Policy", f"{policy}; frame-ancestors 'self'")
        await self.finish(text)
