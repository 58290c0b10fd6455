"""The differences of a server's statistics: what grew, and by how much."""

from decimal import Decimal
from pathlib import Path

import pytest

from replayer.collectors import CollectorContext, WindowRecording
from replayer.collectors.statistics import begin, differences, set_back
from replayer.machine.host import Host


def test_only_what_moved_is_left() -> None:
    """A row or column in which nothing moved says nothing; times and flags are no counters."""
    before = [
        {"who": "client", "object": "relation", "reads": 10, "hits": 7, "reset": object()},
        {"who": "walwriter", "object": "wal", "reads": 3, "hits": 1, "reset": None},
    ]
    after = [
        {"who": "client", "object": "relation", "reads": 33, "hits": 7, "reset": object()},
        {"who": "walwriter", "object": "wal", "reads": 3, "hits": 1, "reset": None},
    ]

    assert differences(before, after) == [{"who": "client", "object": "relation", "reads": 23}]


def test_a_row_that_is_new_grew_from_nothing() -> None:
    """A statement that was first seen in the window was not there before it."""
    rows = differences(
        [{"id": "a", "calls": 5.0, "seconds": Decimal("1.5")}],
        [
            {"id": "a", "calls": 6.0, "seconds": Decimal("1.75")},
            {"id": "b", "calls": 2.0, "seconds": Decimal("0.5")},
        ],
    )

    assert rows == [
        {"id": "a", "calls": 1, "seconds": 0.25},
        {"id": "b", "calls": 2, "seconds": 0.5},
    ]


def test_counters_that_were_set_back_are_not_told() -> None:
    """Somebody reset the view in the middle: less than nothing was never done."""
    assert differences(
        [{"id": "a", "calls": 50, "rows": 1}], [{"id": "a", "calls": 2, "rows": 3}]
    ) == [{"id": "a", "rows": 2}]


def test_a_view_that_is_null_in_parts_is_counted_where_it_is_not() -> None:
    """pg_stat_io has NULL where a backend cannot do a thing; the columns are those of all rows."""
    rows = differences(
        [{"who": "a", "reads": None, "writes": 1}, {"who": "b", "reads": 2, "writes": None}],
        [{"who": "a", "reads": None, "writes": 3}, {"who": "b", "reads": 7, "writes": None}],
    )

    assert rows == [
        {"who": "a", "reads": None, "writes": 2},
        {"who": "b", "reads": 5, "writes": None},
    ]


def test_a_run_without_a_database_has_no_statistics_to_miss(tmp_path: Path) -> None:
    """A probe of the disk is not told that no server was asked."""
    recording = begin(CollectorContext(Host(), None, tmp_path, server=list, own=list))

    recording.mark(1)
    recording.mark(2)

    assert recording.end() == 0.0
    assert recording.cut(1, 2) == WindowRecording()


@pytest.mark.parametrize(
    ("lived", "gone_back"),
    [((100, 160), False), ((100, 158), False), ((100, 40), True), ((5, 12), True)],
)
def test_counters_that_live_shorter_than_the_window_were_set_back(
    lived: tuple[int, int], *, gone_back: bool
) -> None:
    """FLUSH STATUS and a restart begin the count of seconds anew, as they do the others."""
    before, after = (
        (
            {"name": "uptime_since_flush_status", "value": float(seconds)},
            {"name": "a", "value": number},
        )
        for number, seconds in enumerate(lived, start=1)
    )

    assert set_back(before, after, 60.0) is gone_back
    assert differences(before, after) == [{"name": "a", "value": 1}]
