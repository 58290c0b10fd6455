"""The host: facts of recorded machines, and which disk a path is on, whatever lies between."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from replayer import factors
from replayer.analysis.advice.warnings import about
from replayer.conditions import kernel_settings
from replayer.machine.host import Host, layers
from replayer.machine.machine_facts import read_facts
from tests.known import known

FIXTURES = Path(__file__).parent.parent / "fixtures"


def recorded(kernel: str) -> Host:
    """Return a recorded machine."""
    return Host(FIXTURES / kernel / "first")


def stat_of(device: tuple[int, int]) -> Any:
    """Return what the kernel says of a file on a device."""
    return SimpleNamespace(st_dev=os.makedev(*device))


class Tree:
    """A made-up /sys and /proc; every path of the test is on the device `numbers`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.numbers = (8, 1)
        self.mounts: list[str] = []

    def write(self, path: str, text: str = "") -> None:
        """Write a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def disks(self, *shown: str, under: str = "sys/devices/pci/block") -> None:
        """Make block devices as sysfs shows them: `NAME MAJOR:MINOR`, and the devices below it.

        A partition is `DISK/NAME`.
        """
        for name, numbers, *slaves in map(str.split, shown):
            where = f"{under}/{name}"
            self.write(f"{where}/dev", numbers)
            if "/" in name:
                self.write(f"{where}/partition", "1")
            for slave in slaves:
                self.write(f"{where}/slaves/{slave}/dev")
            target = f"../../{where.removeprefix('sys/')}"
            self.link(f"sys/dev/block/{numbers}", target)
            self.link(f"sys/class/block/{Path(name).name}", target)

    def mount(
        self,
        point: Path | str,
        kind: str,
        source: str,
        options: str = "rw",
        *,
        numbers: str = "0:50",
        root: str = "/",
    ) -> None:
        """Add a line to mountinfo."""
        number = len(self.mounts) + 20
        self.mounts.append(
            f"{number} 1 {numbers} {root} {point} rw,relatime shared:1 - {kind} {source} {options}"
        )
        self.write("proc/self/mountinfo", "\n".join(self.mounts) + "\n")

    def host(self) -> Host:
        """Return the machine, on which every path has the device number that was set."""
        return Host(self.root, stat=lambda _: stat_of(self.numbers))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return an empty machine."""
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("disks", "mount", "numbers", "expected"),
    [
        # Counting partition and disk counts every request twice, so that only the disk is named.
        ("nvme0n1 259:0, nvme0n1/nvme0n1p3 259:3", (), (259, 3), "nvme0n1"),
        # Disk <- partition <- dm-crypt <- dm: one leaf, one line in diskstats.
        ("sda 8:0, sda/sda3 8:3, dm-0 253:0 sda3, dm-1 253:1 dm-0", (), (253, 1), "sda"),
        # md0 over two disks has its own line; a volume on it adds no device of its own.
        (
            "sda 8:0, sdb 8:16, sda/sda1 8:1, sdb/sdb1 8:17, md0 9:0 sda1 sdb1, dm-0 253:0 md0",
            *((), (253, 0), "md0"),
        ),
        # Two ways to the same leaf are one leaf.
        ("sda 8:0, sda/sda1 8:1, sda/sda2 8:2, dm-0 253:0 sda1 sda2", (), (253, 0), "sda"),
        # A btrfs gives every subvolume a number that is not a device; its mount has the source.
        ("sdc 8:32, sdc/sdc1 8:33", ("btrfs", "/dev/sdc1", "rw,subvol=/@"), (0, 31), "sdc"),
        # No disk is guessed: without proof the ledger has no device.
        ("vda 254:0", ("overlay", "overlay", "rw,upperdir=/nowhere/diff"), (0, 50), None),
        # All disks of a bcachefs are in its source, the last of them no more than the others.
        ("sdb 8:16, sdc 8:32", ("bcachefs", "/dev/sdb:/dev/sdc"), (0, 44), None),
        ("sdb 8:16, sdc 8:32", ("bcachefs", "/dev/sdb"), (0, 44), "sdb"),
        # Memory, another machine and ZFS have no line in diskstats that would be theirs alone.
        ("sda 8:0", ("tmpfs", "tmpfs"), (0, 44), None),
        ("sda 8:0", ("nfs4", "server:/export"), (0, 44), None),
        ("sda 8:0", ("zfs", "tank/data"), (0, 44), None),
    ],
    ids=[
        *("partition", "volume", "raid", "one disk", "btrfs", "overlay", "bcachefs"),
        *("bcachefs on one disk", "memory", "nfs", "zfs"),
    ],
)
def test_a_path_is_on_the_disk_whose_line_counts_it(
    tree: Tree, disks: str, mount: tuple[str, ...], numbers: tuple[int, int], expected: str | None
) -> None:
    """The one leaf below the device of its file system, if there is one."""
    tree.disks(*disks.split(", "))
    if mount:
        tree.mount("/", *mount)
    tree.numbers = numbers

    assert tree.host().device_of("/tmp") == expected


