"""This machine: every read of /proc and /sys, below a root that tests may choose."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # An agent on another host reads this machine without pydantic's models: that saves 0.2 s each
    # time.
    from replayer.model import Fact

_SECRET = re.compile(
    r"\b(\w*(?:password|passwd|secret|token|passphrase|key)\w*)=\S+", re.IGNORECASE
)
_OVERLAY_PATHS = re.compile(r",?(?:lowerdir|upperdir|workdir)\+?=[^,]*")
_UNLIMITED = 1 << 60
_FIRST_NAMESPACES = {"pid": 4026531836, "uts": 4026531838, "ipc": 4026531839}
"""Inode numbers of the namespaces that the kernel boots with (include/linux/proc_ns.h)."""
_CONTAINERS = ("docker", "podman", "libpod", "kubepods", "containerd", "lxc", "garden")
_HYPERVISORS = (
    ("amazon ec2", "kvm (Amazon EC2)"),
    ("google", "kvm (Google Compute Engine)"),
    ("microsoft corporation", "hyper-v"),
    ("vmware", "vmware"),
    ("innotek", "virtualbox"),
    ("virtualbox", "virtualbox"),
    ("xen", "xen"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("qemu", "kvm or qemu"),
    ("kvm", "kvm"),
    ("openstack", "kvm (OpenStack)"),
    ("digitalocean", "kvm (DigitalOcean)"),
    ("hetzner", "kvm (Hetzner)"),
    ("apple virtualization", "apple"),
)
_CLOCKS = (("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen"), ("vmware", "vmware"))
_VM_SETTINGS = (
    "swappiness",
    "dirty_ratio",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_background_bytes",
    "overcommit_memory",
    "zone_reclaim_mode",
    "vfs_cache_pressure",
    "min_free_kbytes",
)
_QUEUE = {
    "scheduler": "scheduler",
    "nr_requests": "nr_requests",
    "rotational": "rotational",
    "write_cache": "write_cache",
    "nomerges": "nomerges",
    "max_sectors_kb": "max_sectors_kb",
    "logical_block_size": "logical_block_size",
    "physical_block_size": "physical_block_size",
    "wbt_lat_usec": "wbt_lat_usec",
}


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo (proc(5)), with its octal escapes decoded."""

    device: str
    """major:minor of the file system."""
    root: str
    """The folder of that file system that is mounted."""
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
        """Return the path of `proc/stat` or `/proc/stat` below the root."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        """Return a file's text without white space at its ends; "" if it cannot be read."""
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace").strip("\0 \t\n")
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """Return the whole number in a file, or None if there is none."""
        return _whole(self.read(path))

    def entries(self, path: str) -> list[str]:
        """Return the sorted names in a folder; none if it is missing or unreadable."""
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
        """Write to a file of the kernel; raises OSError when the kernel refuses."""
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
        """Return one line of /proc/meminfo in bytes, or a plain count such as HugePages_Total.

        0 if there is no such line.
        """
        amount = re.search(
            rf"^{re.escape(name)}:\s+(\d+)( kB)?$", self.read("proc/meminfo"), re.MULTILINE
        )
        return int(amount[1]) * (1024 if amount[2] else 1) if amount else 0

    def usable_memory_bytes(self) -> int:
        """Return the physical memory in bytes, or the cgroup's limit if that is less."""
        return min(self.memory_bytes(), self.memory_limit_bytes() or _UNLIMITED)

    def memory_limit_bytes(self, process: int | str = "self") -> int | None:
        """Return the tightest memory limit of a process's cgroup and its parents; None without one.

        The limit is in bytes.
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
        """Return the tightest limit of this process's cgroup and its parents in cores, or None."""
        return min((cores for cores, _ in self.cpu_quotas()), default=None)

    def cpu_quotas(self, process: int | str = "self") -> Iterator[tuple[float, str]]:
        """Yield every CPU quota that applies to a process: cores, and the cgroup's folder."""
        for folder in self.cgroups("cpu", process):
            quota, _, period = self.read(f"{folder}/cpu.max").partition(" ")
            quota = quota or self.read(f"{folder}/cpu.cfs_quota_us")
            period = period or self.read(f"{folder}/cpu.cfs_period_us")
            if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period), folder

    def boot_id(self) -> str:
        """Return the id that the kernel drew at boot, or ""."""
        return self.read("proc/sys/kernel/random/boot_id")

    def load(self) -> tuple[float, float, float] | None:
        """Return the load averages of 1, 5 and 15 minutes, or None."""
        averages = re.match(r"([\d.]+) ([\d.]+) ([\d.]+)", self.read("proc/loadavg"))
        return (float(averages[1]), float(averages[2]), float(averages[3])) if averages else None

    # Mounts and devices

    def mounts(self) -> list[Mount]:
        """Return the mounts that this process sees, in the order in which they were made."""
        lines = self.read("proc/self/mountinfo").splitlines()
        return [mount for line in lines if (mount := _mount(line)) is not None]

    def mount_of(self, path: str | Path) -> Mount | None:
        """Return the mount that holds a path: the longest point above it, the latest of equals."""
        wanted = _nearest(Path(path))
        best: Mount | None = None
        for mount in self.mounts():
            inside = wanted == Path(mount.point) or Path(mount.point) in wanted.parents
            if inside and (best is None or len(mount.point) >= len(best.point)):
                best = mount
        return best

    def device_of(self, path: str | Path) -> str | None:
        """Return the disk of a path, as named in /proc/diskstats, or None (tmpfs, NFS, ZFS).

        A partition stands for its whole disk, a dm or md device for the one disk below it. A dm or
        md device over several disks stands for itself, and those disks are not counted.
        """
        name = self.block_device(path)
        # /sys cannot have a slash in a name, as in cciss/c0d0, and writes it as "!".
        return self._disk(name).replace("!", "/") if name else None

    def device_facts(self, device: str, path: str | Path | None = None) -> dict[str, Fact]:
        """Return the facts of a disk, with the keys of `facts`; `path` is a file on it."""
        upper = self.block_device(path) if path is not None else None
        return {**_disk_facts(self, device), **_upper_facts(self, upper or device, device)}

    def block_device(self, path: str | Path) -> str | None:
        """Return the partition, dm, md or disk that holds a path's file system; None if unknown."""
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
        """Return the device of the layer that holds a path: the upper one, or one below it."""
        layers = [layer for layer in _layers(mount.options) if layer.is_dir()]
        inside = Path(mount.root).relative_to("/") / path.relative_to(mount.point)
        for layer in layers:
            if (layer / inside).exists():
                return self.block_device(layer / inside)
        if layers and "upperdir=" in mount.options:
            return self.block_device(layers[0])
        # Inside a container the upper folder is not visible. But the container's engine keeps other
        # files next to it, and these are mounted from the same file system.
        for other in self.mounts():
            if re.search(r"/(?:overlay-)?containers/[0-9a-f]{12,}/", other.root):
                return self._named(other.device)
        return None

    def _of_source(self, source: str) -> str | None:
        if not source.startswith("/dev/"):
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
        """Return "1", "2", "1 and 2" (controllers are on 1), or "" if none is mounted."""
        types = {mount.type for mount in self.mounts()} & {"cgroup", "cgroup2"}
        return {"cgroup": "1", "cgroup2": "2", "cgroup cgroup2": "1 and 2", "": ""}[
            " ".join(sorted(types))
        ]

    def cgroups(self, controller: str, process: int | str = "self") -> Iterator[str]:
        """Yield a process's folder of a controller, then every parent that is visible."""
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

    # Facts

    def facts(self, data: str | Path | None = None) -> dict[str, Fact]:
        """Return what is known about this machine and, with `data`, the disk below that folder.

        Keys are dotted; unknown values are absent. The facts hold no secrets: values that look like
        one are removed from the kernel's command line.
        """
        facts: dict[str, Fact] = {}
        for part in (_kernel, _processor, _memory, _surroundings):
            facts.update(part(self))
        if data is not None:
            facts.update(_storage(self, data))
        return {key: value for key, value in facts.items() if value not in (None, "")}


