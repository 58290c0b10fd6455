"""Guard raw block devices: read any, write none but the one that is named, empty and unused."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from pathlib import Path

from replayer import shell
from replayer.errors import Impossible, ReplayerError
from replayer.storage.io_job import MIB, Target

_BLKGETSIZE64 = 0x80081272
_LOOKED_AT = 2 * MIB
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (510, b"\x55\xaa", "a partition table (MBR) or boot sector"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (1080, b"\x53\xef", "an ext file system"),
    (0, b"XFSB", "an XFS file system"),
    (65600, b"_BHRfS_M", "a btrfs file system"),
    (1024, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (24, b"LABELONE", "an LVM volume"),
    (536, b"LABELONE", "an LVM volume"),
    (512, b"LABELONE", "an LVM volume"),
    (0, b"LUKS\xba\xbe", "a LUKS volume"),
    (4086, b"SWAPSPACE2", "swap space"),
    (65526, b"SWAPSPACE2", "swap space"),
    (0, b"\xfc\x4e\x2b\xa9", "an md array"),
    (4096, b"\xfc\x4e\x2b\xa9", "an md array"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (131072, b"\x0c\xb1\xba\x00", "a ZFS pool"),
    (4120, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"), "a bcache device"),
)
"""Offset, bytes and name of the signatures that file systems and volume managers leave."""


def target(device: str) -> Target:
    """Return a device as a target: everything but its first and last MiB.

    Raises Impossible for what is no block device or may not be opened.
    """
    _block_device(device)
    size = _size(device)
    if size < 4 * MIB:
        raise Impossible(f"{device} has {size} bytes, too few to measure")
    return Target((device,), size - 2 * MIB, direct=True, first_byte=MIB)


def name_of(device: str) -> str:
    """Return the name of the whole disk as /proc/diskstats has it."""
    return _disk(_sysfs(device)).name.replace("!", "/")


def may_write(device: str, serial: str, *, root: Path = Path("/")) -> None:
    """Raise Impossible unless `serial` is the device's own and nothing at all uses the device."""
    _block_device(device)
    own = serial_of(device, root=root)
    if not own:
        raise Impossible(f"{device} has no serial number, so it cannot be named for writing")
    if serial != own:
        told = f"{serial!r} is not its serial number" if serial else "its serial number is missing"
        raise Impossible(
            f"writing on {device} destroys what is on it, and {told}; if that is meant, say "
            f"--i-will-lose-data with the number from `lsblk -o NAME,SERIAL`"
        )
    reason = in_use(device, root=root) or signature(device)
    if reason:
        raise Impossible(f"{device} is not written, for it {reason}; take an unused, empty device")


def serial_of(device: str, *, root: Path = Path("/")) -> str:
    """Return the serial number, "" if there is none; of a loop device the path of its file."""
    folder = _sysfs(device, root)
    for name in ("serial", "device/serial", "device/wwid", "wwid", "dm/uuid", "loop/backing_file"):
        try:
            found = (folder / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if found:
            return found
    return ""


def in_use(device: str, *, root: Path = Path("/")) -> str:
    """Return why a device is in use, as the end of "it ...", or ""."""
    folder = _sysfs(device, root)
    parts = sorted(child.name for child in folder.iterdir() if (child / "partition").exists())
    if parts:
        return f"has partitions ({', '.join(parts)})"
    if (folder / "partition").exists():
        return "is a partition, not a whole device"
    holders = folder / "holders"
    if holders.is_dir() and any(holders.iterdir()):
        return f"is part of {', '.join(sorted(one.name for one in holders.iterdir()))}"
    number = (folder / "dev").read_text(encoding="ascii").strip()
    for line in _text(root / "proc/self/mountinfo").splitlines():
        fields = line.split()
        if fields[2] == number:
            return f"is mounted on {fields[4]}"
    for line in _text(root / "proc/swaps").splitlines()[1:]:
        if Path(line.split()[0]).name == folder.name:
            return "holds swap"
    return _held(device)


def signature(device: str) -> str:
    """Return what is on a device, as the end of "it ...", or "" for an empty one."""
    with open(device, "rb", buffering=0) as file:  # noqa: PTH123 - a device, not a path of ours
        head = file.read(_LOOKED_AT)
        file.seek(-64 << 10, os.SEEK_END)
        tail = file.read(64 << 10)
    for offset, magic, what in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return f"has the signature of {what}"
    if b"EFI PART" in tail or b"\xfc\x4e\x2b\xa9" in tail:
        return "has the signature of a partition table or an md array at its end"
    if any(head[:MIB]) or any(tail):
        return "holds data in its first MiB or its last 64 KiB"
    return _probed(device)


def _probed(device: str) -> str:
    """Ask util-linux's wipefs, which knows more signatures than we do."""
    program = shell.find("wipefs", Path("/usr/sbin"), Path("/sbin"))
    if program is None:
        return ""
    try:
        found = shell.run([program, "--no-act", "--noheadings", "--output", "TYPE", device])
    except ReplayerError as error:
        return f"cannot be examined ({error})"
    types = ", ".join(sorted(set(found.split())))
    return f"has the signature of {types}" if types else ""


def _held(device: str) -> str:
    """Ask the kernel for the device alone: it refuses while anybody uses it."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError as error:
        return f"cannot be had alone ({error.strerror})"
    return ""


def _block_device(device: str) -> None:
    try:
        mode = Path(device).stat().st_mode
    except OSError as error:
        raise Impossible(f"the device {device} cannot be used: {error.strerror}") from error
    if not stat.S_ISBLK(mode):
        raise Impossible(f"{device} is no block device; leave `device` out to measure files")


def _sysfs(device: str, root: Path = Path("/")) -> Path:
    number = Path(device).stat().st_rdev
    return (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()


def _disk(folder: Path) -> Path:
    return folder.parent if (folder / "partition").exists() else folder


def _size(device: str) -> int:
    try:
        fd = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = (
            "a container may keep devices away from root, too"
            if not os.geteuid()
            else "try as root"
        )
        raise Impossible(f"{device} cannot be opened: {error.strerror}; {hint}") from error
    try:
        size: int = struct.unpack("Q", fcntl.ioctl(fd, _BLKGETSIZE64, bytes(8)))[0]
    finally:
        os.close(fd)
    return size


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
