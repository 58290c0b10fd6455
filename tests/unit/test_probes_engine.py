"""The I/O engine: positions, bins, sums, its own files, and what the kernel answers."""

import itertools
import math
import mmap
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from replayer import journal
from replayer.errors import Impossible, ReplayerError
from replayer.machine.free_space import free_bytes
from replayer.results.stored_histogram import encode
from replayer.run import recovery
from replayer.storage import file_reader, io_worker
from replayer.storage.files import PREFIX, Workspace, check_parent, enough, recover
from replayer.storage.io_job import BlockOrder, IoJob, IoTarget, IoThread, Sync, ThreadResult
from replayer.storage.io_result import summed, together
from replayer.storage.io_run import run_io
from replayer.watch.histogram import Latencies, Recorder, bin_of

Numbers = NDArray[Any]

BLOCK = 4096
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def job_of(**keys: Any) -> IoJob:
    """Return a small job with some keys changed."""
    plain = {"name": "test", "threads": 1, "block_size": BLOCK, "operations": 23, "direct": False}
    return IoJob(**{**plain, **keys})


def bins_of(values: Sequence[int] | Numbers) -> Latencies:
    """Return the latencies of some nanoseconds."""
    bins = Recorder()
    for part in np.array_split(np.array(values, dtype=np.int64), 3):
        bins.add(part)
    return bins.recorded()


def positions(job: IoJob, target: IoTarget, many: int) -> list[list[int]]:
    """Return the first block numbers of each thread of a job."""
    found = []
    for number in range(job.threads):
        worker = io_worker._IoWorker(IoThread(job, target, number))
        worker.open()
        worker._next = 0
        try:
            found.append(worker._positions(many).tolist())
        finally:
            worker.close()
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Return a folder of replayer's own that is removed after the test."""
    with Workspace(tmp_path) as found:
        yield found


