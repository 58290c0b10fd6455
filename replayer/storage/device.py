"""Safety checks for raw block devices.

Every device may be read. A device may be written only if the user gave its serial number, and if it
is empty and unused.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from pathlib import Path

from replayer import shell
from replayer.errors import Impossible, ReplayerError
from replayer.storage.io_job import MIB, IoTarget

_BLKGETSIZE64 = 0x80081272
_TAIL_BYTES = 64 << 10


def target(device: str) -> IoTarget:
    """Return a block device as the target of reads and writes, without its first and last MiB.

    `device` is a path such as /dev/sdb. Raises Impossible if it is not a block device, may not be
    opened, or is smaller than 4 MiB.
    """
    _block_device(device)
    size = _size(device)
    if size < 4 * MIB:
        raise Impossible(f"{device} has {size} bytes, too few to measure")
    return IoTarget((device,), size - 2 * MIB, direct=True, first_byte=MIB)


def name_of(device: str) -> str:
    """Return the name of a device as in /proc/diskstats; for a partition, that of its disk."""
    return _disk(_sysfs(device)).name.replace("!", "/")


def may_write(device: str, serial: str, *, root: Path = Path("/")) -> None:
    """Raise Impossible unless a device may be written.

    It may be written if `serial` is what `serial_of` returns for it, which proves that the user
    means this device, and if the device is empty and unused. A device without a serial number may
    never be written. `root` is the root folder for /sys and /proc; tests give another one.
    """
    _block_device(device)
    own = serial_of(device, root=root)
    if not own:
        raise Impossible(f"{device} has no serial number, so it cannot be named for writing")
    if serial != own:
        flaw = f"{serial!r} is not its serial number" if serial else "its serial number is missing"
        raise Impossible(
            f"writing on {device} destroys what is on it, and {flaw}; if you want that, give "
            f"--i-will-lose-data with the number from `lsblk -o NAME,SERIAL`"
        )
    reason = in_use(device, root=root) or signature(device)
    if reason:
        raise Impossible(f"{device} is not written, for it {reason}; take an unused, empty device")


def serial_of(device: str, *, root: Path = Path("/")) -> str:
    """Return a device's serial number or another id of it; "" if there is none.

    For a loop device the id is the path of the file that it presents. `root` is the root folder
    for /sys; tests give another one.
    """
    folder = _sysfs(device, root)
    for name in ("serial", "device/serial", "device/wwid", "wwid", "dm/uuid", "loop/backing_file"):
        try:
            serial = (folder / name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if serial:
            return serial
    return ""


def in_use(device: str, *, root: Path = Path("/")) -> str:
    """Return why a device is in use, such as `is mounted on /data`; "" if it is unused.

    The text is the end of a sentence that begins with "it". `root` is the root folder for /sys and
    /proc; tests give another one.
    """
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
    """Return the contents of a device, such as `has the signature of ext4`; "" if it is empty.

    The text is the end of a sentence that begins with "it". A device is empty if wipefs finds no
    signature on it and its first MiB and last 64 KiB are zero.
    """
    named = _probed(device)
    if named:
        return named
    with open(device, "rb", buffering=0) as file:  # noqa: PTH123 - a device, no path of replayer
        head = file.read(MIB)
        file.seek(-_TAIL_BYTES, os.SEEK_END)
        tail = file.read(_TAIL_BYTES)
    # File systems, volume managers and partition tables all write there.
    if any(head) or any(tail):
        return "holds data in its first MiB or its last 64 KiB"
    return ""


def _probed(device: str) -> str:
    """Return the contents that util-linux's wipefs finds, such as `has the signature of ext4`.

    The text is the end of a sentence that begins with "it"; `cannot be examined ...` if wipefs
    fails. Returns "" if it finds nothing, or if wipefs is not installed.
    """
    program = shell.find("wipefs", Path("/usr/sbin"), Path("/sbin"))
    if program is None:
        return ""
    try:
        output = shell.run([program, "--no-act", "--noheadings", "--output", "TYPE", device])
    except ReplayerError as error:
        return f"cannot be examined ({error})"
    types = ", ".join(sorted(set(output.split())))
    return f"has the signature of {types}" if types else ""


def _held(device: str) -> str:
    """Return `cannot be had alone (...)` if the device cannot be opened with O_EXCL, else "".

    O_EXCL fails if the kernel uses the device, for example because it is mounted. The text is the
    end of a sentence that begins with "it".
    """
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
        raise Impossible(f"{device} is not a block device; leave `device` out to measure files")


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
