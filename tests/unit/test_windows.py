"""windows: means, percentiles and the busiest of any length are the rows', without the gaps."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from replayer.analysis.profiles import rolling_windows, usage
from replayer.analysis.profiles.rolling_windows import Signal
from replayer.results.profile import ProfileSource, ResourceProfile, WorkingSet
from replayer.sizing import requirement
from tests.known import known

START = 1_795_000_000.0


def signal(rows: Sequence[tuple[float, float, float]], start: float = START) -> Signal:
    """Return a signal of (end, span, value)."""
    ends, spans, values = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return rolling_windows.signal(ends + start, spans, values)


def seconds(values: Sequence[float] | NDArray[np.float64], start: float = START) -> Signal:
    """Return a signal of a value each second."""
    return signal([(i + 1.0, 1.0, value) for i, value in enumerate(values)], start)


def random_rows(draw: random.Random, many: int) -> list[tuple[float, float, float]]:
    """Return rows of many lengths, some of them not known, with gaps between some."""
    at, rows = 0.0, []
    for _ in range(many):
        at += draw.choice([0, 0, 0, 0.5, 7.25])
        span = draw.choice([0.25, 1, 1, 2, 5])
        at += span
        rows.append((at, span, draw.choice([float("nan"), draw.uniform(0, 1e6)])))
    return rows


def brute(
    rows: Sequence[tuple[float, float, float]], low: float, high: float
) -> tuple[float | None, float]:
    """Return a mean over a time, and how much of it is known, in steps that divide every row."""
    step = 0.25
    values = []
    for i in range(round((high - low) / step)):
        middle = low + (i + 0.5) * step
        values += [v for end, span, v in rows if end - span < middle < end and isfinite(v)]
    return (sum(values) / len(values) if values else None), len(values) * step


def test_a_mean_of_a_grid_has_the_weights_of_its_rows() -> None:
    """One slow read beside 99 fast ones; where nothing was read, no time of a read is known."""
    ends, spans = np.arange(1.0, 5.0) + START, np.ones(4)
    one = rolling_windows.signal(
        ends, spans, np.array([10.0, 1.0, 0.0, 0.0]), np.array([1.0, 99.0, 0.0, 0.0])
    )
    means, most = rolling_windows.grid(one, np.array([0.0, 2.0, 4.0]) + START)

    assert means[0] == pytest.approx(1.09)
    assert most[0] == 10.0
    assert np.isnan(means[1])


def test_a_window_has_the_mean_of_what_is_known_in_it() -> None:
    """Against a mean in small steps, for rows of many lengths with gaps, at any offset of time."""
    draw = random.Random(1)
    for _ in range(15):
        rows = random_rows(draw, 40)
        if not any(isfinite(v) for *_, v in rows):
            continue
        made = rolling_windows.sliding(signal(rows), 5.0)
        for end, mean in zip(made.ends, made.means, strict=True):
            expected, known = brute(rows, end - START - 5, end - START)
            assert known >= 4.0
            assert mean == pytest.approx(expected, rel=1e-6)


def test_the_most_of_a_window_is_found_wherever_it_begins() -> None:
    """A burst over the edge of two minutes is one busy minute, not two halves of one."""
    values = [0.0] * 600
    values[90:150] = [413.0] * 60

    most = rolling_windows.spread(rolling_windows.sliding(seconds(values), 60.0))

    assert known(most).most == 413.0
    assert known(most).most_end == START + 150


@pytest.mark.parametrize("burst", [slice(0, 57), slice(543, 600)])
def test_the_busiest_minute_does_not_reach_beyond_the_rows(burst: slice) -> None:
    """A burst of 57 s at the begin or the end is 95 % of a minute, all of which is known."""
    values = np.zeros(600)
    values[burst] = 1000.0

    most = known(rolling_windows.spread(rolling_windows.sliding(seconds(values), 60.0)))

    assert most.most == pytest.approx(950.0)


def test_rows_a_little_shorter_than_a_window_are_one() -> None:
    """59 rows of an `iostat 1 60`, of which the first is lost, are its minute, and 50 are none."""
    values = np.arange(59.0)

    most = known(rolling_windows.spread(rolling_windows.sliding(seconds(values), 60.0)))

    assert most.most == pytest.approx(values.mean())
    assert rolling_windows.spread(rolling_windows.sliding(seconds(values[:50]), 60.0)) is None


def test_no_window_of_any_place_holds_more_than_the_most() -> None:
    """Windows at random places are never above it."""
    draw = random.Random(2)
    rows = [(float(i + 1) * 2, 2.0, draw.uniform(0, 100)) for i in range(200)]
    most = known(rolling_windows.spread(rolling_windows.sliding(signal(rows), 7.0))).most
    one = signal(rows)
    for _ in range(500):
        begin = START + draw.uniform(0, 390)
        assert known(rolling_windows.mean_between(one, begin, begin + 7)) <= most + 1e-9


def test_an_hours_mean_says_nothing_of_a_minute() -> None:
    """58 MB/s over an hour may hold a minute at 413: minutes are not known, and it is said why."""
    hours = signal([(3600.0 * (i + 1), 3600.0, 58.0) for i in range(24)])

    assert rolling_windows.reason_unknown(hours, 60.0) == "values are averages over 1 h 00 min"
    assert rolling_windows.reason_unknown(hours, 3600.0) == ""
    assert not len(rolling_windows.sliding(hours, 60.0).means)


def test_seconds_that_are_a_little_long_are_still_seconds() -> None:
    """A profiler's second is 1.03 s now and then; one of 3 s is left out of the seconds."""
    rows = [(1.03, 1.03, 1.0), (2.0, 0.97, 2.0), (5.0, 3.0, 100.0), (6.0, 1.0, 3.0)]
    made = rolling_windows.sliding(signal(rows), 1.0)

    assert made.means[made.shares > 0].max() == 3.0
    assert rolling_windows.sliding(signal(rows), 3.0).means.max() == 100.0


