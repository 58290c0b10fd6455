"""readings: totals become rates, and whatever cannot be subtracted becomes a gap."""

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replayer.engines import engine as engines
from replayer.engines.connection import Row
from replayer.errors import Impossible
from replayer.machine import processes, processors
from replayer.machine.diskstats import DiskCounters
from replayer.results.profile import Gap, ProfileSource
from replayer.sizing import machine, source
from replayer.sizing.counters import Own, SourceReading, UnsavedRows, gap, moved
from replayer.sizing.working_set import Relation, Relations, estimated, tables

BLOCK = 8192


def reading(
    clock: float,
    *,
    time: float | None = None,
    started: str = "a",
    resets: tuple[str, ...] = ("1",),
    **values: float,
) -> SourceReading:
    """Return a reading at a second of the monotonic clock."""
    return SourceReading(clock, 1e9 + clock if time is None else time, values, started, resets)


def test_totals_become_rates_and_gauges_stay() -> None:
    """A total's difference is over the seconds that passed; a gauge is the later one."""
    before = reading(10.0, commits=100.0, sessions=5.0)
    after = reading(12.0, commits=150.0, sessions=9.0, rollbacks=3.0)

    rates = moved(before, after)

    assert gap(before, after) == ""
    assert rates["commits"] == 25
    assert rates["sessions"] == 9
    assert math.isnan(rates["rollbacks"])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"started": "b"}, "the server was started anew"),
        ({"resets": ("2",)}, "the server's statistics were reset"),
        ({"commits": 3.0}, "the server's statistics were reset (commits went back)"),
        ({"commits": 0.0}, "the server's statistics were reset (commits went back)"),
        ({"time": 1e9 + 12 + 3600}, "this machine's clock was set forward 3600.0 s"),
        ({"time": 1e9 + 12 - 60}, "this machine's clock was set back 60.0 s"),
        ({"commits": math.nan}, ""),
        ({"sessions": 0.0}, ""),
        ({"time": 1e9 + 12.3}, ""),
    ],
)
def test_what_cannot_be_subtracted_is_a_gap(changed: dict[str, Any], reason: str) -> None:
    """A start, a reset, a total that fell, a clock that was set; a gauge may fall."""
    before = reading(10.0, commits=100.0, sessions=5.0)
    after = reading(12.0, **{"commits": 150.0, "sessions": 9.0, **changed})

    assert gap(before, after) == reason


def test_a_total_of_several_counters_may_step_back_a_little() -> None:
    """What is read one after the other differs by a few: that is 0, no reset and not negative."""
    before, after = reading(10.0, blocks_hit=1e9), reading(11.0, blocks_hit=1e9 - 3)

    assert gap(before, after) == ""
    assert moved(before, after)["blocks_hit"] == 0


def test_the_profilers_own_work_is_taken_out_however_late_it_is_counted() -> None:
    """A server that counts every other second neither hides load nor makes a rate negative."""
    own = Own("commits")
    rates = []
    for second in range(100):
        own.did(5)
        counted = 10 if second % 2 else 0
        rates.append(own.taken_out({"commits": 50.0 + counted}, 1.0)["commits"])

    assert min(rates) >= 0
    assert np.mean(rates) == pytest.approx(50, abs=0.2)
    assert own.taken_out({"commits": 0.0}, 1.0)["commits"] == 0
    assert math.isnan(own.taken_out({"commits": math.nan}, 1.0)["commits"])


def test_rates_that_are_read_seldom_fill_the_rows_in_between() -> None:
    """Ten rows get the rate of their ten seconds, and rows before them keep what they had."""
    rows = UnsavedRows()
    for second in range(1, 16):
        rows.add(1e9 + second, float(second), 1.0, {"commits": float(second)})
    rows.fill(5.0, {"statements": 7.0})

    part = rows.profile(ProfileSource(kind="live", averaged_seconds=1))

    assert np.isnan(part.column("statements")[:5]).all()
    assert (part.column("statements")[5:] == 7).all()
    assert list(part.columns) == ["commits", "statements"]


