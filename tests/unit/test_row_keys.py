"""Which row a change is for: what is certain is found, and everything else is the whole table."""

import pytest

from replayer.capture.action import Action
from replayer.capture.fingerprint import Fingerprints
from replayer.steps.replay.planned_order import PlannedOrder
from replayer.steps.replay.row_keys import (
    RowKey,
    RowKeys,
    guarded_columns,
    without_outer_comments,
)
from replayer.steps.replay.uncertain_order import UncertainOrder
from replayer.steps.replay.work import Record

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


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("/*app='shop'*/ UPDATE cell SET v = 1 WHERE id = 5", "id = 5"),
        ("/* a */\n/* b */UPDATE cell SET v = 1 WHERE id = 5", "id = 5"),
        ("UPDATE cell SET v = 1 WHERE id = 5 /*route='a%2Fb',where='x'*/", "id = 5"),
        ("UPDATE cell SET v = 1 WHERE id = 5 /* a */ /* b */;\n", "id = 5"),
        ("UPDATE cell SET v = 1 WHERE id = 5; /* a */", "id = 5"),
        ("DELETE FROM cell WHERE id = 5 /* a */", "id = 5"),
        ("-- name: UpdateCell :exec\nUPDATE cell SET v = 1 WHERE id = 5", "id = 5"),
        ("--\r\n-- it's\n# a\n/* b */ UPDATE cell SET v = 1 WHERE id = 5", "id = 5"),
        ("UPDATE cell SET v = 1 WHERE id = 5 -- app:web", "id = 5"),
        ("UPDATE cell SET v = 1 WHERE id = 5 -- /* a */", "id = 5"),
        ("UPDATE cell SET v = 'a' WHERE id = '5' /* a */; -- it's\n", "id = 5"),
        ("-- a\nUPDATE cell SET v = 1 WHERE id = 5 -- b\n/* c */ -- d\r\n", "id = 5"),
        # Executed by MySQL, or read otherwise by one of the servers.
        ("UPDATE cell SET v = 1 WHERE id = 5 /*! OR v = 2 */", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 /*M!100000 OR v = 2 */", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 /*!50000 /* a */ OR v = 2 */", None),
        ("/*! UPDATE other SET v = 1; */ UPDATE cell SET v = 1 WHERE id = 5", None),
        ("/* a /* b */ UPDATE other SET v = 1; */ UPDATE cell SET v = 1 WHERE id = 5", None),
        ("--name\nUPDATE cell SET v = 1 WHERE id = 5", None),
        ("-- a\rUPDATE other SET v = 1;\nUPDATE cell SET v = 1 WHERE id = 5", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 --1", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 # a", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 -- a\nOR v = 2", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 -- a\rOR v = 2", None),
        ("UPDATE cell SET v = 'a WHERE id = 5 -- '", None),
        ("UPDATE cell SET v = 'a\\' WHERE id = 5 -- '", None),
        ("UPDATE cell SET v = $$ WHERE id = 5 -- $$", None),
        ("UPDATE cell SET v = 1 -- WHERE id = 5 /* a */", None),
        ("UPDATE cell SET v = '/*' WHERE id = 5 OR '*/' = '*/'", None),
        ("UPDATE cell SET v = 1 WHERE id = 5 /* a */ OR v = 2 /* b */", None),
        ("UPDATE cell SET v = 1 /* WHERE id = 5 */", None),
        ("/* WHERE id = 5 */", None),
        ("*/", None),
    ],
)
def test_comments_before_and_after_a_change_hide_no_row(text: str, row: str | None) -> None:
    """As object mappers and monitoring add them to each statement."""
    key = KEYS.find(("cell",), without_outer_comments(text), ())

    assert (key and key.words) == row


@pytest.mark.parametrize("form", ["{}", "/*app='shop'*/ {}", "{} /*app='shop'*/", "-- a\n{} -- b"])
def test_the_planned_order_is_one_of_rows_whatever_comments_tools_add(form: str) -> None:
    """Two changes of a row that met are named by the row, not by their whole table."""
    statement = Fingerprints().statement(form.format("UPDATE cell SET v = 1 WHERE id = 5"))
    order = PlannedOrder(KEYS, 0, kept=True)
    for session, start_ms, end_ms, ends in ((1, 0, 6, -1), (2, 5, 8, 2)):
        times = (start_ms * 1_000_000, (end_ms - start_ms) * 1_000_000)
        action = Action(session, "simple", *times, text=statement.text)
        place = {"needs": 0, "ends": ends, "chain": 1, "turn": session}
        record = Record(0, 0, b"", 0, **place, logged=0, named=-1, flags=0, rows=-1, part=0)
        order.note(session, record, action, statement)

    assert set(order.uncertain.pairs) == {("cell", "id = 5")}


