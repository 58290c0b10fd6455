"""Small file systems in memory or in a file, for tests of disks that are full or not disks."""

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(*options: str) -> Iterator[Path]:
    """Mount a small file system and yield its folder; skip where that is not allowed."""
    with tempfile.TemporaryDirectory(prefix="replayer-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        mount = ["mount", "-t", "tmpfs", "-o", ",".join(["mode=755", *options]), "none", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def disk_in_a_file(folder: Path) -> Iterator[Path]:
    """Mount an ext4 of 64 MiB in a file of `folder`; yield its folder, or skip."""
    file, mounted = folder / "disk.img", folder / "mounted"
    with file.open("wb") as disk:
        disk.truncate(64 << 20)
    mounted.mkdir()
    commands = ["mkfs.ext4", "-q", str(file)], ["mount", "-o", "loop", str(file), str(mounted)]
    try:
        if any(subprocess.run(c, check=False, capture_output=True).returncode for c in commands):
            pytest.skip("loop mounts are not allowed here")
    except FileNotFoundError:
        pytest.skip("there is no mkfs.ext4")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted], check=True)