def test_a_gap_is_no_zero() -> None:
    """A minute of which four fifths are known has their mean; one with less is not there."""
    values = [100.0] * 55
    rows = [(i + 1.0, 1.0, v) for i, v in enumerate(values)]
    resumed = [(100.0 + i, 1.0, 100.0) for i in range(60)]
    made = rolling_windows.sliding(signal(rows + resumed), 60.0)

    assert set(made.means.tolist()) == {100.0}
    assert len(rolling_windows.sliding(signal(rows[:40]), 60.0).means) == 0


def test_percentiles_are_weighted_by_time() -> None:
    """One row of 90 s at 1 and ten of 1 s at 100: half the time it is 1, and p95 is 100."""
    values, weights = np.array([100.0] * 10 + [1.0]), np.array([1.0] * 10 + [90.0])

    assert rolling_windows.quantiles(values, weights, (50, 90, 95, 100)) == (1.0, 1.0, 100.0, 100.0)


def test_percentiles_of_equal_rows_are_numpys_inverted_cdf() -> None:
    """For rows of one length they are the textbook's."""
    values = np.random.default_rng(3).random(997)
    for percentile in (1, 50, 95, 99, 100):
        expected = np.percentile(values, percentile, method="inverted_cdf")
        assert rolling_windows.quantile(values, np.ones(997), percentile) == expected


def test_minutes_above_a_level_are_of_a_day_or_of_what_is_known() -> None:
    """A tenth of two days is 144 minutes a day; a tenth of 10 minutes is 1 of these 10."""
    days = rolling_windows.sliding(seconds(([10.0] * 900 + [50.0] * 100) * 180), 1.0)
    short = rolling_windows.sliding(seconds([10.0] * 540 + [50.0] * 60), 1.0)

    assert rolling_windows.minutes_above(days, 20.0) == pytest.approx(144.0)
    assert rolling_windows.minutes_above(short, 20.0) == pytest.approx(1.0)
    for made, whole in ((days, 1440.0), (short, 10.0)):
        assert rolling_windows.minutes_above(made, 50.0) == 0.0
        assert rolling_windows.minutes_above(made, 0.0) == pytest.approx(whole)


