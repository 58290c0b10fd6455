"""What the sampler says beside iostat, vmstat and mpstat: the same, to 3 percent."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from replayer.engines import engine as engines
from replayer.machine.host import Host
from replayer.sizing import source
from replayer.watch.sampler import Sampler

pytestmark = pytest.mark.alone

SECONDS = 4
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


@pytest.fixture
def device(tmp_path):
    """Return the disk of the test's folder, or skip."""
    found = Host().device_of(tmp_path)
    if found is None:
        pytest.skip("the test's folder is on no disk that has a line in /proc/diskstats")
    return found


@pytest.fixture
def load(tmp_path):
    """Read and write the disk steadily for as long as the test takes."""
    command = [sys.executable, "-c", LOAD, str(tmp_path / "load.dat")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            if child.stdout.readline() != "ready\n":
                pytest.skip("the test's folder takes no O_DIRECT")
            yield
        finally:
            child.kill()


def needs(program):
    """Skip where a program of another package is missing."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def beside(device, *commands):
    """Run commands that watch the machine; return what they print, and our series meanwhile."""
    how = {"stdout": subprocess.PIPE, "text": True, "env": {"LC_ALL": "C", "PATH": os.defpath}}
    with Sampler(Host(), device) as sampler, contextlib.ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(command, **how)) for command in commands]
        begin = sampler.mark()
        printed = [child.communicate(timeout=60)[0] for child in started]
        return printed, sampler.series(begin, sampler.mark())


def mean(series, column, weights=None):
    """Return a column's mean, weighted by the intervals' lengths and by another column's rate."""
    begins = (0, *series.seconds[:-1])
    lengths = [end - begin for begin, end in zip(begins, series.seconds, strict=True)]
    rates = series.columns[weights] if weights else [1] * len(lengths)
    shares = [length * rate for length, rate in zip(lengths, rates, strict=True)]
    values = series.columns[column]
    return sum(v * s for v, s in zip(values, shares, strict=True)) / sum(shares)


def apart(theirs, ours, *, rounded):
    """Return the values that differ by more than 3 percent and what theirs are rounded to."""
    return {
        name: (theirs[name], ours[name])
        for name in ours
        if abs(theirs[name] - ours[name]) > 0.03 * abs(theirs[name]) + rounded
    }


def agree(measure):
    """Demand agreement in one of a few windows: theirs and ours begin some 10 ms apart."""
    found = []
    for _ in range(ATTEMPTS):
        differences = measure()
        if not differences:
            return
        found.append(differences)
    pytest.fail(f"theirs and ours differ: {found}")


def disk(printed):
    """Return the one disk of iostat's one report."""
    (report,) = json.loads(printed)["sysstat"]["hosts"][0]["statistics"]
    (found,) = report["disk"]
    return found


def test_diskstats_agrees_with_iostat(device, load):
    """`iostat -x` over the same seconds shows the same rates, sizes, waits and utilisation."""
    needs("iostat")
    long = ["iostat", "-x", "-y", "-o", "JSON", device, str(SECONDS), "1"]
    short = ["iostat", "-s", *long[1:]]

    def measure():
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


@pytest.mark.slow
def test_vmstat_agrees_with_vmstat(device, load):
    """`vmstat` over the same seconds shows the same interrupts, switches, blocks and shares."""
    needs("vmstat")

    def measure():
        (printed,), series = beside(device, ["vmstat", str(SECONDS), "2"])
        names, *rows = [line.split() for line in printed.splitlines()[1:]]
        theirs = dict(zip(names, map(int, rows[-1]), strict=True))
        # They print whole numbers, and whole percents of ticks of 10 ms.
        ours = {name: mean(series, f"vmstat.{name}") for name in theirs if name in RATES}
        assert len(ours) == len(RATES)
        return apart(theirs, ours, rounded=1)

    agree(measure)


RATES = ("in", "cs", "bi", "bo", "si", "so", "us", "sy", "id", "wa", "st")


def test_memory_agrees_with_vmstat(device):
    """`vmstat` between two marks shows memory as it was at one of them, or between."""
    needs("vmstat")

    def measure():
        with Sampler(Host(), device) as sampler:
            marks = [sampler.mark(), sampler.mark()]
            before = sampler.series(*marks)
            (printed,), after = beside(device, ["vmstat"])
        names, values = [line.split() for line in printed.splitlines()[1:]]
        theirs = dict(zip(names, map(int, values), strict=True))
        found = {}
        for name in ("swpd", "free", "buff", "cache"):
            ours = [series.columns[f"vmstat.{name}"][-1] for series in (before, after)]
            if not 0.97 * min(ours) - 1 <= theirs[name] <= 1.03 * max(ours) + 1:
                found[name] = (theirs[name], ours)
        return found

    agree(measure)


def test_cpu_agrees_with_mpstat(device, load):
    """`mpstat` over the same seconds shows the same shares of processor time."""
    needs("mpstat")

    def measure():
        (printed,), series = beside(device, ["mpstat", "-o", "JSON", str(SECONDS), "1"])
        (report,) = json.loads(printed)["sysstat"]["hosts"][0]["statistics"]
        (theirs,) = report["cpu-load"]
        columns = {name: f"cpu.%{name}" for name in theirs if f"cpu.%{name}" in series.columns}
        assert len(columns) >= 8
        ours = {name: mean(series, column) for name, column in columns.items()}
        return apart(theirs, ours, rounded=0.5)

    agree(measure)


@pytest.fixture
def watch(server, device):
    """Return the private server's profiler, with rows that are short beside iostat's one."""
    url = server.start().set(drivername="postgresql").render_as_string(hide_password=False)
    one = source.Watch(source.Order(engines.of_url(url), url, 3.0 * SECONDS + 6, 0.1))
    if one.source.device != device:
        pytest.skip("the test's folder and the server's data are on two disks")
    yield one
    one.close()


def between(profile, column, begin, end):
    """Return a column's mean from one time to another, of which rows may have a part."""
    starts = profile.ends - profile.spans
    shares = np.minimum(profile.ends, end) - np.maximum(starts, begin)
    within = shares > 0
    assert shares[within].sum() == pytest.approx(end - begin, rel=0.01)
    return float((profile.column(column) * shares)[within].sum() / shares[within].sum())


@pytest.mark.slow
def test_a_profile_agrees_with_iostat_and_vmstat(device, load, server, watch):
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


def _compared(profile, begin, end, printed):
    """Return what differs between a profile, iostat and vmstat by more than 3 percent."""
    theirs = disk(printed[0])
    names, *lines = [line.split() for line in printed[1].splitlines()[1:]]
    shown = dict(zip(names, map(int, lines[-1]), strict=True))
    mean = {name: between(profile, name, begin, end) for name in COLUMNS}
    cores = profile.source.cores
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
