"""Small file systems in memory, for tests of disks that are full."""

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
