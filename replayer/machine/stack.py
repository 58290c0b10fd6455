"""The layers below a file system: block devices, files and memory, down to the disks.

Below a loop device is a file, below dm, md and bcache are other devices, and below zram is memory.
So data from such a device need not come from a disk. The layers are followed down to the disks,
whose reads the kernel counts, or as far as possible.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer.machine import diskstats
from replayer.machine.host import members

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replayer.machine.host import Host

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
"""File systems whose files are kept in memory."""
_MEMORY_DEVICES = ("zram", "ram", "nullb")
_DIRECT = frozenset({"ext2", "ext3", "ext4", "xfs"})
"""File systems on one device, for which FIEMAP reports the places of a file on this device."""
_DELETED = " (deleted)"
_SECTOR = 512


class BackingFile(NamedTuple):
    """A file whose contents a loop device presents as a block device."""

    path: Path
    device: str
    """The loop device."""
    offset: int | None
    """The offset in the file at which the file system above begins, in bytes; None if unknown."""


@dataclass(frozen=True, slots=True)
class Stack:
    """All layers below some files: disks, memory, files of loop devices, and unknown layers.

    `files` are the files whose contents loop devices present as devices.
    """

    disks: frozenset[str] = frozenset()
    """The lowest devices, with no other device beneath them, as named in /proc/diskstats."""
    memory: tuple[str, ...] = ()
    """Texts that name the file systems and devices that are memory, such as `tmpfs`."""
    hidden: tuple[str, ...] = ()
    """Texts that name the layers whose lower layers are not known, such as `nfs4`."""
    files: tuple[BackingFile, ...] = ()


@dataclass
class _Draft:
    """The layers that `beneath` has found so far."""

    disks: set[str] = field(default_factory=set)
    memory: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    files: list[BackingFile] = field(default_factory=list)
    devices: set[str] = field(default_factory=set)
    """The devices that were followed already."""


def is_memory(file_system: str, device: str) -> bool:
    """Return whether a file system's type, or the name of its device or "", is one of memory."""
    return file_system in _IN_MEMORY or device.startswith(_MEMORY_DEVICES)


def beneath(host: Host, paths: Iterable[str | Path]) -> Stack:
    """Return the layers beneath some files or folders; a path that does not exist is ignored."""
    draft, numbers = _Draft(), set()
    for path in paths:
        try:
            number = Path(path).stat().st_dev
        except OSError:
            continue
        if number not in numbers:
            numbers.add(number)
            _follow_path(host, Path(path), draft, "")
    return Stack(
        frozenset(draft.disks),
        tuple(dict.fromkeys(draft.memory)),
        tuple(dict.fromkeys(draft.hidden)),
        tuple(dict.fromkeys(draft.files)),
    )


def read_bytes(host: Host, disks: Iterable[str]) -> int | None:
    """Return the bytes read from disks since boot; None if /proc/diskstats lacks one of them."""
    text = host.read(diskstats.FILE).encode()
    known = [diskstats.counters(text, name) for name in disks]
    if not known or None in known:
        return None
    return sum(one.sectors_read * diskstats.SECTOR for one in known if one is not None)


def _follow_path(host: Host, path: Path, draft: _Draft, above: str) -> None:
    """Add the layers below a path to `draft`; `above` is a text that names the layers over it."""
    mount = host.mount_of(path)
    kind = mount.type if mount is not None else "an unknown file system"
    if is_memory(kind, ""):
        draft.memory.append(f"{above}{kind}")
        return
    device = None if kind.startswith("fuse") else host.block_device(path)
    if mount is None or device is None:
        draft.hidden.append(f"{above}{kind}")
        return
    offset = 0 if kind in _DIRECT and not above else None
    for name in members(host, device):
        _follow_device(host, name, draft, above, offset)


def _follow_device(host: Host, name: str, draft: _Draft, above: str, offset: int | None) -> None:
    """Add a block device and the layers below it to `draft`.

    `above` is a text that names the layers over it. The file system begins at byte `offset` of the
    device; None if that is unknown.
    """
    if name in draft.devices:
        return
    draft.devices.add(name)
    folder = f"sys/class/block/{name}"
    real = Path(os.path.realpath(host.path(folder)))
    below = host.entries(f"{folder}/slaves")
    if host.exists(f"{folder}/partition"):
        start = (host.number(f"{folder}/start") or 0) * _SECTOR
        _follow_device(
            host, real.parent.name, draft, above, None if offset is None else offset + start
        )
    elif below:
        for one in below:
            _follow_device(host, one, draft, f"{above}{name} over ", None)
    elif host.exists(f"{folder}/loop/backing_file"):
        _follow_loop(host, name, draft, above, offset)
    elif is_memory("", name):
        draft.memory.append(f"{above}{name}")
    elif "/devices/virtual/block/" in str(real):
        draft.hidden.append(f"{above}{name}")
    else:
        # /sys cannot have a slash in a name, as in cciss/c0d0, and writes it as "!".
        draft.disks.add(name.replace("!", "/"))


def _follow_loop(host: Host, name: str, draft: _Draft, above: str, offset: int | None) -> None:
    folder = f"sys/class/block/{name}"
    text = host.read(f"{folder}/loop/backing_file")
    path = Path(text)
    words = f"{above}{name} over {text}"
    if text.endswith(_DELETED) or not text.startswith("/"):
        draft.hidden.append(words)
    elif path.is_block_device():
        number = path.stat().st_rdev
        link = host.link(f"sys/dev/block/{os.major(number)}:{os.minor(number)}")
        _follow_device(host, Path(link).name, draft, f"{above}{name} over ", None)
    elif not _fits(host, folder, path):
        # It was set up in another mount namespace; here the path belongs to another file.
        draft.hidden.append(words)
    else:
        first = host.number(f"{folder}/loop/offset") or 0
        draft.files.append(BackingFile(path, name, None if offset is None else offset + first))
        _follow_path(host, path, draft, f"{words} on ")


def _fits(host: Host, folder: str, path: Path) -> bool:
    """Return whether a file is large enough to be the one beneath a loop device."""
    size = (host.number(f"{folder}/size") or 0) * _SECTOR
    first = host.number(f"{folder}/loop/offset") or 0
    try:
        return path.is_file() and path.stat().st_size >= first + size
    except OSError:
        return False
