"""Attempts to connect by libpq that never block."""

import ctypes
import functools
import re
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import pq

from replayer.engines import login
from replayer.engines.wire_session import Refused
from replayer.engines.wires.postgres.postgres_connection import (
    EncryptedPostgresConnection,
    PostgresConnection,
)

_PASSING = frozenset({"57P01", "57P02", "57P03"})
"""SQLSTATEs of a refusal that may pass: the server shuts down, crashed or cannot take connections.

SQLSTATEs that begin with 53, for limits of the server, may pass as well.
"""
_UNSURE = ("", "08", "XX")
"""Classes of SQLSTATEs that are too general: poolers use them for all their messages."""
_PASSING_WORDS = (
    "too many",
    "starting up",
    "accepting",
    "shutting down",
    "recovery",
    "reserved",
    "slots",
    "no more connections",
    "cannot connect",
)
"""Words in a pooler's message which show that it may take a connection a little later."""
_VERBOSE = 2
_FATAL = re.compile(r":  (?:([0-9A-Z]{5}): )?")
"""The text between the severity, a word in the server's language, and the message."""
_LIBPQ = re.compile(r" (/.*/libpq[-.][^/\n]*)$", re.MULTILINE)


class PostgresConnectionAttempt:
    """An attempt to connect to PostgreSQL that never blocks."""

    def __init__(self, conninfo: str) -> None:
        """Begin to connect by a connection string; raise Refused if that fails at once."""
        self._pg = pq.PGconn.connect_start(conninfo.encode())
        set_verbosity = _set_verbosity()
        if set_verbosity is not None:
            # psycopg does not guarantee this attribute, but each of its implementations has it.
            libpq: Any = self._pg
            set_verbosity(libpq.pgconn_ptr, _VERBOSE)
        if self._pg.status == pq.ConnStatus.BAD:
            raise self._refusal()
        self.events = select.EPOLLOUT

    def fileno(self) -> int:
        """Return the socket; libpq may open another one when it tries the next address."""
        return int(self._pg.socket)

    def go_on(self) -> bool:
        """Continue without blocking; return True when the connection is made.  Raises Refused."""
        status = self._pg.connect_poll()
        if status == pq.PollingStatus.FAILED:
            raise self._refusal()
        self.events = select.EPOLLIN if status == pq.PollingStatus.READING else select.EPOLLOUT
        return status == pq.PollingStatus.OK

    def connection(self, *, hashes: bool, read_only: bool) -> PostgresConnection:
        """Return the connection that was made; with `hashes`, it hashes the rows of each answer.

        With `read_only`, the connection raises ConnectionGone once its session is no longer read
        only.
        """
        self._pg.nonblocking = 1
        kind = EncryptedPostgresConnection if self._pg.ssl_in_use else PostgresConnection
        return kind(self._pg, self._pg.finish, hashes=hashes, read_only=read_only)

    def close(self) -> None:
        """Give the attempt up and close its socket."""
        self._pg.finish()

    def _refusal(self) -> Refused:
        words = self._pg.error_message.decode("utf-8", "replace").strip()
        self._pg.finish()
        return refusal(words)


@functools.cache
def _set_verbosity() -> Callable[[int | None, int], int] | None:
    """Return libpq's function PQsetErrorVerbosity, for which psycopg has none; None if not found.

    With it, libpq reports the SQLSTATE of a refused connection.
    """
    try:
        (path,) = set(_LIBPQ.findall(Path("/proc/self/maps").read_text(encoding="utf-8")))
        function = ctypes.CDLL(path).PQsetErrorVerbosity
    except (OSError, ValueError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int)
    made: Callable[[int | None, int], int] = function
    return made


def refusal(words: str) -> Refused:
    """Return the error for libpq's message `words`, which may contain the server's SQLSTATE.

    Its `passing` is True if another attempt may succeed a little later: if the SQLSTATE or the
    words show that, or if the server sent no error at all.
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    fatal = next((line for line in lines if _FATAL.search(line)), "")
    match = _FATAL.search(fatal)
    if match is None:
        first = (lines or ["it printed nothing"])[0]
        remedy = login.remedy(first)
        return Refused(f"{first}{remedy}", passing=not remedy)
    code = match[1] or ""
    said = f"{fatal[: match.start()]}:  {fatal[match.end() :]}"
    passing = code in _PASSING or code.startswith("53")
    if code[:2] in _UNSURE:
        passing = passing or any(some in said for some in _PASSING_WORDS)
    return Refused(said, passing=passing)
