"""requirement: the busiest minute times growth times headroom, and the work that makes it."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from replayer.analysis.profiles import confidence, usage
from replayer.analysis.profiles.usage import NAMED
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.report.documents import profile as report
from replayer.report.terminal import console
from replayer.report.writers import page_writer, terminal_writer
from replayer.results import profile as profiles
from replayer.results.profile import (
    KNOWN,
    Gap,
    ProfileSource,
    ResourceProfile,
    StatementUse,
    TableUse,
    WorkingSet,
)
from replayer.sizing import requirement, workload_mix
from replayer.sizing.requirement import Need, Requirement, hot_share
from tests.unit.test_imports_hostile import NUMBER, mutate

START = 1_795_000_000.0


def profile(seconds: int = 600, span: float = 1.0, **columns: ArrayLike) -> ResourceProfile:
    """Return a profile of rows of one length."""
    return ResourceProfile(
        ProfileSource(kind="live", averaged_seconds=span, database_bytes=10 << 30),
        START + span * (1.0 + np.arange(seconds, dtype=float)),
        np.full(seconds, span),
        {name: np.broadcast_to(np.asarray(v, float), seconds) for name, v in columns.items()},
    )


def need(of: Requirement, name: str) -> Need:
    """Return what is required of one thing, which must be known."""
    found = of.need(name)
    assert found is not None
    return found


def step(
    low: float, high: float, begin: int = 200, end: int = 260, many: int = 600
) -> NDArray[np.float64]:
    """Return a value each second that is high for a minute."""
    values = np.full(many, float(low))
    values[begin:end] = high
    return values


def test_the_requirement_is_the_busiest_minute_times_growth_times_headroom() -> None:
    """And it is printed as that."""
    made = requirement.of(
        profile(commits=step(100, 400), read_iops=step(10, 2000)), growth=1.5, headroom=0.3
    )
    reads = need(made, "read_iops")

    assert reads.measured == 2000.0
    assert reads.required == pytest.approx(2000 * 1.5 * 1.3)
    assert reads.arithmetic == "2,000/s x 1.5 growth x 1.3 headroom = 3,900/s"
    assert (made.begin, made.end) == (START + 200, START + 260)
    assert made.transactions == 400
    assert made.need("cpu") is None


def test_a_percentile_is_of_the_windows_asked_for() -> None:
    """p50 of minutes is the usual minute, not the busiest; of seconds it is another."""
    one = profile(1200, commits=step(100, 400, many=1200))

    assert need(requirement.of(one, percentile=50), "transactions").measured == 100
    assert need(requirement.of(one, percentile=99.99), "transactions").measured > 390
    assert need(requirement.of(one, window=10.0), "transactions").measured == 400
    # A twentieth of a window may lie outside of the profile, so that it is no more than near 130.
    assert need(requirement.of(one, window=600.0), "transactions").measured == pytest.approx(
        130, rel=0.02
    )


def test_memory_and_data_do_not_grow_with_the_load() -> None:
    """Growth is of the load; what is stored is as it was measured."""
    made = requirement.of(
        profile(commits=10.0, memory_bytes=8e9, database_bytes=1e11), growth=2, headroom=1
    )

    assert need(made, "memory").required == 8e9
    assert need(made, "memory").arithmetic == "7.45 GiB"
    assert need(made, "database").required == 1e11
    assert need(made, "transactions").required == 40


def test_a_busier_minute_of_another_resource_is_told() -> None:
    """A batch at night reads more than the busiest minute of the day: each need is its own."""
    made = requirement.of(
        profile(commits=step(100, 400), read_iops=step(50, 5000, 500, 560), write_iops=1.0)
    )

    assert need(made, "read_iops").measured == 5000
    assert need(made, "read_iops").meanwhile == 50
    assert any("device reads (1/s)" in note and "--by read_iops" in note for note in made.notes)
    by = requirement.of(
        profile(commits=step(100, 400), read_iops=step(50, 5000, 500, 560)), by="read_iops"
    )
    assert by.begin == START + 500


def test_averages_over_long_intervals_are_named() -> None:
    """The busiest ten minutes are not the busiest minute."""
    made = requirement.of(profile(144, 600.0, commits=50.0))

    assert made.window == 600.0
    assert "averages over 10 min" in made.notes[0]


@pytest.mark.parametrize(("minutes", "tens"), [(840, 59), (59, 840), (100, 10)])
@pytest.mark.parametrize("busy_rows", ["long", "short"])
def test_the_busiest_rows_count_whatever_length_most_rows_have(
    minutes: int, tens: int, busy_rows: str
) -> None:
    """A minute of ten that took 3.5 cores on average took as much at least, and it is noted."""
    is_long = np.repeat([False, True], [minutes, tens])
    spans = np.where(is_long, 600.0, 60.0)
    cores = np.where(is_long, 3.5, 0.5) if busy_rows == "long" else np.where(is_long, 0.5, 1.0)
    cores[10] = max(cores[10], 3.5 * (busy_rows == "short"))
    one = ResourceProfile(
        ProfileSource(kind="csv", averaged_seconds=60.0),
        START + np.cumsum(spans),
        spans,
        {"cpu_cores": cores, "commits": 100 * cores, "read_iops": np.full(cores.size, 5.0)},
    )
    made = requirement.of(one)

    assert need(made, "cpu").measured == pytest.approx(3.5)
    assert need(made, "transactions").measured == pytest.approx(350)
    assert usage.level_windows(one, NAMED["cpu"]).means.max() == pytest.approx(3.5)
    assert any("averages over" in note and "10 min" in note for note in made.notes)
    assert any("averages over" in text for text in usage.completeness(one).reasons)
    assert any("averages over" in text for text in confidence.rate(one, START).reasons)


def test_a_window_of_two_wide_gaps_is_refused() -> None:
    """Where no minute is known there is no busiest one."""
    ends = START + 100.0 * np.arange(1, 20, dtype=np.float64)
    one = ResourceProfile(
        ProfileSource(kind="live", averaged_seconds=1.0), ends, np.ones(19),
        {"commits": np.ones(19)},
        gaps=(Gap(begin=START, end=START + 99, reason="test"),),
    )  # fmt: skip
    with pytest.raises(Impossible, match="is known in this profile as a whole"):
        requirement.of(one)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"growth": 0.0}, "growth is 0"),
        ({"growth": float("nan")}, "growth is nan"),
        ({"headroom": -0.1}, "headroom is -10%"),
        ({"percentile": 0}, "percentile is 0"),
        ({"window": 0.1}, "window is 0.1 s"),
        ({"by": "iosp"}, "did you mean iops"),
    ],
)
def test_factors_that_are_none_are_refused(how: dict[str, Any], words: str) -> None:
    """In a sentence that says what they must be."""
    with pytest.raises((Impossible, NotFound), match=words):
        requirement.of(profile(commits=1.0, read_iops=1.0, write_iops=1.0), **how)


def test_no_load_gives_no_size() -> None:
    """A profile of an idle source is refused with what to do."""
    with pytest.raises(Impossible, match="profile the source while it is in use"):
        requirement.of(profile(commits=0.0, cpu_cores=0.0))


def test_rates_that_no_machine_has_are_refused() -> None:
    """A file that says so is wrong, and the sentence names the column."""
    with pytest.raises(Impossible, match=r"read_iops is 1e\+300 1/s in the profile's busiest"):
        requirement.of(profile(commits=1.0, read_iops=1e300))


# pgbench: what one transaction of each of its scripts does, as PostgreSQL counts it.
SELECT_ONLY = {"commits": 1000.0, "tuples_fetched": 1000.0, "tuples_returned": 1000.0,
               "blocks_hit": 3800.0, "blocks_read": 200.0, "tuples_inserted": 0.0,
               "tuples_updated": 0.0, "tuples_deleted": 0.0}  # fmt: skip
TPC_B: dict[str, Any] = {"commits": 500.0, "tuples_fetched": 2000.0, "tuples_returned": 2000.0,
         "tuples_inserted": 500.0, "tuples_updated": 1500.0, "tuples_deleted": 0.0,
         "blocks_hit": 12_000.0, "blocks_read": 300.0}  # fmt: skip


def test_pgbench_select_only_is_a_point_read_a_transaction() -> None:
    """1,000 transactions a second are 1,000 point reads a second and nothing else."""
    made = workload_mix.of(SELECT_ONLY)

    assert made.point == 1000.0
    assert (made.range, made.update, made.insert, made.scanned_blocks) == (0, 0, 0, 0)
    assert made.hit_ratio == 0.95
    assert made.mix(10_000).weights == {"point": 1000.0}


def test_pgbench_tpc_b_commits_as_often_and_writes_as_many_rows() -> None:
    """A transaction of three updates, an insert and a read is one commit, in whatever statement."""
    made = workload_mix.of(TPC_B)

    assert made.insert + made.update == pytest.approx(500)
    assert made.update * made.update_rows == pytest.approx(1500)
    assert made.insert * made.insert_bytes == pytest.approx(500 * 200)
    assert made.point == pytest.approx(500)
    assert any("4 rows that a transaction writes" in words for words in made.assumptions)


def test_statements_that_commit_by_themselves_are_no_part_of_a_transaction() -> None:
    """MariaDB counts 10 COMMITs beside 500 updates that each commit and sync by themselves."""
    columns = {"commits": 10.0, "updates": 500.0, "inserts": 0.0, "deletes": 0.0,
               "tuples_updated": 500.0, "wal_syncs": 490.0}  # fmt: skip
    one_by_one = workload_mix.of(columns)
    together = workload_mix.of(columns | {"wal_syncs": 10.0})

    assert (one_by_one.update, one_by_one.update_rows) == (490.0, 1)
    assert (together.update, together.update_rows) == (10.0, 50)


def test_transactions_that_write_are_as_many_as_syncs_of_the_log() -> None:
    """45 transactions of four writes beside 46 that read are 46 commits that sync, and not 91."""
    columns = {**TPC_B, "commits": 91.0, "tuples_fetched": 226.0, "tuples_inserted": 45.0,
               "tuples_updated": 135.0, "wal_syncs": 46.0}  # fmt: skip
    made = workload_mix.of(columns)

    assert made.insert + made.update == pytest.approx(46)
    assert made.update * made.update_rows == pytest.approx(135, rel=0.05)
    assert any("as many write as the log is synced" in words for words in made.assumptions)
    # Writes that are a transaction each, and few of all transactions, are not made more.
    assert (
        workload_mix.of(columns | {"tuples_inserted": 0.0, "tuples_updated": 40.0}).update == 40.0
    )
    # What commits without a sync is written by as many as there are.
    never = workload_mix.of(columns | {"wal_syncs": 0.0})
    assert never.insert + never.update == pytest.approx(91)


def test_the_cpu_of_a_statement_is_that_at_the_rate_of_the_source() -> None:
    """The mix says at which rate its CPU was measured, whatever is required of the target."""
    made = workload_mix.of(SELECT_ONLY | {"server_cpu_cores": 2.0}).mix(10_000)

    assert made.cpu == pytest.approx(0.002)
    assert made.cpu_rate == 1000.0
    assert workload_mix.of(SELECT_ONLY).mix(10_000).cpu_rate is None


def test_long_reads_are_ranges_of_their_mean_length() -> None:
    """100 statements that read 30 rows each, in blocks of their own, are ranges of 30."""
    made = workload_mix.of(
        {"commits": 100.0, "selects": 100.0, "tuples_fetched": 3000.0, "tuples_returned": 3000.0,
         "blocks_hit": 3400.0, "blocks_read": 100.0}
    )  # fmt: skip

    assert (made.range, made.work_unit, made.point) == (100.0, 30, 0.0)


def test_rows_that_share_blocks_are_fewer_blocks() -> None:
    """3,000 rows out of 700 accesses to blocks lie together: no load of 3,000 blocks is made."""
    made = workload_mix.of(
        {"commits": 100.0, "selects": 100.0, "tuples_fetched": 3000.0, "tuples_returned": 3000.0,
         "blocks_hit": 600.0, "blocks_read": 100.0}
    )  # fmt: skip

    assert made.range * made.work_unit == pytest.approx(400, rel=0.01)


def test_rows_read_without_an_index_are_scans() -> None:
    """5 million rows a second beside a few point reads are read by scans, 50 in a block."""
    made = workload_mix.of(
        {"commits": 10.0, "tuples_fetched": 10.0, "tuples_returned": 5_000_010.0,
         "blocks_hit": 20_000.0, "blocks_read": 90_000.0}
    )  # fmt: skip

    # 100,000 blocks, of which 90,000 were not in the buffers.
    assert made.scanned_blocks == pytest.approx(90_000, rel=0.01)
    assert made.mix(45_000).weights["scan"] == pytest.approx(2.0, rel=0.01)
    assert made.rate(45_000) == pytest.approx(12.0, rel=0.01)


def test_scans_of_small_tables_are_cpu_and_no_reads() -> None:
    """The tellers and branches of pgbench are scanned in the buffers: no table is read for them."""
    reads = StatementUse(kind="select", calls=200.0, share=1 / 7, rows=200.0)
    made = workload_mix.of(
        {"commits": 200.0, "statements": 1400.0, "tuples_fetched": 455.0, "blocks_read": 222.0,
         "tuples_returned": 44_583.0, "tuples_inserted": 200.0, "tuples_updated": 600.0,
         "tuples_deleted": 0.0, "blocks_hit": 4632.0},
        statements=[reads],
    )  # fmt: skip

    assert made.scanned_blocks == 0.0
    # Its rows are found by a scan now and then; that 200 statements a second gave one row remains.
    assert made.point == pytest.approx(200.0)
    assert any("CPU only" in words for words in made.assumptions)


def test_a_device_alone_gives_reads_scans_and_updates() -> None:
    """What iostat saw: bytes and requests are those of the load, and what is guessed is said."""
    made = workload_mix.of({"read_iops": 1000.0, "read_mbps": 8.192, "write_iops": 200.0})
    large = workload_mix.of({"read_iops": 1000.0, "read_mbps": 131.072})

    assert (made.point, made.update) == (1000.0, 100.0)
    assert made.scanned_blocks == pytest.approx(0, abs=1e-6)
    assert large.point == pytest.approx(0, abs=1e-6)
    assert large.scanned_blocks == pytest.approx(16_000)
    assert len(made.assumptions) == 2


@pytest.mark.parametrize("block_bytes", [131_072, 262_144])
def test_a_device_with_large_blocks_has_larger_scans(block_bytes: int) -> None:
    """A read of one block is a row, and one of two blocks a part of a scan."""
    mbps = 1000 * block_bytes / 1e6
    rows = workload_mix.of({"read_iops": 1000.0, "read_mbps": mbps}, block_bytes=block_bytes)
    scans = workload_mix.of({"read_iops": 1000.0, "read_mbps": 2 * mbps}, block_bytes=block_bytes)

    assert [rows.point, rows.scanned_blocks] == pytest.approx([1000, 0], abs=1e-6)
    assert [scans.point, scans.scanned_blocks] == pytest.approx([0, 2000], abs=1e-6)


def test_the_cpu_of_the_server_is_burnt_and_not_that_of_the_host() -> None:
    """Where both are known the server's own counts; of the host's alone it is said."""
    both = workload_mix.of(SELECT_ONLY | {"server_cpu_cores": 2.0, "cpu_cores": 3.0})
    host = workload_mix.of(SELECT_ONLY | {"cpu_cores": 3.0})

    assert both.mix(1).cpu == pytest.approx(0.002)
    assert host.mix(1).cpu == pytest.approx(0.003)
    assert any("all CPU of the source's host" in words for words in host.assumptions)


def test_any_counters_give_work_that_is_finite_and_not_negative() -> None:
    """Whatever columns there are, and whatever stands in them: no error, no negative rate."""
    draw = random.Random(5)
    for _ in range(3000):
        names = draw.sample(sorted(KNOWN), draw.randint(0, 30))
        columns: dict[str, Any] = {
            name: draw.choice([0.0, draw.random(), 10 ** draw.uniform(-6, 15)]) for name in names
        }
        made = workload_mix.of(columns, block_bytes=draw.choice([None, 1, 512, 8192, 1 << 20]))
        rates = (made.point, made.range, made.update, made.insert, made.scanned_blocks)
        assert all(0 <= rate < 1e17 for rate in rates)
        if made.rate(1000):
            assert made.mix(1000).total > 0


def test_the_hot_share_parts_the_tables_where_the_accesses_part() -> None:
    """A tenth of the bytes with nine tenths of the accesses is 10%/90%, a mix takes it so."""
    tables = (
        TableUse(name="history", bytes=90 << 30, blocks_read=100.0),
        TableUse(name="orders", bytes=10 << 30, blocks_hit=900.0),
    )
    pgbench = (
        TableUse(name="accounts", bytes=313_540_608, blocks_hit=209_493.0, blocks_read=15_524.0),
        TableUse(name="tellers", bytes=32_768, blocks_hit=57_889.0),
        TableUse(name="branches", bytes=24_576, blocks_hit=44_905.0),
    )

    assert hot_share(tables) == "10.00%/90.0%"
    assert hot_share(pgbench) == "0.10%/31.4%"
    assert hot_share(tables[:1]) == ""
    assert hot_share(()) == ""
    assert hot_share([TableUse(name="unused", bytes=5)]) == ""
    assert workload_mix.StatementLoad(point=1.0, hot=hot_share(tables)).mix(10).hot_share == (
        0.1,
        0.9,
    )


def test_the_working_set_is_all_of_the_data_where_nobody_knows_better() -> None:
    """And which of them it is, is said."""
    known = profile(commits=1.0)
    from_profile = ResourceProfile(
        known.source, known.ends, known.spans, known.columns,
        working_set=WorkingSet(bytes=1 << 30, method="tables that were read"),
    )  # fmt: skip

    assert requirement.of(known).working_set_bytes == 10 << 30
    assert requirement.of(from_profile).working_set_bytes == 1 << 30
    assert requirement.of(from_profile).working_set_method == "tables that were read"


def test_what_is_not_in_the_profile_is_not_tested() -> None:
    """Each missing thing stands in the list, beside what no mix can do."""
    words = " | ".join(requirement.of(profile(commits=5.0)).not_tested)

    assert "joins" in words
    assert "CPU: not in the profile" in words
    assert "network: not in the profile" in words
    few = requirement.of(profile(commits=5.0, temp_mbps=3.0, lock_waits=2.0)).not_tested
    assert any("temporary files, of which the source wrote 3 MB/s" in one for one in few)
    assert any("locks of the application" in one for one in few)


def test_a_profile_with_chance_changes_is_shown_and_sized_or_refused(tmp_path: Path) -> None:
    """Whatever stands in a profile's file: a report, a page and a requirement, or a sentence."""
    draw = random.Random(11)
    made = profile(90, commits=50.0, read_iops=9.0, write_iops=3.0, cpu_cores=1.0, blocks_hit=7.0,
                   read_await_ms=1.0, blocks_read=2.0)  # fmt: skip
    path = tmp_path / "x.profile"
    profiles.save(path, made)
    data, kept = path.read_bytes(), 0
    for case in range(80):
        path.write_bytes(mutate(data, draw) if case % 2 else _number(data, draw))
        try:
            one = profiles.load(path)
            summary = report.summary(one)
            console.text(terminal_writer.render(report.document(summary)))
            page_writer.page(report.document(summary))
            requirement.of(one, growth=1.5).work.mix(1000)
            kept += 1
        except ReplayerError:
            continue
    assert kept


