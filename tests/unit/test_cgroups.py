"""Limits of a process by its cgroups, on recorded trees of both versions."""

from dataclasses import replace
from pathlib import Path

import pytest

from replayer.machine import cgroups
from replayer.machine.host import Host

V1 = {
    "proc/77/cgroup": "7:blkio:/db/inner\n1:cpu,cpuacct:/db\n0::/\n",
    "proc/78/cgroup": "7:blkio:/\n1:cpu,cpuacct:/\n0::/\n",
    "proc/79/cgroup": "7:blkio:/db/inner/deep\n1:cpu,cpuacct:/db/deep\n0::/\n",
    "proc/self/mountinfo": (
        "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "36 25 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
        "41 25 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    ),
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/db/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/db/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/db/cpu.stat": "nr_periods 40\nnr_throttled 30\nthrottled_time 1500000000\n",
    "sys/fs/cgroup/blkio/blkio.throttle.read_iops_device": "",
    "sys/fs/cgroup/blkio/db/blkio.throttle.read_iops_device": "254:0 900\n",
    "sys/fs/cgroup/blkio/db/blkio.throttle.write_bps_device": "254:16 1000000\n",
    "sys/fs/cgroup/blkio/db/inner/blkio.throttle.read_iops_device": "254:16 10\n254:0 500\n",
    "sys/fs/cgroup/blkio/db/inner/blkio.throttle.io_serviced": (
        "254:0 Read 7\n254:0 Write 8\n254:16 Read 1\nTotal 16\n"
    ),
    "sys/fs/cgroup/blkio/db/inner/blkio.throttle.io_service_bytes": (
        "254:0 Read 70\n254:0 Write 80\n254:16 Read 1\nTotal 151\n"
    ),
    "sys/class/block/vda/dev": "254:0\n",
}
V2 = {
    "proc/77/cgroup": "0::/db\n",
    "proc/78/cgroup": "0::/\n",
    "proc/79/cgroup": "0::/db/deep\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "sys/fs/cgroup/db/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/db/cpu.stat": (
        "usage_usec 9\nnr_periods 40\nnr_throttled 30\nthrottled_usec 1500000\n"
    ),
    "sys/fs/cgroup/db/io.max": (
        "254:0 rbps=max wbps=max riops=500 wiops=max\n254:16 rbps=5 wbps=1000000 riops=5 wiops=5\n"
    ),
    "sys/fs/cgroup/db/io.stat": "254:0 rbytes=70 wbytes=80 rios=7 wios=8 dbytes=0 dios=0\n",
    "sys/class/block/vda/dev": "254:0\n",
}


@pytest.fixture(params=[V1, V2], ids=["version 1", "version 2"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Return a machine with a limited process 77 and a free one 78."""
    for path, text in request.param.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Host(tmp_path)


def test_tightest_limit_on_the_way_to_the_root_counts(host: Host) -> None:
    """Half a core and 500 reads a second of vda; the limits of another disk do not count."""
    assert cgroups.limits(host, 77, "vda") == cgroups.CgroupLimits(cores=0.5, read_iops=500)
    assert cgroups.limits(host, 77, None) == cgroups.CgroupLimits(cores=0.5)
    assert cgroups.limits(host, 77, "vdz") == cgroups.CgroupLimits(cores=0.5)


def test_process_without_limits_has_none(host: Host) -> None:
    """A process at the root is free, and nothing counts how often it was throttled."""
    assert cgroups.limits(host, 78, "vda") == cgroups.CgroupLimits()
    assert cgroups.throttled(host, 78) is None
    assert cgroups.limits(host, 99, "vda") == cgroups.CgroupLimits()


def test_a_disk_limit_of_a_group_above_is_in_force_in_version_2_only(host: Host) -> None:
    """In version 1 a group's limits of a disk are of its own processes alone, as its counts are."""
    above = host.cgroup_version() == "2"
    limits = cgroups.CgroupLimits(cores=0.5, read_iops=500 if above else None)
    served = (7, 8, 70, 80) if above else (None,) * 4

    assert cgroups.limits(host, 79, "vda") == limits
    throttled = cgroups.Throttled(40, 30, 1.5)
    assert cgroups.account(host, 79, "vda") == cgroups.CgroupUsage(limits, throttled, *served)


def test_throttling_is_counted(host: Host) -> None:
    """Both versions count periods; one counts nanoseconds, the other microseconds."""
    assert cgroups.throttled(host, 77) == cgroups.Throttled(40, 30, 1.5)


def test_throttling_is_counted_for_the_groups_of_all_processes(host: Host) -> None:
    """Also of a group whose quota is gone; a process that has ended has none."""
    (folder,) = {folder for _, folder in host.cpu_quotas(77)}
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        (host.path(folder) / name).unlink(missing_ok=True)

    counted = cgroups.throttled_groups(host, [77, 78, 99])
    assert counted == {folder: cgroups.Throttled(40, 30, 1.5)}


def test_what_a_limited_group_had_is_counted(host: Host) -> None:
    """Reads, writes and their bytes of the limited disk; nothing is counted without a limit."""
    throttled = cgroups.Throttled(40, 30, 1.5)
    limits, cores, free = (
        cgroups.limits(host, *of) for of in ((77, "vda"), (77, None), (78, None))
    )
    none = (None, None, None, None)

    assert cgroups.account(host, 77, "vda") == cgroups.CgroupUsage(limits, throttled, 7, 8, 70, 80)
    assert cgroups.account(host, 77, None) == cgroups.CgroupUsage(cores, throttled, *none)
    assert cgroups.account(host, 78, "vda") == cgroups.CgroupUsage(free, None, *none)


@pytest.mark.parametrize("none_yet", ["", "254:0 \n254:16 rbytes=1 wbytes=1 rios=1 wios=1\n"])
def test_a_disk_that_a_group_has_not_used_yet_has_counts_of_zero(host: Host, none_yet: str) -> None:
    """The kernel shows no counters before the group's first request; without a file none is known.

    So the first window on a disk has a share of the limit, too.
    """
    later = cgroups.account(host, 77, "vda")
    files = [path for name in ("io.stat", "blkio.*.io_serv*") for path in host.root.rglob(name)]
    for file in files:
        file.write_text(none_yet)
    before = cgroups.account(host, 77, "vda")
    for file in files:
        file.unlink()
    unknown = cgroups.account(host, 77, "vda")

    assert cgroups.disk_limit_shares(before, later, 1.0) == {"read_iops": 7 / 500}
    assert cgroups.disk_limit_shares(unknown, unknown, 1.0) == {}


def test_the_share_of_a_limit_is_that_of_its_own_count(host: Host) -> None:
    """500 reads a second are allowed; it is unknown if the limit is not the same at both ends."""
    before = cgroups.account(host, 77, "vda")
    after = replace(before, reads=1507, writes=99, read_bytes=1 << 30)
    moved = replace(after, limits=replace(after.limits, read_iops=400.0))
    free = replace(before, limits=cgroups.CgroupLimits())

    assert cgroups.disk_limit_shares(before, after, 4.0) == {"read_iops": 0.75}
    assert cgroups.disk_limit_shares(before, moved, 4.0) == {"read_iops": None}
    assert cgroups.disk_limit_shares(free, after, 4.0) == {"read_iops": None}
    assert cgroups.disk_limit_shares(free, free, 4.0) == {}
    # The counters of another group, which began later.
    assert cgroups.disk_limit_shares(after, before, 4.0) == {}
