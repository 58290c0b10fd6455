"""Logs of MySQL and MariaDB: who did what, when it began, and what cannot be replayed."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replayer.capture import conversion
from replayer.capture.action import UNKNOWN
from replayer.capture.archive import ArchiveReader
from replayer.capture.entry import ReadCounts
from replayer.capture.mysql_threads import (
    EXECUTED,
    INSIDE,
    NO_SESSION,
    NO_TIME,
    ONE_SESSION,
    PREPARED,
    REFUSED,
    SILENT,
)
from replayer.errors import Impossible

_HEAD = """/usr/sbin/mysqld, Version: 9.1.0 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /tmp/mysql.sock
Time                 Id Command    Argument
"""
_GENERAL_9 = (
    _HEAD
    + """2026-11-22T03:00:00.000001Z\t    8 Connect\tanna@localhost on shop using Socket
2026-11-22T03:00:00.100000Z\t    8 Query\tselect *
from orders
where note = 'a
# Time: b'
2026-11-22T03:00:00.200000Z\t    9 Connect\tbob@10.0.0.1 on  using TCP/IP
2026-11-22T03:00:00.300000Z\t    9 Init DB\tshop
2026-11-22T03:00:00.400000Z\t    9 Prepare\tinsert into t values (?, ?, ?)
2026-11-22T03:00:00.500000Z\t    9 Execute\tinsert into t values (17, 'it\\'s', NULL)
2026-11-22T03:00:00.600000Z\t    9 Close stmt\t
2026-11-22T03:00:00.700000Z\t    8 Query\tcreate user x identified by <secret>
2026-11-22T03:00:00.800000Z\t    8 Query\tload data local infile 'x' into table t
2026-11-22T03:00:00.900000Z\t   10 Connect\teve@localhost on  using Socket
2026-11-22T03:00:00.900100Z\t   10 Connect\tAccess denied for user 'eve'@'localhost'
2026-11-22T03:00:01.000000Z\t    8 Quit\t
2026-11-22T03:00:01.100000Z\t    7 Query\tselect 1
"""
)
_GENERAL_MARIADB = """mariadbd, Version: 10.11.6-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /run/mysqld/mysqld.sock
Time\t\t    Id Command\tArgument
261122  3:00:00\t     3 Connect\troot@localhost on test using Socket
\t\t     3 Query\tselect 1
261122 13:00:05\t     3 Query\tselect 2
\t\t     3 Quit\t
"""
_SLOW_9 = (
    _HEAD
    + """# Time: 2026-11-22T03:00:02.500000Z
# User@Host: anna[anna] @ localhost []  Id:     8
# Query_time: 2.000000  Lock_time: 0.000010 Rows_sent: 3  Rows_examined: 100
use shop;
SET timestamp=1795316400;
select * from orders
where a = ';'
# Time: inside
;
# Time: 2026-11-22T03:00:03.000000Z
# User@Host: bob[bob] @  [10.0.0.1]  Id:     9
# Query_time: 0.500000  Lock_time: 0.000010 Rows_sent: 0  Rows_examined: 1 Thread_id: 9 Errno: 1062
SET timestamp=1795316402;
insert into t values (1);
# Time: 2026-11-22T03:00:03.500000Z
# User@Host: bob[bob] @  [10.0.0.1]  Id:     9
# Query_time: 0.500000  Lock_time: 0.000010 Rows_sent: 0  Rows_examined: 1 Thread_id: 9 Errno: 0
SET timestamp=1795316403;
PREPARE s FROM ...;
# Time: 2026-11-22T03:00:04.000000Z
# User@Host: anna[anna] @ localhost []  Id:     8
# Query_time: 0.000100  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
use other;
SET timestamp=1795316404;
delete from u;
# Time: 2026-11-22T03:00:05.000000Z
# User@Host: anna[anna] @ localhost []  Id:     8
# Query_time: 0.000003  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0
SET timestamp=1795316405;
# administrator command: Quit;
"""
)


_SLOW_MARIADB = """# Time: 261122  3:00:02
# User@Host: root[root] @ localhost []
# Thread_id: 5  Schema: shop  QC_hit: No
# Query_time: 1.250000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 57
use shop;
SET timestamp=1795316402;
select sleep(1.25);
# User@Host: root[root] @ localhost []
# Thread_id: 5  Schema: shop  QC_hit: No
# Query_time: 0.000500  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 3  Bytes_sent: 57
SET last_insert_id=4,insert_id=17,timestamp=1795316402;
insert into t (b) values ('x'), ('y'), ('z');
# User@Host: root[root] @ localhost []
# Thread_id: 6  Schema:   QC_hit: No
# Query_time: 0.000500  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 0  Bytes_sent: 57
# Stored_routine: `shop`.`p`
SET timestamp=1795316402;
update t set a = 1;
"""


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., Any]:
    """Return the summary, the notes, the sessions and the actions of logs by their names."""

    def convert(**logs: str | bytes) -> Any:
        for name, text in logs.items():
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
            (tmp_path / name).write_bytes(data)
        wish = conversion.ConversionRequest(
            [str(tmp_path / name) for name in logs], tmp_path / "out.replay"
        )
        made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
        with ArchiveReader(wish.out) as reader:
            blocks = list(reader.blocks())
        sessions = {one.number: one for block in blocks for one in block.sessions}
        actions = [block.action(row) for block in blocks for row in range(len(block))]
        return made.summary, made.notes, sessions, actions

    return convert


def test_a_general_log_of_mysql(converted: Callable[..., Any]) -> None:
    """Statements of several lines, prepared ones with their values, databases, who left."""
    summary, notes, sessions, actions = converted(general=_GENERAL_9)
    assert summary.source.server_version == "9.1.0"
    assert summary.source.engine == "mysql"
    assert not summary.source.errors_logged
    assert notes == (SILENT,)
    assert [(one.user, one.database, one.began_before) for one in sessions.values()] == [
        ("anna", "shop", False),
        ("bob", "", False),
        ("eve", "", False),
        ("", "", True),
    ]
    done = [(each.session, each.does, each.start_ns // 1000, each.text) for each in actions]
    assert done == [
        (0, "connect", 0, ""),
        (0, "simple", 99_999, "select *\nfrom orders\nwhere note = 'a\n# Time: b'"),
        (1, "connect", 199_999, ""),
        (1, "simple", 299_999, "USE `shop`"),
        (1, "simple", 499_999, "insert into t values (17, 'it\\'s', NULL)"),
        (2, "connect", 899_999, ""),
        (2, "disconnect", 900_099, ""),
        (0, "disconnect", 999_999, ""),
        (3, "connect", 1_099_999, ""),
        (3, "simple", 1_099_999, "select 1"),
    ]
    assert {each.duration_ns for each in actions} == {UNKNOWN}
    assert sorted(summary.skipped.values()) == [1, 1, 1]


def test_times_of_a_general_log_that_go_back_are_said(converted: Callable[..., Any]) -> None:
    """The clock of its server was set, or several logs are in one."""
    _, notes, _, _ = converted(general=_GENERAL_9 + _GENERAL_9[_GENERAL_9.index("2026") :])

    assert any("times go back: 1, by up to" in note for note in notes)


@pytest.mark.parametrize("log", [_SLOW_9, _SLOW_MARIADB])
def test_times_of_a_slow_log_that_go_back_are_said(converted: Callable[..., Any], log: str) -> None:
    """So do they where one log was appended twice; once, it has no such place."""
    first = log.index("# Time:")
    later = re.sub(r"(# Time: (?:2026-11-|2611))22", r"\g<1>23", log[first:])
    _, notes, _, _ = converted(slow=log + later + log[first:])
    _, none, _, _ = converted(slow=log + later)

    assert any("times go back: 1, by up to 24 h" in note for note in notes)
    assert not any("times go back" in note for note in none)


@pytest.mark.parametrize(("fraction_ns", "back"), [(0, 0), (500, 1)])
def test_neighbours_of_whole_seconds_may_be_swapped(fraction_ns: int, back: int) -> None:
    """A second is the least step of such times; one by a second between finer ones is a step."""
    counts = ReadCounts()
    for second in (10, 11, 10, 11):
        counts.pass_time(second * 10**9 + fraction_ns)

    assert counts.back == back


def test_a_general_log_of_mariadb(converted: Callable[..., Any]) -> None:
    """Times of a second stand once for all entries of it, and their zone is not known."""
    summary, notes, _, actions = converted(general=_GENERAL_MARIADB)
    assert summary.source.server_version == "10.11.6-MariaDB-log"
    assert not any("nothing that a server writes" in note for note in notes)
    assert [each.start_ns // 10**9 for each in actions] == [0, 0, 36_005, 36_005]
    assert len({each.start_ns for each in actions}) == 4
    assert any("zone" in note for note in notes)
    assert summary.source.resolution_ns == 10**9


def test_a_slow_log_of_mysql(converted: Callable[..., Any]) -> None:
    """Starts are computed, databases switched, errors and rows known where they are logged."""
    summary, notes, sessions, actions = converted(slow=_SLOW_9)
    assert notes == (SILENT,)
    assert summary.skipped == {PREPARED: 1}
    done = [
        (each.session, each.does, each.start_ns // 1000, each.duration_ns // 1000, each.text)
        for each in actions
        if each.does != "connect"
    ]
    assert done == [
        (0, "simple", 0, 2_000_000, "select * from orders\nwhere a = ';'\n# Time: inside\n"),
        (1, "simple", 2_000_000, 500_000, "insert into t values (1)"),
        (0, "simple", 3_499_900, -1, "USE `other`"),
        (0, "simple", 3_499_900, 100, "delete from u"),
        (0, "disconnect", 4_500_000, -1, ""),
    ]
    assert [each.sqlstate for each in actions if each.text.startswith("insert")] == ["23000"]
    rows = {each.text[:6]: each.rows for each in actions if each.text}
    assert rows == {"select": 3, "insert": UNKNOWN, "USE `o": UNKNOWN, "delete": UNKNOWN}
    assert [(one.database, one.began_before) for one in sessions.values()] == [
        ("shop", False),
        ("shop", False),
    ]


def test_a_slow_log_of_mariadb(converted: Callable[..., Any]) -> None:
    """Starts are of a second, spread over it in their order; routines' own statements are left."""
    summary, notes, sessions, actions = converted(slow=_SLOW_MARIADB)
    assert notes == (SILENT,)
    assert summary.source.resolution_ns == 10**9
    assert [(each.text, each.start_ns // 1000, each.rows) for each in actions if each.text] == [
        ("select sleep(1.25)", 0, 1),
        ("insert into t (b) values ('x'), ('y'), ('z')", 1_250_000, 3),
    ]
    assert [one.database for one in sessions.values()] == ["shop"]


_PLAN = """#
# explain: id\tselect_type\ttable\ttype\tpossible_keys\tkey\tkey_len\tref\trows\tr_rows\tExtra
# explain: 1\tSIMPLE\tThread_id: 9 Query_time: 7\tALL\tNULL\tNULL\tNULL\tNULL\t2\t2.00\tUsing where
#
"""
_WARNED = """# Warnings
# Note 1051 Unknown table 'shop.t'
# Warning 1292 Truncated incorrect INTEGER value: 'Thread_id: 9 Query_time: 7
# Rows_sent: 7
select 7;'
"""


@pytest.mark.parametrize("more", [_PLAN, _WARNED, _PLAN + _WARNED])
def test_plans_and_warnings_in_the_head_of_an_entry_change_nothing(
    converted: Callable[..., Any], more: str
) -> None:
    """As MariaDB writes them with log_slow_verbosity=explain,warnings."""
    first = re.compile(r"(?<!;\n)^(?:use|SET .*timestamp)", re.MULTILINE)
    planned, count = first.subn(rf"{more}\g<0>", _SLOW_MARIADB)

    assert count == 3
    assert converted(slow=planned) == converted(slow=_SLOW_MARIADB)


@pytest.mark.parametrize("first", ["#", "# explain: x", "# Thread_id: 9", "# Query_time: 7"])
def test_comments_that_begin_a_text_are_of_the_text(
    converted: Callable[..., Any], first: str
) -> None:
    """The last line of a head is SET timestamp; what follows is what a client sent."""
    text = f"{first}\n# Query_time: 7\nselect 5"
    _, _, _, actions = converted(slow=_SLOW_MARIADB.replace("select sleep(1.25)", text))

    assert next(each.text for each in actions if each.text) == text


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        *(
            (text, 0)
            for text in ("select 1", "(select 1)", "show tables", "with a as (b) select 1")
        ),
        *((text, 0) for text in ("/* orm */ select 1", "# orm\nselect 1", "-- orm\nselect 1")),
        *((text, 0) for text in ("/*a*/ /*b*/ ( /*c*/ (select 1))", "/*M*/select 1")),
        *(
            (text, UNKNOWN)
            for text in ("/* select */ update t set a = 1", "-- select\ndelete from t")
        ),
        *((text, UNKNOWN) for text in ("# select 1", "/*! update t set a = 1 */", "--select 1")),
    ],
)
def test_no_row_is_known_of_a_query_whatever_comments_it_has(
    converted: Callable[..., Any], text: str, rows: int
) -> None:
    """MySQL's log has no number of changed rows, which Rows_sent is not."""
    log = _INSIDE.format(second=2, duration="0.100000", routine="", text=text)
    _, _, _, actions = converted(slow=log)

    assert [each.rows for each in actions if each.text] == [rows]