def _number(data: bytes, draw: random.Random) -> bytes:
    """Return data with another number in the place of one."""
    place = draw.choice(list(NUMBER.finditer(data)))
    number = draw.choice([b"1e300", b"1e17", b"0", b"-1", b"1e-300", b"5e-324", b"1e12", b"null"])
    return data[: place.start()] + number + data[place.end() :]


def test_a_requirement_is_a_record_that_can_be_kept() -> None:
    """It is a noun: as JSON and back it is the same."""
    made = requirement.of(profile(**TPC_B), growth=1.5)

    assert requirement.Requirement.model_validate_json(made.model_dump_json()) == made


def test_reads_of_others_on_the_sources_disk_are_not_the_databases() -> None:
    """A database that missed 300 blocks/s did not do the 6,200 reads/s of its disk."""
    shared = profile(blocks_read=300.0, read_iops=6200.0, read_mbps=805.0, write_iops=5.0,
                     write_mbps=0.1)  # fmt: skip
    wanted = requirement.of(shared, growth=2.0)
    reads = need(wanted, "read_iops")
    assert reads.measured == pytest.approx(6200)
    assert reads.others == pytest.approx(5900)
    assert reads.required == pytest.approx(600)
    assert "by others" in reads.arithmetic
    assert any("others read that disk" in note for note in wanted.notes)
    alone = profile(blocks_read=7000.0, read_iops=6200.0, read_mbps=50.0, write_iops=5.0,
                    write_mbps=0.1)  # fmt: skip
    own = need(requirement.of(alone), "read_iops")
    assert own.others == 0
    assert own.required == pytest.approx(6200)


