"""Limits of a process by its cgroups, on recorded trees of both versions."""

from collections.abc import Mapping
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


def usage(groups: Mapping[str, tuple[float, int]]) -> cgroups.CgroupUsage:
    """Return a reading of groups that limit reads: folder -> (most per second, reads so far)."""
    read = {
        (folder, "vda"): cgroups.LimitedGroup({"read_iops": most}, {"read_iops": reads})
        for folder, (most, reads) in groups.items()
    }
    return cgroups.CgroupUsage(groups=read)


@pytest.fixture(params=[V1, V2], ids=["version 1", "version 2"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Return a machine with a limited process 77 and a free one 78."""
    for path, text in request.param.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Host(tmp_path)


def test_tightest_limit_on_the_way_to_the_root_counts(host: Host) -> None:
    """Half a core and 500 reads a second of vda; the limits of another disk do not count."""
    assert cgroups.limits(host, 77, ["vda"]) == cgroups.CgroupLimits(cores=0.5, read_iops=500)
    assert cgroups.limits(host, 77, []) == cgroups.CgroupLimits(cores=0.5)
    assert cgroups.limits(host, 77, ["vdz"]) == cgroups.CgroupLimits(cores=0.5)


def test_process_without_limits_has_none(host: Host) -> None:
    """A process at the root is free, and nothing counts how often it was throttled."""
    assert cgroups.limits(host, 78, ["vda"]) == cgroups.CgroupLimits()
    assert cgroups.throttled(host, 78) is None
    assert cgroups.limits(host, 99, ["vda"]) == cgroups.CgroupLimits()


def test_a_disk_limit_of_a_group_above_is_in_force_in_version_2_only(host: Host) -> None:
    """In version 1 a group's limits of a disk are of its own processes alone, as its counts are."""
    above = host.cgroup_version() == "2"
    limits = cgroups.CgroupLimits(cores=0.5, read_iops=500 if above else None)
    group = cgroups.LimitedGroup({"read_iops": 500}, {"read_iops": 7})

    assert cgroups.limits(host, 79, ["vda"]) == limits
    counted = cgroups.account(host, 79, ["vda"])
    assert counted.throttled == cgroups.Throttled(40, 30, 1.5)
    assert counted.groups == ({("/sys/fs/cgroup/db", "vda"): group} if above else {})


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
    """Of the limited disk, and of what is limited there; nothing is counted without a limit."""
    throttled = cgroups.Throttled(40, 30, 1.5)
    counted = cgroups.account(host, 77, ["vda"])
    (group,) = counted.groups.values()

    assert counted.throttled == throttled
    assert group == cgroups.LimitedGroup({"read_iops": 500}, {"read_iops": 7})
    assert cgroups.account(host, 77, []) == cgroups.CgroupUsage(throttled)
    assert cgroups.account(host, 78, ["vda"]) == cgroups.CgroupUsage()


@pytest.mark.parametrize("none_yet", ["", "254:0 \n254:16 rbytes=1 wbytes=1 rios=1 wios=1\n"])
def test_a_disk_that_a_group_has_not_used_yet_has_counts_of_zero(host: Host, none_yet: str) -> None:
    """The kernel shows no counters before the group's first request; without a file none is known.

    So the first window on a disk has a share of the limit, too.
    """
    later = cgroups.account(host, 77, ["vda"])
    files = [path for name in ("io.stat", "blkio.*.io_serv*") for path in host.root.rglob(name)]
    for file in files:
        file.write_text(none_yet)
    before = cgroups.account(host, 77, ["vda"])
    for file in files:
        file.unlink()
    unknown = cgroups.account(host, 77, ["vda"])

    assert cgroups.disk_limit_shares(before, later, 1.0) == {"read_iops": 7 / 500}
    assert cgroups.disk_limit_shares(unknown, unknown, 1.0) == {}


def test_the_share_of_a_limit_is_that_of_its_own_count() -> None:
    """500 reads a second are allowed; it is unknown if the limit is not the same at both ends."""
    after, moved = (usage({"/db": (most, 1507)}) for most in (500.0, 400.0))
    before, free = usage({"/db": (500.0, 7)}), usage({})

    assert cgroups.disk_limit_shares(before, after, 4.0) == {"read_iops": 0.75}
    assert cgroups.disk_limit_shares(before, moved, 4.0) == {"read_iops": None}
    assert cgroups.disk_limit_shares(free, after, 4.0) == {"read_iops": None}
    assert cgroups.disk_limit_shares(free, free, 4.0) == {}
    # The counters of another group, which began later.
    assert cgroups.disk_limit_shares(after, before, 4.0) == {}


def test_of_nested_groups_the_one_counts_that_used_the_most_of_its_own_limit() -> None:
    """It need not be the lowest limit. If one of them was changed, the share is not known.

    So it is where the part of the process's own group is not known.
    """
    before = usage({"/slice/own": (2000, 0), "/slice": (1000, 0)})
    siblings = usage({"/slice/own": (2000, 4000), "/slice": (1000, 10_000)})
    ours = usage({"/slice/own": (2000, 19_000), "/slice": (3000, 19_000)})
    wide = usage({"/slice/own": (2000, 0), "/slice": (3000, 0)})

    assert cgroups.limit_uses(before, siblings, 10.0) == {"read_iops": (1000, 1000, None)}
    assert cgroups.limit_uses(wide, ours, 10.0) == {"read_iops": (1900, 2000, None)}
    assert cgroups.disk_limit_shares(before, ours, 10.0) == {"read_iops": None}


def test_each_limit_has_its_own_count(host: Host) -> None:
    """Requests and bytes, reads and writes: none has the count of another."""
    for file in host.root.rglob("db/io.max"):
        file.write_text("254:0 rbps=1 wbps=2 riops=3 wiops=4\n")
    for folder in host.root.rglob("db/inner"):
        for most, name in enumerate(("read_bps", "write_bps", "read_iops", "write_iops"), 1):
            (folder / f"blkio.throttle.{name}_device").write_text(f"254:0 {most}\n")

    (group,) = cgroups.account(host, 77, ["vda"]).groups.values()
    names = ("read_bytes", "write_bytes", "read_iops", "write_iops")
    assert group.limits == dict(zip(names, (1, 2, 3, 4), strict=True))
    assert group.used == dict(zip(names, (70, 80, 7, 8), strict=True))


@pytest.mark.parametrize(
    ("own_most", "most", "expected"),
    [
        (1000, 5000, (500, 1000, 500)),  # there is room for 500 more, and in the slice for 1,500
        (3000, 5000, (3500, 5000, 500)),
        (1000, 3600, (3500, 3600, 500)),
        (4000, None, (500, 4000, 500)),
    ],
)
def test_the_limit_counts_that_the_own_group_reaches_first(
    own_most: int, most: int | None, expected: tuple[float, ...]
) -> None:
    """It does 500 reads a second, and siblings in the slice 3,000, however much it does.

    The slice may have the larger share of its limit used and have more room all the same.
    """
    own = {"/slice/own": own_most}
    limits = own if most is None else {**own, "/slice": most}

    def read(ours: int, whole: int) -> cgroups.CgroupUsage:
        counts = {"/slice/own": ours, "/slice": whole}
        groups = usage({folder: (limit, counts[folder]) for folder, limit in limits.items()})
        own = {("vda", "read_iops"): cgroups.OwnCount("/slice/own", ours)}
        return replace(groups, own=own)

    before, after = read(7, 70), read(5007, 35_070)
    rates = {"/slice/own": 500, "/slice": 3500}
    largest = max(rates[folder] / limit for folder, limit in limits.items())
    assert cgroups.limit_uses(before, after, 10.0) == {"read_iops": expected}
    assert cgroups.disk_limit_shares(before, after, 10.0) == {"read_iops": pytest.approx(largest)}


@pytest.mark.parametrize("names", [("/a", "/b", "/c"), ("/c", "/b", "/a"), ("/b", "/c", "/a")])
def test_of_equal_shares_the_lowest_limit_counts(names: tuple[str, ...]) -> None:
    """A load that writes nothing uses 0 of each of several limits of writes."""
    unused = usage({name: ({"/a": 5000, "/b": 1000, "/c": 3000}[name], 7) for name in names})

    assert cgroups.limit_uses(unused, unused, 10.0) == {"read_iops": (0, 1000, None)}


@pytest.mark.parametrize("own_limit", [2000, None])
def test_the_limit_of_a_slice_is_used_by_all_groups_below_it(
    tmp_path: Path, own_limit: int | None
) -> None:
    """The own group did 400 of the 1,000 reads a second that are allowed, a sibling the rest.

    Whether the own group has a limit, too, makes no difference.
    """
    files = {**V2, "proc/77/cgroup": "0::/slice/own\n", "proc/78/cgroup": "0::/slice/new\n"}

    def counted(own: int, whole: int, process: int = 77) -> cgroups.CgroupUsage:
        groups = (("own", own_limit, own), ("new", None, own), ("", 1000, whole))
        for folder, most, reads in groups:
            limit = f"254:0 riops={most}\n" if most else ""
            files[f"sys/fs/cgroup/slice/{folder}/io.max"] = limit
            files[f"sys/fs/cgroup/slice/{folder}/io.stat"] = f"254:0 rbytes=1 rios={reads}\n"
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return cgroups.account(Host(tmp_path), process, ["vda"])

    before, after = counted(50, 50), counted(4050, 10_050)
    moved, new = (counted(own, 10_050, process) for own, process in ((4050, 78), (0, 77)))
    assert cgroups.disk_limit_shares(before, after, 10.0) == {"read_iops": 1.0}
    assert cgroups.limit_uses(before, after, 10.0)["read_iops"] == (1000, 1000, 400)
    # Counts of different groups, or of a group that was made again, show no growth.
    for last in (moved, new) if own_limit is None else ():
        assert cgroups.limit_uses(before, last, 10.0)["read_iops"] == (1000, 1000, None)


def test_a_limit_of_a_device_above_the_disk_is_in_force(tmp_path: Path) -> None:
    """As of an LVM volume; each device has its own limits, and its own counts."""
    disk = "254:0 rbps=max wbps=max riops=max wiops=7\n"
    files = {
        **V2,
        "sys/class/block/dm-0/dev": "253:0\n",
        "sys/fs/cgroup/db/io.max": f"{disk}253:0 rbps=max wbps=max riops=1000 wiops=9\n",
        "sys/fs/cgroup/db/io.stat": "254:0 rios=7 wios=8\n253:0 rios=5 wios=6\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    host = Host(tmp_path)

    limits = cgroups.limits(host, 77, ["dm-0", "vda"])
    assert (limits.read_iops, limits.write_iops) == (1000, 7)
    assert cgroups.account(host, 77, ["dm-0", "vda"]).groups == {
        ("/sys/fs/cgroup/db", "dm-0"): cgroups.LimitedGroup(
            {"read_iops": 1000, "write_iops": 9}, {"read_iops": 5, "write_iops": 6}
        ),
        ("/sys/fs/cgroup/db", "vda"): cgroups.LimitedGroup({"write_iops": 7}, {"write_iops": 8}),
    }