@pytest.mark.parametrize(
    ("disks", "numbers", "expected"),
    [
        ("nvme0n1 259:0, nvme0n1/nvme0n1p3 259:3", (259, 3), ["nvme0n1"]),
        ("cciss!c0d0 104:0", (104, 0), ["cciss/c0d0"]),
        (
            "sda 8:0, sda/sda3 8:3, dm-0 253:0 sda3, dm-1 253:1 dm-0, dm-2 253:2 sda3",
            (253, 1),
            ["dm-1", "dm-0", "sda"],
        ),
        (
            "sda 8:0, sdb 8:16, sda/sda1 8:1, sdb/sdb1 8:17, md0 9:0 sda1 sdb1, dm-0 253:0 md0",
            (253, 0),
            ["dm-0", "md0", "sda", "sdb"],
        ),
        ("sda 8:0", (9, 9), []),
    ],
    ids=["partition", "slash", "volume", "raid", "unknown"],
)
def test_all_devices_below_a_path_may_be_limited(
    tree: Tree, disks: str, numbers: tuple[int, int], expected: list[str]
) -> None:
    """A limit of a cgroup names the device of the file system, or one below it."""
    tree.disks(*disks.split(", "))
    tree.numbers = numbers

    assert list(layers(tree.host(), "/tmp")) == expected


@pytest.mark.parametrize(
    ("others", "expected"),
    [("sda1", "sda"), ("sda1 sda2", "sda"), ("sda1 sdb", None)],
    ids=["one", "two of one disk", "two disks"],
)
def test_a_btrfs_on_several_disks_has_no_line_that_counts_it(
    tree: Tree, others: str, expected: str | None
) -> None:
    """Its mount names one of its devices; the reads of one disk are not those of all."""
    tree.disks("sda 8:0", "sda/sda1 8:1", "sda/sda2 8:2", "sdb 8:16")
    tree.mount("/", "btrfs", "/dev/sda1")
    tree.numbers = (0, 31)
    for name in ("sdc", *others.split()):
        file_system = "other" if name == "sdc" else "this"
        tree.write(f"sys/fs/btrfs/{file_system}/devices/{name}/dev")

    assert tree.host().device_of("/tmp") == expected


def test_overlay_is_followed_to_its_upper_folder(tree: Tree, tmp_path: Path) -> None:
    """The overlay has no device of its own: what is written goes to the file system of upperdir."""
    upper = tmp_path / "upper"
    upper.mkdir()
    tree.disks("sdb 8:16")
    tree.mount("/", "overlay", "overlay", f"rw,lowerdir=/l,upperdir={upper},workdir=/w")
    numbers = {Path("/tmp"): (0, 50), upper: (8, 16)}  # the path, then upperdir
    host = Host(tree.root, stat=lambda path: stat_of(numbers[Path(path)]))

    assert host.device_of("/tmp") == "sdb"


_DEPLOYED = "/ostree/deploy/fedora-coreos"
_SNAPSHOT = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/9/fs"


@pytest.mark.parametrize(
    ("upper", "store", "expected"),
    [
        ("/var/lib/docker/overlay2/x/diff", "/var/lib/docker/containers", "vda"),
        # The engine's folder is a disk, or on one that is mounted at /var.
        ("/var/lib/docker/overlay2/x/diff", "/containers", "vda"),
        ("/var/lib/docker/overlay2/x/diff", "/lib/docker/containers", "vda"),
        ("/c/storage/overlay/x/diff", "/c/storage/overlay-containers", "vda"),
        # A folder of a file system is mounted there, as with ostree.
        ("/var/lib/docker/overlay2/x/diff", f"{_DEPLOYED}/var/lib/docker/containers", "vda"),
        ("/d/overlay2/x/diff", "/mnt/docker/d/containers", "vda"),
        ("/d/overlay2/x/diff", "/mnt/docker-d/containers", None),
        # The layers are another program's, and may be on another disk.
        (_SNAPSHOT, "/var/lib/docker/containers", None),
        (_SNAPSHOT, "/containers", None),
        (_SNAPSHOT, f"{_DEPLOYED}/var/lib/docker/containers", None),
        ("/data/docker/overlay2/x/diff", "/var/lib/docker/containers", None),
    ],
)
def test_overlay_in_a_container_is_found_by_the_files_in_its_store(
    tree: Tree, upper: str, store: str, expected: str | None
) -> None:
    """In a container upperdir is out of sight; its hosts file may lie on the same disk."""
    tree.disks("vda 254:0", "vda/vda1 254:1")
    tree.mount("/", "overlay", "overlay", f"rw,upperdir={upper}")
    tree.mount(
        "/etc/hosts",
        "ext4",
        "/dev/vda1",
        numbers="254:1",
        root=f"{store}/{'0123456789ab' * 5}/hosts",
    )
    tree.numbers = (0, 50)

    assert tree.host().device_of("/tmp") == expected


