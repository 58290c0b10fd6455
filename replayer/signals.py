"""Ctrl-C and SIGTERM become one Interrupted, upon which replayer gives back all that it took.

A second one ends the process at once, whatever it is waiting for: what was taken is written down,
and given back by the next command.  One that comes within half a second is the first one again, as
a terminal and a parent process may both pass it on.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from replayer.errors import Interrupted

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
_AGAIN_SECONDS = 0.01
_SAME_SECONDS = 0.5
_NUDGES = (0.02, 0.03, 0.05, 0.1, 0.15)
"""Seconds between looks whether the main thread has heard; less than _SAME_SECONDS in all."""
_LATE_SECONDS = 0.15
"""From the last of these on until it was taken; in all no more than _SAME_SECONDS."""
_SHOW_CURSOR = "\x1b[?25h"
_state: dict[str, int] = {"depth": 0, "pending": 0, "raised": 0, "heard": 0}
_caught: list[signal.Signals] = []
_hooks = [sys.unraisablehook]
_same_until: list[float] = []
_wakeups: list[int] = []


def install() -> None:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into Interrupted, raised in the main thread.

    Raises Interrupted at its end for one that came meanwhile.
    """
    _state.update(depth=0, pending=0, raised=0, heard=0)
    with shield():
        _install()


def _install() -> None:
    _same_until.clear()
    # Under nohup SIGHUP is ignored from the start, and stays so.
    hung_up = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    _caught[:] = [one for one in _WATCHED if one != signal.SIGHUP or not hung_up]
    for number in _caught:
        signal.signal(number, _arrived)
    if not _wakeups:
        _wakeups[:] = os.pipe()
        os.set_blocking(_wakeups[1], False)
        threading.Thread(target=_count, name="replayer-signals", daemon=True).start()
    signal.set_wakeup_fd(_wakeups[1], warn_on_full_buffer=False)
    if sys.unraisablehook is not _swallowed:
        _hooks[:] = [sys.unraisablehook]
        sys.unraisablehook = _swallowed


@contextlib.contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Interrupt what the `with` block does after so many seconds; None: never."""
    if seconds is None:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def shield() -> Iterator[None]:
    """Hold signals back while something is given back; one that came is raised at the end.

    In the main thread, that is: no other is ever interrupted, nor could it raise for the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
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
    if number == signal.SIGALRM:
        return Interrupted("stopped as the time of --timeout was over")
    asked = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return Interrupted(f"stopped by {asked}")


def name_of(number: int) -> str:
    """Return a signal's name; the real-time ones between the first and the last have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def raised() -> int:
    """Return the number of the signal that stopped replayer, 0 if none did."""
    return _state["raised"]


def _count() -> None:
    """End the process at a second signal.

    Python's own handlers run in the main thread, between two of its instructions: a main thread
    that waits in a driver's or the system's C code would never hear of it.
    """
    while True:
        for number in os.read(_wakeups[0], 64):
            if number not in _caught:
                continue
            if not _same_until:
                began = time.monotonic()
                _nudge(number)
                # Nudges, with which a busy machine may be late, are no second signal.
                late = time.monotonic() + _LATE_SECONDS
                _same_until.append(max(began + _SAME_SECONDS, late))
            elif time.monotonic() > _same_until[0]:
                _end_at_once()


def _nudge(number: int) -> None:
    """Send a signal to the main thread until that has heard of it.

    Where another thread takes it, as it may while one starts a program, a main thread that waits
    for a lock is not woken, and would wait on as if nobody had asked it to stop.
    """
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    for pause in _NUDGES:
        time.sleep(pause)
        if _state["heard"]:
            return
        signal.pthread_kill(main, number)


def _end_at_once() -> None:
    text = "replayer: error: ended at once; the next command gives back what was taken\n"
    with contextlib.suppress(OSError):
        if os.isatty(2):
            # A progress display hides it, and has no time to show it again.
            text = f"{_SHOW_CURSOR}\n{text}"
        os.write(2, text.encode())
    os._exit(Interrupted.status)


def _swallowed(unraisable: "UnraisableHookArgs") -> None:
    """Send a signal again whose Interrupted was raised where Python cannot raise.

    A signal may arrive while a finaliser or a weak reference's callback runs, and whatever these
    raise is printed and forgotten: the run would go on as if nobody had asked it to stop.
    """
    number = _state["raised"]
    if not number or not isinstance(unraisable.exc_value, Interrupted):
        _hooks[0](unraisable)
        return
    _state["raised"] = 0
    # Not from here: what this hook itself raises is forgotten as well.
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, number))
    again.daemon = True
    again.start()


def _arrived(number: int, _frame: FrameType | None) -> None:
    _state["heard"] = number
    if _state["raised"]:
        # Replayer is cleaning up already: a second exception would only leave things behind.
        return
    if _state["depth"]:
        _state["pending"] = number
    else:
        _raise(number)


def _raise(number: int) -> None:
    _state["pending"], _state["raised"] = 0, number
    stopped = interruption()
    assert stopped is not None, "its number was just kept"
    raise stopped