def test_many_comments_take_no_long_time() -> None:
    """A text may have hundreds of thousands of comments."""
    many, lines = "/**/" * 300_000, "\n-- a" * 300_000

    assert without_outer_comments(many + "x" + many) == "x"
    assert without_outer_comments(f"{lines}\nx{lines}{many}{lines}").rstrip() == "x"
    assert without_outer_comments("/*" * 300_000) == "/*" * 300_000


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
    assert ("cell where id = 5 (1)" in "".join(uncertain.sentences())) == bool(pairs)


EFFECTS = (
    *(("History", "none", ""), ("tickets", "sequence", ""), ("told", "trigger", "")),
    *(("tickets", "foreign key", "seats"), ("cell", "partition", "cell_low")),
    ("cell", "partition", "cell_high"),
)
KNOWN = RowKeys(guarded_columns(GUARDED), EFFECTS)


@pytest.mark.parametrize(
    ("table", "text", "appends"),
    [
        ("history", "INSERT INTO history VALUES (1, 'a', CURRENT_TIMESTAMP)", True),
        ("public.history", "insert into public.history (a, b)\nvalues ($1, now()), (2, 3)", True),
        ("history", "COPY history (a, b) FROM STDIN WITH (FORMAT csv) WHERE a > 1", True),
        ("history", "COPY history FROM STDIN; UPDATE history SET a = 1", False),
        ("history", "COPY history FROM '/tmp/history'", False),
        ("cell", "COPY cell FROM STDIN", False),
        ("history", "INSERT INTO history VALUES (nextval('s'))", False),
        ("history", "INSERT INTO history VALUES ((SELECT max(id) FROM cell))", False),
        ("history", "INSERT INTO history SELECT * FROM cell", False),
        ("history", "INSERT INTO history VALUES (1) ON CONFLICT DO NOTHING", False),
        ("history", "UPDATE history SET a = 1", False),
        ("tickets", "INSERT INTO tickets VALUES (1)", False),
        ("cell", "INSERT INTO cell VALUES (1)", False),
        ("unknown", "INSERT INTO unknown VALUES (1)", False),
    ],
)
def test_new_rows_need_no_order_where_none_can_meet_another(
    table: str, text: str, *, appends: bool
) -> None:
    """Plain values, in a table without a unique index, a sequence or a trigger."""
    assert KNOWN.appends((table,), text) == appends


def test_tables_whose_order_is_not_certain_are_named() -> None:
    """Rows that a text does not show, keys of a sequence, cascades, triggers, parts of a table."""
    ms = 1_000_000
    uncertain = UncertainOrder(KNOWN)
    for writes, text in (
        (("cell",), "UPDATE cell SET v = 1 WHERE v = 2"),
        (("tickets",), "INSERT INTO tickets (who) VALUES (1)"),
        (("told", "log"), "UPDATE told SET v = 1 WHERE id = 1"),
        (("history",), "INSERT INTO history VALUES (1)"),
        (("cell_low",), "COPY cell_low FROM STDIN"),
    ):
        for _ in range(2):
            uncertain.add_change(writes, text, None, (ms, 5 * ms), alone=True)

    words = " ".join(uncertain.sentences())
    assert dict(uncertain.pairs) == {("cell", ""): 1, ("tickets", ""): 1, ("told", ""): 1}
    affected = "what triggers of told change, seats (by tickets), cell_low (a part of cell), log"
    assert affected in words
    assert [tuple(one) for one in uncertain.named(most=2)] == [
        ("cell", "", 1, "changes met"),
        ("tickets", "", 1, "changes met"),
        ("told", "", 0, "trigger"),
        ("seats", "", 0, "foreign key"),
        ("cell_low", "", 0, "partition"),
        ("log", "", 0, "second table"),
    ]
    assert "history" not in words


def test_changes_one_after_the_other_are_certain() -> None:
    """Of one session, whatever its tables do."""
    uncertain = UncertainOrder(KNOWN)
    for number in range(3):
        times = (number * 100, number * 100 + 50)
        uncertain.add_change(("told", "tickets"), "UPDATE told SET v = 1", None, times, alone=True)

    assert list(uncertain.sentences()) == []
    assert list(uncertain.named(most=1)) == []


