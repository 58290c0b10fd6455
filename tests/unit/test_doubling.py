"""The order of the rows, the tasks of the sessions, and what is known before anything is built."""

import itertools

import pytest

from replayer.steps.build import doubling
from replayer.steps.build.doubling import Doubling
from replayer.tables.persons import SEEDS


def plain(doublings: int) -> list[tuple[int, str]]:
    """Return ids and last names after that many doublings, in order, by the definition."""
    rows = [(100 + place, name) for place, name in enumerate(SEEDS)]
    for _ in range(doublings):
        rows += [(id_ + n, name + str(n)) for n, (id_, name) in enumerate(rows, 1)]
    return rows


def by_segments(doublings: int, segment_rows: int) -> list[tuple[int, str]]:
    """Return the same, made as the sessions do: one task after the other, each from its source."""
    segments = {1: [(100 + place, name) for place, name in enumerate(SEEDS)]}
    for one in doubling.doublings(6 << doublings):
        todo = doubling.tasks(one, segment_rows)
        if not todo:
            old = segments[1]
            segments[1] = old + [(i + n, name + str(n)) for n, (i, name) in enumerate(old, 1)]
        for task in reversed(todo):
            old = segments[task.source]
            assert len(old) == task.rows
            segments[task.target] = [
                (i + n, name + str(n)) for n, (i, name) in enumerate(old, task.first_row + 1)
            ]
    return list(itertools.chain(*(segments[number] for number in sorted(segments))))


@pytest.mark.parametrize("segment_rows", [6, 12, 96, 768])
def test_segments_in_any_order_make_the_same_rows(segment_rows: int) -> None:
    """Whoever makes which segment, and whatever its size, the rows are those of the definition."""
    assert by_segments(7, segment_rows) == plain(7)


@pytest.mark.parametrize("rows", [1, 6, 7, 12, 13, 50_331_648, 50_331_649])
def test_doublings_reach_the_rows_and_no_more_than_needed(rows: int) -> None:
    """There are at least as many rows as wanted, and half of them would not do."""
    found = doubling.doublings(rows)
    built = doubling.rows_after(len(found))

    assert built >= rows
    assert not found or built // 2 < rows
    assert [one.rows for one in found] == [6 << number for number in range(len(found))]


def test_the_default_size_is_23_doublings() -> None:
    """23 doublings make 50,331,648 rows in 512 segments."""
    found = doubling.doublings(50_331_648)

    assert len(found) == 23
    assert len(doubling.tasks(found[-1], 98_304)) == 256
    assert doubling.tasks(found[-1], 98_304)[-1].target == 512


def test_a_doubling_goes_on_where_another_ended() -> None:
    """What is left after an interruption is the rest of the same doublings."""
    assert doubling.doublings(100, after=3) == [Doubling(4, 48), Doubling(5, 96)]
    assert doubling.doublings(100, after=5) == []


@pytest.mark.parametrize("doublings", range(0, 14, 3))
def test_length_of_names_is_known_before(doublings: int) -> None:
    """The average is exact and no name is longer than the bound: free space is checked by it."""
    lengths = [len(name) for _, name in plain(doublings)]

    assert doubling.average_name(doublings) == pytest.approx(sum(lengths) / len(lengths))
    assert max(lengths) <= doubling.longest_name(doublings)
