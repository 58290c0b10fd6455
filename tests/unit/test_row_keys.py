"""Which row a change is for: what is certain is found, and everything else is the whole table."""

import pytest

from replayer.steps.replay.row_keys import RowKey, RowKeys, UncertainOrder, guarded_columns

GUARDED = (
    *(("Cell", "id"), ("cell", "code"), ("stock", "w"), ("stock", "i")),
    *(("told", "id"), ("told", "")),
)
KEYS = RowKeys(guarded_columns(GUARDED))
UUID = "'3F2504E0-4F89-11D3-9A0C-0305E82C3301'"


@pytest.mark.parametrize(
    ("table", "text", "row"),
    [
        ("cell", "UPDATE cell SET v = (v * 3 + 1) % 1000003 WHERE id = 5", "id = 5"),
        ("public.cell", 'update "cell" set v = $1 where "id" = $2;', "id = 7"),
        ("cell", "UPDATE cell SET v = 'x where id = 1' WHERE id = '05'", None),
        ("cell", "UPDATE cell SET v = 'x' WHERE id = '05'", "id = 5"),
        ("cell", f"DELETE FROM cell WHERE id = {UUID}", "id = 3f2504e04f8911d39a0c0305e82c3301"),
        ("cell", "UPDATE cell SET seen = now() WHERE cell.id = -5", "id = -5"),
        ("stock", "UPDATE `stock` SET n = n - 1 WHERE i = 2 AND w = 1", "i = 2 and w = 1"),
        ("cell", "UPDATE cell SET code = 3 WHERE id = 5", None),
        ("cell", "UPDATE cell\nSET\n  code = 3\nWHERE id = 5", None),
        ("cell", "UPDATE cell\nSET\n  v = 3\nWHERE id = 5", "id = 5"),
        ("cell", "UPDATE cell SET v = 1 WHERE id = $0", None),
        ("cell", "UPDATE cell SET v = nextval('s') WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = \"nextval\"('s') WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = NEXT VALUE FOR s WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = DEFAULT WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = o.v FROM other o WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = (SELECT max(v) FROM cell) WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = 1 WHERE id = 5 OR v = 2", None),
        ("cell", "UPDATE cell SET v = 1 WHERE id > 5", None),
        ("cell", "UPDATE cell SET v = 1 WHERE v = 5", None),
        ("cell", "UPDATE cell SET v = 1 WHERE code = 'a'", None),
        ("cell", "UPDATE cell SET v = 1 -- WHERE id = 5", None),
        ("cell", "UPDATE cell SET v = 'a\nwhere id = 5", None),
        ("cell", "UPDATE cell SET v = 1", None),
        ("cell", "INSERT INTO cell VALUES (5)", None),
        ("told", "UPDATE told SET v = 1 WHERE id = 5", None),
        ("unknown", "UPDATE unknown SET v = 1 WHERE id = 5", None),
    ],
)
def test_a_row_is_found_where_it_is_certain(table: str, text: str, row: str | None) -> None:
    """Also by a parameter; never by what another comparison, table or function may reach."""
    key = KEYS.find((table,), text, ("1", "7"))

    assert (key and key.words) == row


def test_a_change_of_several_tables_has_no_row() -> None:
    """Nor one of unknown tables."""
    text = "UPDATE cell SET v = 1 WHERE id = 5"

    assert KEYS.find(("cell", "stock"), text, ()) is None
    assert KEYS.find(None, text, ()) is None


@pytest.mark.parametrize(
    ("second", "pairs"),
    [((5, 8, True), 1), ((5, 8, False), 0), ((11, 12, True), 0), ((5, 500, True), 0)],
)
def test_changes_that_met_in_a_row_have_no_certain_order(
    second: tuple[int, int, bool], pairs: int
) -> None:
    """Those that were under way together and ended together, the last as its own transaction."""
    uncertain, key, ms = UncertainOrder(), RowKey(("id",), ("5",)), 1_000_000
    uncertain.add("cell", key, 0, 6 * ms, alone=False)
    begun, ended, alone = second
    uncertain.add("cell", key, begun * ms, ended * ms, alone=alone)

    assert uncertain.pairs.total() == pairs
    assert ("cell where id = 5 (1)" in uncertain.sentence()) == bool(pairs)
