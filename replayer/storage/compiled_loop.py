"""The loop of reads and writes in machine code, made by the package numba if it is installed.

Between two operations, the loop in Python takes some 4 us in which this thread asks the disk for
nothing.  The loss can be larger than that: threads whose O_DSYNC writes arrive together share a
flush of the disk.  On a virtio disk, a C program with two threads and a pause of 4 us after each
O_DSYNC write of 16 KiB did 0.91 of the writes per second that it did without the pause.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import importlib.util
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from replayer import lazy_import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

_LIBC = ctypes.CDLL(None)
_FIND_ERRNO = _LIBC["__errno_location"]
_FIND_ERRNO.restype = ctypes.POINTER(ctypes.c_int)
_SIGNATURE = (
    "UniTuple(int64, 2)(int32[::1], boolean[::1], int64[::1], "
    "int64[::1], int64, uint64[::1], int64[::1], int64, int64[::1], int32[::1])"
)
_CLOCK = time.CLOCK_MONOTONIC
_EINTR = errno.EINTR
SHORT = -1
"""In place of an errno: fewer bytes than requested were read or written."""

STAMPED = 4096
"""Bytes of a write buffer in which one word is changed, whatever the page size of the kernel."""
WORDS_A_STAMP = STAMPED // 8
UNLIKE = np.uint64(0x9E3779B97F4A7C15)
"""The number that is added to that word."""

_LOCK = threading.Lock()
_MADE: list[Callable[..., tuple[int, int]]] = []
_REFUSED: list[str] = []


class Operations(NamedTuple):
    """Reads and writes as the loop takes them: equally long arrays."""

    fds: NDArray[np.int32]
    writes: NDArray[np.bool_]
    """True for a write, False for a read."""
    offsets: NDArray[np.int64]
    """In bytes."""


class CompiledLoop:
    """The loop of one thread over its files and buffers, which it does not own."""

    def __init__(self, fds: Sequence[int], buffers: Sequence[memoryview]) -> None:
        """Take the descriptors of the files, and buffers of one block each, used in turn.

        Call it in the thread that will call `run`, after `refusal`, which compiles it.
        """
        self._fds = np.array(fds, dtype=np.int32)
        self._size = len(buffers[0])
        self._buffers = [np.frombuffer(buffer, dtype=np.uint8) for buffer in buffers]
        self._addresses = np.array([one.ctypes.data for one in self._buffers], dtype=np.int64)
        # Each thread starts at a random word of its buffer, so that no two write equal pages.
        self._stamp = np.zeros(1, dtype=np.uint64)
        self._stamp.view(np.uint8)[: self._size] = self._buffers[0][:8]
        self._time = np.zeros(2, dtype=np.int64)
        # The errno of this thread has one address as long as the thread lives.
        self._errno = np.ctypeslib.as_array(_FIND_ERRNO(), (1,))

    def prepare(
        self, files: NDArray[np.int64], writes: NDArray[np.bool_], offsets: NDArray[np.int64]
    ) -> Operations:
        """Return operations for `run`; `files` are indexes of `fds`."""
        return Operations(self._fds[files], np.ascontiguousarray(writes), offsets)

    def run(
        self, operations: Operations, ends: NDArray[np.int64], deadline: int
    ) -> tuple[int, int]:
        """Run operations one after another, without Python's lock.

        Before each write, the first word in each 4 KiB of the buffer gets a new value, so that the
        storage never gets the same page twice.  A smaller block is not changed.
        It stops at their end, at `deadline`, or at the first one that fails.  Returns (how many
        were done, 0 or the errno of the next one or SHORT).  The end of each one is put into
        `ends`.  Both times are in ns of CLOCK_MONOTONIC.
        """
        own = (self._addresses, self._size, self._stamp, ends, deadline, self._time, self._errno)
        return _MADE[0](*operations, *own)


def installed() -> bool:
    """Return whether numba is installed; this does not import it."""
    return importlib.util.find_spec("numba") is not None


def refusal() -> str:
    """Return the reason why the loop cannot be compiled in this process; "" if it can.

    It is compiled by the first call, which takes some 0.5 s.
    """
    with _LOCK:
        if not (_MADE or _REFUSED):
            try:
                with _without_settings():
                    _MADE.append(_compile())
            except Exception as error:  # noqa: BLE001 - numba's own errors, and those of what it loads
                _REFUSED.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return _REFUSED[0] if _REFUSED else ""


def _compile() -> Callable[..., tuple[int, int]]:
    numba = lazy_import.load("numba")
    pread, pwrite = _function("pread"), _function("pwrite")
    memcpy = _LIBC.memcpy
    memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    memcpy.restype = ctypes.c_void_p
    clock_gettime = _LIBC.clock_gettime
    clock_gettime.argtypes = [ctypes.c_int, ctypes.c_void_p]

    def loop(  # noqa: PLR0917 - numba compiles no dataclass
        fds: Any,
        writes: Any,
        offsets: Any,
        addresses: Any,
        size: int,
        stamp: Any,
        ends: Any,
        deadline: int,
        time_: Any,
        errno_: Any,
    ) -> tuple[int, int]:
        """Return (the number of operations that were done, 0 or what was wrong with the next)."""
        for place in range(len(offsets)):
            address = addresses[place % len(addresses)]
            if writes[place] and size >= STAMPED:
                for page in range(0, size - 7, STAMPED):
                    stamp[0] += UNLIKE
                    memcpy(address + page, stamp.ctypes, 8)
            while True:
                if writes[place]:
                    moved = pwrite(fds[place], address, size, offsets[place])
                else:
                    moved = pread(fds[place], address, size, offsets[place])
                if moved >= 0 or errno_[0] != _EINTR:
                    break
            if moved != size:
                return place, errno_[0] if moved < 0 else SHORT
            clock_gettime(_CLOCK, time_.ctypes)
            now = time_[0] * 1_000_000_000 + time_[1]
            ends[place] = now
            if now >= deadline:
                return place + 1, 0
        return len(offsets), 0

    # Nothing is kept on disk: numba would load machine code from a folder named by a variable.
    made: Callable[..., tuple[int, int]] = numba.njit(_SIGNATURE, nogil=True)(loop)
    return made


@contextlib.contextmanager
def _without_settings() -> Iterator[None]:
    """Let numba, in the `with` block, take no settings from a file in the current folder.

    If the package yaml is there, numba takes settings from `.numba_config.yaml`, which another user
    may have put there.  Some of them name files that numba then writes.
    """
    yaml = sys.modules.get("yaml")
    sys.modules["yaml"] = None  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            # It warns of a file that it cannot read.
            warnings.simplefilter("ignore")
            yield
    finally:
        del sys.modules["yaml"]
        if yaml is not None:
            sys.modules["yaml"] = yaml


def _function(name: str) -> Any:
    found = getattr(_LIBC, name)
    found.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
    found.restype = ctypes.c_ssize_t
    return found
