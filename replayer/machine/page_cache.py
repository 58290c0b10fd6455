"""System calls for the pages of one file in the page cache: count, drop or load them.

This module imports only the standard library, so that a worker process can load it quickly.
"""

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import threading
from collections.abc import Iterator, Sequence
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
_LOWEST_BIT = bytes(flag & 1 for flag in range(256))
_MAP_FAILED = ctypes.c_void_p(-1).value


class Pages(NamedTuple):
    """Numbers of bytes of a file in the page cache: all, dirty ones, and those being written back.

    A field is None if the system call does not count these bytes.
    """

    resident: int
    dirty: int | None
    writeback: int | None


class FileExtent(NamedTuple):
    """A part of a file, or its place on a device: offset and length in bytes."""

    offset: int
    length: int


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


def stored(fd: int, size: int) -> list[FileExtent]:
    """Return the parts of an open file that contain data, in order; `size` is the file's length.

    Holes are left out, and so is space that was reserved but never written. The whole file is
    returned if the file system does not report its holes (SEEK_DATA in lseek(2)). A page of
    reserved space that was read counts as data as long as it is in the page cache.
    """
    segments, end = [], 0
    try:
        while end < size:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, begin, os.SEEK_HOLE), size)
            if end <= begin:
                break
            segments.append(FileExtent(begin, end - begin))
    except OSError as error:
        if error.errno != errno.ENXIO:  # that means that no data follows
            return [FileExtent(0, size)] if size else []
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return segments


def cachestat(fd: int, segments: Sequence[FileExtent]) -> Pages:
    """Return how many bytes of the parts `segments` of an open file are in the page cache.

    This uses the system call cachestat, which exists since Linux 6.5. Raises OSError: ENOSYS on
    older kernels, EPERM for a file that this user neither owns nor may write. For a file on
    overlayfs the counts are 0: its pages belong to the file in a lower layer.
    """
    resident = dirty = writeback = 0
    for offset, length in segments:
        counted = _counted(fd, offset, length)
        resident += min(counted.cache * PAGE, length)
        dirty += counted.dirty * PAGE
        writeback += counted.writeback * PAGE
    return Pages(resident, dirty, writeback)


def _counted(fd: int, offset: int, length: int) -> _Stat:
    asked, counted = _Range(offset, length), _Stat()
    done = _libc.syscall(
        ctypes.c_long(_CACHESTAT),
        ctypes.c_int(fd),
        ctypes.byref(asked),
        ctypes.byref(counted),
        ctypes.c_uint(0),
    )
    if done != 0:
        raise _failure()
    return counted


def mincore(fd: int, segments: Sequence[FileExtent]) -> Pages:
    """Return how many bytes of the parts `segments` of an open file are in the page cache.

    `segments` are in the order of offsets. This uses the system call mincore, which every kernel
    has. Raises OSError: EPERM for a file that this user neither owns nor may write. For such a file
    the kernel would report every page as resident (can_do_mincore in mm/mincore.c).
    """
    if not _may_ask(fd):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    if not segments:
        return Pages(0, None, None)
    size = segments[-1].offset + segments[-1].length
    with mapped(fd, size) as view:
        flags = (ctypes.c_ubyte * ((size + PAGE - 1) // PAGE))()
        if _libc.mincore(ctypes.addressof(view), size, flags) != 0:
            raise _failure()
    # The lowest bit of each byte is the answer, and the other bits are reserved.
    answers = bytes(flags).translate(_LOWEST_BIT)
    resident = sum(
        min(length, PAGE * answers.count(1, offset // PAGE, (offset + length - 1) // PAGE + 1))
        for offset, length in segments
    )
    return Pages(resident, None, None)


@contextlib.contextmanager
def mapped(fd: int, size: int) -> Iterator["ctypes.Array[ctypes.c_ubyte]"]:
    """Map the first `size` bytes of an open file during the `with` block, and yield them.

    Raises OSError if the file cannot be mapped. Unlike mmap.mmap, this lets other threads run while
    the kernel maps and unmaps the file.
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
    """Return whether cachestat(2) works on this machine, by a call for a file of this process.

    An old container runtime returns EPERM for unknown system calls. The call here distinguishes
    that from EPERM for another user's file.
    """
    fd = os.memfd_create("replayer-probe", os.MFD_CLOEXEC)
    try:
        cachestat(fd, [FileExtent(0, 0)])
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def forget(path: str | os.PathLike[str]) -> None:
    """Write a file's dirty pages to disk, then make the kernel drop its pages from the page cache.

    Raises OSError if the file cannot be opened or written out.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def load(path: str | os.PathLike[str]) -> int:
    """Read a whole file into the page cache and return its length in bytes.

    Raises OSError if it cannot be read.
    """
    total = 0
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while length := os.readv(fd, [_scratch()]):
            total += length
    finally:
        os.close(fd)
    return total


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
