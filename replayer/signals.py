"""Signals: Ctrl-C or SIGTERM raises one Interrupted, and replayer gives back all that it took.

A second signal ends the process at once, whatever it waits for.  This is safe: the journal has a
note of all that was taken, and the next run gives it back.  A signal within half a second of
the first counts as the same one, because a terminal and a parent process may both send it.
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
"""Seconds between checks whether the main thread has handled the signal; their sum is less than
_SAME_SECONDS."""
_LATE_SECONDS = 0.15
"""Seconds to wait after the last nudge, which may arrive late; together with all nudges at most
_SAME_SECONDS."""
_SHOW_CURSOR = "\x1b[?25h"
_state: dict[str, int] = {"depth": 0, "pending": 0, "raised": 0, "heard": 0}
_caught: list[signal.Signals] = []
_hooks = [sys.unraisablehook]
_same_until: list[float] = []
_wakeups: list[int] = []


def install() -> None:
    """Install handlers: the first Ctrl-C, SIGTERM or SIGHUP raises Interrupted in the main thread.

    A signal that arrives during the installation raises Interrupted at its end.
    """
    _state.update(depth=0, pending=0, raised=0, heard=0)
    with shield():
        _install()


def _install() -> None:
    _same_until.clear()
    # Under nohup, SIGHUP is ignored from the start, and stays ignored.
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
    """Raise Interrupted in the `with` block after `seconds` (by SIGALRM); never if it is None."""
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
    """Hold signals back in the `with` block; a signal that arrived raises Interrupted at its end.

    In any thread but the main one this does nothing, because a signal interrupts only the main
    thread.
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
    """Return the Interrupted of the signal that stopped replayer; None if no signal did.

    Call this after any error: a driver that was waiting for its server may have replaced the
    Interrupted by its own error.
    """
    number = _state["raised"]
    if not number:
        return None
    if number == signal.SIGALRM:
        return Interrupted("stopped as the time of --timeout was over")
    asked = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
    return Interrupted(f"stopped by {asked}")


def name_of(number: int) -> str:
    """Return a signal's name, or `signal N` for a real-time signal that Python has no name for."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def raised() -> int:
    """Return the number of the signal that stopped replayer; 0 if none did."""
    return _state["raised"]


def _count() -> None:
    """Count signals in a thread, without end; end the process at the second one.

    Python's handlers run in the main thread, between two of its instructions.  While that thread
    waits in C code of a driver or the system, they do not run.
    """
    while True:
        for number in os.read(_wakeups[0], 64):
            if number not in _caught:
                continue
            if not _same_until:
                began = time.monotonic()
                _nudge(number)
                # A nudge is not a second signal, and on a busy machine it may arrive late.
                late = time.monotonic() + _LATE_SECONDS
                _same_until.append(max(began + _SAME_SECONDS, late))
            elif time.monotonic() > _same_until[0]:
                _end_at_once()


def _nudge(number: int) -> None:
    """Send a signal to the main thread again until it has handled it.

    The kernel may deliver the signal to another thread, for example while a program is started.
    Then a main thread that waits for a lock does not wake up.  Without a second signal it would
    wait on, and ignore the request to stop.
    """
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    for pause in _NUDGES:
        time.sleep(pause)
        if _state["heard"]:
            return
        signal.pthread_kill(main, number)


def _end_at_once() -> None:
    text = (
        "replayer: error: ended at once; the next run, or `replayer clean`, gives back what was "
        "taken\n"
    )
    with contextlib.suppress(OSError):
        if os.isatty(2):
            # A progress display hides the cursor, and has no time to show it again.
            text = f"{_SHOW_CURSOR}\n{text}"
        os.write(2, text.encode())
    os._exit(Interrupted.status)


def _swallowed(unraisable: "UnraisableHookArgs") -> None:
    """Send a signal again if Python dropped the Interrupted that it raised.

    This is a hook for sys.unraisablehook.  A signal may arrive while a finaliser or a callback of a
    weak reference runs.  Python only prints what these raise: the run would go on, and ignore the
    request to stop.
    """
    number = _state["raised"]
    if not number or not isinstance(unraisable.exc_value, Interrupted):
        _hooks[0](unraisable)
        return
    _state["raised"] = 0
    # Do not raise here: Python drops what this hook raises, too.
    main = threading.main_thread().ident
    assert main is not None, "the main thread runs"
    again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, number))
    again.daemon = True
    again.start()


def _arrived(number: int, _frame: FrameType | None) -> None:
    _state["heard"] = number
    if _state["raised"]:
        # Replayer is cleaning up already: a second exception would make it leave things behind.
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
