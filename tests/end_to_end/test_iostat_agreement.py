"""What the sampler says beside iostat, vmstat and mpstat: the same, to 3 percent."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.collectors import Sample, diskstats
from replayer.engines import engine as engines
from replayer.machine.host import Host
from replayer.model import Series
from replayer.results.profile import ResourceProfile
from replayer.servers.open import Server
from replayer.sizing import source
from replayer.watch.sampler import Sampler
from tests.conftest import missing

SECONDS = 4
ENVIRONMENT = {"LC_ALL": "C", "PATH": f"{os.defpath}:/usr/sbin:/sbin"}
ATTEMPTS = 4
LOAD = """
import mmap, os, random, sys, time
blocks = 2048
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
buffer = mmap.mmap(-1, 65536)
for number in range(blocks * 16384 // 65536):
    os.pwritev(fd, [buffer], number * 65536)
small = memoryview(buffer)[:16384]
print("ready", flush=True)
number = 0
while True:
    os.preadv(fd, [small], random.randrange(blocks) * 16384)
    number += 1
    if number % 4 == 0:
        os.pwritev(fd, [buffer], random.randrange(blocks // 4) * 65536)
    sum(range(20000))
    time.sleep(0.001)
"""


Values = Mapping[str, float]
Apart = dict[str, tuple[float, float]]


@pytest.fixture
def device(tmp_path: Path) -> str:
    """Return the disk of the test's folder, or skip."""
    found = Host().device_of(tmp_path)
    if found is None:
        pytest.skip("the test's folder is on no disk that has a line in /proc/diskstats")
    return found


@pytest.fixture
def load(tmp_path: Path) -> Iterator[None]:
    """Read and write the disk steadily for as long as the test takes."""
    command = [sys.executable, "-c", LOAD, str(tmp_path / "load.dat")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                pytest.skip("the test's folder takes no O_DIRECT")
            yield
        finally:
            child.kill()


def needs(program: str) -> None:
    """Skip where a program of another package is missing."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def beside(device: str, *commands: Sequence[str]) -> tuple[list[str], Series]:
    """Run commands that watch the machine; return what they print, and our series meanwhile."""
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    with Sampler(Host(), device) as sampler, contextlib.ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(command, **how)) for command in commands]
        begin = sampler.mark()
        printed = [child.communicate(timeout=60)[0] for child in started]
        return printed, sampler.series(begin, sampler.mark())


def known(series: Series, column: str) -> list[float]:
    """Return a column of which every interval could be read."""
    values = [value for value in series.columns[column] if value is not None]
    assert len(values) == len(series.seconds)
    return values


def mean(series: Series, column: str, weights: str | None = None) -> float:
    """Return a column's mean, weighted by the intervals' lengths and by another column's rate."""
    begins = (0, *series.seconds[:-1])
    lengths = [end - begin for begin, end in zip(begins, series.seconds, strict=True)]
    rates = known(series, weights) if weights else [1.0] * len(lengths)
    shares = [length * rate for length, rate in zip(lengths, rates, strict=True)]
    values = known(series, column)
    return sum(v * s for v, s in zip(values, shares, strict=True)) / sum(shares)


def apart(theirs: Values, ours: Values, *, rounded: float) -> Apart:
    """Return the values that differ by more than 3 percent and what theirs are rounded to."""
    return {
        name: (theirs[name], ours[name])
        for name in ours
        if abs(theirs[name] - ours[name]) > 0.03 * abs(theirs[name]) + rounded
    }


def agree(measure: Callable[[], Mapping[str, object]]) -> None:
    """Demand agreement in one of a few windows: theirs and ours begin some 10 ms apart."""
    found = []
    for _ in range(ATTEMPTS):
        differences = measure()
        if not differences:
            return
        found.append(differences)
    pytest.fail(f"theirs and ours differ: {found}")


def disk(printed: str) -> dict[str, Any]:
    """Return the one disk of iostat's one report."""
    (report,) = json.loads(printed)["sysstat"]["hosts"][0]["statistics"]
    (found,) = report["disk"]
    assert isinstance(found, dict)
    return found


FAKED = """
mount --make-rprivate /
mount --bind "$1" "$2"
exec iostat -x -y -o JSON "$3" 1 1
"""
"""Have iostat read a pipe, which tells it as often as it asks what a disk has done."""


def wait_until_unread(pipe: Path) -> None:
    """Wait until nobody has a pipe open to read."""
    while True:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return
        time.sleep(0.01)


@pytest.mark.root
def test_of_the_same_counters_iostat_makes_the_same_numbers(device: str, tmp_path: Path) -> None:
    """Given the same two copies of a disk's counters both say the same, but for the clock."""
    needs("iostat")
    if os.geteuid():
        missing("root", "without it iostat cannot be shown other counters")
    pipe = tmp_path / "stat"
    os.mkfifo(pipe)
    first = [7_000, 300, 280_000, 4_000, 9_000, 800, 410_000, 7_000, 0, 9_000, 11_000]
    moved = [1_000, 50, 16_000, 700, 200, 30, 12_800, 900, 0, 400, 1_600]
    copies = [first, [sum(pair) for pair in zip(first, moved, strict=True)]]
    stat = Path(f"/sys/class/block/{device}/stat").resolve()
    command = ["unshare", "-m", "sh", "-c", FAKED, "sh", str(pipe), str(stat), device]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        for copy in copies:
            pipe.write_text(" ".join(map(str, copy)) + "\n")
            wait_until_unread(pipe)
        printed, _ = child.communicate()
    theirs = disk(printed)

    # It reads a clock that is not faked: the seconds are those that make its reads a second ours.
    times = [0, round(moved[0] / theirs["r/s"] * 1e9)]
    samples = [
        Sample(time, (" ".join(map(str, [254, 0, device, *copy])).encode(),))
        for time, copy in zip(times, copies, strict=True)
    ]
    columns = diskstats.parse(samples, device)
    ours = {name: columns[name][0] for name in ("w/s", "rkB/s", "wkB/s", "rrqm/s", "aqu-sz")}
    ours |= {name: columns[name][0] for name in ("r_await", "w_await", "rareq-sz", "wareq-sz")}
    ours["util"] = columns["%util"][0]
    assert theirs["r/s"] > 0
    assert apart(theirs, ours, rounded=0.011) == {}


@pytest.mark.quiet
def test_diskstats_agrees_with_iostat(device: str, load: None) -> None:
    """`iostat -x` over the same seconds shows the same rates, sizes, waits and utilisation."""
    needs("iostat")
    long = ["iostat", "-x", "-y", "-o", "JSON", device, str(SECONDS), "1"]
    short = ["iostat", "-s", *long[1:]]

    def measure() -> Mapping[str, object]:
        printed, series = beside(device, long, short)
        theirs = disk(printed[0]) | {"areq-sz": disk(printed[1])["areq-sz"]}
        ours = {
            name: mean(series, f"diskstats.{name}")
            for name in ("r/s", "w/s", "rkB/s", "wkB/s", "aqu-sz")
        }
        ours["util"] = mean(series, "diskstats.%util")
        for kind in "rw":
            for name in (f"{kind}_await", f"{kind}areq-sz"):
                ours[name] = mean(series, f"diskstats.{name}", f"diskstats.{kind}/s")
        ours["areq-sz"] = mean(series, "diskstats.areq-sz", "diskstats.r/s")
        assert theirs["r/s"] > 50
        assert theirs["w/s"] > 10
        return apart(theirs, ours, rounded=0.011)

    agree(measure)


@pytest.mark.quiet
def test_vmstat_agrees_with_vmstat(device: str, load: None) -> None:
    """`vmstat` over the same seconds shows the same interrupts, switches, blocks and shares."""
    needs("vmstat")

    def measure() -> Mapping[str, object]:
        (printed,), series = beside(device, ["vmstat", str(SECONDS), "2"])
        names, *rows = [line.split() for line in printed.splitlines()[1:]]
        theirs = dict(zip(names, map(int, rows[-1]), strict=True))
        # They print whole numbers, and whole percents of ticks of 10 ms.
        ours = {name: mean(series, f"vmstat.{name}") for name in theirs if name in RATES}
        assert len(ours) == len(RATES)
        return apart(theirs, ours, rounded=1)

    agree(measure)


RATES = ("in", "cs", "bi", "bo", "si", "so", "us", "sy", "id", "wa", "st")


@pytest.mark.quiet
def test_memory_agrees_with_vmstat(device: str) -> None:
    """`vmstat` between two marks shows memory as it was at one of them, or between."""
    needs("vmstat")

    def measure() -> Mapping[str, object]:
        with Sampler(Host(), device) as sampler:
            before = sampler.series(sampler.mark(), sampler.mark())
            (printed,), after = beside(device, ["vmstat"])
        names, values = [line.split() for line in printed.splitlines()[1:]]
        theirs = dict(zip(names, map(int, values), strict=True))
        found = {}
        for name in ("swpd", "free", "buff", "cache"):
            ours = [known(series, f"vmstat.{name}")[-1] for series in (before, after)]
            if not 0.97 * min(ours) - 1 <= theirs[name] <= 1.03 * max(ours) + 1:
                found[name] = (theirs[name], ours)
        return found

    agree(measure)


@pytest.mark.quiet
def test_cpu_agrees_with_mpstat(device: str, load: None) -> None:
    """`mpstat` over the same seconds shows the same shares of processor time."""
    needs("mpstat")

    def measure() -> Mapping[str, object]:
        (printed,), series = beside(device, ["mpstat", "-o", "JSON", str(SECONDS), "1"])
        (report,) = json.loads(printed)["sysstat"]["hosts"][0]["statistics"]
        (theirs,) = report["cpu-load"]
        columns = {name: f"cpu.%{name}" for name in theirs if f"cpu.%{name}" in series.columns}
        assert len(columns) >= 8
        ours = {name: mean(series, column) for name, column in columns.items()}
        return apart(theirs, ours, rounded=0.5)

    agree(measure)


@pytest.fixture
def watch(server: Server, device: str) -> Iterator[source.Watch]:
    """Return the private server's profiler, with rows that are short beside iostat's one."""
    url = server.start().set(drivername="postgresql").render_as_string(hide_password=False)
    one = source.Watch(source.ProfileRequest(engines.of_url(url), url, 3.0 * SECONDS + 6, 0.1))
    if one.source.device != device:
        pytest.skip("the test's folder and the server's data are on two disks")
    yield one
    one.close()


def between(profile: ResourceProfile, column: str, begin: float, end: float) -> float:
    """Return a column's mean from one time to another, of which rows may have a part."""
    starts = profile.ends - profile.spans
    shares = np.minimum(profile.ends, end) - np.maximum(starts, begin)
    within = shares > 0
    assert shares[within].sum() == pytest.approx(end - begin, rel=0.01)
    return float((profile.column(column) * shares)[within].sum() / shares[within].sum())


@pytest.mark.quiet
def test_a_profile_agrees_with_iostat_and_vmstat(
    device: str, load: None, server: Server, watch: source.Watch
) -> None:
    """What a profile says of the source's machine is what both say of the same seconds."""
    needs("iostat")
    needs("vmstat")
    rows = threading.Thread(target=lambda: list(watch.run()))
    rows.start()
    windows = []
    time.sleep(1.5)
    long = ["iostat", "-x", "-y", "-o", "JSON", device, str(SECONDS), "1"]
    for _ in range(3):
        begin = time.time()
        printed, _ = beside(device, long, ["vmstat", str(SECONDS), "2"])
        windows.append((begin, begin + SECONDS, printed))
    rows.join()
    profile = watch.unsaved()

    differences = [_compared(profile, *one) for one in windows]
    assert not all(differences), differences


def _compared(profile: ResourceProfile, begin: float, end: float, printed: Sequence[str]) -> Apart:
    """Return what differs between a profile, iostat and vmstat by more than 3 percent."""
    theirs = disk(printed[0])
    names, *lines = [line.split() for line in printed[1].splitlines()[1:]]
    shown = dict(zip(names, map(int, lines[-1]), strict=True))
    mean = {name: between(profile, name, begin, end) for name in COLUMNS}
    cores = profile.source.cores
    assert cores is not None
    ours = {
        "r/s": mean["read_iops"],
        "w/s": mean["write_iops"],
        "rkB/s": mean["read_mbps"] * 1e6 / 1024,
        "wkB/s": mean["write_mbps"] * 1e6 / 1024,
        "aqu-sz": mean["queue_depth"],
    }
    shares = {"us": "cpu_user", "sy": "cpu_system", "st": "cpu_steal", "wa": "cpu_iowait"}
    processors = {name: 100 * mean[column] / cores for name, column in shares.items()}
    blocks = {"bi": ours["rkB/s"], "bo": ours["wkB/s"]}
    assert theirs["r/s"] > 50
    return apart(theirs, ours, rounded=0.011) | apart(shown, processors | blocks, rounded=1)


COLUMNS = (
    *("read_iops", "write_iops", "read_mbps", "write_mbps", "queue_depth"),
    *("cpu_user", "cpu_system", "cpu_steal", "cpu_iowait"),
)
