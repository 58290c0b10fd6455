"""The process that locks memory, so that less of it is left for the page cache.

This module runs in a worker process, and so imports little.
"""

import contextlib
import ctypes
import mmap
import os
import resource
from pathlib import Path

from replayer.errors import ReplayerError
from replayer.watch.workers import Barrier, Report


def hold(size: int, barrier: Barrier, _report: Report) -> None:
    """Lock `size` bytes of anonymous memory, then wait at the barrier until the process is killed.

    It is the job of a worker process.  Raises ReplayerError if the kernel does not lock the memory.
    """
    # If memory runs out, the kernel should kill this process, not the database.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size)):
        reason = os.strerror(ctypes.get_errno())
        raise ReplayerError(f"{size >> 20:,} MiB of memory could not be locked: {reason}")
    barrier.wait()
