"""A watchdog for silent servers: halted, or behind a network that drops all packets.

No statement has its own timeout, because a doubling or an index may take hours.  Instead, if a
statement waits for more than some seconds, a second connection sends the server an empty request.
If that request is not answered either, every connection to that server is cut, and all code that
waits for the server gets an error.  As long as there is no second connection to a server, its
statements have a fixed timeout.

One thread watches all servers; it sleeps while no code waits for one.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from replayer.errors import ReplayerError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Address = tuple[str, ...]
PATIENCE = 20.0
"""Seconds without any answer after which a server counts as silent."""
_LONG = 4.0
"""Seconds of waiting before the second connection asks the server for an answer."""
_TICK = 0.5


class Cuttable(Protocol):
    """A connection that any thread can cut, also while another thread waits on it."""

    def cut(self) -> None:
        """Shut the socket down, so that threads that wait for an answer on it get an error."""
        ...


class _Watched(NamedTuple):
    title: str
    answers: Callable[[float], bool] | None
    """Returns whether the server answers on a separate connection within a number of seconds.

    None if there is no such connection.
    """


_lock = threading.Condition()
_watched: dict[Address, _Watched] = {}
_answered: dict[Address, float] = {}
_silent: set[Address] = set()
_waits: "set[Wait]" = set()
_connections: "dict[Address, weakref.WeakSet[Cuttable]]" = {}
_threads: list[threading.Thread] = []


def address(url: "URL") -> Address:
    """Return a server's key in the watchdog: host, port and Unix socket of its URL, as texts."""
    places = (url.host, url.port, url.query.get("host"), url.query.get("unix_socket"))
    return tuple(str(place) for place in places)


@contextlib.contextmanager
def watching(
    where: Address, title: str, answers: Callable[[float], bool] | None = None
) -> Iterator[None]:
    """Cut the connections to a server if it is silent, for as long as the `with` block runs.

    `where` is the server's address, and `title` names it in messages.  `answers(seconds)` returns
    whether the server answers in time on a separate connection.  Without `answers`, every statement
    has to end within PATIENCE (20 seconds).  An earlier watch of the server continues after the
    block.
    """
    earlier = _watched.get(where)
    watch(where, title, answers)
    try:
        yield
    finally:
        forget(where)
        if earlier is not None:
            watch(where, earlier.title, earlier.answers)


def watch(where: Address, title: str, answers: Callable[[float], bool] | None = None) -> None:
    """Cut the connections to a server if it is silent from now on; `title` names it in messages.

    `answers(seconds)` returns whether the server answers in time on a connection that has no other
    use.  Without `answers`, every statement has to end within PATIENCE (20 seconds).  After the
    return of `watch`, the `answers` function of an earlier watch is not called any more.
    """
    with _asking, _lock:
        _watched[where] = _Watched(title, answers)


def forget(where: Address) -> None:
    """Stop watching the server at the address `where`: its connections are no longer cut.

    After the return, the `answers` function with which it was watched is not called any more.
    """
    with _asking, _lock:
        _watched.pop(where, None)
        _answered.pop(where, None)
        _silent.discard(where)


def add(where: Address, connection: Cuttable) -> None:
    """Register a connection, which is cut if its server no longer answers.

    `where` is the address of that server.  Raises ReplayerError if the watchdog has already found
    that the server does not answer.
    """
    with _lock:
        _connections.setdefault(where, weakref.WeakSet()).add(connection)
        if where in _silent:
            raise _silence(where)


def check(where: Address) -> None:
    """Raise ReplayerError if the watchdog found that the server at `where` does not answer."""
    with _lock:
        if where in _silent:
            raise _silence(where)


def _silence(where: Address) -> ReplayerError:
    title = _watched[where].title if where in _watched else "the database server"
    return ReplayerError(
        f"{title} went silent: for {PATIENCE:.0f} s it has answered neither what it was asked nor "
        f"a second connection, so it is halted, hangs, or cannot be reached any more"
    )


class Wait:
    """A wait for an answer of a server: between `begin` and `end`, or inside a `with` block.

    During a wait, the watchdog checks that the server answers; `where` is the server's address.
    If the server no longer answers, the descriptor `fileno` becomes readable, so that code can wait
    for other events as well; `raise_silence` then raises the error.
    """

    def __init__(self, where: Address) -> None:
        self.where = where
        self.since = 0.0
        self._pipe: list[int] = []

    def begin(self) -> None:
        """Begin the wait: from now on the watchdog checks that the server answers."""
        self._pipe[:] = os.pipe()
        self._enter()

    def end(self) -> None:
        """End the wait and close its descriptors; a second call does nothing."""
        with _lock:
            _waits.discard(self)
            while self._pipe:
                os.close(self._pipe.pop())

    def handle_answer(self) -> None:
        """Record that the server answered just now: a silence is counted from here on."""
        self.since = time.monotonic()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the server no longer answers."""
        return self._pipe[0]

    def raise_silence(self) -> None:
        """Raise ReplayerError if the watchdog found that the server does not answer."""
        check(self.where)

    def tell(self) -> None:
        """Make `fileno` readable, so that the waiting code wakes up; the caller holds `_lock`."""
        if self._pipe:
            os.write(self._pipe[1], b"!")

    def _enter(self) -> None:
        self.handle_answer()
        with _lock:
            _waits.add(self)
            if not _threads:
                _threads.append(threading.Thread(target=_run, name="watchdog", daemon=True))
                _threads[0].start()
            _lock.notify()

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


_asking = threading.Lock()
"""Lock held while a server is asked, so that the connection is not closed meanwhile."""


def _run() -> None:
    while True:
        with _lock:
            while not _waits:
                _lock.wait()
        time.sleep(_TICK)
        for where in _overdue():
            with _asking:
                _ask(where)


def _overdue() -> set[Address]:
    """Return the addresses of servers that code waits for, without any answer for 4 seconds."""
    now = time.monotonic()
    with _lock:
        return {
            wait.where
            for wait in _waits
            if wait.where in _watched
            and wait.where not in _silent
            and now - max(wait.since, _answered.get(wait.where, 0.0)) > _LONG
        }


def _ask(where: Address) -> None:
    with _lock:
        watched = _watched.get(where)
        since = min((wait.since for wait in _waits if wait.where == where), default=None)
    if watched is None or since is None:
        return
    begin = time.monotonic()
    if watched.answers is None:
        silent = begin - since > PATIENCE
    elif watched.answers(PATIENCE):
        _answered[where] = time.monotonic()
        return
    else:
        # A refused connection fails at once, and that is not yet silence: the server may be
        # restarting.
        last = max(since, _answered.get(where, 0.0))
        silent = time.monotonic() - last > PATIENCE
    if silent:
        _cut(where)


def _cut(where: Address) -> None:
    with _lock:
        mine = [wait for wait in _waits if wait.where == where]
        if not mine or all(time.monotonic() - wait.since < PATIENCE for wait in mine):
            return
        _silent.add(where)
        for connection in list(_connections.get(where, ())):
            connection.cut()
        for wait in mine:
            wait.tell()