@pytest.mark.parametrize("span", [1.0, 60.0, 600.0])
def test_a_backup_does_not_hide_what_the_database_needs_at_another_time(span: float) -> None:
    """The busiest window is that of what others left: 500 reads and 3,000 writes, no backup."""
    rows = round(86400 / span)
    hour = (np.arange(rows) * span) // 3600
    backup, busy = hour == 2, hour == 14

    def by_hour(usual: float, at_backup: float, at_busy: float) -> NDArray[np.float64]:
        return np.select([backup, busy], [at_backup, at_busy], usual)

    one = profile(
        rows, span, commits=by_hour(100, 100, 1000), blocks_read=by_hour(300, 50, 500),
        read_iops=by_hour(300, 9000, 500), write_iops=by_hour(200, 100, 3000),
        read_mbps=by_hour(2.4, 900, 4), write_mbps=by_hour(2, 1, 30),
    )  # fmt: skip
    made = requirement.of(one)

    assert need(made, "read_iops").required == pytest.approx(500)
    assert need(made, "iops").required == pytest.approx(3500)
    assert need(made, "mbps").required == pytest.approx(34)
    assert not any(one.others for one in made.needs)
    told = [note for note in made.notes if "others read that disk" in note]
    assert any("8,950/s of the 9,100/s" in note for note in told), told
    assert requirement.of(one, by="iops").begin == pytest.approx(START + 14 * 3600, abs=span)