def test_a_mapper_source_is_found_by_its_dm_name(tree: Tree) -> None:
    """/dev/mapper/vg-data is dm-3, also where /dev has no such link."""
    tree.disks("sda 8:0", "sdb 8:16", "dm-3 253:3 sda sdb")
    tree.write("sys/class/block/dm-3/dm/name", "vg-data\n")
    tree.mount("/", "btrfs", "/dev/mapper/vg-data")
    tree.numbers = (0, 31)

    assert tree.host().device_of("/tmp") == "dm-3"


def test_the_innermost_and_latest_mount_holds_a_path(tree: Tree, tmp_path: Path) -> None:
    """Among the mounts above a path the longest counts, and of equal ones the latest."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    for point, source in (("/", "/dev/x"), (tmp_path, "/dev/y"), (tmp_path / "a", "/dev/z")):
        tree.mount(point, "ext4", source)
    tree.mount(tmp_path / "a", "ext4", "/dev/over")
    tree.mount(f"{tmp_path}/a/bb", "ext4", "/dev/beside")

    assert known(tree.host().mount_of(folder)).source == "/dev/over"
    assert known(tree.host().mount_of(folder / "not" / "yet")).source == "/dev/over"


def test_slash_in_a_device_name_is_that_of_diskstats(tree: Tree) -> None:
    """/sys writes cciss!c0d0 for what /proc/diskstats calls cciss/c0d0."""
    tree.disks("cciss!c0d0 104:0")
    tree.write("sys/class/block/cciss!c0d0/size", "2048\n")
    tree.mount("/", "ext4", "/dev/cciss/c0d0", numbers="104:0")
    tree.numbers = (104, 0)

    assert tree.host().device_of("/tmp") == "cciss/c0d0"
    assert read_facts(tree.host(), "/tmp")["device.size_bytes"] == 2048 * 512


def test_read_ahead_is_that_of_the_device_with_the_file_system(tree: Tree) -> None:
    """A volume's own read-ahead is in force, not that of the disk below it."""
    tree.disks("sda 8:0", "dm-0 253:0 sda")
    tree.write("sys/class/block/sda/queue/read_ahead_kb", "128\n")
    tree.write("sys/class/block/dm-0/queue/read_ahead_kb", "4096\n")
    tree.write("sys/class/block/sda/queue/scheduler", "none [mq-deadline] bfq\n")
    tree.mount("/", "xfs", "/dev/dm-0", numbers="253:0")
    tree.numbers = (253, 0)

    facts = read_facts(tree.host(), "/tmp")

    assert facts["device.name"] == "sda"
    assert facts["device.stack"] == "dm-0 on sda"
    assert facts["device.read_ahead_kb"] == 4096
    assert facts["device.scheduler"] == "mq-deadline"


def test_read_ahead_of_btrfs_is_its_own(tree: Tree) -> None:
    """The kernel does not use that of the device, for the fact and for the factor alike."""
    tree.disks("sda 8:0", "sda/sda1 8:1", "sdb 8:16")
    for name in ("sda", "sdb"):
        tree.write(f"sys/class/block/{name}/queue/read_ahead_kb", "128\n")
    tree.write("sys/fs/btrfs/12-ef/devices/sda1/dev")
    tree.write("sys/fs/btrfs/12-ef/bdi/read_ahead_kb", "4096\n")
    tree.write("sys/fs/btrfs/features/free_space_tree", "1\n")
    tree.link("sys/block/sda", "../devices/pci/block/sda")
    tree.mount("/", "btrfs", "/dev/sda1")
    tree.numbers = (0, 31)
    place = factors.place_at(Path("/tmp"), "", tree.host())
    factor = factors.load("read_ahead_kb")

    assert read_facts(tree.host(), "/tmp")["device.read_ahead_kb"] == 4096
    assert (factor.unavailable(place), factor.current(place)) == ("", "4096")
    try:
        factor.set_level(place, "64")
        assert read_facts(tree.host(), "/tmp")["device.read_ahead_kb"] == 64
        assert tree.host().read("sys/class/block/sda/queue/read_ahead_kb") == "128"
    finally:
        for note in kernel_settings.own():
            kernel_settings.recover(note, tree.host())
    assert factor.current(place) == "4096"