@pytest.mark.parametrize("page", [4096, 65536])
def test_the_whole_pages_of_a_block_are_dropped_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """The kernel drops nothing of a page that is named in part, and on some it has 64 KiB."""
    file = tmp_path / "blocks"
    file.write_bytes(bytes(4 * 65536))
    dropped = []

    def advise(_fd: int, first: int, length: int, advice: int) -> None:
        if advice == os.POSIX_FADV_DONTNEED:
            dropped.append((first, first + length))

    monkeypatch.setattr(io_worker, "PAGE", page, raising=False)
    monkeypatch.setattr(os, "posix_fadvise", advise)
    job = job_of(drop=True, block_size=8192, huge=False)
    worker = io_worker._IoWorker(IoThread(job, IoTarget((str(file),), 4 * 65536, direct=False), 0))
    worker.open()
    try:
        operations: Any = worker._ready[1]
        blocks = list(itertools.islice(operations, 23))
        assert worker._stroll(iter(blocks), 1 << 62) == 23
    finally:
        worker.close()

    places = [offset for _, _, _, offset in blocks]
    assert len(set(places)) > 1
    assert all(first % page == 0 == last % page for first, last in dropped)
    assert [first // page for first, _ in dropped] == [offset // page for offset in places]
    assert [-(-last // page) for _, last in dropped] == [
        -(-(offset + 8192) // page) for offset in places
    ]


def test_bins_are_those_of_an_hdr_histogram() -> None:
    """A latency lands in the very bin that HdrHistogram gives it, over its whole range."""
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    draw = np.random.default_rng(1)
    values = np.unique(
        np.concatenate(
            (
                np.arange(1, 5000),
                [2**power + step for power in range(10, 41) for step in (-1, 0, 1)],
                (10 ** (draw.random(20_000) * 12)).astype(np.int64),
            )
        )
    ).astype(np.int64)

    expected = [histogram._counts_index_for(int(value)) for value in values]

    assert bin_of(values).tolist() == expected


def test_a_walks_latencies_are_cut_to_the_same_bins() -> None:
    """Readers keep the lowest value of a latency's bin: it is in the bin that the latency is in."""
    queue = file_reader.Queue.__new__(file_reader.Queue)
    queue.next_said_ns = 1 << 62
    haul = file_reader.ReadResult()
    file_reader._read(lambda _: 1, (0, 0, 500), haul, queue, lambda _: None)

    kept = np.array(sorted(haul.latencies), dtype=np.int64)
    assert sum(haul.latencies.values()) == 500
    assert len(set(bin_of(kept).tolist())) == len(kept)
    drawn = (10 ** (np.random.default_rng(5).random(2_000) * 12)).astype(np.int64).tolist()
    cut = [n >> max(0, n.bit_length() - file_reader._EXACT_BITS) for n in drawn]
    lowest = [
        few << max(0, n.bit_length() - file_reader._EXACT_BITS)
        for few, n in zip(cut, drawn, strict=True)
    ]
    assert bin_of(np.array(lowest)).tolist() == bin_of(np.array(drawn)).tolist()
    assert np.all(
        bin_of(np.array([n - 1 for n in lowest if n > 4096]))
        < bin_of(np.array([n for n in lowest if n > 4096]))
    )


def test_percentiles_are_right_to_a_thousandth_and_sums_exact() -> None:
    """What is read back from the bins agrees with the values themselves."""
    values = (np.random.default_rng(2).gamma(2.0, 90_000.0, 50_000) + 20_000).astype(np.int64)

    seen = bins_of(values)

    assert seen.operations == len(values)
    assert (seen.least_ns, seen.most_ns) == (values.min(), values.max())
    assert seen.mean_ns == pytest.approx(values.mean())
    assert seen.deviation_ns == pytest.approx(values.std(), rel=1e-6)
    for share in (1, 50, 95, 99, 99.9, 100):
        exact = np.sort(values)[math.ceil(len(values) * share / 100) - 1]
        assert seen.percentile_ns(share) == pytest.approx(exact, rel=1e-3)


def test_payload_is_the_same_histogram() -> None:
    """The payload of a result file decodes to the same counts and percentiles."""
    seen = bins_of(np.random.default_rng(3).integers(10_000, 90_000_000, 3_000))

    payload = encode(seen.counts())
    decoded = HdrHistogram.decode(payload.payload)

    assert payload.operations == decoded.get_total_count() == 3_000
    for share in (50, 99, 99.9):
        assert decoded.get_value_at_percentile(share) == pytest.approx(
            seen.percentile_ns(share), rel=2e-3
        )


def test_latencies_of_threads_add_up() -> None:
    """The sum of two halves is the whole, whichever way it is cut."""
    values = np.random.default_rng(4).integers(1_000, 10_000_000, 1_001)
    whole, parts = bins_of(values), [bins_of(values[:300]), bins_of(values[300:])]

    added = Latencies.of(parts)

    assert added.bins == whole.bins
    assert added.mean_ns == pytest.approx(whole.mean_ns)
    assert added.deviation_ns == pytest.approx(whole.deviation_ns)
    assert Latencies.of([Latencies(), *parts]).least_ns == whole.least_ns


def test_orion_buckets_hold_every_operation_once() -> None:
    """Power-of-two buckets: 3 us is in 2 - 4, 100 us in 64 - 128, and none is lost."""
    buckets = {low: (high, many) for low, high, many in bins_of([3_000, 100_000]).doublings()}

    assert buckets[2] == (4, 1)
    assert buckets[64] == (128, 1)
    assert sum(many for _, many in buckets.values()) == 2


def test_threads_of_a_shared_walk_take_every_block_once(workspace: Workspace) -> None:
    """Four threads in two processes write 120 blocks of three files: all of them, in 120 writes."""
    target = workspace.files("f", 3, 40 * BLOCK, block_size=BLOCK)
    before = b"".join(Path(path).read_bytes() for path in target.paths)
    job = job_of(threads=4, access=BlockOrder.SHARED, read_share=0.0, operations=120)

    run_io([job], [target])
    after = b"".join(Path(path).read_bytes() for path in target.paths)

    same = [at for at in range(0, 120 * BLOCK, BLOCK) if before[at:][:BLOCK] == after[at:][:BLOCK]]
    assert same == []


def test_sequential_threads_walk_regions_of_their_own(workspace: Workspace) -> None:
    """Regions cover all blocks, do not overlap, and are walked again from their start."""
    target = workspace.files("f", 1, 100 * BLOCK, block_size=BLOCK)
    job = job_of(threads=3, access=BlockOrder.SEQUENTIAL)

    found = positions(job, target, 40)

    assert sorted(set(itertools.chain(*found))) == list(range(100))
    assert not set(found[0]) & set(found[1])
    assert found[0] == [*range(33), *range(7)]


def test_random_offsets_are_seeded_uniform_and_differ_by_thread(workspace: Workspace) -> None:
    """The same seed gives the same blocks; threads and seeds differ; all blocks are as likely."""
    target = workspace.files("f", 2, 50 * BLOCK, block_size=BLOCK)
    job = job_of(threads=2)

    first, second = positions(job, target, 20_000)

    assert positions(job, target, 20_000) == [first, second]
    assert first != second
    assert positions(job_of(threads=2, seed=9), target, 20_000)[0] != first
    counts = np.bincount(first, minlength=100)
    assert len(counts) == 100
    assert abs(counts - 200).max() < 200 * 0.4


@pytest.mark.parametrize("theta", [0.5, 1.0, 1.2])
def test_zipf_follows_its_law_and_spreads_its_favourites(theta: float) -> None:
    """Rank k is as frequent as x^-theta says, and the two hottest blocks are no neighbours."""
    many, draws = 1_000, 200_000
    law = io_worker._Zipf(many, theta)

    counts = np.bincount(law.draw(np.random.default_rng(5), draws), minlength=many)
    by_rank = counts[np.arange(many) * law._step % many]
    borders = np.arange(1.0, many + 2)
    area = np.log(borders) if theta == 1 else borders ** (1 - theta) / (1 - theta)
    expected = np.diff(area) / (area[-1] - area[0]) * draws

    assert len(counts) == many
    assert by_rank[:20] == pytest.approx(expected[:20], rel=0.1)
    assert abs(int(np.argsort(counts)[-1]) - int(np.argsort(counts)[-2])) > 1


@pytest.mark.parametrize("share", [0.0, 1.0, 0.7])
def test_a_prime_number_of_operations_is_counted_exactly(
    workspace: Workspace, share: float
) -> None:
    """23 blocks are asked for, 23 are done and 23 are in the histograms, none twice."""
    target = workspace.files("f", 2, 64 * BLOCK, block_size=BLOCK)

    found = run_io([job_of(threads=2, read_share=share)], [target]).of()

    assert found.operations == found.issued_reads + found.issued_writes == 23
    assert found.reads.operations == found.issued_reads
    assert sum(found.per_second) == 23
    if share in {0.0, 1.0}:
        assert found.issued_reads == 23 * share


def test_reads_come_from_where_they_should(workspace: Workspace) -> None:
    """A block that is written at its place is found there: offsets and files are not mixed up."""
    target = workspace.files("f", 3, 8 * BLOCK, block_size=BLOCK)
    before = [Path(path).read_bytes() for path in target.paths]

    run_io([job_of(read_share=0.0, access=BlockOrder.SEQUENTIAL, operations=10)], [target])
    after = [Path(path).read_bytes() for path in target.paths]

    changed = [
        (file, block)
        for file in range(3)
        for block in range(8)
        if before[file][block * BLOCK :][:BLOCK] != after[file][block * BLOCK :][:BLOCK]
    ]
    assert changed == [(0, block) for block in range(8)] + [(1, 0), (1, 1)]


def test_rewrite_changes_what_was_there(workspace: Workspace) -> None:
    """A rewritten block differs from itself in one byte: it was read before it was written."""
    target = workspace.files("f", 1, 4 * BLOCK, block_size=BLOCK)
    before = Path(target.paths[0]).read_bytes()

    job = job_of(
        read_share=0.0, rewrite=True, access=BlockOrder.SEQUENTIAL, operations=3, finish=Sync.FSYNC
    )
    run_io([job], [target])
    after = Path(target.paths[0]).read_bytes()

    different = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert different == [0, BLOCK, 2 * BLOCK]


def test_files_cannot_be_compressed_and_no_page_comes_twice(workspace: Workspace) -> None:
    """Storage that compresses or deduplicates gains nothing from the data, old or overwritten."""
    target = workspace.files("f", 2, 4 << 20, block_size=BLOCK)
    run_io([job_of(read_share=0.0, access=BlockOrder.SEQUENTIAL, operations=64)], [target])

    data = b"".join(Path(path).read_bytes() for path in target.paths)
    pages = {data[at : at + BLOCK] for at in range(0, len(data), BLOCK)}

    assert len(zlib.compress(data, 1)) > 0.99 * len(data)
    # The 64 writes take turns with 16 buffers; everything else is unlike.
    assert len(pages) >= len(data) // BLOCK - 48


def test_a_duration_counts_only_what_ended_in_its_window(workspace: Workspace) -> None:
    """The warm-up and what ends late do not count; the rate is over the window alone."""
    target = workspace.files("f", 1, 64 * BLOCK, block_size=BLOCK)
    job = job_of(operations=None, seconds=0.3, warmup=0.2, threads=2)

    found = run_io([job], [target]).of()

    assert found.seconds == 0.3
    assert found.operations < found.issued_reads
    assert found.iops == pytest.approx(found.operations / 0.3)


def test_rate_is_kept(workspace: Workspace) -> None:
    """A limit is never exceeded, whatever the storage could do."""
    target = workspace.files("f", 1, 64 * BLOCK, block_size=BLOCK)
    job = job_of(operations=None, seconds=0.5, rate=200.0, threads=2)

    found = run_io([job], [target]).of()

    assert 0 < found.operations <= 200 * 0.5 + 2


def test_clients_and_loads_are_kept_apart(workspace: Workspace) -> None:
    """Each client works on its own files, and each job of it has its own figures."""
    targets = [workspace.files(name, 1, 64 * BLOCK, block_size=BLOCK) for name in "ab"]
    jobs = [job_of(operations=5), job_of(name="writes", operations=7, read_share=0.0)]

    found = run_io(jobs, targets)

    assert [[one.operations for one in results] for results in found.by_client] == [[5, 7]] * 2
    assert found.of(0).operations == 10
    assert found.of(1).writes.operations == 14


def share_of(*, last_ns: int, cut: bool, many: int = 1) -> ThreadResult:
    """Return a share with some operations of 1 us."""
    bins = Recorder()
    bins.add(np.full(many, 1_000, dtype=np.int64))
    return ThreadResult(0, last_ns, cut, (many, 0), (bins.recorded(), Latencies()), (many,))


def test_window_is_the_duration_unless_the_amount_ended_first() -> None:
    """A rate is over the whole duration if the clock ended it, else over what the work took."""
    timed = job_of(operations=None, seconds=2.0)
    both = job_of(operations=2, seconds=2.0)

    assert summed(timed, [share_of(last_ns=1_900_000_000, cut=True)]).seconds == 2.0
    ended = [share_of(last_ns=400_000_000, cut=False), share_of(last_ns=500_000_000, cut=False)]
    assert summed(both, ended).seconds == 0.5
    assert together([summed(both, ended)] * 2).iops == pytest.approx(8.0)


def test_nothing_done_is_an_error_not_a_zero() -> None:
    """Storage that hangs gives no figure of 0 IOPS."""
    empty = ThreadResult(0, 10, True, (0, 0), (Latencies(), Latencies()), ())

    with pytest.raises(ReplayerError, match="no operation of 4096 bytes ended within 1 s"):
        summed(job_of(operations=None, seconds=1.0), [empty])


def test_too_few_blocks_for_the_threads_are_refused() -> None:
    """More threads than blocks would all read the same ones."""
    with pytest.raises(Impossible, match="4 threads need as many blocks"):
        job_of(threads=4).blocks(IoTarget(("/f",), 3 * BLOCK, False))


def test_an_input_output_error_is_one_sentence() -> None:
    """The kernel's own EIO ends the run with the file, the size and what to look at."""
    target = IoTarget(("/proc/self/mem",), 64 * BLOCK, False)

    with pytest.raises(ReplayerError) as raised:
        run_io([job_of()], [target])

    assert str(raised.value) == (
        "test: reading blocks of 4096 bytes of /proc/self/mem failed: Input/output error; "
        "see dmesg for the device's messages"
    )


def test_a_file_that_was_cut_short_is_told(workspace: Workspace) -> None:
    """Fewer bytes than asked for are an error: a shorter file is not a faster one."""
    target = workspace.files("f", 1, 64 * BLOCK, block_size=BLOCK)
    os.truncate(target.paths[0], 10)

    with pytest.raises(ReplayerError, match=r"fewer bytes .* was cut short, or its disk is full"):
        run_io([job_of()], [target])


def test_a_file_that_was_replaced_is_told(workspace: Workspace) -> None:
    """Data of a deleted file can still be read, but its figures say nothing about the disk."""
    target = workspace.files("f", 1, 64 * BLOCK, block_size=BLOCK)

    def replace() -> None:
        path = Path(target.paths[0])
        path.rename(path.with_suffix(".old"))
        path.write_bytes(bytes(64 * BLOCK))

    with pytest.raises(ReplayerError, match="was deleted or replaced while"):
        run_io([job_of(operations=None, seconds=0.3)], [target], opened=replace)


def test_workspace_removes_everything_and_its_note(tmp_path: Path) -> None:
    """Nothing is left at the end, and nothing after an error in the middle."""
    for fails in (False, True):
        try:
            with Workspace(tmp_path) as workspace:
                workspace.files("f", 2, 8 * BLOCK, block_size=BLOCK)
                assert [note.details["path"] for note in journal.notes("files")] == [
                    str(workspace.folder)
                ]
                if fails:
                    raise ReplayerError("stop")  # noqa: TRY301
        except ReplayerError:
            pass

        assert list(tmp_path.iterdir()) == []
        assert list(journal.notes("files")) == []


def test_recover_removes_only_what_is_ours(tmp_path: Path) -> None:
    """A note with another folder's path removes nothing: only our own names are touched."""
    ours, other, near = (
        tmp_path / name for name in (f"{PREFIX}0123456789ab", "data", f"{PREFIX}x")
    )
    for folder in (ours, other, near):
        folder.mkdir(mode=0o700)
        (folder / "file").write_text("x")

    assert "removed" in recover(journal.take("files", path=str(ours)))
    for folder in (other, near):
        note = journal.take("files", path=str(folder))
        with pytest.raises(journal.Untrusted, match="none that replayer makes"):
            recover(note)
        note.drop()
        assert (folder / "file").exists()

    assert not ours.exists()
    assert list(journal.notes("files")) == []


def test_where_no_folder_can_be_made_no_note_stays(tmp_path: Path) -> None:
    """The reason is not hidden by an attempt to remove what is not there."""
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(Impossible, match=r"no folder can be made in .*: Not a directory"):
        Workspace(file).__enter__()
    with pytest.raises(Impossible, match=r"no folder can be made in .*: Not a directory"):
        check_parent(file)

    assert list(journal.notes("files")) == []


@pytest.mark.parametrize("kind", ["files", "draft"])
def test_what_would_lie_below_a_file_is_gone(tmp_path: Path, kind: str) -> None:
    """A note on a folder that became a file is dropped, as no command could remove the rest."""
    file = tmp_path / "file"
    file.touch()
    name = f"{PREFIX}0123456789ab" if kind == "files" else f".a.replay.{os.getpid()}.new"
    note = journal.take(kind, path=str(file / name))

    assert "already gone" in recovery.give_back_note(note)
    assert list(journal.notes(kind)) == []


def test_too_little_space_is_told_with_both_numbers(tmp_path: Path) -> None:
    """The refusal comes before anything is written, with what is needed and what is free."""
    free = free_bytes(tmp_path)

    with pytest.raises(Impossible, match=r"need .* and .* has .* free; ask for less"):
        enough(tmp_path, 2 * free)
    with pytest.raises(Impossible, match="cannot be used for files: No such file"):
        enough(tmp_path / "missing", 1)


def frames_of(memory: memoryview) -> Numbers:
    """Return the physical page numbers behind some memory; the kernel tells root alone."""
    first = np.frombuffer(memory, dtype=np.uint8).ctypes.data // mmap.PAGESIZE
    pages = -(-len(memory) // mmap.PAGESIZE)
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(8 * first)
        entries = np.frombuffer(file.read(8 * pages), dtype=np.uint64)
    return (entries & np.uint64((1 << 55) - 1)).astype(np.int64)


@pytest.mark.parametrize("size", [8192, 16384, 65536, 1 << 20])
def test_pages_of_a_buffer_are_neighbours_unless_small_ones_are_asked_for(size: int) -> None:
    """Whether pages are neighbours decides the speed of a block, so it is not left to chance."""
    small, huge = (io_worker._buffer(size, huge=huge) for huge in (False, True))
    for memory in (small, huge):
        memory[:] = os.urandom(size)
        assert len(memory) == size
        assert np.frombuffer(memory, dtype=np.uint8).ctypes.data % mmap.PAGESIZE == 0
    if os.geteuid() == 0 and "[never]" not in Path(THP).read_text():
        assert (np.diff(frames_of(huge)) == 1).all()
