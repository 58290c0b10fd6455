"""bpftrace beside real requests: every sixteenth is timed, and no second outside of the window."""

import mmap
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from replayer.collectors import CollectorContext, block_latency
from replayer.collectors.block_latency import BlockLatency
from replayer.errors import ReplayerError, Skip
from replayer.machine.host import Host
from replayer.run import step_collectors
from replayer.watch.sampler import Sampler
from tests.conftest import missing
from tests.waiting import wait_until

pytestmark = pytest.mark.root
_SECOND = 10**9


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Return a function that reads a block of a file around the page cache."""
    path = tmp_path / "data"
    path.write_bytes(os.urandom(32 << 20))
    buffer = mmap.mmap(-1, 4096)
    draw = random.Random(7)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    os.fsync(descriptor)
    yield lambda: void(os.preadv(descriptor, [buffer], 4096 * draw.randrange(8192)))
    os.close(descriptor)


def void(_amount: int) -> None:
    """Return nothing."""


def printed(one: BlockLatency) -> list[int]:
    """Return the clock of each second of which bpftrace said something."""
    text = one._output.read_text() if one._output.exists() else ""
    return [second.clock_ns for second in block_latency.read_seconds(text)]


@pytest.mark.slow
def test_requests_are_timed_by_second(tmp_path: Path, read: Callable[[], None]) -> None:
    """About a sixteenth of the reads is timed, in whole seconds of the window."""
    if shutil.which("bpftrace") is None:
        missing("bpftrace", "apt-get install bpftrace")
    device = Host().device_of(tmp_path)
    clocks: list[int] = []
    with (
        Sampler(Host(), device) as sampler,
        step_collectors.recordings(("block_latency",), Host(), device, None) as recordings,
    ):
        one = cast("BlockLatency", recordings._under_way["block_latency"])
        wait_until(lambda: printed(one))
        recordings.mark(begin := sampler.mark())
        # Of three seconds' ends two whole seconds lie between.
        while not printed(one)[-1] > begin + 3 * _SECOND:
            for _ in range(200):
                read()
                clocks.append(time.monotonic_ns())
        recordings.mark(end := sampler.mark())
        recordings.end()
        seen = recordings.seen(begin, end)

    assert recordings.failures == {}
    rows: list[Any] = list(seen["block_latency"].tables["block_latency.seconds"])
    reads = [row for row in rows if row["kind"] == "read"]
    assert len(reads) >= 2
    seconds = [row["second"] for row in reads]
    assert all(1 <= second <= (end - begin) / _SECOND + 0.1 for second in seconds)
    own = sum(min(seconds) - 1 <= (now - begin) / _SECOND <= max(seconds) for now in clocks)
    moved = sampler.device_delta(begin, end)
    assert moved is not None
    timed = sum(row["timed"] for row in reads)
    # Others may read as well: no less than of our own, no more than of all.
    assert 0.6 * own / 16 <= timed <= 1.4 * moved.reads / 16
    assert all(1 < row["p50_us"] <= row["p99_us"] <= row["longest_us"] for row in reads)
    assert (
        sum(int(part.split(":")[1]) for part in reads[0]["histogram"].split()) == reads[0]["timed"]
    )
    assert 0 <= recordings.costs["block_latency"] < (end - begin) / _SECOND


def test_a_bpftrace_that_is_killed_in_the_middle_leaves_what_it_had(tmp_path: Path) -> None:
    """The seconds until then are kept, and that there are no more is told; or there are none."""
    if shutil.which("bpftrace") is None or os.geteuid():
        missing("bpftrace", "apt-get install bpftrace, and root")
    scene = CollectorContext(Host(), Host().device_of(tmp_path), tmp_path, list, list)
    try:
        one = block_latency.begin(scene)
    except Skip as skip:
        pytest.skip(str(skip))
    assert isinstance(one, BlockLatency)
    one.mark(begin_ns := time.monotonic_ns())
    one._program.process.kill()
    one._program.process.wait()
    one.mark(end_ns := time.monotonic_ns())
    one.end()

    try:
        words = " ".join(one.cut(begin_ns, end_ns).notes)
    except ReplayerError as error:
        words = str(error)
    assert "bpftrace was ended in the middle of the step by SIGKILL" in words
