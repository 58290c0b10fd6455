"""Closed formulas for the expected sums over all rows of persons1.

Each doubling copies all rows.  The n-th new row is the n-th old row, with n added to its id and the
digits of n appended to its last name.  So a doubling of N rows doubles the sum of the ids and adds
1 + 2 + ... + N.  It doubles the number of characters in the last names and adds the digits of 1..N.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from replayer.engines.verbs import VerbName
from replayer.errors import ReplayerError
from replayer.tables.persons import FIRST_ID, SEEDS

if TYPE_CHECKING:
    from replayer.engines.connection import Database, Row
    from replayer.tables.persons import BuildState

_TIMES = VerbName("table/times")
_TIME_SUM = "time_sum"
_WORDS = {"id_sum": "ids", "lastname_sum": "last names", _TIME_SUM: "times"}


def expected(database: "Database", built: "BuildState") -> dict[str, int]:
    """Return name -> sum that a count of the table must find if the table is intact.

    `built` is the progress of the table's build.  The result has a sum of the times only if the
    engine reports one.
    """
    sums = sums_after(built.doubling or 0)
    verb = database.engine.verb(_TIMES)
    return sums if verb is None else {**sums, _TIME_SUM: database.number(verb)}


def sums_after(doublings: int) -> dict[str, int]:
    """Return id_sum and lastname_sum -> the sum over all rows after a number of doublings.

    The sum of the last names adds, for each name, its number of characters and the code of its last
    character.
    """
    rows = len(SEEDS)
    ids = sum(range(FIRST_ID, FIRST_ID + rows))
    characters = sum(map(len, SEEDS))
    last = sum(ord(name[-1]) for name in SEEDS)
    for _ in range(doublings):
        ids = 2 * ids + rows * (rows + 1) // 2
        characters = 2 * characters + _digits(rows)
        last += _last_digits(rows)
        rows *= 2
    return {"id_sum": ids, "lastname_sum": characters + last}


def check(counted: "Row", rows: int, sums: Mapping[str, int]) -> None:
    """Raise ReplayerError if the numbers found by a count of the table are not those of its build.

    `counted` is the row that the count returned; `rows` and `sums` are the right numbers.  Columns
    of `counted` that are not a known sum are counts of rows.  Only the sum of the times may be left
    out: a count without sums may be answered without reading the table.
    """
    for name, number in counted.items():
        if name not in _WORDS and number != rows:
            raise ReplayerError(
                f"the scan counted {number:,} {name} where {rows:,} rows were built: the table is "
                f"damaged, build it again"
            )
    for name, must_be in sums.items():
        if name == _TIME_SUM and name not in counted:
            continue
        found = counted.number(name)
        if found != must_be:
            raise ReplayerError(
                f"the {_WORDS[name]} of the table add up to {found:,} where "
                f"{must_be:,} was built: the table is damaged, build it again"
            )


def _digits(last: int) -> int:
    """Return the total number of digits in 1, 2, ... last."""
    total, length, first = 0, 1, 1
    while first <= last:
        total += length * (min(last, 10 * first - 1) - first + 1)
        length, first = length + 1, 10 * first
    return total


def _last_digits(last: int) -> int:
    """Return the sum of the codes of the last digits of 1, 2, ... last."""
    tens, rest = divmod(last, 10)
    return last * ord("0") + tens * sum(range(10)) + rest * (rest + 1) // 2
