"""A machine, read from /proc and /sys; tests may use another root folder than /."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_UNLIMITED = 1 << 60


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo (proc(5)), with its octal escapes decoded."""

    device: str
    """The device number of the file system, as `major:minor`."""
    root: str
    """The folder of the file system that is mounted; `/` is the whole file system."""
    point: str
    type: str
    source: str
    options: str


class Host:
    """A machine as its kernel describes it; `root` is / except for recorded machines in tests."""

    def __init__(
        self, root: str | Path = "/", *, stat: Callable[[Path], os.stat_result] = os.stat
    ) -> None:
        self.root = Path(root)
        self._stat = stat

    # Reading

    def path(self, path: str) -> Path:
        """Return a path such as `proc/stat` or `/proc/stat` inside this machine's root folder."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Return a file's text without white space at its ends; "" if it cannot be read."""
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace").strip("\0 \t\n")
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """Return the whole number in a file; None if it contains no number or cannot be read."""
        return _whole(self.read(path))

    def entries(self, path: str) -> list[str]:
        """Return the sorted names in a folder; [] if it is missing or unreadable."""
        try:
            return sorted(entry.name for entry in self.path(path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists and may be accessed."""
        try:
            return self.path(path).exists()
        except OSError:
            return False

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, or "" if the path is not a link."""
        try:
            return str(self.path(path).readlink())
        except OSError:
            return ""

    def write(self, path: str, text: str) -> None:
        """Write a text to a file of the kernel; raise OSError if the kernel refuses it."""
        with self.path(path).open("w", encoding="ascii") as file:
            file.write(text)

    def cannot_write(self, path: str) -> str:
        """Return "" if a file opens for writing, else the system's reason; nothing is written."""
        try:
            os.close(os.open(self.path(path), os.O_WRONLY))
        except OSError as error:
            return error.strerror or str(error)
        return ""

    # Properties of the machine

    def memory_bytes(self) -> int:
        """Return the physical memory in bytes; 0 if it is unknown."""
        return self.memory("MemTotal")

    def memory(self, name: str) -> int:
        """Return the value of the line `name` of /proc/meminfo, 0 if there is no such line.

        The value is in bytes, or a plain count for lines such as HugePages_Total.
        """
        amount = re.search(
            rf"^{re.escape(name)}:\s+(\d+)( kB)?$", self.read("proc/meminfo"), re.MULTILINE
        )
        return int(amount[1]) * (1024 if amount[2] else 1) if amount else 0

    def usable_memory_bytes(self) -> int:
        """Return the physical memory in bytes, or the limit of this process's cgroup if less."""
        return min(self.memory_bytes(), self.memory_limit_bytes() or _UNLIMITED)

    def memory_limit_bytes(self, process: int | str = "self") -> int | None:
        """Return the lowest memory limit, in bytes, of a process's cgroup and all groups above it.

        None if there is no limit.
        """
        limits = [
            self.number(f"{folder}/{name}")
            for folder in self.cgroups("memory", process)
            for name in ("memory.max", "memory.high", "memory.limit_in_bytes")
        ]
        return min(
            (limit for limit in limits if limit is not None and limit < _UNLIMITED), default=None
        )

    def cpu_limit(self) -> float | None:
        """Return the lowest CPU quota of this process's cgroup and all groups above it.

        The unit is cores: 1.5 is the time of one and a half processors. None if there is no quota.
        """
        return min((cores for cores, _ in self.cpu_quotas()), default=None)

    def cpu_quotas(self, process: int | str = "self") -> Iterator[tuple[float, str]]:
        """Yield each CPU quota of a process's cgroup and of the groups above it.

        Each is (number of cores, folder of the cgroup).
        """
        for folder in self.cgroups("cpu", process):
            quota, _, period = self.read(f"{folder}/cpu.max").partition(" ")
            quota = quota or self.read(f"{folder}/cpu.cfs_quota_us")
            period = period or self.read(f"{folder}/cpu.cfs_period_us")
            if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period), folder

    def boot_id(self) -> str:
        """Return the random id that the kernel made at boot, "" if it cannot be read."""
        return self.read("proc/sys/kernel/random/boot_id")

    def load(self) -> tuple[float, float, float] | None:
        """Return the load averages of 1, 5 and 15 minutes, None if they cannot be read."""
        averages = re.match(r"([\d.]+) ([\d.]+) ([\d.]+)", self.read("proc/loadavg"))
        return (float(averages[1]), float(averages[2]), float(averages[3])) if averages else None

    # Mounts and devices

    def mounts(self) -> list[Mount]:
        """Return the mounts that this process sees, in the order in which they were made."""
        lines = self.read("proc/self/mountinfo").splitlines()
        return [mount for line in lines if (mount := _mount(line)) is not None]

    def mount_of(self, path: str | Path) -> Mount | None:
        """Return the mount on which a path lies, None if it is not known.

        It is the mount with the longest mount point that contains the path. If several mounts have
        this mount point, it is the latest of them.
        """
        wanted = _nearest(Path(path))
        best: Mount | None = None
        for mount in self.mounts():
            inside = wanted == Path(mount.point) or Path(mount.point) in wanted.parents
            if inside and (best is None or len(mount.point) >= len(best.point)):
                best = mount
        return best

    def device_of(self, path: str | Path) -> str | None:
        """Return the disk below a path, as named in /proc/diskstats; None for tmpfs, NFS and ZFS.

        For a partition it is the whole disk. For a dm or md device it is the only disk below it, or
        the device itself if it lies on several disks. For a btrfs on several disks it is None.
        """
        name = self.block_device(path)
        disks = {self._disk(member) for member in members(self, name)} if name else set()
        # /sys cannot have a slash in a name, as in cciss/c0d0, and writes it as "!".
        return disks.pop().replace("!", "/") if len(disks) == 1 else None

    def block_device(self, path: str | Path) -> str | None:
        """Return the block device below a path's file system, such as `sda1`; None if unknown."""
        real = _nearest(Path(path))
        try:
            number = self._stat(real).st_dev
        except OSError:
            return None
        if os.major(number):
            return self._named(f"{os.major(number)}:{os.minor(number)}")
        mount = self.mount_of(real)
        if mount is None:
            return None
        return (
            self._below_overlay(mount, real)
            if mount.type == "overlay"
            else self._of_source(mount.source)
        )

    def _below_overlay(self, mount: Mount, path: Path) -> str | None:
        """Return the block device of the layer of an overlayfs in which a path lies.

        It is the highest layer that has the path, or the upper layer if none has it.
        """
        layers = [layer for layer in _layers(mount.options) if layer.is_dir()]
        inside = Path(mount.root).relative_to("/") / path.relative_to(mount.point)
        for layer in layers:
            if (layer / inside).exists():
                return self.block_device(layer / inside)
        if layers and "upperdir=" in mount.options:
            return self.block_device(layers[0])
        # Inside a container the upper folder is not visible. But Docker and Podman keep other files
        # next to it, and these are mounted from the same file system.
        for other in self.mounts():
            store = re.match(r"(.*)/(?:overlay-)?containers/[0-9a-f]{12,}/", other.root)
            if store and _is_in_store(mount.options, store[1]):
                return self._named(other.device)
        return None

    def _of_source(self, source: str) -> str | None:
        # The source of a bcachefs on several disks names all of them, with colons between.
        if not source.startswith("/dev/") or ":/dev/" in source:
            return None
        name = Path(os.path.realpath(self.path(source))).name
        if self.exists(f"sys/class/block/{name}"):
            return name
        for known in self.entries("sys/class/block"):
            if self.read(f"sys/class/block/{known}/dm/name") == Path(source).name:
                return known
        return None

    def _named(self, numbers: str) -> str | None:
        try:
            return self.path(f"sys/dev/block/{numbers}").readlink().name
        except OSError:
            return None

    def _disk(self, name: str) -> str:
        folder = f"sys/class/block/{name}"
        if self.exists(f"{folder}/partition"):
            return self._disk(Path(os.path.realpath(self.path(folder))).parent.name)
        below = {self._disk(slave) for slave in self.entries(f"{folder}/slaves")}
        return below.pop() if len(below) == 1 else name

    # cgroups

    def cgroup_version(self) -> str:
        """Return the mounted version of cgroups: "1", "2" or "1 and 2"; "" if none is mounted."""
        types = {mount.type for mount in self.mounts()} & {"cgroup", "cgroup2"}
        return {"cgroup": "1", "cgroup2": "2", "cgroup cgroup2": "1 and 2", "": ""}[
            " ".join(sorted(types))
        ]

    def cgroups(self, controller: str, process: int | str = "self") -> Iterator[str]:
        """Yield the folder of a process's cgroup for a controller, then all visible folders above.

        `controller` is a name such as `cpu` or `memory`.
        """
        for line in self.read(f"proc/{process}/cgroup").splitlines():
            number, _, rest = line.partition(":")
            controllers, colon, path = rest.partition(":")
            if not (number.isdecimal() and colon):
                continue
            if controller in controllers.split(",") or not controllers:
                mount = self._cgroup_mount(controllers, controller)
                if mount is not None:
                    yield from _upwards(mount, path)

    def _cgroup_mount(self, controllers: str, controller: str) -> Mount | None:
        for mount in self.mounts():
            if mount.type == "cgroup" and controllers and controller in mount.options.split(","):
                return mount
            if mount.type == "cgroup2" and not controllers:
                return mount
        return None


def members(host: Host, device: str) -> list[str]:
    """Return all devices of the file system on a device: btrfs may have several."""
    for known in host.entries("sys/fs/btrfs"):
        devices = host.entries(f"sys/fs/btrfs/{known}/devices")
        if device in devices:
            return devices
    return [device]


def layers(host: Host, path: str | Path) -> tuple[str, ...]:
    """Return the block devices below a path, from that of its file system down to the disks.

    Such are the devices of LVM, LUKS and md, and all disks below them; partitions are left out.
    They are named as in /proc/diskstats. The result is () if no device is known.
    """
    device = host.block_device(path)
    found = members(host, device) if device else []
    partitions = set()
    for name in found:
        folder = f"sys/class/block/{name}"
        below = host.entries(f"{folder}/slaves")
        if host.exists(f"{folder}/partition"):
            partitions.add(name)
            below = [Path(os.path.realpath(host.path(folder))).parent.name]
        found.extend(one for one in below if one not in found)
    return tuple(name.replace("!", "/") for name in found if name not in partitions)


def _layers(options: str) -> list[Path]:
    """Return the layers of an overlayfs from its mount options, from top to bottom."""
    layers = re.findall(r"(?:^|,)(upperdir|lowerdir\+?)=((?:\\.|[^,\\])*)", options)
    upper = [text for name, text in layers if name == "upperdir"]
    # A colon separates the folders, and a colon in a name has a backslash before it.
    lower = [
        part
        for name, text in layers
        if name != "upperdir"
        for part in ([text] if name.endswith("+") else re.split(r"(?<!\\):+", text))
    ]
    return [Path(re.sub(r"\\(.)", r"\1", text)) for text in (*upper, *lower) if text]


def _is_in_store(options: str, store: str) -> bool:
    """Return whether the upper layer of an overlayfs is in a folder of a container's engine.

    `store` is the path of this folder in its file system. The layer's path is that in the engine's
    mounts: it is longer if the file system is mounted at a folder above, and shorter if a folder of
    the file system is mounted there, as with a bind mount. The layers of containerd, which Docker
    may use, are in a folder of another program, maybe on another disk.
    """
    upper = _layers(options)[:1] if "upperdir=" in options else []
    found = re.fullmatch(r"(.*)/overlay2?/[^/]+/(?:diff|upper)", "".join(map(str, upper)))
    return bool(found and (found[1].endswith(store) or store.endswith(found[1])))


def _mount(line: str) -> Mount | None:
    left, dash, right = line.partition(" - ")
    before, after = left.split(), right.split()
    if not dash or len(before) < 6 or len(after) < 2:
        return None
    extra = [option for option in (after[2] if len(after) > 2 else "").split(",") if option]
    own = before[5].split(",")
    options = ",".join(own + [option for option in extra if option not in own])
    plain = [
        _unescape(text) for text in (before[2], before[3], before[4], after[0], after[1], options)
    ]
    return Mount(*plain)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _upwards(mount: Mount, path: str) -> Iterator[str]:
    # A container sees its own cgroup as the root of the mount, under the name it has outside.
    inside = path.removeprefix(mount.root) if mount.root != "/" else path
    folder = Path(mount.point) / inside.lstrip("/")
    while folder != Path(mount.point) and Path(mount.point) in folder.parents:
        yield str(folder)
        folder = folder.parent
    yield mount.point


def _nearest(path: Path) -> Path:
    """Return a path with its symbolic links resolved.

    If it does not exist, the nearest folder above it that exists is returned.
    """
    real = Path(os.path.realpath(path))
    # A Path would raise below a folder of another user.
    while not os.path.exists(real) and real != real.parent:  # noqa: PTH110
        real = real.parent
    return real


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None
