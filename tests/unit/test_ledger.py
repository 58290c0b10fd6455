"""The ledger's arithmetic: one window for both parts of a rate, and the verdict's borders."""

import pytest

from replayer.model import Ledger, ReadOrigin
from replayer.watch.ledger import (
    OtherSessions,
    ServerCounters,
    balance,
    cache_hits,
    missed_apart,
    other_sessions,
    riops,
)
from replayer.watch.sampler import DeviceDelta
from tests.known import known

BLOCK = 8192


def device(reads: int, *, block: int = BLOCK, writes: int = 0) -> DeviceDelta:
    """Return what a device did that read whole blocks."""
    return DeviceDelta(10.0, reads, reads * block, writes, writes * 4096)


def test_readme_figures_of_pgio_give_the_true_rate() -> None:
    """Pgio's 1 TB example prints 390,969; its own rows over its own window give 132,475."""
    before = ServerCounters(clock=1_527_000_000.0, hits=0, reads=349_278_820)
    after = ServerCounters(clock=1_527_000_123.0, hits=346_860, reads=365_573_275)

    assert int(riops(before, after)) == 132_475
    assert int(cache_hits(before, after)) == 2_820


def test_empty_window_has_no_rate() -> None:
    """A window without length divides nothing by zero."""
    point = ServerCounters(clock=5.0, hits=1, reads=1)

    assert riops(point, point) == 0.0


@pytest.mark.parametrize(
    ("from_device", "verdict"),
    [
        (0, ReadOrigin.CACHED),
        (20, ReadOrigin.CACHED),
        (21, ReadOrigin.MIXED),
        (899, ReadOrigin.MIXED),
        (900, ReadOrigin.PHYSICAL),
        (1010, ReadOrigin.PHYSICAL),
    ],
)
def test_verdict_changes_at_its_borders(from_device: int, verdict: ReadOrigin) -> None:
    """At most 2 percent from the device is cached, at least 90 percent physical."""
    made = balance(None, 10.0, 1000, 70, device(from_device), "vda", BLOCK)

    assert made.verdict == verdict
    assert made.ratio == pytest.approx(from_device / 1000)
    assert made.riops == 100.0
    assert made.buffer_hits == 7.0


def test_few_misses_do_not_make_a_cached_run_physical() -> None:
    """Where the server's buffers served nearly all, a handful of device reads decides nothing."""
    buffered = balance(ReadOrigin.CACHED, 10.0, 20, 980, device(20), "vda", BLOCK)
    missed = balance(ReadOrigin.CACHED, 10.0, 21, 979, device(21), "vda", BLOCK)

    assert (buffered.verdict, missed.verdict) == (ReadOrigin.BUFFERED, ReadOrigin.PHYSICAL)
    assert (buffered.ratio, missed.ratio) == (None, 1.0)
    assert buffered.note.startswith("asked for cached, got buffered; 98.0 % of the blocks were in")


def test_buffers_that_served_all_are_known_without_a_device() -> None:
    """The server's own counters show it, also on another machine, however busy a disk is."""
    elsewhere = balance(ReadOrigin.PHYSICAL, 10.0, 0, 5000, None, None, BLOCK)
    beside = balance(ReadOrigin.CACHED, 10.0, 24, 5000, device(1000), "vda", BLOCK, own_bytes=0)

    assert elsewhere.verdict == beside.verdict == ReadOrigin.BUFFERED
    assert "all of the blocks" in elsewhere.note
    assert beside.ratio is None


def test_a_server_that_counts_nothing_gives_no_verdict() -> None:
    """No hit and no miss is not an evidence of anything."""
    assert balance(None, 10.0, 0, 0, device(0), "vda", BLOCK).verdict == ReadOrigin.UNKNOWN


@pytest.mark.parametrize(("reads", "told"), [(1900, False), (2000, True), (50_000, True)])
def test_foreign_reads_are_named_from_two_percent_on(reads: int, *, told: bool) -> None:
    """Small reads of others beside a cached run count by their number: the ratio is made of it."""
    moved = DeviceDelta(10.0, reads, reads * 512, 0, 0)
    made = balance(ReadOrigin.CACHED, 10.0, 100_000, 0, moved, "vda", BLOCK, own_bytes=0)

    assert made.verdict == ReadOrigin.CACHED
    assert ("other processes read" in made.note) is told


