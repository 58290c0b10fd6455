"""Transactions without a BEGIN or an end in the log: a replay ends them as the source did."""

from pathlib import Path

import pytest

from replayer.capture import implicit_transactions as implicit
from replayer.capture.action import UNKNOWN
from replayer.capture.archive import ArchiveReader
from tests.unit.test_capture_convert import LAYOUTS, converted, row, statements

_INSERT = "insert into pp values ($1)"
_FAILED = "23505"


def _execute(second: float, value: int, vxid: str) -> str:
    return row(second, f"duration: 0.010 ms  execute <unnamed>: {_INSERT}",
               detail=f"Parameters: $1 = '{value}'", vxid=vxid)  # fmt: skip


def _failure(second: float, value: int, vxid: str) -> str:
    bind = row(second, f"duration: 0.010 ms  bind <unnamed>: {_INSERT}",
               detail=f"Parameters: $1 = '{value}'", vxid=vxid)  # fmt: skip
    return bind + row(second + 0.1, "duplicate key", level="ERROR", state=_FAILED, query=_INSERT,
                      vxid=vxid)  # fmt: skip


def _simple(second: float, text: str, vxid: str, session: str = "6a07fca4.3e9") -> str:
    return row(second, f"duration: 0.010 ms  statement: {text}", vxid=vxid, session=session)


def _pipeline(vxid: str, begin: float = 10) -> str:
    good = "".join(_execute(begin + one / 10, one, vxid) for one in (1, 2, 3))
    return good + _failure(begin + 0.4, 2, vxid)


def _sent(tmp_path: Path, log: str) -> list[str]:
    """Return what a replay sends, without parameters, in its order."""
    return [one.text for one in statements(converted(tmp_path, log)[1])]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pipeline_that_failed_is_rolled_back_as_a_whole(tmp_path: Path, layout: str) -> None:
    """Its statements share a virtual transaction; the one after them runs outside of it."""
    log = LAYOUTS[layout](_pipeline("20/2") + _simple(12, "select 1", "20/0"))
    summary, actions, _ = converted(tmp_path, log)
    texts = [one.text for one in statements(actions)]

    assert texts == ["BEGIN", *[_INSERT] * 4, "ROLLBACK", "select 1"]
    assert [one.sqlstate for one in statements(actions)] == ["", "", "", "", _FAILED, "", ""]
    assert summary.skipped == {implicit.FAILED: 1}
    with ArchiveReader(tmp_path / "out.replay") as reader:
        (block,) = reader.blocks()
        places = [block.place(at) for at in range(len(block)) if block.statement(at)]
    assert [place.ends >= 0 for place in places] == [False] * 5 + [True, True]
    assert [place.needs >= 0 for place in places] == [True, *[False] * 5, True]


@pytest.mark.parametrize(
    ("log", "sent"),
    [
        # Each was synchronised: three transactions.
        (
            _execute(10, 1, "20/2") + _execute(11, 2, "20/3") + _failure(12, 2, "20/4"),
            [_INSERT] * 3,
        ),
        (_execute(10, 1, "20/2") + _execute(11, 2, "20/2"), [_INSERT] * 2),
        # The one that failed is of a transaction of the log, with its own end.
        (
            _simple(10, "begin", "20/2") + _execute(11, 1, "20/2") + _failure(12, 1, "20/2")
            + _simple(13, "rollback", "20/0"),
            ["begin", _INSERT, _INSERT, "rollback"],
        ),
        # A pipeline in which a transaction begins is one transaction up to the end of that.
        (
            _execute(10, 1, "20/2")
            + row(11, "duration: 0.010 ms  execute <unnamed>: begin", vxid="20/2")
            + _simple(12, "rollback", "20/0"),
            ["BEGIN", _INSERT, "begin", "rollback"],
        ),
        # Statements outside of a transaction: the ROLLBACK ended none.
        (
            _simple(10, "insert into pp values (1)", "20/0") + _simple(11, "rollback", "20/0"),
            ["insert into pp values (1)", "rollback"],
        ),
    ],
)  # fmt: skip
def test_nothing_is_joined_that_was_not_one_transaction(
    tmp_path: Path, log: str, sent: list[str]
) -> None:
    """A virtual transaction of another id, or of none, is another transaction."""
    assert _sent(tmp_path, log) == sent