def _general(*lines: str) -> str:
    """Return a general log of one thread with a line each second."""
    return _HEAD + "".join(
        f"2026-11-22T03:00:{second:02}.000000Z\t    8 {line}\n" for second, line in enumerate(lines)
    )


def _slow_entry(
    second: int, user: str, text: str, *, error: int = 0, schema: str = "", more: str = ""
) -> str:
    """Return an entry of a thread in a slow log of MySQL; `more` are further lines of its head."""
    used = f"{more}use {schema};\n" if schema else more
    return (
        f"# Time: 2026-11-22T03:00:{second:02}.000000Z\n"
        f"# User@Host: {user}[{user}] @  [10.0.0.1]  Id:    12\n"
        "# Query_time: 0.100000  Lock_time: 0.000000 Rows_sent: 0  Rows_examined: 0"
        f" Errno: {error}\n{used}SET timestamp=17953164{second:02};\n{text};\n"
    )


_COMMAND = "# administrator command: "
_MARIADB_10_2 = "# Thread_id: 12  Schema: {schema}  QC_hit: No\n"
_MARIADB = f"{_MARIADB_10_2}# Rows_affected: 0  Bytes_sent: 11\n"
_ROUTINE = "# Stored_routine: `shop`.`p`\n"


@pytest.mark.parametrize(("command", "head"), [("Change user", ""), ("Ping", _MARIADB)])
def test_a_slow_log_ends_the_session_of_a_changed_user(
    converted: Callable[..., Any], command: str, head: str
) -> None:
    """The server has rolled back its transaction; MariaDB's log does not have the command."""
    entries = (
        ("app", "set autocommit=0", "shop"),
        ("app", "update t set a = 1", "shop"),
        ("bob", f"{_COMMAND}{command}", "other"),
        ("bob", "insert into t values (7)", "other"),
        ("bob", f"{_COMMAND}Quit", "other"),
    )
    log = "".join(
        _slow_entry(second, user, text, schema=schema, more=head.format(schema=schema))
        for second, (user, text, schema) in enumerate(entries)
    )
    summary, _, sessions, actions = converted(slow=log)

    who = [(sessions[each.session].user, each.does, each.text) for each in actions]
    assert who == [
        ("app", "connect", ""),
        ("app", "simple", "set autocommit=0"),
        ("app", "simple", "update t set a = 1"),
        ("app", "disconnect", ""),
        ("bob", "connect", ""),
        ("bob", "simple", "insert into t values (7)"),
        ("bob", "disconnect", ""),
    ]
    named = [(one.database, one.began_before) for one in sessions.values()]
    assert named == [("shop", False), ("other", False)]
    assert not summary.skipped