def test_layers_add_up_to_what_the_server_missed() -> None:
    """Page-cache hits and device reads together are the blocks missed, and never below 0."""
    mixed = balance(None, 10.0, 1000, 0, device(300), "vda", BLOCK)
    more = balance(None, 10.0, 1000, 0, device(1500), "vda", BLOCK)

    assert known(mixed.page_cache_hits) + known(mixed.device_read_bytes) / BLOCK == pytest.approx(
        mixed.riops
    )
    assert more.page_cache_hits == 0.0


def test_large_device_reads_are_judged_by_their_bytes() -> None:
    """Sixteen blocks in one request are sixteen blocks from the device, not one."""
    made = balance(ReadOrigin.PHYSICAL, 10.0, 1600, 0, device(100, block=16 * BLOCK), "vda", BLOCK)

    assert made.verdict == ReadOrigin.PHYSICAL
    assert "by bytes" in made.note
    assert made.ratio == pytest.approx(100 / 1600)


def test_other_than_asked_is_said_first() -> None:
    """A step that asked for physical and was served by the page cache says so."""
    made = balance(ReadOrigin.PHYSICAL, 10.0, 1000, 0, device(0), "vda", BLOCK)
    same = balance(ReadOrigin.CACHED, 10.0, 1000, 0, device(0), "vda", BLOCK)

    assert made.note.startswith("asked for physical, got cached")
    assert "asked" not in same.note


def test_device_that_cannot_be_counted_gives_no_verdict() -> None:
    """Without the device's counters nothing is claimed about it."""
    made = balance(ReadOrigin.PHYSICAL, 10.0, 1000, 5, None, None, BLOCK)

    assert made.verdict == ReadOrigin.UNKNOWN
    assert (made.device_reads, made.page_cache_hits, made.ratio) == (None, None, None)
    assert made.riops == 100.0
    assert made.note


def test_other_readers_do_not_change_the_verdict_where_the_server_can_be_asked() -> None:
    """A whole device's reads are not the server's: its own bytes decide, the others are told of."""
    busy = device(5000, block=4 * BLOCK)
    cached = balance(ReadOrigin.CACHED, 10.0, 10_000, 0, busy, "vda", BLOCK, own_bytes=0)
    physical = balance(None, 10.0, 1000, 0, busy, "vda", BLOCK, own_bytes=1000 * BLOCK)
    unknown = balance(None, 10.0, 10_000, 0, busy, "vda", BLOCK)

    assert cached.verdict == ReadOrigin.CACHED
    assert cached.page_cache_hits == cached.riops
    assert "other processes read 156 MiB" in cached.note
    assert physical.verdict == ReadOrigin.PHYSICAL
    assert unknown.verdict == ReadOrigin.PHYSICAL


@pytest.mark.parametrize(
    ("own", "ratio"), [(0, 0.0), (1000, 0.1), (40_000, 4.0), (50_000, 4.0), (None, 4.0)]
)
def test_the_ratio_leaves_out_what_other_programs_read(own: int | None, ratio: float) -> None:
    """Of 40,000 reads a thousand are the server's: for each of 10,000 blocks that is a tenth."""
    own_bytes = None if own is None else own * BLOCK
    made = balance(None, 10.0, 10_000, 0, device(40_000), "vda", BLOCK, own_bytes=own_bytes)

    assert made.ratio == pytest.approx(ratio)
    assert made.device_reads == 4000.0


@pytest.mark.parametrize("counted", [0, 50_000])
def test_a_device_that_counts_less_than_its_reader_had_gives_no_verdict(counted: int) -> None:
    """A counter that stands still, or one disk of several, makes no read a cached one."""
    own = 100_000 * BLOCK
    made = balance(None, 10.0, 100_000, 0, device(counted), "nvme0n1", BLOCK, own_bytes=own)

    assert made.verdict == ReadOrigin.UNKNOWN
    assert (made.page_cache_hits, made.ratio) == (None, None)
    assert "781 MiB" in made.note


