"""A file descriptor that becomes readable at an exact time: timerfd(2).

Python has it only since 3.13.  The timeout of an epoll has whole milliseconds, which would add a
lag to every statement.
"""

import ctypes
import os
from typing import Self

_CLOCK_MONOTONIC = 1
_NONBLOCK = os.O_NONBLOCK | os.O_CLOEXEC
_ABSOLUTE = 1
_SECOND = 10**9


class _Spec(ctypes.Structure):
    """The C structure `struct itimerspec`."""

    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("s", ctypes.c_long),
        ("ns", ctypes.c_long),
    )


class TimerFd:
    """One timer, as a descriptor `fd`, which an edge-triggered epoll need not read."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._settime = library.timerfd_settime
        self.fd: int = library.timerfd_create(_CLOCK_MONOTONIC, _NONBLOCK)
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._spec = _Spec()
        self._at = ctypes.byref(self._spec)

    def set(self, clock_ns: int) -> None:
        """Set the timer to a time of CLOCK_MONOTONIC in ns; a time in the past fires at once."""
        # A value of zero would disarm the timer.
        self._spec.s, self._spec.ns = divmod(max(1, clock_ns), _SECOND)
        self._settime(self.fd, _ABSOLUTE, self._at, None)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
