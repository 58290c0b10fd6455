"""Ways to wait on a psycopg connection, without the wake-ups that a worker does not need."""

import functools
import select
import time
from typing import Any

_SOUND_SLEEP = 3600.0


def sleep_soundly(connection: Any) -> None:
    """Make a worker's connection wait for the server without periodic wake-ups.

    psycopg wakes up ten times a second to check for Ctrl-C, which a worker ignores: with 64 idle
    sessions the wake-ups alone cost more than all their statements.
    """
    connection.wait = functools.partial(connection.wait, interval=_SOUND_SLEEP)


def ask_nothing(connection: Any, seconds: float) -> bool:
    """Send the empty query of the protocol, which no log and no counter shows.

    `connection` is libpq's.  Return whether an answer came within `seconds`.
    """
    end = time.monotonic() + seconds
    connection.send_query(b"")
    while True:
        ready, _, _ = select.select([connection.socket], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return False
        connection.consume_input()
        while not connection.is_busy():
            if connection.get_result() is None:
                return True
