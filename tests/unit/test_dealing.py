"""A walk deals large files in ranges: every byte once, and every thread has a part."""

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replayer.storage import file_reader
from replayer.storage.file_reader import LEAST_RANGE, Queue, deal
from replayer.watch.workers import WorkerPool

BLOCK = 128 << 10


@given(
    st.lists(st.integers(0, 1 << 33), max_size=20),
    st.integers(1, 128),
    st.sampled_from([4096, 12288, BLOCK, 1 << 20]),
)
def test_ranges_are_each_file_exactly_once(sizes: list[int], threads: int, block: int) -> None:
    """In whole blocks, in order, without a gap; and whole files where there are enough of them."""
    pieces = deal(sizes, threads, block)

    if len(sizes) >= threads:
        assert pieces == ()
    if not pieces:
        return
    for number, size in enumerate(sizes):
        own = [(begin, end) for index, begin, end in pieces if index == number]
        assert own[0][0] == 0
        assert own[-1][1] == size
        assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(own))
        assert all(begin % block == 0 for begin, _ in own)
    share = max(end - begin for _, begin, end in pieces)
    assert share <= max(-(-sum(sizes) // threads), LEAST_RANGE) + block


@pytest.mark.parametrize("mode", ["read", "mmap", "direct"])
def test_all_threads_read_one_file(mode: str, tmp_path: Path) -> None:
    """Of one file each of five threads has a range, and together they have every byte."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(1 << 20) * 20 + b"x" * 777)
    size = path.stat().st_size
    if mode == "direct" and file_reader.why_not_direct(str(path)):
        pytest.skip("this file system has no direct reads")
    queue = Queue((str(path),), (size,), mode, BLOCK, ranges=deal([size], 5, BLOCK))

    with WorkerPool(file_reader.read_all, [queue] * 5, processes=2) as pool:
        pool.ready()
        pool.open()
        for _ in pool.reports(timeout=1.0):
            pass
        hauls = pool.results()

    assert len(queue.ranges) == 5
    assert sum(haul.read_bytes for haul in hauls) == size
    assert sorted(number for haul in hauls for number, _ in haul.files) == [0] * 5
