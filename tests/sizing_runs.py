"""Profiles made of a few figures, cages of cgroups, and `replayer size` run inside of them."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from replayer.machine.host import Host
from replayer.results import profile
from replayer.results.profile import ProfileSource, ResourceProfile, WorkingSet
from tests.command import COMMAND, Replayer

CPU = Path("/sys/fs/cgroup/cpu")
BLKIO = Path("/sys/fs/cgroup/blkio")
_PERIOD = 100_000
_MIB = 1 << 20


class Sized(NamedTuple):
    """What one call of `replayer size` came to."""

    status: int
    verdict: dict[str, Any]
    said: str
    """On stderr."""


def save_profile(
    path: Path, *, working_set: int | None = None, seconds: int = 120, **columns: float
) -> Path:
    """Write a profile whose columns are the same in every second, and return its path."""
    made = ResourceProfile(
        source=ProfileSource(kind="csv", place="made.csv", averaged_seconds=1, block_bytes=8192),
        ends=1_760_000_000 + np.arange(1, seconds + 1, dtype=float),
        spans=np.ones(seconds),
        columns={name: np.full(seconds, float(value)) for name, value in columns.items()},
        working_set=WorkingSet(bytes=working_set, method="told by the test")
        if working_set
        else None,
    )
    profile.save(path, made)
    return path


def of_cpu(path: Path, *, rate: float, cores: float) -> Path:
    """Write a profile of reads of one row that cost so many cores, and fit into the buffers."""
    return save_profile(
        path,
        working_set=64 * _MIB,
        commits=rate,
        statements=rate,
        blocks_hit=4 * rate,
        blocks_read=0.01 * rate,
        tuples_fetched=rate,
        tuples_inserted=0,
        tuples_updated=0,
        tuples_deleted=0,
        server_cpu_cores=cores,
        sessions_active=4,
    )


def of_reads(path: Path, *, rate: float) -> Path:
    """Write a profile of a device that was read so many times a second, as iostat knows it."""
    return save_profile(path, read_iops=rate, write_iops=0, read_mbps=rate * 8192 / 1e6,
                        write_mbps=0)  # fmt: skip


@contextlib.contextmanager
def caged(
    folder: Path, *, cores: float | None = None, read_iops: float | None = None
) -> Iterator[Sequence[str]]:
    """Yield what makes a command run in a cgroup of version 1 with such limits; `folder` is data's.

    Skips the test where there can be none.
    """
    if os.geteuid() or not (CPU / "cpu.cfs_quota_us").exists():
        pytest.skip("cgroups of version 1 cannot be made here")
    name = f"replayer-test-{os.getpid()}-{time.monotonic_ns():x}"
    groups = []
    try:
        if cores is not None:
            groups.append(_made(CPU / name))
            (groups[-1] / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (groups[-1] / "cpu.cfs_quota_us").write_text(str(round(cores * _PERIOD)))
        if read_iops is not None:
            groups.append(_made(BLKIO / name))
            device = Host().device_of(folder)
            number = Path(f"/sys/class/block/{device}/dev").read_text().strip()
            file = groups[-1] / "blkio.throttle.read_iops_device"
            file.write_text(f"{number} {round(read_iops)}")
        enter = "; ".join(f"echo $$ > {group}/cgroup.procs" for group in groups)
        yield ["sh", "-c", f'{enter}; exec "$@"', "sh"]
    finally:
        for group in groups:
            _removed(group)


def _made(group: Path) -> Path:
    group.mkdir()
    return group


def _removed(group: Path) -> None:
    deadline = time.monotonic() + 20
    while group.is_dir():
        try:
            group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} has processes that did not end"
            time.sleep(0.1)


def size(
    made: Path, folder: Path, *words: object, cage: Sequence[str] = (), data: str | None = "data"
) -> Sized:
    """Run `replayer size` on a profile with its data in a folder, and return what it came to."""
    where = ("--data-dir", folder / data) if data else ()
    ended = Replayer(folder).process(
        *("size", made, "--json", "--results", folder / "results", *where, *words),
        command=(*cage, *COMMAND),
        status=None,
        timeout=900,
    )
    verdict = json.loads(ended.out) if ended.out.strip() else {}
    return Sized(ended.status, verdict, ended.err)