def _kernel(host: Host) -> dict[str, Fact]:
    release = host.read("proc/sys/kernel/osrelease")
    folder = "sys/devices/system/cpu/vulnerabilities"
    return {
        "kernel.release": release,
        "kernel.version": host.read("proc/sys/kernel/version"),
        "kernel.machine": host.read("proc/sys/kernel/arch"),
        "kernel.cmdline": _command_line(host),
        "kernel.preemption": _preemption(host, release),
        "kernel.clocksource": host.read(
            "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "kernel.numa_balancing": host.number("proc/sys/kernel/numa_balancing"),
        **{
            f"kernel.mitigations.{name}": host.read(f"{folder}/{name}")
            for name in host.entries(folder)
        },
        **{f"vm.{name}": host.number(f"proc/sys/vm/{name}") for name in _VM_SETTINGS},
    }


def _command_line(host: Host) -> str:
    # The words after " -- " are for init, not for the kernel.
    text = host.read("proc/cmdline").partition(" -- ")[0]
    return _SECRET.sub(r"\1=(not shown)", text)


def _preemption(host: Host, release: str) -> str | None:
    version = host.read("proc/sys/kernel/version")
    if "PREEMPT_RT" in version or host.read("sys/kernel/realtime") == "1":
        return "rt"
    if "PREEMPT_DYNAMIC" in version:
        mode = _dynamic_preemption(host, release)
        return f"dynamic ({mode})" if mode else "dynamic"
    if "PREEMPT" in version:
        return "full"
    return "none or voluntary" if version else None


def _dynamic_preemption(host: Host, release: str) -> str:
    """Return the active mode: from debugfs, else from the boot options, else from the build."""
    active = re.search(r"\((\w+)\)", host.read("sys/kernel/debug/sched/preempt"))
    booted = re.search(r"\bpreempt=(\w+)", host.read("proc/cmdline"))
    if active or booted:
        return (active or booted)[1]  # type: ignore[index]
    names = {
        "PREEMPT_NONE": "none",
        "PREEMPT_VOLUNTARY": "voluntary",
        "PREEMPT_LAZY": "lazy",
        "PREEMPT": "full",
    }
    config = _kernel_config(host, release)
    return next((mode for name, mode in names.items() if f"\nCONFIG_{name}=y\n" in config), "")


def _kernel_config(host: Host, release: str) -> str:
    text = host.read(f"boot/config-{release}")
    if not text:
        try:
            with gzip.open(host.path("proc/config.gz"), "rt", encoding="utf-8") as file:
                text = file.read()
        except (OSError, EOFError):
            return ""
    return f"\n{text}\n"


def _processor(host: Host) -> dict[str, Fact]:
    blocks = [_colons(block) for block in host.read("proc/cpuinfo").split("\n\n")]
    cpus = [block for block in blocks if "processor" in block]
    first = cpus[0] if cpus else {}
    threads = len(re.findall(r"^cpu\d", host.read("proc/stat"), re.MULTILINE)) or None
    cores = {(cpu.get("physical id"), cpu["core id"]) for cpu in cpus if "core id" in cpu}
    sockets = {cpu["physical id"] for cpu in cpus if "physical id" in cpu}
    folder = "sys/devices/system/cpu"
    governors = {
        host.read(f"{folder}/{name}/cpufreq/scaling_governor")
        for name in host.entries(folder)
        if re.fullmatch(r"cpu\d+", name)
    } - {""}
    largest = host.number(f"{folder}/cpu0/cpufreq/cpuinfo_max_freq")
    return {
        "cpu.model": _cpu_model(blocks, first),
        "cpu.cores": len(cores) or threads,
        "cpu.threads": threads,
        "cpu.allowed": _allowed(host, threads),
        "cpu.sockets": len(sockets) or None,
        "cpu.mhz": _decimal(first.get("cpu MHz") or first.get("clock")),
        "cpu.max_mhz": largest / 1000 if largest else None,
        "cpu.bogomips": _decimal(first.get("bogomips") or first.get("BogoMIPS")),
        "cpu.microcode": first.get("microcode"),
        "cpu.governor": ", ".join(sorted(governors)),
        "cpu.frequency_driver": host.read(f"{folder}/cpu0/cpufreq/scaling_driver"),
        "cpu.boost": _boost(host),
        "cpu.smt": host.read(f"{folder}/smt/control"),
        "cpu.idle_driver": host.read(f"{folder}/cpuidle/current_driver"),
        "cpu.numa_nodes": sum(
            bool(re.fullmatch(r"node\d+", name)) for name in host.entries("sys/devices/system/node")
        )
        or None,
    }


def _allowed(host: Host, threads: int | None) -> str | None:
    """Return the processors that this process may use, as 0-3,8, or `all`; None if not known."""
    listed = re.search(r"^Cpus_allowed_list:\s*(\S+)", host.read("proc/self/status"), re.MULTILINE)
    if listed is None or threads is None:
        return None
    ends = [part.partition("-") for part in listed[1].split(",")]
    many = sum(int(last or first) - int(first) + 1 for first, _, last in ends)
    # If the machine could have more processors than it has, the kernel lists all possible ones.
    return listed[1] if many < threads else "all"


def _cpu_model(blocks: list[dict[str, str]], first: dict[str, str]) -> str | None:
    """Return the model, or None.

    x86 and most others name it. arm64 gives numbers. s390 and power use other keys.
    """
    for key in ("model name", "cpu model", "Processor", "cpu"):
        if key in first:
            return first[key]
    for block in blocks:
        for key in ("Model", "Hardware", "vendor_id", "machine"):
            if key in block:
                return block[key]
    if "CPU implementer" in first:
        return f"implementer {first['CPU implementer']} part {first.get('CPU part', '?')}"
    return None


def _boost(host: Host) -> str | None:
    boost = host.read("sys/devices/system/cpu/cpufreq/boost")
    no_turbo = host.read("sys/devices/system/cpu/intel_pstate/no_turbo")
    if boost or no_turbo:
        return "on" if boost == "1" or no_turbo == "0" else "off"
    return None


def _memory(host: Host) -> dict[str, Fact]:
    huge = "sys/kernel/mm/transparent_hugepage"
    return {
        "memory.bytes": host.memory_bytes() or None,
        "memory.available_bytes": host.memory("MemAvailable") or None,
        "memory.swap_bytes": host.memory("SwapTotal") if host.memory_bytes() else None,
        "memory.transparent_huge_pages": _chosen(host.read(f"{huge}/enabled")),
        "memory.transparent_huge_pages_defrag": _chosen(host.read(f"{huge}/defrag")),
        "memory.huge_pages": host.memory("HugePages_Total") if host.memory_bytes() else None,
        "memory.huge_page_bytes": host.memory("Hugepagesize") or None,
    }


def _surroundings(host: Host) -> dict[str, Fact]:
    release = _assignments(host.read("etc/os-release") or host.read("usr/lib/os-release"))
    uptime = host.read("proc/uptime").split()
    load = host.load()
    return {
        "os.name": release.get("PRETTY_NAME") or release.get("NAME"),
        "os.id": release.get("ID"),
        "os.version": release.get("VERSION_ID"),
        "host.name": host.read("proc/sys/kernel/hostname"),
        "host.uptime_s": _decimal(uptime[0]) if uptime else None,
        "host.load1": load[0] if load else None,
        "host.load5": load[1] if load else None,
        "host.load15": load[2] if load else None,
        "boot.id": host.boot_id(),
        "virtualisation": _virtualisation(host),
        "container": _container(host),
        "cgroup.version": host.cgroup_version(),
        "cgroup.memory_limit_bytes": host.memory_limit_bytes(),
        "cgroup.cpu_limit": host.cpu_limit(),
    }


def _virtualisation(host: Host) -> str | None:
    """Return the hypervisor's name, "yes" if its name is unknown, "none", or None if unknown."""
    flagged = (
        re.search(r"^flags\s*:.*\bhypervisor\b", host.read("proc/cpuinfo"), re.MULTILINE)
        is not None
    )
    dmi = " ".join(
        host.read(f"sys/class/dmi/id/{name}")
        for name in ("sys_vendor", "product_name", "board_vendor", "bios_vendor")
    ).lower()
    xen = host.read("sys/hypervisor/type")
    intel = bool(re.search(r"^flags\s*:", host.read("proc/cpuinfo"), re.MULTILINE))
    if (intel and not flagged and not xen) or re.search(r"\bamazon ec2 \S+\.metal\b", dmi):
        return "none"
    clocks = host.read("sys/devices/system/clocksource/clocksource0/available_clocksource")
    for word, name in _HYPERVISORS:
        if word in dmi and ("virtual machine" in dmi or word != "microsoft corporation"):
            return name
    if xen:
        return xen
    clock = next((name for word, name in _CLOCKS if word in clocks), None)
    return clock or ("yes" if flagged else None)


def _container(host: Host) -> str | None:
    """Return the kind of container of this process, "none", or None if unknown.

    A marker file alone proves nothing: an image made for containers can be booted as a machine. So
    the marker counts only in namespaces other than the kernel's first ones.
    """
    marker = _container_marker(host)
    namespaces = [host.link(f"proc/self/ns/{kind}") for kind in _FIRST_NAMESPACES]
    known = [text for text in namespaces if text]
    firsts = {f"{kind}:[{inode}]" for kind, inode in _FIRST_NAMESPACES.items()}
    contained = any(text not in firsts for text in known)
    if marker and (contained or not known):
        return marker
    if contained:
        return "unnamed"
    return "none" if known else None


def _container_marker(host: Host) -> str:
    if host.exists(".dockerenv"):
        return "docker"
    if host.exists("run/.containerenv"):
        return "podman"
    named = re.search(r"(?:^|\0)container=([^\0]+)", host.read("proc/1/environ"))
    if named:
        return named[1]
    groups = host.read("proc/self/cgroup") + host.read("proc/1/cgroup")
    manager = host.read("run/host/container-manager") or host.read("run/systemd/container")
    return next((name for name in _CONTAINERS if name in groups), manager)


def _storage(host: Host, data: str | Path) -> dict[str, Fact]:
    mount = host.mount_of(data)
    facts: dict[str, Fact] = {}
    if mount is not None:
        facts["fs.type"] = mount.type
        facts["fs.options"] = _OVERLAY_PATHS.sub("", mount.options)
        facts["fs.mount_point"] = mount.point
    device = host.device_of(data)
    if device is not None:
        facts.update(host.device_facts(device, data))
    return facts


def _disk_facts(host: Host, device: str) -> dict[str, Fact]:
    folder = f"sys/class/block/{device.replace('/', '!')}"
    sectors = host.number(f"{folder}/size")
    queue = {name: host.read(f"{folder}/queue/{file}") for name, file in _QUEUE.items()}
    return {
        "device.name": device,
        "device.model": _device_model(host, folder),
        "device.size_bytes": sectors * 512 if sectors else None,
        **{f"device.{name}": _plain(_chosen(value)) for name, value in queue.items()},
    }


def _device_model(host: Host, folder: str) -> str:
    model = " ".join(
        filter(None, (host.read(f"{folder}/device/vendor"), host.read(f"{folder}/device/model")))
    )
    # A virtio disk has a number as vendor and no model; dm and md have their own names.
    if re.fullmatch(r"0x[0-9a-f]+", model):
        driver = host.link(f"{folder}/device/driver")
        model = Path(driver).name if driver else ""
    return model or host.read(f"{folder}/dm/name") or host.read(f"{folder}/md/level")


def _upper_facts(host: Host, upper: str, device: str) -> dict[str, Fact]:
    """Return the facts of the device that the file system is on: its read-ahead is in force."""
    folder = f"sys/class/block/{upper}"
    if host.exists(f"{folder}/partition"):
        folder = f"sys/class/block/{Path(os.path.realpath(host.path(folder))).parent.name}"
    return {
        "device.read_ahead_kb": host.number(f"{folder}/queue/read_ahead_kb"),
        "device.stack": f"{upper} on {device}" if upper != device else None,
    }


def _layers(options: str) -> list[Path]:
    """Return an overlay's folders, the upper one first, then those below it from top to bottom."""
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
    """Return the path without links, or the nearest folder above it that exists."""
    real = Path(os.path.realpath(path))
    while not real.exists() and real != real.parent:
        real = real.parent
    return real


def _colons(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _assignments(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, sign, value in pairs if sign}


def _chosen(text: str) -> str:
    """Return the word in brackets of "always [madvise] never"; without brackets the whole text."""
    choice = re.search(r"\[([^\]]+)\]", text)
    return choice[1] if choice else text


def _plain(text: str) -> Fact:
    return int(text) if text.isdecimal() else text


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _decimal(text: str | None) -> float | None:
    number = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(number[0]) if number else None