def test_what_was_saved_is_forgotten_and_nothing_else() -> None:
    """Rows, gaps and notes that came while it was saved are in the next part."""
    rows = UnsavedRows(notes=["first"])
    rows.add(1.0, 1.0, 1.0, {"commits": 1.0})
    part = rows.profile(ProfileSource(kind="live", averaged_seconds=1))
    rows.add(2.0, 2.0, 1.0, {"commits": 2.0})
    rows.gaps.append(Gap(begin=2, end=3, reason="x"))
    rows.notes.append("second")

    rows.without(part)
    rest = rows.profile(part.source)

    assert rest.ends.tolist() == [2.0]
    assert rest.notes == ("second",)
    assert len(rest.gaps) == 1


def relation(*, table: str = "public.t", heap: bool = True, **changed: float) -> Relation:
    """Return a heap of 1,000 blocks and 100,000 rows to which nothing was done."""
    done = dict.fromkeys(
        ("blocks_hit", "blocks_read", "tuples_scanned", "tuples_read", "tuples_written"), 0.0
    )
    sizes = {"bytes": 1000.0 * BLOCK, "tuples": 1e5}
    return Relation(table=table, heap=heap, **{**sizes, **done, **changed})


def test_what_was_done_before_the_profile_is_not_in_it() -> None:
    """Only what moved between readings counts; a new relation began at 0."""
    relations = Relations()
    relations.read({"1": relation(blocks_hit=1e6), "2": relation(blocks_hit=50.0)})
    relations.read({"1": relation(blocks_hit=1e6 + 10), "2": relation(blocks_hit=3.0)})
    relations.read(
        {
            "1": relation(blocks_hit=1e6 + 15),
            "2": relation(blocks_hit=5.0),
            "3": relation(blocks_read=7.0),
        }
    )

    done = {(one.blocks_hit, one.blocks_read) for one in relations.done()}

    assert done == {(15.0, 0.0), (2.0, 0.0), (0.0, 7.0)}


def test_tables_have_their_indexes_in_them() -> None:
    """Blocks and bytes of all relations of a table are added up, rows are those of its heap."""
    uses = tables(
        [
            relation(blocks_hit=10.0, tuples_read=5.0),
            relation(heap=False, bytes=100.0 * BLOCK, blocks_read=30.0, tuples_read=99.0),
            relation(table="public.more", blocks_hit=100.0),
        ]
    )

    assert [use.name for use in uses] == ["public.more", "public.t"]
    assert uses[1].bytes == 1100 * BLOCK
    assert (uses[1].blocks_hit, uses[1].blocks_read, uses[1].tuples_read) == (10, 30, 5)


@pytest.mark.parametrize(
    ("done", "blocks", "near"),
    [
        ({"blocks_hit": 100.0}, 95.2, 0.1),
        ({"blocks_hit": 1000.0}, 632.1, 0.1),
        ({"blocks_hit": 1e6}, 1000.0, 0.1),
        ({"blocks_read": 1e3, "tuples_scanned": 1e5}, 1000.0, 0.1),
        ({"blocks_hit": 1e6, "bytes": 0.0}, 0.0, 0.1),
    ],
)
def test_the_working_set_is_the_blocks_that_random_accesses_touch(
    done: dict[str, Any], blocks: float, near: float
) -> None:
    """N(1 - exp(-A/N)) by simulation's own law; whole where a scan read all."""
    estimate = estimated([relation(**done)], BLOCK, math.inf, 60)

    assert estimate.bytes is not None
    assert estimate.bytes / BLOCK == pytest.approx(blocks, abs=near)
    assert "at random" in estimate.method


def test_the_formula_is_what_a_simulation_gives() -> None:
    """Distinct blocks of random accesses, counted, agree within 1 percent."""
    random = np.random.default_rng(5)
    distinct = np.unique(random.integers(0, 1000, 1500)).size

    estimate = estimated([relation(blocks_hit=1500.0)], BLOCK, math.inf, 60)
    assert estimate.bytes is not None
    assert estimate.bytes / BLOCK == pytest.approx(distinct, rel=0.03)


def test_the_working_set_is_no_more_than_the_buffers_and_what_was_read() -> None:
    """A million hits without a read fit into the server's own buffers."""
    estimate = estimated([relation(blocks_hit=1e6, blocks_read=10.0)], BLOCK, 200.0 * BLOCK, 60)

    assert estimate.bytes == 210 * BLOCK
    assert "bounded" in estimate.method