@pytest.mark.parametrize(
    ("head", "inside"),
    [("", ""), (_MARIADB_10_2, ""), (_MARIADB, _ROUTINE)],
    ids=["MySQL", "MariaDB 10.2", "MariaDB"],
)
def test_a_routine_of_another_user_does_not_end_the_session(
    converted: Callable[..., Any], head: str, inside: str
) -> None:
    """A statement inside has the thread of its CALL, and the user who defined the routine."""
    called = ["begin", "update t set a = 1", "call p()", "commit"]
    entries = [("app", text, "") for text in called]
    entries.insert(2, ("root", "insert into t values (7)", inside))
    log = "".join(
        _slow_entry(second, user, text, more=f"{head}{more}".format(schema=""))
        for second, (user, text, more) in enumerate(entries)
    )
    summary, _, sessions, actions = converted(slow=log)

    assert [one.user for one in sessions.values()] == ["app"]
    assert [each.does for each in actions if not each.text] == ["connect"]
    assert [each.text for each in actions if each.text in called] == called
    assert summary.statements == len(called) + (not inside)


def test_a_user_whose_change_failed_has_no_session(converted: Callable[..., Any]) -> None:
    """The server has closed the connection."""
    log = _slow_entry(1, "app", "begin") + _slow_entry(
        2, "bob", f"{_COMMAND}Change user", error=1045
    )
    summary, _, _, actions = converted(slow=log)

    assert [each.does for each in actions] == ["connect", "simple", "disconnect"]
    assert summary.skipped == {REFUSED: 1}


