"""Ctrl-C and SIGTERM become one Interrupted; a second one does not break the giving back."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from replayer.errors import Interrupted

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_state = {"depth": 0, "pending": 0}


def install() -> None:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into Interrupted, raised in the main thread."""
    for number in _WATCHED:
        signal.signal(number, _arrived)


@contextlib.contextmanager
def shield() -> Iterator[None]:
    """Hold signals back while something is given back; one that came is raised at the end."""
    _state["depth"] += 1
    try:
        yield
    finally:
        _state["depth"] -= 1
    if not _state["depth"] and _state["pending"]:
        _raise(_state["pending"])


def _arrived(number: int, _frame: FrameType | None) -> None:
    if _state["depth"]:
        _state["pending"] = number
    else:
        _raise(number)


def _raise(number: int) -> None:
    _state["pending"] = 0
    # From here on replayer is cleaning up: more Ctrl-C would only leave things behind.
    for watched in _WATCHED:
        signal.signal(watched, signal.SIG_IGN)
    asked = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    raise Interrupted(f"stopped by {asked}")