@pytest.mark.parametrize(
    ("text", "waits", "rows"),
    [
        ("DELETE FROM cell WHERE id = 5", True, {("cell", "id = 5")}),
        ("DELETE FROM cell WHERE id = 5", False, set()),
        ("UPDATE cell SET v = 1 WHERE id = 5", True, set()),
    ],
)
def test_a_change_that_waits_for_a_deletion_may_find_its_successor(
    text: str, rows: set[tuple[str, str]], *, waits: bool
) -> None:
    """A row that one transaction replaces, and another one changes meanwhile."""
    ms, key = 1_000_000, RowKey(("id",), ("5",))
    uncertain = UncertainOrder(KNOWN)
    uncertain.add_change(("cell",), text, key, (0, ms), alone=False, session=1)
    times = (3 * ms, (9 if waits else 4) * ms)
    more = "UPDATE cell SET v = 2 WHERE id = 5"
    uncertain.add_change(("cell",), more, key, times, alone=False, session=2)
    uncertain.end_transaction(1, 5 * ms)

    assert set(uncertain.pairs) == rows


@pytest.mark.parametrize("added", ["COPY cell FROM STDIN", "INSERT INTO cell VALUES (7, 7)"])
@pytest.mark.parametrize(("session", "at", "pairs"), [(2, 3, 1), (1, 3, 0), (2, 6, 0)])
def test_a_change_of_rows_that_a_transaction_added_meanwhile(
    added: str, session: int, at: int, pairs: int
) -> None:
    """It did not see them at the source; in a replay they may have been committed before it."""
    ms = 1_000_000
    uncertain = UncertainOrder(KNOWN)
    uncertain.add_change(("cell",), added, None, (0, ms), alone=False, session=1)
    update = ("UPDATE cell SET v = v + 10", None, (at * ms, (at + 1) * ms))
    if at < 5:
        uncertain.add_change(("cell",), *update, alone=True, session=session)
    uncertain.end_transaction(1, 5 * ms)
    if at > 5:
        uncertain.add_change(("cell",), *update, alone=True, session=session)

    assert dict(uncertain.pairs) == ({("cell", ""): pairs} if pairs else {})


def test_a_call_that_met_a_change_is_named() -> None:
    """Its text shows no table; another session's transaction with a change was open."""
    ms = 1_000_000
    for alone, named in ((True, False), (False, True)):
        uncertain = UncertainOrder(KNOWN)
        uncertain.add_change(
            ("cell",), "UPDATE cell SET v = 1", None, (0, ms), alone=alone, session=1
        )
        uncertain.add_hidden("CALL p(?)", (5 * ms, 6 * ms), alone=True, session=2)
        uncertain.end_transaction(1, 9 * ms)
        uncertain.add_hidden("CALL p(?)", (10 * ms, 11 * ms), alone=True, session=2)

        assert ("CALL p(?) (2)" in "".join(uncertain.sentences())) == named
        row = ("CALL p(?)", "", 2, "text shows no table")
        assert (row in map(tuple, uncertain.named(most=1))) == named


def test_a_table_whose_changes_read_a_changed_one_is_named() -> None:
    """Another table is only read, and a table with the name of a column is neither."""
    ms = 1_000_000
    uncertain = UncertainOrder(KNOWN)
    uncertain.add_form(("sums",), "UPDATE sums SET v = (SELECT SUM(v) FROM shop.cell, kept)")
    uncertain.add_form(("cell",), "UPDATE cell SET v = ?, sums = ? WHERE id = ?")
    for number, table in enumerate(("sums", "cell")):
        uncertain.add_change((table,), "", None, (0, ms), alone=True, session=number)

    (words,) = uncertain.sentences()
    assert words.endswith("values: sums (reads cell)")
    assert ("sums", "", 0, "reads") in map(tuple, uncertain.named(most=1))


def test_changes_that_a_coarse_clock_cannot_part_have_no_certain_order() -> None:
    """Of two sessions within its resolution; those of one session follow each other."""
    ms, key = 1_000_000, RowKey(("id",), ("5",))
    for coarse_ms, session, pairs in ((0, 2, 0), (1000, 2, 1), (1000, 1, 0)):
        uncertain = UncertainOrder(coarse_ns=coarse_ms * ms)
        uncertain.add("cell", key, 0, ms, alone=True, session=1)
        uncertain.add("cell", key, 300 * ms, 301 * ms, alone=True, session=session)

        assert uncertain.pairs.total() == pairs
