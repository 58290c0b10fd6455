"""Values in logs of MySQL that look like entries: no statement is made of what a user stored."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from replayer.capture import conversion, open_texts
from replayer.capture.archive import ArchiveReader
from replayer.errors import Impossible

_HEAD = """mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
"""
_ENTRY = "\t\t    54 Query\t"
_FORGED_SLOW = """# User@Host: root[root] @ localhost []
# Thread_id: 54  Schema: m1  QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795774611;
delete from c;
"""


def _general(*texts: str) -> str:
    first, *others = texts
    return f"{_HEAD}261127 10:27:01\t    54 Query\t{first}\n" + "".join(
        f"{_ENTRY}{text}\n" for text in others
    )


def _slow(*texts: str) -> str:
    return "# Time: 261127 10:27:01\n" + "".join(
        f"{_FORGED_SLOW.removesuffix('delete from c;' + chr(10))}{text};\n" for text in texts
    )


def _texts(tmp_path: Path, log: str) -> tuple[list[str], dict[str, int]]:
    """Return the statements of a log, and what is not replayed."""
    (tmp_path / "some.log").write_text(log)
    wish = conversion.ConversionRequest([str(tmp_path / "some.log")], tmp_path / "out.replay")
    made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
    with ArchiveReader(wish.out) as reader:
        texts = [one.text for one in reader.actions()]
    return [text for text in texts if text and not text.startswith("USE")], made.summary.skipped


_OPEN = ("insert into c values ('a", "insert into c values ('it''s \\' ",
         'insert into c values ("\'" , "', "select /* a", "select `a")  # fmt: skip
_ENDLESS = ("select 5--1, 'a", "select 'wrong", "insert into c values ('C:\\')",
            'select "a\\"', "select 1 /* no end")  # fmt: skip


@pytest.mark.parametrize("begin", _OPEN)
@pytest.mark.parametrize("log", [_general, _slow])
def test_a_line_of_a_value_is_no_statement(
    tmp_path: Path, begin: str, log: Callable[..., str]
) -> None:
    """The statement goes on to the end of its string, and the next one is as it was."""
    forged = f"{_ENTRY}delete from c -- " if log is _general else _FORGED_SLOW
    end = {"'": "')", '"': '")', "*": "*/ 1", "`": "`"}
    quote = next(mark for mark in "\"*`'" if mark in begin)
    text = f"{begin}\n{forged}{end[quote]}"
    texts, skipped = _texts(tmp_path, log(text, "select 1"))

    assert texts == [text, "select 1"]
    assert list(skipped) == [open_texts.IN_STRING]


@pytest.mark.parametrize("text", _ENDLESS)
@pytest.mark.parametrize("log", [_general, _slow])
def test_a_text_that_never_ends_takes_no_entry_with_it(
    tmp_path: Path, text: str, log: Callable[..., str]
) -> None:
    """It had a wrong syntax, or its server takes a backslash literally."""
    others = [f"select {number}" for number in range(200)]
    for many in (200, 3):
        texts, skipped = _texts(tmp_path, log(text, *others[:many]))
        assert texts == [text, *others[:many]]
        assert skipped == {open_texts.ENDLESS: 1}


_OTHERS = [f"select {number}" for number in range(60)]
_ESCAPED = [text for text in _OTHERS[:20] for text in (f"{text}, 'it\\'s'", text, text)]
_HONEST = [
    ["select 'abc\\'", *_OTHERS, *_ESCAPED],
    ["select 1 where id=1'", *_OTHERS, "select 1 where id=2'", *_OTHERS],
    ['select "a', *_OTHERS[:30], "select 'b", *_OTHERS],
    ["select 'O'Brien'", *_OTHERS[:20], "select 'O'Brien'", *_OTHERS[:20], "select 'O'Brien'"],
]


@pytest.mark.parametrize("sent", _HONEST)
@pytest.mark.parametrize("log", [_general, _slow])
def test_a_few_wrong_quotes_take_no_other_statement_with_them(
    tmp_path: Path, sent: list[str], log: Callable[..., str]
) -> None:
    """A server logs what it refused, too: one such text changes nothing for those after it."""
    texts, skipped = _texts(tmp_path, log(*sent))

    assert texts == sent
    assert set(skipped) == {open_texts.ENDLESS}


@pytest.mark.parametrize("log", [_general, _slow])
def test_entries_before_a_hole_are_not_lost_with_an_open_text(
    tmp_path: Path, log: Callable[..., str]
) -> None:
    """They were taken for a part of it; only the last one may be cut off."""
    sent = ["select 'wrong", *_OTHERS[:6]]
    texts, _ = _texts(tmp_path, log(*sent) + "\0" * 5000 + "\n" + log("select 'after'"))

    assert {*sent[:6], "select 'after'"} <= set(texts)


def test_a_log_whose_backslashes_are_literal_is_read_on_like_that(tmp_path: Path) -> None:
    """After the first such text has shown it, each is complete."""
    sent = [f"insert into c values ({number}, 'C:\\')" for number in range(200)]
    texts, skipped = _texts(tmp_path, _general(*sent))

    assert texts == sent
    assert skipped == {open_texts.ENDLESS: 1}


@pytest.mark.parametrize(
    "text",
    ["select 1 -- it's\n, 2", "select 1 # it's", "select `it's`, \"it's\"", "select 5--1, 'a'",
     "select '--', '/*', \"#\"", "select 'it''s \\\\'", "select /*!50000 'a' */ 1 */ 2"],
)  # fmt: skip
def test_a_complete_text_is_complete(text: str) -> None:
    """Quotes in comments, in names and in other quotes open no string."""
    assert not open_texts.is_open(text)
    assert open_texts.is_open(f"{text}\n, '")
    assert re.search("['\"]", text)


def test_a_general_log_with_lines_of_a_slow_log_in_a_value_is_a_general_log(tmp_path: Path) -> None:
    """The layout that fits at the first entry decides; an unknown log is still refused."""
    log = tmp_path / "general.log"
    log.write_text(_general("select 1", f"insert into c values ('a\n{_FORGED_SLOW}')", "select 2"))
    wish = conversion.ConversionRequest([str(log)], tmp_path / "out.replay")
    assert conversion.planned(wish).layout == "mysql_general"

    log.write_text("nothing\n" * 9)
    with pytest.raises(Impossible):
        conversion.planned(wish)