@pytest.mark.parametrize("command", ["Reset Connection", "Reset connection"])
@pytest.mark.parametrize("kind", ["slow", "general"])
def test_a_connection_that_is_reset_is_another_session(
    converted: Callable[..., Any], kind: str, command: str
) -> None:
    """It has no transaction, temporary table or variable of before, but the same database."""
    text = "create temporary table ids (a int)"
    sent = (command, text, command, text, command, command)
    if kind == "slow":
        log = "".join(
            _slow_entry(
                second,
                "app",
                f"{_COMMAND}{each}" if each == command else each,
                schema="" if second else "shop",
            )
            for second, each in enumerate(sent)
        )
    else:
        log = _general(
            "Connect\tapp@web on shop using Socket",
            *(f"{each}\t" if each == command else f"Query\t{each}" for each in sent),
        )
    summary, _, sessions, actions = converted(log=log)

    whole = ["connect", text, "disconnect"]
    assert [each.text or each.does for each in actions] == [*whole, *whole]
    named = [(one.user, one.database, one.began_before) for one in sessions.values()]
    assert named == [("app", "shop", False)] * 2
    assert not summary.skipped


@pytest.mark.parametrize("command", ["Reset connection", "Change user"])
@pytest.mark.parametrize("kind", ["slow", "general"])
def test_a_session_without_a_statement_does_not_follow_another(
    converted: Callable[..., Any], kind: str, command: str
) -> None:
    """A pool resets a connection before it keeps or closes it: nothing ran in between."""
    sent = ("select 1", command, command, "select 2", command, command, "Quit")
    if kind == "slow":
        entries = (each if " " in each and each != command else _COMMAND + each for each in sent)
        log = "".join(
            _slow_entry(second, "app", each, schema="shop") for second, each in enumerate(entries)
        )
    else:
        words = {"Change user": "Change user\tapp@web on shop", "Quit": "Quit\t"}
        words |= {"Reset connection": "Reset Connection\t"}
        log = _general(
            "Connect\tapp@web on shop",
            *(words.get(each, f"Query\t{each}") for each in sent),
        )
    summary, _, sessions, actions = converted(log=log)

    assert [each.text or each.does for each in actions] == [
        *("connect", "select 1", "disconnect"),
        *("connect", "select 2", "disconnect"),
    ]
    starts = [each.start_ns for each in actions]
    assert starts == sorted(starts)
    assert [(one.user, one.database) for one in sessions.values()] == [("app", "shop")] * 2
    assert summary.sessions == 2


