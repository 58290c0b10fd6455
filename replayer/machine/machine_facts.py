"""Facts of a machine for the result file: kernel, processors, memory, surroundings and disk."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.machine import processors

if TYPE_CHECKING:
    from replayer.machine.host import Host

    # An agent on another host reads this machine without pydantic's models: that saves 0.2 s each
    # time.
    from replayer.model import Fact

_SECRET = re.compile(
    r"\b(\w*(?:password|passwd|secret|token|passphrase|key)\w*)=\S+", re.IGNORECASE
)
_OVERLAY_PATHS = re.compile(r",?(?:lowerdir|upperdir|workdir)\+?=[^,]*")
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


def read_facts(host: Host, data: str | Path | None = None) -> dict[str, Fact]:
    """Return the facts of a machine and, if `data` is a folder, of the disk below that folder.

    The keys have dots, as in `cpu.model`; a fact that is not known is left out. Values that look
    like secrets are removed from the kernel's command line.
    """
    facts = {**_kernel(host), **_processor(host), **_memory(host), **_surroundings(host)}
    if data is not None:
        facts |= _storage(host, data)
    return {key: value for key, value in facts.items() if value not in (None, "")}


def read_device_facts(host: Host, device: str, path: str | Path | None = None) -> dict[str, Fact]:
    """Return the facts of the disk `device`, such as `device.model`; None or "" if unknown.

    `path` is a file or folder on the disk: the read-ahead is that of its file system. Without
    `path`, it is that of a file system on the disk itself.
    """
    upper = host.block_device(path) if path is not None else None
    return {**_disk_facts(host, device), **_upper_facts(host, upper or device, device)}


def read_ahead_folder(host: Host, device: str) -> str:
    """Return the folder whose file read_ahead_kb is in force for a file system's files.

    `device` is the block device directly below the file system, such as `sda1` or `dm-0`. The path
    has no leading slash. btrfs has a read-ahead itself; other file systems use their device's.
    """
    for known in host.entries("sys/fs/btrfs"):
        if device in host.entries(f"sys/fs/btrfs/{known}/devices"):
            return f"sys/fs/btrfs/{known}/bdi"
    folder = f"sys/class/block/{device}"
    if host.exists(f"{folder}/partition"):
        folder = f"sys/class/block/{Path(os.path.realpath(host.path(folder))).parent.name}"
    return f"{folder}/queue"


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
    """Return the kernel's preemption mode, such as "voluntary"; "" if unknown.

    It is read from debugfs, else from the boot options, else from the build's configuration.
    """
    active = re.search(r"\((\w+)\)", host.read("sys/kernel/debug/sched/preempt"))
    booted = re.search(r"\bpreempt=(\w+)", _command_line(host))
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
    online = {int(one) for one in re.findall(r"^cpu(\d+)", host.read("proc/stat"), re.MULTILINE)}
    threads = len(online) or None
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
        "cpu.allowed": _allowed(host, online),
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


def _allowed(host: Host, online: set[int]) -> str | None:
    """Return the processors that this process may use, as "0-3,8" or "all"; None if unknown.

    `online` are the numbers of the processors that work.
    """
    listed = processors.listed(host.read(processors.STATUS))
    if not listed or not online:
        return None
    # The kernel also lists processors that are offline, or that the machine could have.
    return "all" if online <= processors.numbers(listed) else listed


def _cpu_model(blocks: list[dict[str, str]], first: dict[str, str]) -> str | None:
    """Return the model of the processor, None if unknown.

    `blocks` are those of /proc/cpuinfo, `first` that of the first processor. Most architectures
    have a name there, under various keys; arm64 has only numbers.
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
        "memory.huge_pages_bytes": _huge_bytes(host),
    }


def _huge_bytes(host: Host) -> int | None:
    """Return the bytes that are reserved as huge pages, if there are pages of several sizes.

    None if all of them have the default size, which `memory.huge_pages` counts.
    """
    folder = "sys/kernel/mm/hugepages"
    sizes = re.findall(r"^hugepages-(\d+)kB$", "\n".join(host.entries(folder)), re.MULTILINE)
    # The line Hugetlb is in Linux 4.19 and later.
    reserved = host.memory("Hugetlb") or sum(
        (host.number(f"{folder}/hugepages-{size}kB/nr_hugepages") or 0) * int(size) * 1024
        for size in sizes
    )
    usual = host.memory("HugePages_Total") * host.memory("Hugepagesize")
    return reserved if reserved > usual else None


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
    """Return the kind of container that this process runs in, such as "docker".

    "unnamed" is a container of an unknown kind, "none" is no container, and None means unknown. A
    container's marker file alone proves nothing: an image made for containers can be booted as a
    machine. So the marker counts only if the process is not in the kernel's first namespaces.
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
        facts.update(read_device_facts(host, device, data))
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
    """Return the read-ahead of a file system, and the name of `upper`, the device directly below.

    The read-ahead of the disk `device` below these is not in force.
    """
    return {
        "device.read_ahead_kb": host.number(f"{read_ahead_folder(host, upper)}/read_ahead_kb"),
        "device.stack": f"{upper} on {device}" if upper != device else None,
    }


def _colons(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _assignments(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, sign, value in pairs if sign}


def _chosen(text: str) -> str:
    """Return the word in brackets, as in "always [madvise] never", or the text if it has none."""
    choice = re.search(r"\[([^\]]+)\]", text)
    return choice[1] if choice else text


def _plain(text: str) -> Fact:
    return int(text) if text.isdecimal() else text


def _decimal(text: str | None) -> float | None:
    number = re.match(r"\d+(?:\.\d+)?", text or "")
    return float(number[0]) if number else None
