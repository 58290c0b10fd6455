"""Ask the kernel for the page cache's view of one file, and have it forget the file.

Direct system calls and nothing else, so that a worker process can import it at once.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import threading
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

PAGE = mmap.PAGESIZE

_CACHESTAT = {"alpha": 561}.get(platform.machine(), 451)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_libc.syscall.restype = ctypes.c_long
_MAP_FAILED = ctypes.c_void_p(-1).value


class Pages(NamedTuple):
    """Bytes of one file in the page cache; None where the method cannot tell."""

    resident: int
    dirty: int | None
    writeback: int | None


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


def cachestat(fd: int, size: int) -> Pages:
    """Ask by the system call of Linux 6.5 how many bytes of an open file are in the page cache.

    Raises OSError: ENOSYS on older kernels, EPERM for a file that is neither ours nor writable.
    """
    everything, found = _Range(0, 0), _Stat()
    done = _libc.syscall(
        ctypes.c_long(_CACHESTAT),
        ctypes.c_int(fd),
        ctypes.byref(everything),
        ctypes.byref(found),
        ctypes.c_uint(0),
    )
    if done != 0:
        raise _failure()
    resident = min(found.cache * PAGE, size)
    return Pages(resident, found.dirty * PAGE, found.writeback * PAGE)


def mincore(fd: int, size: int) -> Pages:
    """Ask by the old system call how many bytes of an open file are in the page cache.

    Raises OSError; EPERM for a file that is neither ours nor writable, of which the kernel would
    say that every page is resident (can_do_mincore in mm/mincore.c).
    """
    if not _may_ask(fd):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    if not size:
        return Pages(0, None, None)
    with mapped(fd, size) as view:
        flags = (ctypes.c_ubyte * ((size + PAGE - 1) // PAGE))()
        if _libc.mincore(ctypes.addressof(view), size, flags) != 0:
            raise _failure()
    resident = sum(flag & 1 for flag in bytes(flags))
    return Pages(min(resident * PAGE, size), None, None)


@contextlib.contextmanager
def mapped(fd: int, size: int) -> Iterator["ctypes.Array[ctypes.c_ubyte]"]:
    """Map an open file for reading, for as long as the `with` block runs; raise OSError.

    Unlike mmap.mmap it lets other threads run while the kernel maps and unmaps.
    """
    if not size:
        yield (ctypes.c_ubyte * 0)()
        return
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        raise _failure()
    try:
        yield (ctypes.c_ubyte * size).from_address(address)
    finally:
        _libc.munmap(address, size)


@cache
def has_cachestat() -> bool:
    """Tell whether cachestat works here, tried on a file of our own.

    An old container runtime answers EPERM to calls that it does not know, which must not be taken
    for EPERM on somebody else's file.
    """
    fd = os.memfd_create("replayer-probe", os.MFD_CLOEXEC)
    try:
        cachestat(fd, 0)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def forget(path: str | os.PathLike[str]) -> None:
    """Write a file's dirty pages out, then have the kernel drop its clean ones; raise OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def load(path: str | os.PathLike[str]) -> None:
    """Read a whole file into the page cache; raise OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while os.readv(fd, [_scratch()]):
            pass
    finally:
        os.close(fd)


_own = threading.local()


def _scratch() -> bytearray:
    try:
        return _own.buffer  # type: ignore[no-any-return]
    except AttributeError:
        _own.buffer = bytearray(1 << 20)
        return _own.buffer  # type: ignore[no-any-return]


def _may_ask(fd: int) -> bool:
    about = os.fstat(fd)
    if os.geteuid() in (0, about.st_uid):
        return True
    return os.access(f"/proc/self/fd/{fd}", os.W_OK, effective_ids=True)


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