@pytest.mark.parametrize("percentile", [50.0, 95.0, 100.0])
def test_a_device_needs_no_less_than_its_writes(percentile: float) -> None:
    """Whatever of its reads is taken for others': reads and writes are no less than the writes."""
    draw = np.random.default_rng(7)
    for _ in range(40):
        columns: dict[str, Any] = {
            name: draw.choice([0.0, 1.0, 10.0, 100.0, 1000.0], 600 // 60).repeat(60)
            for name in (
                "commits", "blocks_read", "read_iops", "write_iops", "read_mbps", "write_mbps"
            )
        }  # fmt: skip
        made = requirement.of(profile(**columns), percentile=percentile)
        for both, part in (("iops", "write_iops"), ("mbps", "write_mbps"), ("iops", "read_iops")):
            assert need(made, both).required >= need(made, part).required * (1 - 1e-9)


def test_reads_that_are_counted_seconds_later_are_not_taken_for_others() -> None:
    """A server counts a statement's blocks at its end: rows of seconds are compared by minutes."""
    second = np.arange(600)
    late = np.where(second % 10 == 9, 1000.0, 0.0)
    made = requirement.of(profile(commits=1.0, blocks_read=late, read_iops=100.0, read_mbps=0.8,
                                  write_iops=1.0, write_mbps=0.1))  # fmt: skip

    assert need(made, "read_iops").required == pytest.approx(100)
    assert need(made, "read_iops").others == 0


def test_blocks_that_are_counted_at_the_end_of_a_long_statement_are_its_own() -> None:
    """A scan of twenty minutes has read all the while, though it is counted in its last one."""
    seconds = 10.0 * (1 + np.arange(1080))
    scan = (seconds > 3600) & (seconds <= 4800)
    reads = np.where(scan, 1600.0, 100.0)
    counted = np.where(scan, 0.0, 150.0)
    counted[scan.nonzero()[0][-1]] = 1600 * 120
    made = requirement.of(
        profile(1080, span=10.0, commits=1.0, blocks_read=counted, read_iops=reads,
                read_mbps=reads * 0.008192, write_iops=1.0, write_mbps=0.1),
        window=1200,
    )  # fmt: skip

    assert need(made, "read_iops").required == pytest.approx(1600, rel=0.02)
    assert need(made, "read_iops").others == pytest.approx(0, abs=16)


@pytest.mark.parametrize("span", [60.0, 3600.0])
def test_blocks_from_the_page_cache_are_not_those_of_a_backup_before(span: float) -> None:
    """They are counted as read in every minute, and none of them has read the disk earlier."""
    hour = (np.arange(round(48 * 3600 / span)) * span // 3600) % 24
    reads = np.where(hour == 2, 9000.0, 10.0)
    made = requirement.of(
        profile(len(hour), span=span, commits=1.0, read_iops=reads, read_mbps=reads * 0.1,
                blocks_read=np.where(hour == 2, 50.0, 3000.0), write_iops=5.0, write_mbps=0.1),
    )  # fmt: skip

    assert need(made, "read_iops").required == pytest.approx(50)