def test_a_failed_pipeline_is_counted_where_it_cannot_be_seen_or_repaired(tmp_path: Path) -> None:
    """Without %v in the prefix it is in doubt; one whose begin is already written stays."""
    text = LAYOUTS["stderr"](_pipeline("20/2")).replace(" 20/2", "")
    summary, actions, _ = converted(tmp_path, text)
    assert [one.text for one in statements(actions)] == [_INSERT] * 4
    assert summary.skipped == {implicit.IN_DOUBT: 1}

    # A client that waited for the answers sent no pipeline.
    waited = LAYOUTS["stderr"](_execute(10, 1, "20/2") + _failure(15, 1, "20/2"))
    waited = waited.replace(" 20/2", "")
    assert implicit.IN_DOUBT not in converted(tmp_path, waited)[0].skipped

    others = "".join(row(11 + at / 500, f"duration: 0.010 ms  statement: select {at}",
                         session="6a07fca4.3ea") for at in range(17_000))  # fmt: skip
    late = _execute(50, 4, "20/2") + _failure(51, 2, "20/2")
    summary, actions, _ = converted(tmp_path, _execute(10, 1, "20/2") + others + late)
    assert summary.skipped[implicit.KEPT] == 1
    assert not any(one.text == "ROLLBACK" for one in actions)


def test_a_transaction_that_the_begin_of_the_log_cut_ends_as_at_the_source(tmp_path: Path) -> None:
    """Its visible part is within BEGIN and its own end; the one open at the end is counted."""
    log = (
        _simple(10, "insert into ct values (2)", "28/2")
        + _simple(11, "insert into ct values (3)", "28/2")
        + _simple(12, "ROLLBACK", "28/0")
        + _simple(13, "BEGIN", "28/3")
        + _simple(14, "insert into ct values (4)", "28/3")
    )
    summary, actions, _ = converted(tmp_path, log)

    assert [one.text[:8] for one in statements(actions)] == [
        *("BEGIN", "insert i", "insert i", "ROLLBACK", "BEGIN", "insert i"),
    ]
    assert summary.skipped == {implicit.CUT_BEGIN: 1, implicit.CUT_END: 1}


def test_an_error_within_a_cut_transaction_does_not_end_it(tmp_path: Path) -> None:
    """A savepoint may go back before the error, and the transaction is then committed."""
    parts = ("insert into ct values (2)", "savepoint s")
    log = "".join(_simple(10 + at, text, "28/2") for at, text in enumerate(parts))
    log += row(12, "duplicate key", level="ERROR", state=_FAILED, query="insert 2", vxid="28/2")
    log += _simple(13, "rollback to s", "28/2") + _simple(14, "commit", "28/0")
    summary, actions, _ = converted(tmp_path, log)

    assert [one.text for one in statements(actions)] == [
        *("BEGIN", *parts, "insert 2", "rollback to s", "commit")
    ]
    assert summary.skipped == {implicit.CUT_BEGIN: 1}


def test_an_end_without_a_begin_is_counted_where_the_log_has_no_ids(tmp_path: Path) -> None:
    """It may be of a transaction that began before the log, in a session that did so, too."""
    log = "".join(
        _simple(10 + at, text, "", session="6a000000.3e9")
        for at, text in enumerate(("insert into t values (1)", "commit"))
    )
    text = LAYOUTS["stderr"](log)
    for vxid in {part for part in text.split() if part.startswith("1/")}:
        text = text.replace(f" {vxid}", "")
    assert converted(tmp_path, text)[0].skipped == {implicit.UNSURE_BEGIN: 1}


def test_reasons_are_sentences_of_a_replay() -> None:
    """Only those for which rows may differ are."""
    found = implicit.differing({implicit.CUT_END: 2, implicit.FAILED: 1, "fetches": UNKNOWN})
    assert list(found) == [f"the log has 2 {implicit.CUT_END}"]