def test_a_connection_that_is_reset_stays_in_its_database(converted: Callable[..., Any]) -> None:
    """Also in another one than that with which it began."""
    log = _general(
        *("Connect\ta@web on shop", "Query\tuse other /* x */", "Reset Connection\t"),
        *("Reset Connection\t", "Query\tselect 1"),
    )
    _, _, sessions, actions = converted(general=log)

    assert [each.text or each.does for each in actions] == [
        *("connect", "use other /* x */", "disconnect"),
        *("connect", "USE `other`", "select 1"),
    ]
    assert [one.database for one in sessions.values()] == ["shop", "shop"]


_INSIDE = """# Time: 2026-11-22T03:00:{second:02}.500000Z
# User@Host: anna[anna] @ localhost []  Id:     8
# Query_time: {duration}  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
{routine}SET timestamp=17953164{second:02};
{text};
"""


@pytest.mark.parametrize(
    ("after", "counted"),
    [
        ("", 2),
        (_INSIDE.format(second=4, duration="2.950000", routine="", text="call p()"), 0),
        (_INSIDE.format(second=4, duration="0.100000", routine="", text="select 1"), 2),
    ],
)
def test_statements_of_a_routine_whose_call_is_not_logged_are_counted(
    converted: Callable[..., Any], after: str, counted: int
) -> None:
    """Percona's server logs the statements inside of a procedure, and MariaDB's its CALL, too."""
    routine = "# Stored_routine: `shop`.`p`\n"
    log = "".join(
        _INSIDE.format(second=second, duration="0.900000", routine=routine, text="update t set a=1")
        for second in (2, 3)
    )
    summary, _, _, _ = converted(
        slow=_INSIDE.format(second=1, duration="0.100000", routine="", text="select 0")
        + log
        + after
    )
    assert dict(summary.skipped) == ({INSIDE: counted} if counted else {})


