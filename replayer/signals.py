"""Ctrl-C and SIGTERM become one Interrupted; a second one does not break the giving back."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from replayer.errors import Interrupted

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_state: dict[str, int] = {"depth": 0, "pending": 0, "raised": 0}


def install() -> None:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into Interrupted, raised in the main thread."""
    _state.update(depth=0, pending=0, raised=0)
    for number in _WATCHED:
        # Under nohup SIGHUP is ignored from the start, and stays so.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
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


def interruption() -> Interrupted | None:
    """Return what stopped replayer, if a signal did.

    A driver that was waiting for its server may put an error of its own in place of Interrupted.
    """
    number = _state["raised"]
    if not number:
        return None
    asked = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return Interrupted(f"stopped by {asked}")


def _arrived(number: int, _frame: FrameType | None) -> None:
    if _state["depth"]:
        _state["pending"] = number
    else:
        _raise(number)


def _raise(number: int) -> None:
    _state["pending"], _state["raised"] = 0, number
    # From here on replayer is cleaning up: more Ctrl-C would only leave things behind.
    for watched in _WATCHED:
        signal.signal(watched, signal.SIG_IGN)
    stopped = interruption()
    assert stopped is not None, "its number was just kept"
    raise stopped
