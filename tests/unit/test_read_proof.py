"""What proves that a probe's reads came from the disk, and what does not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replayer.machine.host import Host
from replayer.run.read_proof import ReadProof
from replayer.storage.io_job import IoJob
from replayer.storage.io_result import IoResult
from replayer.storage.io_run import IoRun
from replayer.watch.histogram import Latencies, bin_of
from replayer.watch.sampler import DeviceDelta

ASKED = 1000 * 8192


def read(own_bytes: int | None) -> IoRun:
    """Return a run of 1000 reads of 8 KiB, of which so many bytes came from devices."""
    seen = Latencies({int(bin_of(np.array([100]))[0]): 1000}, 1000, 100_000, 1e7, 100, 100)
    job = IoJob(name="x", threads=1, block_size=8192, seconds=1.0)
    result = IoResult(job, 1.0, seen, Latencies({}), 1000, 0, (1000,), 0)
    return replace(IoRun(((result,),), 0.1, 0.1, 0, 1), own_bytes=own_bytes)


def delivered(read_bytes: int) -> DeviceDelta:
    """Return what a device did that delivered so many bytes."""
    return DeviceDelta(seconds=1.0, reads=1, read_bytes=read_bytes, writes=0, write_bytes=0)


@pytest.mark.parametrize(
    ("own", "device", "doubt"),
    [
        (ASKED, ASKED, ""),
        (ASKED, 10 * ASKED, ""),
        (None, ASKED, ""),
        (0, 10 * ASKED, "delivered only 0% of the bytes"),
        (None, 10 * ASKED, "delivered 10.0 times the bytes"),
    ],
)
def test_what_other_programs_read_proves_nothing(
    tmp_path: Path, own: int | None, device: int, doubt: str
) -> None:
    """Without a count of one's own reads, a device that delivers too much is in doubt."""
    proof = ReadProof(Host(tmp_path), None)
    proof.begin()

    assert proof.end(read(own), delivered(device)) == ""
    assert doubt in proof.doubt
    assert bool(proof.doubt) == bool(doubt)


def test_what_one_run_had_too_much_of_does_not_prove_another(tmp_path: Path) -> None:
    """Pages of programs, read meanwhile, count in one run; the other was from a cache."""
    proof = ReadProof(Host(tmp_path), None)
    for own in (2 * ASKED, 0):
        proof.begin()
        assert proof.end(read(own), delivered(2 * ASKED)) == ""

    assert proof.share == 0.5
    assert "delivered only 50%" in proof.doubt