def test_a_clients_own_use_and_timestamp_are_statements(converted: Callable[..., Any]) -> None:
    """The server writes its own before the statement: what follows them is what a client sent."""
    entry = _INSIDE.format(second=2, duration="0.100000", routine="", text="{}")
    log = entry.format("use other").replace("SET", "use other;\nSET")
    log += entry.format("SET timestamp=17") + entry.format("select 1")
    _, _, _, actions = converted(slow=log)
    assert [each.text for each in actions if each.text] == [
        "use other",
        "SET timestamp=17",
        "select 1",
    ]


def test_a_server_that_began_anew_numbers_its_threads_again(converted: Callable[..., Any]) -> None:
    """The same number is another session after the lines that a server begins with."""
    summary, _, _, actions = converted(general=_GENERAL_9 + _GENERAL_9.replace("T03", "T04"))
    assert summary.sessions == 8
    assert summary.sessions_at_once <= 4
    assert len([each for each in actions if each.does == "disconnect"]) >= 6


def test_rotated_and_packed_logs_are_one(converted: Callable[..., Any]) -> None:
    """In any order."""
    cut = _GENERAL_9.index("2026-11-22T03:00:00.400000Z")
    whole = converted(general=_GENERAL_9)[3]
    first, second = _GENERAL_9[:cut], _GENERAL_9[cut:]
    assert converted(b=second, a=gzip.compress(first.encode()))[3] == whole


def test_bytes_that_are_no_text_are_kept(converted: Callable[..., Any]) -> None:
    """As lone surrogates, which are the same bytes again when they are sent."""
    text = b"select '\xff\xfe\x80'"
    log = _GENERAL_MARIADB.encode().replace(b"select 2", text)
    _, _, _, actions = converted(general=log)
    assert text in [each.text.encode("utf-8", "surrogateescape") for each in actions]


@pytest.mark.parametrize("shown", ["'select \\'\\', ?'", "...", "@b"])
def test_statements_that_the_log_has_twice_run_once(
    converted: Callable[..., Any], shown: str
) -> None:
    """PREPARE and EXECUTE as text are also logged as commands, with what MySQL 9 hides.

    MariaDB has the text of a variable there.
    """
    lines = [f"Query\tprepare s from {shown}", "Prepare\tselect '', ?", "Query\texecute s using @a"]
    lines += ["Execute\tselect '', 5", "Prepare\tselect ?", "Execute\tselect 6"]
    lines += ["Query\texecute t", "Query\tselect 7", "Execute\tselect 8"]
    log = _HEAD + "".join(
        f"2026-11-22T03:00:0{number}.000000Z\t    8 {line}\n" for number, line in enumerate(lines)
    )
    _, _, _, actions = converted(general=log)
    assert [each.text for each in actions if each.text] == [
        "prepare s from 'select \\'\\', ?'",
        "execute s using @a",
        "select 6",
        "execute t",
        "select 7",
        "select 8",
    ]


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        (
            ["Query\texecute nosuch", "Prepare\tinsert ?", "Execute\tinsert 5"],
            ["execute nosuch", "insert 5"],
        ),
        (
            ["Query\texecute immediate 'select 1'", "Prepare\tselect 1", "Execute\tselect 1"],
            ["execute immediate 'select 1'"],
        ),
        (["Query\t/* tool */ execute s", "Execute\tselect 1"], ["/* tool */ execute s"]),
        (
            ["Init DB\ta", "Query\t/* tool */ # x\nuse b", "Init DB\ta"],
            ["USE `a`", "/* tool */ # x\nuse b", "USE `a`"],
        ),
        (
            ["Query\tprepare s from @a", "Query\tselect 1", "Prepare\tselect 2"],
            ["prepare s from @a", "select 1"],
        ),
        (["Query\tprepare s from @a"], ["prepare s from @a"]),
        (
            ["Query\t/* tool */ prepare s from @a", "Prepare\tselect 1"],
            ["/* tool */ prepare s from 'select 1'"],
        ),
        (
            ["Query\t/* tool */ load data local infile 'x' into table t", "Query\tselect 1"],
            ["select 1"],
        ),
        (
            ["Query\tprepare s from @a /* tool */", "Prepare\tselect 1"],
            ["prepare s from 'select 1'"],
        ),
        (
            ["Query\tuse nosuch", "Query\tcreate database nosuch", "Init DB\tnosuch"],
            ["use nosuch", "create database nosuch", "USE `nosuch`"],
        ),
    ],
)
def test_commands_that_only_look_repeated_are_sent(
    converted: Callable[..., Any], lines: list[str], sent: list[str]
) -> None:
    """A failed EXECUTE has no second entry, and a USE may be in a comment's company or in vain."""
    log = _HEAD + "".join(
        f"2026-11-22T03:00:0{number}.000000Z\t    8 {line}\n" for number, line in enumerate(lines)
    )
    _, _, _, actions = converted(general=log)
    assert [each.text for each in actions if each.text] == sent


