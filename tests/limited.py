"""Limit a private server while a test runs; `from tests.limited import limited, slow_flushes`."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from replayer.machine.host import Host
from replayer.servers.open import Server

_CPU = Path("/sys/fs/cgroup/cpu")
_BLKIO = Path("/sys/fs/cgroup/blkio")
_PERIOD = 100_000
_SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real) real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
    usleep(%d);
    return real(fd);
}
"""


@contextlib.contextmanager
def limited(server: Server, *, cores: float | None = None, **io: int) -> Iterator[None]:
    """Keep a server's processes in cgroups of version 1, also those that it starts meanwhile.

    `cores` is a CPU quota; `read_iops`, `write_bps` and the like are limits of its data's disk.
    """
    if os.geteuid() or not (_CPU / "cpu.cfs_quota_us").parent.is_dir():
        pytest.skip("cgroups of version 1 cannot be made here")
    name = f"replayer-test-{os.getpid()}-{time.monotonic_ns():x}"
    groups = [folder / name for folder, asked in ((_CPU, cores), (_BLKIO, io)) if asked]
    stop = threading.Event()
    follower = threading.Thread(target=_follow, args=(server, groups, stop))
    try:
        for group in groups:
            group.mkdir()
        if cores:
            (_CPU / name / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (_CPU / name / "cpu.cfs_quota_us").write_text(str(round(cores * _PERIOD)))
        if io:
            _limit_disk(_BLKIO / name, server, io)
        follower.start()
        yield
    finally:
        stop.set()
        follower.join()
        for group in groups:
            dissolve(group)


def _limit_disk(group: Path, server: Server, limits: Mapping[str, int]) -> None:
    folder = server.data_directory()
    assert folder is not None
    device = Host().device_of(folder)
    number = Path(f"/sys/class/block/{device}/dev").read_text().strip()
    for limit, most in limits.items():
        file = group / f"blkio.throttle.{limit}_device"
        try:
            file.write_text(f"{number} {most}")
        except OSError as error:
            pytest.skip(f"{file.name} cannot be set here: {error}")


def _follow(server: Server, groups: Sequence[Path], stop: threading.Event) -> None:
    """Move whatever processes the server has, until told to stop."""
    while not stop.wait(0.05):
        with contextlib.suppress(OSError):
            members = {int(line) for line in (groups[0] / "cgroup.procs").read_text().split()}
            for pid in set(server.pids()) - members:
                for group in groups:
                    _move(pid, group)


def _move(pid: int | str, group: Path) -> None:
    # A session that ended in the meantime is nowhere.
    with contextlib.suppress(ProcessLookupError):
        (group / "cgroup.procs").write_text(str(pid))


def dissolve(group: Path) -> None:
    """Move the processes of a group to its parent, and remove it."""
    deadline = time.monotonic() + 300
    while group.is_dir():
        try:
            for pid in (group / "cgroup.procs").read_text().split():
                _move(pid, group.parent)
            group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} could not be removed"
            time.sleep(0.05)


def slow_flushes(folder: Path, seconds: float) -> Path:
    """Return the path of a library that makes every fdatasync of who preloads it so much slower."""
    source, library = folder / "slow.c", folder / "slow.so"
    source.write_text(_SLOW % round(seconds * 1e6))
    try:
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
        )
    except FileNotFoundError:
        pytest.skip("there is no C compiler (apt-get install gcc)")
    return library
