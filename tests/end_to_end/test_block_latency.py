"""bpftrace beside real requests: every sixteenth is timed, and no second outside of the window."""

import mmap
import os
import random
import shutil
import time

import pytest

from replayer.collectors import Scene, block_latency
from replayer.errors import ReplayerError, Skip
from replayer.machine.host import Host
from replayer.run import watching
from tests.conftest import missing

pytestmark = [pytest.mark.root, pytest.mark.alone]


@pytest.fixture
def readings(tmp_path):
    """Return a function that reads a file around the page cache for a while, and how often."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(32 << 20))
    buffer = mmap.mmap(-1, 4096)
    draw = random.Random(7)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.fsync(descriptor)

    def read(seconds):
        end = time.monotonic() + seconds
        times = 0
        while time.monotonic() < end:
            os.preadv(descriptor, [buffer], 4096 * draw.randrange(8192))
            times += 1
        return times

    yield read
    os.close(descriptor)


def test_requests_are_timed_by_second(tmp_path, readings):
    """About a sixteenth of the reads is timed, in whole seconds of the window."""
    if shutil.which("bpftrace") is None:
        missing("bpftrace", "apt-get install bpftrace")
    device = Host().device_of(tmp_path)
    with watching.recordings(("block_latency",), Host(), device, None) as recordings:
        time.sleep(1.5)
        marks = [time.monotonic_ns()]
        recordings.mark(marks[0])
        times = readings(4)
        marks.append(time.monotonic_ns())
        recordings.mark(marks[1])
        recordings.end()
        seen = recordings.seen(*marks)

    assert recordings.failures == {}
    rows = list(seen["block_latency"].tables["block_latency.seconds"])
    reads = [row for row in rows if row["kind"] == "read"]
    assert 2 <= len(reads) <= 4
    assert all(1 <= row["second"] <= 4.1 for row in reads)
    timed = sum(row["timed"] for row in reads) / len(reads)
    assert timed == pytest.approx(times / 4 / 16, rel=0.4)
    assert all(1 < row["p50_us"] <= row["p99_us"] <= row["longest_us"] for row in reads)
    assert (
        sum(int(part.split(":")[1]) for part in reads[0]["histogram"].split()) == reads[0]["timed"]
    )
    assert recordings.costs["block_latency"] < 0.5


def test_a_bpftrace_that_is_killed_in_the_middle_leaves_what_it_had(tmp_path):
    """The seconds until then are kept, and that there are no more is told; or there are none."""
    if shutil.which("bpftrace") is None or os.geteuid():
        missing("bpftrace", "apt-get install bpftrace, and root")
    scene = Scene(Host(), Host().device_of(tmp_path), tmp_path, list, list)
    try:
        one = block_latency.begin(scene)
    except Skip as skip:
        pytest.skip(str(skip))
    one.mark(begin_ns := time.monotonic_ns())
    time.sleep(0.5)
    one._program.process.kill()
    one._program.process.wait()
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    try:
        words = " ".join(one.cut(begin_ns, end_ns).notes)
    except ReplayerError as error:
        words = str(error)
    assert "bpftrace was ended in the middle of the step by SIGKILL" in words
