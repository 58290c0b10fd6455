"""The sums over all rows of persons1, against the rows themselves."""

import pytest

from replayer.engines.connection import Row
from replayer.errors import ReplayerError
from replayer.tables import checksum
from tests.expected_rows import expected_rows


@pytest.mark.parametrize("doublings", range(12))
def test_sums_are_those_of_the_rows(doublings: int) -> None:
    """The closed form and plain addition agree after every doubling."""
    rows = expected_rows(doublings)

    assert checksum.sums_after(doublings) == {
        "id_sum": sum(id_ for id_, _ in rows),
        "lastname_sum": sum(len(name) + ord(name[-1]) for _, name in rows),
    }


def test_sum_of_the_ids_is_the_one_that_was_found_on_nine_engines() -> None:
    """98,304 rows."""
    assert checksum.sums_after(14)["id_sum"] == 2_426_191_872


def test_counts_and_sums_are_compared_and_missing_sums_are_missed() -> None:
    """A column that is not a known sum is a count; the sum of the times may be left out."""
    sums = checksum.sums_after(3)

    def check(**counted: int) -> None:
        checksum.check(Row(counted, "count.sql"), 48, {**sums, "time_sum": 7})

    check(rows=48, ids=48, **sums)
    check(rows=48, **sums, time_sum=7)

    with pytest.raises(ReplayerError, match="counted 47 ids where 48 rows were built"):
        check(rows=48, ids=47, **sums)
    with pytest.raises(ReplayerError, match="the ids of the table add up to 1 where 5,"):
        check(rows=48, **{**sums, "id_sum": 1})
    with pytest.raises(ReplayerError, match=r"count\.sql: .* without a column 'id_sum'"):
        check(rows=48)