@pytest.mark.parametrize("text", [_GENERAL_9, _GENERAL_MARIADB, _SLOW_9, _SLOW_MARIADB])
def test_a_log_that_is_cut_anywhere_is_read_or_refused(
    converted: Callable[..., Any], text: str
) -> None:
    """In one sentence, and never with a traceback."""
    for length in range(0, len(text), 17):
        try:
            converted(log=text[:length])
        except Impossible as error:
            assert "\n" not in str(error)  # noqa: PT017 - it may be read, too


_HEAD_50 = """D:\\MySQL\\MySQL Server 5.0\\bin\\mysqld, Version: 5.0.38-log (Source). started with:
TCP Port: 3306, Named Pipe: (null)
Time                 Id Command    Argument
"""
_SLOW_50 = (
    _HEAD_50
    + """# User@Host: root[root] @ localhost []
# Query_time: 1  Lock_time: 0  Rows_sent: 1  Rows_examined: 0
select 'before the first time';
# Time: 071015 21:43:52
# User@Host: root[root] @ localhost []
# Query_time: 2  Lock_time: 0  Rows_sent: 1  Rows_examined: 0
use test;
select sleep(2) from n;
# Time: 071015 21:43:55 # User@Host: app[app] @  [10.0.0.1]
# Query_time: 2  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
SET insert_id=7,timestamp=1192477433;
insert into t values (null,
  now());
# User@Host: [SQL_SLAVE] @  []
# Query_time: 18446744073708.796870.000036  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
delete from t;
# User@Host: app[app] @  [10.0.0.1]
# Query_time: 0  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
# administrator command: Quit;
# User@Host: app[app] @  [10.0.0.1]
# Query_time: 0  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
# administrator command: Execute;
# Query_time: 3  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
select 'of nobody';
# User@Host: app[app] @  [10.0.0.1]
# Query_time: 0  Lock_time: 0  Rows_sent: 0  Rows_examined: 0
select 3;
"""
)