@pytest.mark.parametrize(
    ("seconds", "every"), [(60, 0.01), (0.5, 1), (0, 1), (1e9, 1), (math.inf, 1)]
)
def test_a_time_that_makes_no_profile_is_refused(seconds: float, every: float) -> None:
    """Too often, too short or too long is one sentence, before anybody is asked anything."""
    with pytest.raises(Impossible, match="--every"):
        source.check(source.ProfileRequest(engines.load("postgres"), "", seconds, every))


def test_lateness_does_not_add_up() -> None:
    """The next reading is a whole interval after the first, also where some were missed."""
    assert source._next(10.0, 1.0, 10.1) == 11.0
    assert source._next(10.0, 1.0, 13.4) == 14.0
    assert source._next(10.0, 1.0, 9.99) == 11.0


def test_times_that_a_software_raid_does_not_count_are_not_in_the_profile() -> None:
    """Before Linux 5.9 they are 0 since boot; its requests are counted, and so is a disk's time."""

    def rates(first: DiskCounters, last: DiskCounters) -> tuple[float, ...]:
        ticks, memory = dict.fromkeys(processors.STATES, 0), dict[str, int]()
        before, after = (
            machine.Totals(clock, ticks, 2, memory, (device,), (0, 0))
            for clock, device in ((0.0, first), (1.0, last))
        )
        row = machine.rates(before, after)
        return tuple(row[name] for name in ("read_iops", "read_await_ms", "queue_depth"))

    raid = DiskCounters(*(1_000_000, 0, 16_000_000, 0), *(500_000, 0, 8_000_000, 0), *(0, 0, 0))
    disk = raid._replace(read_ms=9, queue_ms=9)
    later = {"reads": 1_100_000, "sectors_read": 16_800_000}
    unknown = pytest.approx((100_000, math.nan, math.nan), nan_ok=True)

    assert rates(raid, raid._replace(**later)) == unknown
    assert rates(disk, disk._replace(**later, read_ms=209, queue_ms=509)) == (100_000, 0.002, 0.5)


def test_the_requests_of_several_disks_are_added_up() -> None:
    """What is not known of one of them is not known of both."""

    def rates(*disks: tuple[DiskCounters | None, DiskCounters | None]) -> dict[str, float]:
        ticks, memory = dict.fromkeys(processors.STATES, 0), dict[str, int]()
        before, after = (
            machine.Totals(2.0 * i, ticks, 2, memory, tuple(disk[i] for disk in disks), (0, 0))
            for i in (0, 1)
        )
        return machine.rates(before, after)

    disk = DiskCounters(*(100, 0, 1000, 50), *(500, 0, 8000, 70), *(0, 90, 120))
    later = disk._replace(reads=300, sectors_read=5000, read_ms=850, writes=700)
    log = DiskCounters(*(1, 0, 8, 0), *(2**20, 0, 2**24, 2**20), *(0, 2**20, 2**20))
    synced = log._replace(writes=2**20 + 6000, sectors_written=2**24 + 48000)
    both = rates((disk, later), (log, synced))

    assert (both["read_iops"], both["write_iops"]) == (100, 3100)
    assert both["read_mbps"] == pytest.approx(2000 * 512 / 1e6)
    assert both["write_mbps"] == pytest.approx(24000 * 512 / 1e6)
    assert both["read_await_ms"] == 4
    for lost in ((log, None), (None, synced), (log, disk)):
        assert "read_iops" not in rates((disk, later), lost)
    md = (log._replace(read_ms=0, write_ms=0, busy_ms=0, queue_ms=0), synced._replace(
        read_ms=0, write_ms=0, busy_ms=0, queue_ms=0))  # fmt: skip
    assert math.isnan(rates((disk, later), md)["read_await_ms"])
    assert rates((disk, later), md)["write_iops"] == 3100


def test_a_pid_file_that_the_server_names_is_read_in_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken or hostile server may name a device, or a file without an end."""
    monkeypatch.chdir(tmp_path)
    pid = os.getpid()
    (tmp_path / "right").write_text(f"{pid}\n")
    (tmp_path / "long").write_text(f"{' ' * (1 << 20)}{pid}\n")
    about = {"directory": str(tmp_path), "started": processes.started(pid)}

    def located(pid_file: str) -> machine.Location | None:
        return machine.located("postgres", Row({**about, "pid_file": pid_file}), 0)

    assert located("right") == machine.Location(tmp_path, pid, tmp_path)
    assert located("/dev/null") is None
    assert located("long") is None
    assert located("right\0") is None
