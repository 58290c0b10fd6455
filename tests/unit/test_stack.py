"""What files lie on: disks that are counted, memory, files, and what cannot be looked into."""

import os
from pathlib import Path

import pytest

from replayer.machine import extents, stack
from replayer.machine.stack import BackingFile, Stack
from tests.unit.test_host import Tree

VIRTUAL = "sys/devices/virtual/block"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a machine with one disk that has a partition, and ext4 on whatever is asked for."""
    made = Tree(tmp_path / "root")
    made.disks("sda 8:0", "sda/sda1 8:1")
    made.mount("/", "ext4", "/dev/root", numbers="8:1")
    return made


def on(tree: Tree, numbers: tuple[int, int], path: Path | str = "/tmp") -> Stack:
    """Return what a path is on whose file system is on the device of that number."""
    tree.numbers = numbers
    return stack.beneath(tree.host(), [path])


def test_a_partition_ends_in_its_disk(tree: Tree) -> None:
    """Whose reads are counted."""
    assert on(tree, (8, 1)) == Stack(frozenset({"sda"}))


def test_volumes_are_followed_to_every_disk(tree: Tree) -> None:
    """Dm over md over two disks: both."""
    tree.disks("sdb 8:16")
    tree.disks("md0 9:0 sda1 sdb", "dm-0 253:0 md0", under=VIRTUAL)

    assert on(tree, (253, 0)) == Stack(frozenset({"sda", "sdb"}))


@pytest.mark.parametrize(("device", "numbers"), [("zram0", (252, 0)), ("ram1", (1, 1))])
def test_a_volume_over_memory_ends_there(tree: Tree, device: str, numbers: tuple[int, int]) -> None:
    """Dm over zram, and dm over both: what is memory is named with all that lies above it."""
    shown = "{0} {1}:{2}", "dm-0 253:0 {0}", "dm-1 253:1 sda1 {0}"
    tree.disks(*(one.format(device, *numbers) for one in shown), under=VIRTUAL)

    assert on(tree, numbers) == Stack(memory=(device,))
    assert on(tree, (253, 0)) == Stack(memory=(f"dm-0 over {device}",))
    assert on(tree, (253, 1)) == Stack(frozenset({"sda"}), memory=(f"dm-1 over {device}",))


@pytest.mark.parametrize("device", ["nbd0", "zd0", "rbd1", "drbd0"])
def test_a_device_without_hardware_hides_what_is_behind_it(tree: Tree, device: str) -> None:
    """A network block device, a volume of ZFS: what its other end has in memory is not known."""
    tree.disks(f"{device} 43:0", under=VIRTUAL)

    assert on(tree, (43, 0)) == Stack(hidden=(device,))


@pytest.mark.parametrize(
    ("kind", "source"), [("nfs4", "host:/x"), ("virtiofs", "share"), ("fuse.sshfs", "host:/x")]
)
def test_a_file_system_without_a_device_hides_what_is_behind_it(
    tree: Tree, tmp_path: Path, kind: str, source: str
) -> None:
    """The other host of NFS has a page cache of its own."""
    tree.mount(tmp_path, kind, source)

    assert on(tree, (0, 50), tmp_path) == Stack(hidden=(kind,))


def test_a_file_system_on_several_devices_is_followed_on_all(tree: Tree, tmp_path: Path) -> None:
    """Btrfs over a disk and zram: the mount names one of them, /sys/fs/btrfs has both."""
    tree.disks("zram0 252:0", under=VIRTUAL)
    tree.mount(tmp_path, "btrfs", "/dev/sda1")
    for name in ("sda1", "zram0"):
        tree.write(f"sys/fs/btrfs/1234/devices/{name}/dev")

    assert on(tree, (0, 50), tmp_path) == Stack(frozenset({"sda"}), memory=("zram0",))


def test_a_loop_device_ends_in_its_file_and_what_that_is_on(tree: Tree, tmp_path: Path) -> None:
    """Offset and partition place the file system in the file; a second loop is not placed."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(8192))
    for name, numbers in (("loop0", "7:0"), ("loop1", "7:1")):
        folder = f"{VIRTUAL}/{name}"
        tree.disks(f"{name} {numbers}", under=VIRTUAL)
        tree.write(f"{folder}/loop/backing_file", f"{image}\n")
        tree.write(f"{folder}/loop/offset", "1024\n")
        tree.write(f"{folder}/size", "8\n")
    tree.disks("loop0/loop0p1 259:0", "dm-0 253:0 loop1", under=VIRTUAL)
    tree.write(f"{VIRTUAL}/loop0/loop0p1/start", "2")
    tree.mount(tmp_path, "tmpfs", "tmpfs", numbers="0:9")
    memory = (f"loop0 over {image} on tmpfs",)

    assert on(tree, (7, 0)) == Stack(memory=memory, files=(BackingFile(image, "loop0", 1024),))
    (placed,) = on(tree, (259, 0)).files
    assert placed.offset == 1024 + 2 * 512
    (unplaced,) = on(tree, (253, 0)).files
    assert (unplaced.device, unplaced.offset) == ("loop1", None)


@pytest.mark.parametrize("text", ["{image} (deleted)", "/no/such/file", "{small}"])
def test_a_file_beneath_a_loop_device_that_is_not_seen_is_hidden(
    tree: Tree, tmp_path: Path, text: str
) -> None:
    """Deleted, of another mount namespace, or another file that has its name here."""
    (tmp_path / "image").write_bytes(bytes(8192))
    (tmp_path / "small").write_bytes(bytes(512))
    folder = f"{VIRTUAL}/loop0"
    tree.disks("loop0 7:0", under=VIRTUAL)
    words = text.format(image=tmp_path / "image", small=tmp_path / "small")
    tree.write(f"{folder}/loop/backing_file", f"{words}\n")
    tree.write(f"{folder}/size", "8\n")

    assert on(tree, (7, 0)) == Stack(hidden=(f"loop0 over {words}",))


def test_extents_cover_the_data_of_a_file(server_home: Path) -> None:
    """As many bytes as are stored, in whole blocks; a hole has no place on the device."""
    path = server_home / "extents"
    with path.open("wb") as file:
        file.write(bytes(range(256)) * 64)
        file.seek(1 << 20)
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
        places = extents.on_device(file.fileno())
    path.unlink()
    if places is None:
        pytest.skip("this file system does not tell")

    assert sum(length for _, length in places) == 16384 + 4096