def test_a_slow_log_of_mysql_5_0(converted: Callable[..., Any]) -> None:
    """Seconds, no threads, two heads on a line, a zone that an entry tells; what is lost counts."""
    summary, notes, sessions, actions = converted(slow=_SLOW_50)
    assert summary.source.server_version == "5.0.38-log"
    assert ONE_SESSION in notes
    assert not any("zone" in note or "nothing that a server writes" in note for note in notes)
    assert summary.skipped == {NO_TIME: 1, NO_SESSION: 1, EXECUTED: 1}
    begin = summary.begin_ns // 10**9
    done = [
        (sessions[each.session].user, begin + each.start_ns // 10**9, each.text)
        for each in actions
        if each.text
    ]
    # 21:43:55 there is 19:43:55 in UTC, the end of what began at 1192477433.
    assert done == [
        ("root", 1192477430, "select sleep(2) from n"),
        ("app", 1192477433, "insert into t values (null,\n  now())"),
        ("", 1192477435, "delete from t"),
        ("app", 1192477435, "select 3"),
    ]
    assert {each.text: each.duration_ns for each in actions}["delete from t"] == UNKNOWN
    assert [each for each in actions if each.does == "disconnect"] == []
    assert summary.sessions == 3


_SLOW_51 = """/usr/sbin/mysqld, Version: 5.1.73-log (Source distribution). started with:
Tcp port: 0  Unix socket: /var/lib/mysql/mysql.sock
Time                 Id Command    Argument
# Time: 100518  5:11:03
# User@Host: foo[foo] @ web [1.2.3.4]
# Query_time: 2.500000  Lock_time: 0.000048 Rows_sent: 18  Rows_examined: 18
use db1;
SET timestamp=1274152263;
select col from tbl
where a = '# Query_time: 1';
# Thread_id: 342 Schema: db1 Last_errno: 1062 Killed: 0
# Query_time: 0.500000 Lock_time: 0.000000 Rows_sent: 0 Rows_examined: 0 Rows_affected: 2
SET timestamp=1274152264;
update tbl set a = 1;
"""


def test_a_slow_log_of_mysql_5_1(converted: Callable[..., Any]) -> None:
    """SET timestamp is the end of a statement; a head may begin with the thread."""
    summary, _, _, actions = converted(slow=_SLOW_51)
    begin = summary.begin_ns
    assert [(each.text, begin + each.start_ns, each.sqlstate) for each in actions if each.text] == [
        ("select col from tbl\nwhere a = '# Query_time: 1'", 1274152260500000000, ""),
        ("update tbl set a = 1", 1274152263500000000, "23000"),
    ]
    assert not summary.skipped


_GENERAL_57 = """/usr/sbin/mysqld, Version: 5.7.12-0ubuntu1-log ((Ubuntu)). started with:
Tcp port: 3306  Unix socket: /var/run/mysqld/mysqld.sock
Time                 Id Command    Argument
2016-06-07T19:07:02.558338Z    3 Connect\tphpmyadmin@localhost on  using Socket
2016-06-07T19:07:02.558581Z    4 Connect\troot@localhost on  using Socket
2016-06-07T19:07:02.558713Z    4 Query\tSET CHARACTER SET 'utf8mb4'
2016-06-07T19:07:02.559000Z    4 Query     SELECT 1
  FROM t
2016-06-07T19:07:02.563721Z    3 Init DB   shop
2016-06-07T19:07:02.567097Z    3 Quit\t
2016-06-07T19:07:02.569194Z 1234567 Query\tSELECT 2
"""


def test_a_general_log_of_mysql_5_7_with_blanks(converted: Callable[..., Any]) -> None:
    """After the stamp, as its first versions wrote, and after the command, as copies have."""
    summary, notes, sessions, actions = converted(general=_GENERAL_57)
    assert notes == (SILENT,)
    assert not summary.skipped
    assert [(sessions[one.session].user, one.text) for one in actions if one.text] == [
        ("root", "SET CHARACTER SET 'utf8mb4'"),
        ("root", "SELECT 1\n  FROM t"),
        ("phpmyadmin", "USE `shop`"),
        ("", "SELECT 2"),
    ]


_GENERAL_50 = (
    _HEAD_50
    + """\t\t     41 Query       SELECT 'before the first time'
051007 21:55:24\t     42 Connect     root@localhost on db1
\t\t     42 Query       SELECT foo
                         FROM tbl
                         WHERE 7 Query = 1
                     42 Query       DELETE FROM t
               \t     42 Quit
061226  5:42:36\t     11 Connect     root@localhost as  on
061226 15:42:36      11 Query       SELECT 2
"""
)


def test_a_general_log_of_mysql_5_0(converted: Callable[..., Any]) -> None:
    """Commands padded with blanks; lines of a statement that look alike are its own."""
    summary, notes, _, actions = converted(general=_GENERAL_50)
    assert not any("nothing that a server writes" in note for note in notes)
    assert summary.skipped == {NO_TIME: 1}
    blanks = " " * 25
    assert [each.text for each in actions if each.text] == [
        f"SELECT foo\n{blanks}FROM tbl\n{blanks}WHERE 7 Query = 1",
        "DELETE FROM t",
        "SELECT 2",
    ]
    assert [each.does for each in actions].count("disconnect") == 1
