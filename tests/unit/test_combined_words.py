"""report.documents.combined_words: one text for those of all repeats."""

from itertools import permutations

import pytest

from replayer.report.documents.combined_words import combine
from tests.cpu_time import at_once


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([""], ""),
        (["a, b"], "a, b"),
        (["a"] * 3, "a"),
        (["a", "", ""], "a in 1 of 3"),
        (["5 rows", "1,000 rows", "20.5 rows"], "5 to 1,000 rows"),
        (["5 rows", "7 rows", ""], "5 to 7 rows in 2 of 3"),
        (["x: 5 MiB", "x: 6 GiB"], "x: 5 MiB in 1 of 2, 6 GiB in 1 of 2"),
        (["0 errors of their own", "1 error of its own"], "0 to 1 errors of their own"),
        (["1 row is", "1 row is"], "1 row is"),
        (["1 row is of t", "2 rows are of u"], "1 to 2 rows are of t in 1 of 2, u in 1 of 2"),
        (["5 m", "6 ms"], "5 m in 1 of 2, 6 ms in 1 of 2"),
        # The digits of a name are no number.
        (["from t1", "from t2"], "from t1 in 1 of 2, t2 in 1 of 2"),
        (["1.5x", "2.5x"], "1.5x in 1 of 2, 2.5x in 1 of 2"),
        # A range of such numbers could not be read.
        (["2 min 05 s", "3 min 50 s"], "2 min 05 s in 1 of 2, 3 min 50 s in 1 of 2"),
        (["2 min 05 s", "3 min 05 s"], "2 min 05 s in 1 of 2, 3 min 05 s in 1 of 2"),
        (["9 in 1 h 05 min, x", "9 in 5 s, x"], "9 in 1 h 05 min in 1 of 2, 5 s in 1 of 2, x"),
        (["-5 %", "-3 %"], "-5 % in 1 of 2, -3 % in 1 of 2"),
        (["-5 %", "3 %", "4 %"], "-5 % in 1 of 3, 3 to 4 % in 2 of 3"),
        (["at 14:05:33", "at 14:07:33"], "at 14:05:33 in 1 of 2, 14:07:33 in 1 of 2"),
        (["on 2024-01-02", "on 2024-02-01"], "on 2024-01-02 in 1 of 2, 2024-02-01 in 1 of 2"),
        (["up to 4 rows", "up to 5 rows"], "up to 4 rows in 1 of 2, to 5 rows in 1 of 2"),
        (["4 rows up to 9", "5 rows up to 9"], "4 to 5 rows up to 9"),
        (
            ["x (1 to 2), 4 c", "x (3 to 5), 6 c"],
            "x (1 to 2) in 1 of 2, (3 to 5) in 1 of 2, 4 to 6 c",
        ),
        (
            ["1 KiB to 2 MiB", "1 KiB to 3 MiB"],
            "1 KiB to 2 MiB in 1 of 2, 1 KiB to 3 MiB in 1 of 2",
        ),
        (["1% to 2%", "3% to 2%"], "1% to 2% in 1 of 2, 3% to 2% in 1 of 2"),
        (
            ["-1 min 05 s to 2 min 05 s", "3 s to 2 min 05 s"],
            "-1 min 05 s to 2 min 05 s in 1 of 2, 3 s to 2 min 05 s in 1 of 2",
        ),
        (["a b, 4 c", "a d e, 4 c", "a b, 6 c"], "a b in 2 of 3, d e in 1 of 3, 4 to 6 c"),
        (["a # b", "a 5 b"], "a # b in 1 of 2, 5 b in 1 of 2"),
        (["9 in A", "9 in A (not full)"], "9 in A (not full) in 1 of 2"),
        (
            ["a", "b", "c", "d", "e"],
            "a in 1 of 5, b in 1 of 5, c in 1 of 5, others in 2 of 5",
        ),
    ],
)
def test_words_that_differ_are_counted_and_numbers_are_ranges(texts: list[str], words: str) -> None:
    """What repeats have in common stands once."""
    assert combine(texts) == words


@pytest.mark.parametrize(
    "texts",
    [["4 rows from disk", "5 rows from memory", "6 rows from disk"], ["a", "a", ""]],
)
def test_the_counts_do_not_depend_on_the_order(texts: list[str]) -> None:
    """Of repeats in another order, the same words have the same counts."""
    found = {tuple(sorted(combine(order).split(", "))) for order in permutations(texts)}
    without_common = {frozenset(" ".join(part).split()) for part in found}

    assert len(without_common) == 1


@pytest.mark.parametrize("begin", ["", "x", "5", "5 rows"])
@pytest.mark.parametrize("end", ["", "x", "5", ", x"])
@pytest.mark.parametrize(
    "part",
    [" ", ",111", ".1", "1", "-5", ":5", "(5", "5 ", "5 to ", " 5 min 05", "5 rows ", "x", ", "],
)
def test_long_texts_of_a_result_file_are_combined_in_linear_time(
    begin: str, part: str, end: str
) -> None:
    """Nothing in the text of a repeat makes a search begin again at each of its characters."""
    text = f"{begin}{part * (30_000 // len(part))}{end}"
    with at_once((begin, part, end)):
        combine([text, text.replace("5", "6"), ""])