def test_own_reads_on_other_devices_leave_a_proven_verdict() -> None:
    """What the device counted proves physical reads; a few reads more, or less, change nothing."""
    more = balance(None, 10.0, 10_000, 0, device(9500), "vda", BLOCK, own_bytes=20_000 * BLOCK)
    later = balance(None, 10.0, 10_000, 0, device(5000), "vda", BLOCK, own_bytes=5300 * BLOCK)
    cached = balance(None, 10.0, 10_000, 0, device(0), "vda", BLOCK, own_bytes=30 * BLOCK)
    buffered = balance(None, 10.0, 1000, 99_000, device(0), "vda", BLOCK, own_bytes=1000 * BLOCK)

    assert more.verdict == ReadOrigin.PHYSICAL
    assert more.page_cache_hits == pytest.approx(50)
    assert later.verdict == ReadOrigin.MIXED
    assert cached.verdict == ReadOrigin.CACHED
    assert buffered.verdict == ReadOrigin.BUFFERED
    assert buffered.page_cache_hits is None


def test_read_ahead_of_the_server_is_not_taken_for_missed_blocks() -> None:
    """Own bytes above one block per read do not lift the share above what the requests say."""
    made = balance(
        None,
        10.0,
        1000,
        0,
        DeviceDelta(10.0, 700, 950 * BLOCK, 0, 0),
        "vda",
        BLOCK,
        own_bytes=950 * BLOCK,
    )

    assert made.verdict == ReadOrigin.MIXED


def test_other_readers_and_writers_are_told_of() -> None:
    """The whole device is counted, so what others did on it is said when it was large."""
    quiet = balance(None, 10.0, 100_000, 0, device(100_000), "vda", BLOCK)
    read = balance(None, 10.0, 100_000, 0, device(120_000), "vda", BLOCK)
    wrote = balance(None, 10.0, 100_000, 0, device(100_000, writes=50_000), "vda", BLOCK)

    assert not quiet.note
    assert "another reader" in read.note
    assert "wrote" in wrote.note


def test_what_the_server_wrote_is_not_told_as_others_writes() -> None:
    """Only what is left of the device's writes is named, from 2 percent on."""
    moved = DeviceDelta(10.0, 1000, 1000 * BLOCK, 8000, 8000 * BLOCK)
    keys = {"own_bytes": 1000 * BLOCK, "own_write_bytes": 8000 * BLOCK}
    own = balance(None, 10.0, 1000, 0, moved, "vda", BLOCK, **keys)
    others = balance(
        None, 10.0, 1000, 0, moved, "vda", BLOCK, **{**keys, "own_write_bytes": 4000 * BLOCK}
    )

    assert not own.note
    assert others.note == "the device also wrote 31 MiB for others"