def test_facts_of_a_new_kernel() -> None:
    """A recorded 6.18: what the issue asks for is there, from the right files."""
    host = recorded("proc-6.18")
    facts = read_facts(host)

    assert facts["kernel.release"] == "6.18.44"
    assert facts["kernel.preemption"] == "dynamic (lazy)"
    assert facts["os.name"] == "Debian GNU/Linux 12 (bookworm)"
    assert (facts["cpu.model"], facts["cpu.cores"], facts["cpu.threads"]) == ("AMD EPYC", 2, 2)
    assert facts["cpu.bogomips"] == 5192.24
    assert facts["memory.bytes"] == 24684084 * 1024
    assert facts["memory.transparent_huge_pages"] == "madvise"
    assert facts["kernel.mitigations.meltdown"] == "Not affected"
    assert facts["kernel.clocksource"] == "tsc"
    assert facts["virtualisation"] == "kvm"
    assert str(facts["boot.id"]).startswith("0c4a7e9d")
    assert facts["cgroup.version"] == "1 and 2"
    assert facts["cgroup.memory_limit_bytes"] == 8 << 30
    assert facts["cgroup.cpu_limit"] == 1.5
    assert host.usable_memory_bytes() == 8 << 30


@pytest.mark.parametrize(
    ("listed", "allowed"),
    [
        *(("0", "0"), ("0-1,3", "0-1,3"), ("0-3", "all"), ("0-127", "all"), ("", None)),
        # As many as there are, but two of them are offline.
        ("0-1,4-5", "0-1,4-5"),
    ],
)
def test_processors_that_may_not_be_used_are_told(
    tmp_path: Path, listed: str, allowed: str | None
) -> None:
    """A cpuset or taskset may leave fewer than there are."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "stat").write_text("cpu 1\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\n")
    (tmp_path / "proc" / "self" / "status").write_text(
        f"Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t{listed}\n"
    )

    assert read_facts(Host(tmp_path)).get("cpu.allowed") == allowed


@pytest.mark.parametrize("kernel", ["", "Hugetlb: 209715200 kB\n"], ids=["3.10", "4.19"])
def test_huge_pages_of_all_sizes_are_counted(tmp_path: Path, kernel: str) -> None:
    """200 pages of 1 GiB are not of the default size, which alone has lines of its number."""
    meminfo = "MemTotal: 400000000 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n"
    files = {"proc/meminfo": meminfo + kernel}
    for size, number in ((2048, 0), (1 << 20, 200)):
        files[f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{number}\n"
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    facts = read_facts(Host(tmp_path))
    (warning,) = (one for one in about(facts) if "huge pages" in one.found)

    assert (facts["memory.huge_pages"], facts["memory.huge_pages_bytes"]) == (0, 200 << 30)
    assert warning.found.startswith("200 GiB of memory are reserved")


@pytest.mark.parametrize("kernel", ["", "Hugetlb: 131072 kB\n"], ids=["3.10", "4.19"])
def test_huge_pages_of_the_default_size_are_counted_once(tmp_path: Path, kernel: str) -> None:
    """Their number and their size are facts already."""
    (tmp_path / "proc").mkdir()
    meminfo = "MemTotal: 4000000 kB\nHugePages_Total: 64\nHugepagesize: 2048 kB\n"
    (tmp_path / "proc/meminfo").write_text(meminfo + kernel)
    facts = read_facts(Host(tmp_path))

    assert facts["memory.huge_pages"] == 64
    assert "memory.huge_pages_bytes" not in facts


def test_facts_of_an_old_kernel_on_bare_metal() -> None:
    """A 3.10 as RHEL 7 has it: two sockets, governors that differ, no hypervisor."""
    facts = read_facts(recorded("proc-3.10"))

    assert (facts["cpu.sockets"], facts["cpu.cores"], facts["cpu.threads"]) == (2, 4, 4)
    assert facts["cpu.governor"] == "performance, powersave"
    assert facts["cpu.max_mhz"] == 3600
    assert facts["cpu.boost"] == "on"
    assert facts["cpu.numa_nodes"] == 2
    assert facts["kernel.preemption"] == "none or voluntary"
    assert facts["memory.huge_pages"] == 64
    assert facts["memory.swap_bytes"] == 4194300 * 1024
    assert facts["virtualisation"] == "none"
    assert facts["cgroup.version"] == "1"
    assert "cgroup.memory_limit_bytes" not in facts
    assert "memory.available_bytes" not in facts


def test_facts_of_a_guest_with_cgroup_limits() -> None:
    """Limits of cgroup v2 are the tightest on the way to the root, and VMware is named."""
    facts = read_facts(recorded("proc-5.4"))

    assert facts["virtualisation"] == "vmware"
    assert facts["kernel.preemption"] == "dynamic (voluntary)"
    assert facts["cgroup.version"] == "2"
    assert facts["cgroup.memory_limit_bytes"] == 4 << 30
    assert facts["cgroup.cpu_limit"] == 0.5
    assert facts["os.name"] == "Ubuntu 18.04.6 LTS"
    assert facts["host.load1"] == 3.89


def test_facts_hold_no_secret() -> None:
    """A value of the command line that looks secret is struck, and what is for init too."""
    line = str(read_facts(recorded("proc-6.18"))["kernel.cmdline"])

    assert "hunter" not in line
    assert "backup.token=(not shown)" in line
    assert line.endswith("quiet")


def test_facts_of_a_machine_without_any_files_are_none(tmp_path: Path) -> None:
    """Whatever is missing is absent: no fact, no exception."""
    host = Host(tmp_path)

    assert read_facts(host, tmp_path) == {}
    assert host.memory_bytes() == 0
    assert host.load() is None
    assert host.cgroup_version() == ""


@pytest.mark.parametrize(
    "garbage", [b"", b"\xff\xfe\x00", b"a:b:c\n" * 9, b"=\n:\n - \n", b"1 2 3"]
)
def test_facts_survive_any_content(tmp_path: Path, garbage: bytes) -> None:
    """A /proc that says anything at all gives facts or none, and never an exception."""
    for kernel in ("proc-6.18", "proc-5.4"):
        for path in (FIXTURES / kernel / "first").rglob("*"):
            target = tmp_path / path.relative_to(FIXTURES / kernel / "first")
            if path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(garbage)

    assert isinstance(read_facts(Host(tmp_path), tmp_path), dict)


def test_facts_of_this_machine() -> None:
    """On the real /proc the facts agree with what Python itself says."""
    facts = read_facts(Host(), "/")

    assert facts["kernel.release"] == os.uname().release
    assert facts["host.name"] == os.uname().nodename
    assert facts["memory.bytes"] == pytest.approx(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.01
    )
    assert facts["cpu.threads"] == os.cpu_count()


def test_a_container_is_proven_by_its_namespaces(tmp_path: Path) -> None:
    """An image for containers can be booted as a machine: its marker file alone proves nothing."""
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / ".dockerenv").touch()
    pid = tmp_path / "proc/self/ns/pid"

    pid.symlink_to("pid:[4026531836]")
    assert read_facts(Host(tmp_path))["container"] == "none"
    pid.unlink()
    pid.symlink_to("pid:[4026532217]")
    assert read_facts(Host(tmp_path))["container"] == "docker"
    (tmp_path / ".dockerenv").unlink()
    assert read_facts(Host(tmp_path))["container"] == "unnamed"


def test_bare_metal_of_a_cloud_is_no_guest(tmp_path: Path) -> None:
    """A processor that cannot say so itself is believed by the name of the machine's kind."""
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "sys_vendor").write_text("Amazon EC2\n")

    (dmi / "product_name").write_text("m7g.metal\n")
    assert read_facts(Host(tmp_path))["virtualisation"] == "none"
    (dmi / "product_name").write_text("m7g.large\n")
    assert read_facts(Host(tmp_path))["virtualisation"] == "kvm (Amazon EC2)"


def test_mount_points_are_unescaped() -> None:
    """The kernel writes a space in a path as an octal escape."""
    points = [mount.point for mount in recorded("proc-3.10").mounts()]

    assert "/mnt/with space" in points


def test_asking_whether_a_file_can_be_written_writes_nothing(tmp_path: Path) -> None:
    """The file is opened and closed: its content stays; the reason is the system's."""
    (tmp_path / "knob").write_text("23")
    host = Host(tmp_path)

    assert host.cannot_write("knob") == ""
    assert (tmp_path / "knob").read_text() == "23"
    assert host.cannot_write("not/there") == "No such file or directory"