def test_the_curve_of_levels_agrees_with_minutes_above() -> None:
    """Each of its points is what minutes_above says, and it falls to 0."""
    made = rolling_windows.sliding(seconds(np.random.default_rng(4).random(5000) * 100), 1.0)
    levels, minutes = rolling_windows.exceedance(made)

    assert len(levels) <= 200
    assert minutes[-1] == 0
    assert all(b <= a for a, b in itertools.pairwise(minutes))
    for level, above in itertools.islice(zip(levels, minutes, strict=True), 0, None, 20):
        assert above == pytest.approx(rolling_windows.minutes_above(made, level), abs=1e-9)


def test_a_mean_of_waits_is_that_of_the_requests() -> None:
    """1 request that waited 100 ms beside 99 that waited 1 ms: 1.99 ms, not 50."""
    one = rolling_windows.signal(
        np.array([1.0, 2.0]), np.ones(2), np.array([100.0, 1.0]), np.array([1.0, 99.0])
    )

    assert rolling_windows.sliding(one, 2.0).means[0] == pytest.approx(1.99)


def test_a_window_in_which_nothing_was_weighed_is_not_known() -> None:
    """Nobody waited for a read where there was none."""
    one = rolling_windows.signal(
        np.array([1.0, 2.0]), np.ones(2), np.array([0.0, 5.0]), np.zeros(2)
    )

    assert not len(rolling_windows.sliding(one, 1.0).means)


@pytest.mark.parametrize("many", [0, 1, 2, 50])
def test_any_rows_at_all_give_windows_or_none(many: int) -> None:
    """Rows of every length, all NaN or zero: no warning, no error, no mean outside the rows."""
    draw = random.Random(many)
    for _ in range(60):
        rows = random_rows(draw, many) or [(1.0, 1.0, float("nan"))]
        one = signal(rows)
        for length in (1.0, 2.0, 60.0, 600.0):
            made = rolling_windows.sliding(one, length)
            spread = rolling_windows.spread(made)
            rolling_windows.exceedance(made)
            assert rolling_windows.minutes_above(made, 1.0) <= 1440.0
            if spread is not None:
                assert one.values.min() <= min(spread.percentiles)
                assert max(spread.percentiles) <= spread.most <= one.values.max()


def profile(seconds_: int = 120, **columns: Any) -> ResourceProfile:
    """Return a profile of seconds."""
    return ResourceProfile(
        ProfileSource(kind="live", averaged_seconds=1.0),
        START + 1.0 + np.arange(seconds_, dtype=float),
        np.ones(seconds_),
        {name: np.broadcast_to(np.asarray(v, float), seconds_) for name, v in columns.items()},
    )


def test_what_is_read_each_ten_seconds_says_nothing_of_a_second() -> None:
    """The server's CPU stands in ten rows each: its seconds are not known, its minutes are."""
    values = np.repeat(np.arange(12.0), 10)
    values[53:60] = np.nan
    use = usage.usage(profile(cpu_cores=1.0, server_cpu_cores=values), "server_cpu")

    assert use.unknown[1.0] == "values are averages over 10.0 s"
    assert use.spreads[60.0].most == pytest.approx(8.5)


def test_rows_are_joined_only_where_they_follow_each_other() -> None:
    """Not over a gap, and not into rows that are longer than a reading."""
    ends = np.array([1.0, 2, 3, 6, 7, 8])
    one = rolling_windows.joined(
        rolling_windows.signal(ends, np.ones(6), np.array([5.0, 5, 5, 5, 5, 9])), 2.0
    )

    assert one.begins.tolist() == [0, 2, 5, 7]
    assert one.ends.tolist() == [2, 3, 7, 8]