def test_what_others_missed_is_held_against_the_bytes_too() -> None:
    """A quarter of the blocks is the own sessions': so much of the device's reads is for them."""
    made = balance(None, 10.0, 1000, 0, device(4000), "vda", BLOCK, other_reads_blocks=3000)
    cached = balance(None, 10.0, 1000, 0, device(1000), "vda", BLOCK, other_reads_blocks=99_000)

    assert (made.verdict, made.ratio, made.page_cache_hits) == (ReadOrigin.PHYSICAL, 1.0, 0.0)
    assert made.riops == 100.0
    # Taken for the own sessions' alone these would be as many reads as blocks.
    assert cached.verdict is ReadOrigin.CACHED
    assert cached.ratio == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("own_reads", "apart", "verdict"),
    [
        (10, 1000, ReadOrigin.CACHED),  # nobody's reads came from the device
        (1000, 1000, ReadOrigin.UNKNOWN),
        (1900, 1000, ReadOrigin.UNKNOWN),  # others may have read more than is counted so far
        (2900, 1000, ReadOrigin.PHYSICAL),  # also if all blocks of others came from it
        (1000, 20, ReadOrigin.PHYSICAL),  # 2 % of the step's blocks are few
        (500, 200, ReadOrigin.MIXED),
        (0, -5, ReadOrigin.CACHED),  # another database's counters were reset
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_reads_for_other_databases_prove_no_verdict(
    own_reads: int, apart: int, verdict: ReadOrigin, *, counted: bool
) -> None:
    """The server's processes read for all of its databases: only what is left over is proven."""
    own = own_reads * BLOCK if counted else None
    made = balance(
        None, 10.0, 1000, 0, device(own_reads), "vda", BLOCK, own_bytes=own,
        other_databases_blocks=apart,
    )  # fmt: skip

    assert made.verdict is verdict
    assert (made.ratio is None) == (verdict is ReadOrigin.UNKNOWN)
    assert ("other databases of this server" in made.note) == (apart > 20)


def test_a_statement_of_another_database_that_has_not_ended_hides_its_reads() -> None:
    """A server counts a statement's blocks at its end, however long it has read."""
    before = ServerCounters(0.0, 0, 0, other_databases=7)
    ended = missed_apart(before, ServerCounters(10.0, 0, 0, 7))
    under_way = missed_apart(before, ServerCounters(10.0, 0, 0, 7, 1))

    def made(apart: int, reads: int) -> Ledger:
        return balance(None, 10.0, 100_000, 0, device(reads), "sda", BLOCK,
                       own_bytes=reads * BLOCK, other_databases_blocks=apart)  # fmt: skip

    assert ended == 0
    assert made(ended, 100_000).verdict is ReadOrigin.PHYSICAL
    assert made(under_way, 100_000).verdict is ReadOrigin.UNKNOWN
    assert "another database of this server had not ended" in made(under_way, 100_000).note
    assert made(under_way, 100).verdict is ReadOrigin.CACHED


def test_requests_of_others_that_are_larger_leave_the_servers_as_they_are() -> None:
    """A backup next to it reads MiB at once; each block of the server is one request."""
    blocks = 100_000
    delta = DeviceDelta(10.0, blocks + 40_960, blocks * BLOCK + (40 << 30), 0, 0)
    found = balance(ReadOrigin.PHYSICAL, 10.0, blocks, 0, delta, "sda", BLOCK,
                    own_bytes=blocks * BLOCK)  # fmt: skip

    assert found.verdict is ReadOrigin.PHYSICAL
    assert found.ratio == pytest.approx(1.0)


def test_a_verdict_that_other_databases_hide_is_not_the_one_asked_for() -> None:
    """It is neither called so, nor called another one."""
    made = balance(
        ReadOrigin.PHYSICAL, 10.0, 50_000, 0, device(150_000), "vda", BLOCK,
        own_bytes=150_000 * BLOCK, other_databases_blocks=150_000,
    )  # fmt: skip

    assert made.verdict is ReadOrigin.UNKNOWN
    assert made.note.startswith("other databases of this server missed 1,172 MiB meanwhile: how")


def test_other_sessions_are_told_of_from_a_share_on() -> None:
    """Blocks from 2 % of the own ones on, and rows, which what watches reads as well, from 10 %."""
    assert other_sessions(OtherSessions(hits=3_000, reads=2_999), 300_000, 10.0) == []
    (_,) = other_sessions(OtherSessions(hits=3_000, reads=3_000), 300_000, 10.0)
    # The connections of a run itself, in a window of two seconds.
    assert other_sessions(OtherSessions(hits=2_230, reads=492), 36_800, 2.0) == []
    (blocks,) = other_sessions(OtherSessions(hits=400_000, reads=2_000), 100_000, 10.0)
    assert "missed 200 blocks/s and found 40,000/s" in blocks
    assert other_sessions(OtherSessions(rows=9_000, own_rows=100_000), 1, 10.0) == []
    (rows,) = other_sessions(OtherSessions(rows=300_000, own_rows=100_000), 1, 10.0)
    assert "read 30,000 rows/s meanwhile (75% of all)" in rows
