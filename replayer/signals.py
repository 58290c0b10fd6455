"""Ctrl-C and SIGTERM become one Interrupted; a second one does not break the giving back."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from replayer.errors import Interrupted

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_SECONDS = 0.01
_state: dict[str, int] = {"depth": 0, "pending": 0, "raised": 0}
_caught: list[signal.Signals] = []
_hooks = [sys.unraisablehook]


def install() -> None:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into Interrupted, raised in the main thread."""
    _state.update(depth=0, pending=0, raised=0)
    # Under nohup SIGHUP is ignored from the start, and stays so.
    hung_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    _caught[:] = [one for one in _WATCHED if one != signal.SIGHUP or not hung_up]
    _watch()
    if sys.unraisablehook is not _swallowed:
        _hooks[:] = [sys.unraisablehook]
        sys.unraisablehook = _swallowed


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


def _watch() -> None:
    for number in _caught:
        signal.signal(number, _arrived)


def _swallowed(told: "UnraisableHookArgs") -> None:
    """Send a signal again whose Interrupted was raised where Python cannot raise.

    A signal may arrive while a finaliser or a weak reference's callback runs, and whatever these
    raise is printed and forgotten: the run would go on as if nobody had asked it to stop.
    """
    number = _state["raised"]
    if not number or not isinstance(told.exc_value, Interrupted):
        _hooks[0](told)
        return
    _state["raised"] = 0
    _watch()
    # Not from here: what this hook itself raises is forgotten as well.
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, number))
    again.daemon = True
    again.start()


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