def test_a_sum_is_known_where_all_of_its_columns_are() -> None:
    """Reads and writes together are not known where one of them is not; rollbacks may lack."""
    reads = np.full(120, 10.0)
    reads[:30] = np.nan
    one = profile(read_iops=reads, write_iops=5.0, commits=7.0)
    known = {use.resource.name: use for use in usage.usages(one)}

    assert known["iops"].share == 0.75
    assert known["iops"].spreads[1.0].most == 15.0
    assert known["transactions"].spreads[1.0].most == 7.0
    assert "cpu" not in known


def test_the_busiest_minute_is_that_of_the_transactions_where_these_are_known() -> None:
    """And every column's mean in it is there."""
    commits = np.full(600, 10.0)
    commits[200:260] = 100.0
    moment = usage.moment(
        one := profile(600, commits=commits, cpu_cores=commits / 50), known(usage.leading(one))
    )

    assert (known(moment).begin, known(moment).end) == (START + 200, START + 260)
    assert known(moment).columns == {"commits": 100.0, "cpu_cores": 2.0}


FULL = dict.fromkeys(
    [
        *("cpu_cores", "memory_bytes", "read_iops", "write_iops", "read_mbps", "commits"),
        *("tuples_inserted", "blocks_hit", "wal_mbps", "sessions", "net_in_mbps"),
    ],
    1.0,
)


def day(**columns: Any) -> ResourceProfile:
    """Return a profile of a day in minutes."""
    many = 1440
    return ResourceProfile(
        ProfileSource(kind="live", averaged_seconds=60.0),
        START + 60.0 * (1 + np.arange(many, dtype=float)),
        np.full(many, 60.0),
        {name: np.broadcast_to(np.asarray(v, float), many) for name, v in columns.items()},
        working_set=WorkingSet(bytes=1 << 30, method="counted"),
    )


def test_a_whole_day_of_everything_is_whole() -> None:
    """And each thing that lacks makes it less, and is said with what it means."""
    assert usage.completeness(day(**FULL)).grade is usage.Grade.WHOLE
    for name in FULL:
        rest = {key: value for key, value in FULL.items() if key != name}
        less = usage.completeness(day(**rest))
        assert less.grade is not usage.Grade.WHOLE
        assert len(less.reasons) == 1
    few = usage.completeness(day(sessions=1.0))
    assert few.grade is usage.Grade.POOR


@pytest.mark.parametrize(
    ("cores", "gib", "words"),
    [(4, 8, []), (2, 8, ["3 cores were in use"]), (2, 1, ["3 cores", "2.00 GiB were in use"])],
)
def test_more_in_use_than_the_machine_has_is_said(cores: int, gib: int, words: list[str]) -> None:
    """A profile that contradicts itself, as by percents of another kind, says so with figures."""
    busy = day(**FULL | {"cpu_cores": 3.0, "memory_bytes": 2.0 * (1 << 30)})
    machine = {"cores": cores, "memory_bytes": gib << 30}
    busy = replace(busy, source=busy.source.model_copy(update=machine))
    told = usage.completeness(busy)

    assert len(told.reasons) == len(words)
    assert all(one in reason for one, reason in zip(words, told.reasons, strict=True))
    assert (told.grade is usage.Grade.WHOLE) == (not words)
    assert [note for note in requirement.of(busy).notes if "one of the two is wrong" in note] == [
        *told.reasons
    ]


def test_half_a_day_of_cpu_is_said() -> None:
    """A resource that is known for a part of the time is named with its share."""
    half = np.where(np.arange(1440) < 720, 1.0, np.nan)
    reasons = usage.completeness(day(**FULL | {"cpu_cores": half})).reasons

    assert [reason for reason in reasons if reason.startswith("CPU: known for 50%")]
