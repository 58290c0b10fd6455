"""The places of a file's bytes on the device of its file system (FIEMAP)."""

import fcntl
import struct

from replayer.machine.page_cache import FileExtent

_FS_IOC_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
"""fm_start, fm_length, fm_flags, fm_mapped_extents, fm_extent_count, fm_reserved."""
_EXTENT = struct.Struct("=QQQ2QI3I")
"""fe_logical, fe_physical, fe_length, reserved, fe_flags, reserved (linux/fiemap.h)."""
_AT_ONCE = 256
_LAST = 0x0001
_NOT_PLAIN = 0x0002 | 0x0004 | 0x0008 | 0x0200 | 0x0400
"""The flags of data without an ordinary place on the device.

UNKNOWN, DELALLOC, ENCODED, DATA_INLINE and DATA_TAIL.
"""
_UNWRITTEN = 0x0800


def on_device(fd: int) -> list[FileExtent] | None:
    """Return the places of an open file's data on the device, as offset and length in bytes.

    None if some place is not known, as for compressed or inline data, or if the file system does
    not support FIEMAP. Extents that were reserved but never written are left out.
    """
    places: list[FileExtent] = []
    start = 0
    while True:
        asked = bytearray(_HEAD.size + _AT_ONCE * _EXTENT.size)
        _HEAD.pack_into(asked, 0, start, (1 << 64) - 1 - start, 0, 0, _AT_ONCE, 0)
        try:
            fcntl.ioctl(fd, _FS_IOC_FIEMAP, asked)
        except OSError:
            return None
        amount = _HEAD.unpack_from(asked)[3]
        for number in range(amount):
            logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(
                asked, _HEAD.size + number * _EXTENT.size
            )
            if flags & _NOT_PLAIN:
                return None
            if not flags & _UNWRITTEN:
                places.append(FileExtent(physical, length))
            start = logical + length
            if flags & _LAST:
                return places
        if not amount:
            return places
