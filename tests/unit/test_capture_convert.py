"""Logs of PostgreSQL become replay files: what clients did, in its order, and nothing twice."""

import bz2
import contextlib
import csv
import gzip
import io
import json
import os
import random
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard

from replayer.capture import assembly, conversion, inputs, logged_parameters, prefix
from replayer.capture.action import Action, LoggedSession
from replayer.capture.archive import ArchiveReader
from replayer.capture.capture_summary import CaptureSummary
from replayer.capture.inputs import LONGEST_LINE
from replayer.errors import UNKNOWN_STATE, Impossible

HEAD = "2026-05-16 05:11:{second:06.3f} UTC"


def row(
    second: float, message: str, *, detail: str = "", level: str = "LOG", state: str = "00000",
    query: str = "", context: str = "", session: str = "6a07fca4.3e9", line: int = 1,
    query_id: int = 0, vxid: str = "", application: str = "psql",
) -> str:  # fmt: skip
    """Return one record as PostgreSQL 14 and later write it.

    Without `vxid` it has the id of a virtual transaction that no other record has.
    """
    stamp = HEAD.format(second=second)
    vxid = vxid or f"1/{zlib.crc32(f'{session} {second} {message}'.encode())}"
    cells = [
        *(stamp, "ann", "shop", "1001", "10.0.0.1:54321", session, line, "SELECT"),
        *("2026-05-16 05:11:00 UTC", vxid, 0, level, state, message, detail, "", "", "", context),
        *(query, "", "", application, "client backend", "", query_id),
    ]
    bare = {0, 3, 5, 6, 8, 9, 10, 11, 12, 17, 20, 24, 25}
    text = [
        str(cell) if at in bare or cell == "" else '"' + str(cell).replace('"', '""') + '"'
        for at, cell in enumerate(cells)
    ]
    return ",".join(text) + "\n"


def as_json(text: str) -> str:
    """Return the same records as a jsonlog."""
    names = (
        *("timestamp", "user", "dbname", "pid", "remote_host", "session_id", "line_num", "ps"),
        *("session_start", "vxid", "txid", "error_severity", "state_code", "message", "detail"),
        *("hint", "internal_query", "internal_position", "context", "statement"),
        *("cursor_position", "location", "application_name", "backend_type", "leader_pid"),
        "query_id",
    )
    numbers = {"pid", "line_num", "query_id"}
    lines = []
    for cells in csv.reader(io.StringIO(text, newline="\n")):
        fields = {
            name: int(cell) if name in numbers else cell
            for name, cell in zip(names, cells, strict=True)
            if cell
        }
        lines.append(json.dumps(fields))
    return "\n".join(lines) + "\n"


def as_stderr(text: str) -> str:
    """Return the same records as stderr with %m [%c] %u@%d %v %e."""
    lines = []
    for cells in csv.reader(io.StringIO(text, newline="\n")):
        begin = f"{cells[0]} [{cells[5]}] {cells[1]}@{cells[2]} {cells[9]} {cells[12]} "
        parts = [(cells[11], cells[13]), ("DETAIL", cells[14]), ("CONTEXT", cells[18]),
                 ("STATEMENT", cells[19])]  # fmt: skip
        lines += [
            f"{begin}{level}:  {words}".replace("\n", "\n\t") for level, words in parts if words
        ]
    return "\n".join(lines) + "\n"


Converted = tuple[CaptureSummary, list[Action], Any]
"""The summary, the actions and the notes of a log."""
LAYOUTS: dict[str, Callable[[str], str]] = {"csv": str, "json": as_json, "stderr": as_stderr}


def converted(
    folder: Path, content: str | bytes, *, prefix: str | None = None, name: str = "postgresql.log"
) -> Converted:
    """Return the summary, the actions and the notes of a log."""
    log = folder / name
    log.write_bytes(content if isinstance(content, bytes) else content.encode())
    return of([str(log)], folder, prefix=prefix)


def of(
    names: list[str], folder: Path, prefix: str | None = None, *, anonymise: bool = False
) -> Converted:
    """Return the summary, the actions and the notes of files."""
    wish = conversion.ConversionRequest(names, folder / "out.replay", prefix, anonymise)
    made = conversion.convert(conversion.planned(wish), wish, lambda _: None)
    with ArchiveReader(wish.out) as reader:
        return made.summary, list(reader.actions()), made.notes


def statements(actions: list[Action]) -> list[Action]:
    """Return what was sent."""
    return [one for one in actions if one.does in ("simple", "extended")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_statement_with_its_duration_is_an_action_that_began_so_long_before(
    tmp_path: Path, layout: str
) -> None:
    """Its start is the stamp less the duration; text, error and session are the log's."""
    text = row(10, "duration: 250.500 ms  statement: SELECT 'a''b',\n  \"c\"", query_id=-17)

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    (one,) = statements(actions)
    assert (one.does, one.text, one.name, one.parameters) == (
        *("simple", "SELECT 'a''b',\n  \"c\"", "", None),
    )
    assert one.duration_ns == 250_500_000
    assert summary.begin_ns + one.start_ns == 1778908270_000_000_000 - 250_500_000
    assert (summary.heaviest[0].fingerprint == -17) is (layout != "stderr")
    assert summary.sessions == 1
    assert [action.does for action in actions] == ["connect", "simple"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("word", ["parameters", "Parameters"])
def test_bind_parameters_are_taken_in_both_spellings(
    tmp_path: Path, layout: str, word: str
) -> None:
    """Quotes, empty text, NULL and commas in values are what the client bound."""
    values = "$1 = 'it''s', $2 = NULL, $3 = '', $4 = 'a, $5 = ''x''', $5 = 'two\nlines'"
    text = row(
        10,
        "duration: 1.000 ms  execute S_1/C_2: SELECT $1, $2, $3, $4, $5",
        detail=f"{word}: {values}",
    )

    _, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    (one,) = statements(actions)
    assert (one.does, one.name, one.text) == ("extended", "S_1", "SELECT $1, $2, $3, $4, $5")
    assert one.parameters == ("it's", None, "", "a, $5 = 'x'", "two\nlines")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES ('$2a$10$N9qo8uLOickgx2ZMRZoMye')",
        "SELECT '$1.00', E'a\\'$1' -- $1",
        'SELECT "$1" FROM t$2026',
        "SELECT $body$ $1 $body$",
    ],
)
def test_a_dollar_in_a_string_is_no_parameter(tmp_path: Path, text: str, *, fails: bool) -> None:
    """Nor is one in a comment or in a name: the log lacks no value."""
    entry = row(10, f"duration: 1.000 ms  execute <unnamed>: {text}")
    if fails:
        entry = row(10, "division by zero", level="ERROR", state="22012", query=text)

    _, actions, _ = converted(tmp_path, entry)

    assert [one.text for one in statements(actions)] == [text]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parse_and_bind_are_parts_of_their_execute(tmp_path: Path, layout: str) -> None:
    """Three entries are one action, as long as all three; a fetch is counted, not replayed."""
    steps = ("parse", "bind", "execute", "execute fetch from")
    text = "".join(
        row(10 + at, f"duration: 1 ms  {step} <unnamed>: SELECT $1", detail="Parameters: $1 = '7'")
        for at, step in enumerate(steps)
    )  # fmt: skip

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    (one,) = statements(actions)
    assert (one.name, one.parameters) == ("", ("7",))
    assert one.duration_ns == 3_000_000
    assert sum(summary.skipped.values()) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_statement_and_its_duration_may_be_two_entries(tmp_path: Path, layout: str) -> None:
    """log_statement with log_duration: one action with the text of the first entry."""
    text = (
        row(10, "statement: SELECT 1")
        + row(10.5, "duration: 500.000 ms")
        + row(11, "duration: 0.100 ms")
        + row(11, "duration: 0.050 ms")
        + row(11, "execute <unnamed>: SELECT $1", detail="Parameters: $1 = 'x'")
        + row(11.2, "duration: 200.000 ms")
        + row(12, "statement: SELECT 2")
        + row(13, "statement: SELECT 3")
    )

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    sent = statements(actions)
    assert [one.text for one in sent] == ["SELECT 1", "SELECT $1", "SELECT 2", "SELECT 3"]
    assert [one.duration_ns for one in sent] == [500_000_000, 200_000_000, -1, -1]
    assert sent[1].parameters == ("x",)
    assert summary.statements == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_error_ends_its_statement_with_its_state(tmp_path: Path, layout: str) -> None:
    """Logged at its begin or not, simple or bound, a failed statement is one action."""
    text = (
        row(10, "statement: SELECT 1/0")
        + row(10.25, "division by zero", level="ERROR", state="22012", query="SELECT 1/0")
        + row(11, 'relation "x" does not exist', level="ERROR", state="42P01",
              query="SELECT * FROM x")
        + row(12, "duration: 0.100 ms  bind a: SELECT $1::int", detail="Parameters: $1 = '1'")
        + row(12, "canceling statement due to user request", level="ERROR", state="57014",
              query="SELECT $1::int")
        + row(13, "value too long", level="ERROR", state="22001", query="SELECT $1",
              context="unnamed portal with parameters: $1 = 'abc'")
        + row(14, "invalid input", level="ERROR", state="22P02", query="SELECT $2")
    )  # fmt: skip

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    sent = statements(actions)
    assert [one.sqlstate for one in sent] == ["22012", "42P01", "57014", "22001"]
    assert sent[0].duration_ns == 250_000_000
    assert (sent[2].name, sent[2].parameters) == ("a", ("1",))
    assert sent[3].parameters == ("abc",)
    assert list(summary.skipped.values()) == [1]


DEADLOCK = row(20, "deadlock detected", level="ERROR", state="40P01", query="UPDATE t SET a = 1")
LOST = "canceling statement due to lock timeout"


@pytest.mark.parametrize(
    ("before", "failed", "lasted"),
    [
        # As long as the server waits before it looks for deadlocks, where nothing else is known.
        ("", DEADLOCK, 1),
        (
            row(1, 'parameter "deadlock_timeout" changed to "250ms"'),
            DEADLOCK,
            0.25,
        ),
        (
            "",
            row(20, "process 7 detected deadlock while waiting for ShareLock on transaction 9 "
                    "after 3000.500 ms")
            + DEADLOCK,
            3.0005,
        ),
        # Not before what its session did before.
        (
            row(19.5, "duration: 0.100 ms  statement: SELECT 1"),
            DEADLOCK,
            0.5,
        ),
        (
            row(12, "duration: 0.100 ms  statement: SET LOCAL lock_timeout TO '1500ms'"),
            row(20, LOST, level="ERROR", state="55P03", query="UPDATE t SET a = 1"),
            1.5,
        ),
        # Of a transaction that has ended.
        (
            row(11, "duration: 0.100 ms  statement: set lock_timeout = '1s'")
            + row(12, "duration: 0.100 ms  statement: BEGIN")
            + row(13, "duration: 0.100 ms  statement: SET LOCAL lock_timeout = '7s'")
            + row(14, "duration: 0.100 ms  statement: ROLLBACK TO SAVEPOINT a")
            + row(15, "duration: 0.100 ms  statement: COMMIT"),
            row(20, LOST, level="ERROR", state="55P03", query="UPDATE t SET a = 1"),
            1,
        ),
        (
            row(11, "duration: 0.100 ms  statement: set lock_timeout = '1s'")
            + row(12, "duration: 0.100 ms  statement: BEGIN")
            + row(13, "duration: 0.100 ms  statement: SET LOCAL lock_timeout = '7s'")
            + row(15, "could not serialize", level="ERROR", state="40001", query="COMMIT"),
            row(20, LOST, level="ERROR", state="55P03", query="UPDATE t SET a = 1"),
            1,
        ),
        (
            row(12, "duration: 0.100 ms  statement: set statement_timeout = 700"),
            row(20, "canceling statement due to statement timeout", level="ERROR", state="57014",
                query="SELECT 1"),
            0.7,
        ),
        # With comments of tools.
        (
            row(12, "duration: 0.100 ms  statement: -- a\nset/**/statement_timeout=700 /* b */;"),
            row(20, "canceling statement due to statement timeout", level="ERROR", state="57014",
                query="SELECT 1"),
            0.7,
        ),
        (
            row(12, "process 7 still waiting for ShareLock on transaction 9 after 1000.000 ms"),
            row(20, "canceling statement due to user request", level="ERROR", state="57014",
                query="SELECT 1"),
            9,
        ),
        (
            row(14, "duration: 0.100 ms  bind <unnamed>: SELECT $1::int",
                detail="Parameters: $1 = '1'"),
            row(20, "canceling statement due to user request", level="ERROR", state="57014",
                query="SELECT $1::int"),
            6,
        ),
        ("", row(20, "division by zero", level="ERROR", state="22012", query="SELECT 1/0"), 0),
    ],
)  # fmt: skip
def test_a_failed_statement_began_when_the_log_tells_that_it_did(
    tmp_path: Path, before: str, failed: str, lasted: float
) -> None:
    """By its wait for a lock, its timeout or its values; else it began when it failed."""
    _, actions, _ = converted(tmp_path, row(2, "statement: SELECT 0") + before + failed)

    failing = statements(actions)[-1]
    assert failing.sqlstate
    assert max(0, failing.duration_ns) == pytest.approx(lasted * 1e9, abs=1.1e6)
    assert failing.start_ns == pytest.approx((20 - 2 - lasted) * 1e9, abs=1.1e6)


def test_states_that_the_log_does_not_have_are_known_by_their_words(tmp_path: Path) -> None:
    """Without %e an error is an error, of a state that is known or not."""
    begin = "2026-05-16 05:11:10.000 UTC [77] "
    text = (
        f'{begin}ERROR:  duplicate key value violates unique constraint "k"\n'
        f"{begin}DETAIL:  Key (a)=(1) exists.\n{begin}STATEMENT:  INSERT INTO t SELECT 1\n"
        f"{begin}ERROR:  something else\n{begin}STATEMENT:  SELECT f()\n"
    )

    _, actions, _ = converted(tmp_path, text)

    assert [one.sqlstate for one in statements(actions)] == ["23505", UNKNOWN_STATE]


_CONNECTS = "connection authorized: user=ann database=shop"


def _described(folder: Path) -> list[LoggedSession]:
    """Return the descriptions of sessions in the converted file, in their order."""
    with ArchiveReader(folder / "out.replay") as reader:
        return [session for block in reader.blocks() for session in block.sessions]


@pytest.mark.parametrize("layout", ["csv", "json"])
@pytest.mark.parametrize("first", ["", "[unknown]"])
@pytest.mark.parametrize("connects", [True, False])
def test_an_application_that_is_set_after_connecting_is_that_of_its_session(
    tmp_path: Path, layout: str, first: str, *, connects: bool
) -> None:
    """As pgjdbc does; one that sets it to nothing later has still had it."""
    sent = ["SET application_name = 'shop-service'", "SELECT 1", "RESET application_name"]
    names = ["shop-service", "shop-service", ""]
    text = row(10, _CONNECTS, application=first) if connects else ""
    text += row(10.5, "duration: 1.000 ms  statement: BEGIN", application=first)
    text += "".join(
        row(11 + at, f"duration: 1.000 ms  statement: {statement}", application=name)
        for at, (statement, name) in enumerate(zip(sent, names, strict=True))
    )

    summary, _, notes = converted(tmp_path, LAYOUTS[layout](text))

    assert [one.application for one in _described(tmp_path)] == ["shop-service"]
    assert summary.sessions == 1
    assert not any("application_name" in note for note in notes)


def test_a_session_of_several_applications_has_the_first_and_a_note(tmp_path: Path) -> None:
    """As those of PgBouncer are, each of which serves many clients."""
    text = "".join(
        row(10 + at, "duration: 1.000 ms  statement: SELECT 1", application=name, session=session)
        for at, (session, name) in enumerate(
            [("6a07fca4.1", "a"), ("6a07fca4.2", "b"), *[("6a07fca4.1", "c")] * 2,
             ("6a07fca4.1", "a")]
        )
    )  # fmt: skip

    _, _, notes = converted(tmp_path, text)

    assert [one.application for one in _described(tmp_path)] == ["a", "b"]
    assert [note for note in notes if "change their application_name: 1." in note]


def test_a_name_that_the_server_cuts_is_not_another_one(tmp_path: Path) -> None:
    """The message of the connection has the whole name, the entries its first 63 characters."""
    name = "shop-service-" * 6
    text = row(10, f"{_CONNECTS} application_name={name}", application="")
    for at in (11, 12):
        message = "duration: 1.000 ms  statement: SELECT 1"
        text += row(at, message, application=name[:63])

    _, _, notes = converted(tmp_path, text)

    assert [one.application for one in _described(tmp_path)] == [name]
    assert not any("application_name" in note for note in notes)


def test_an_application_that_is_set_late_is_known_from_then_on(tmp_path: Path) -> None:
    """After the session's first actions are written; it is still one session."""
    early = "".join(
        row(10 + at / 1000, "duration: 0.100 ms  statement: SELECT 1", application="", line=2)
        for at in range(12_000)
    )
    late = "".join(
        row(50 + at / 1000, "duration: 0.100 ms  statement: SELECT 2", application=name, line=2)
        for at, name in enumerate([""] * 9_000 + ["late"])
    )

    summary, actions, _ = converted(tmp_path, early + late)

    assert [one.application for one in _described(tmp_path)] == ["", "late"]
    assert (summary.sessions, summary.sessions_began_before) == (1, 1)
    assert len(statements(actions)) == 21_001


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sessions_begin_and_end_as_logged(tmp_path: Path, layout: str) -> None:
    """A connection is one action with its user and database; a disconnect ends it."""
    text = (
        row(10, "connection received: host=10.0.0.1 port=54321")
        + row(10.01, 'connection authenticated: identity="ann" method=md5', line=2)
        + row(10.02, "connection authorized: user=ann database=shop application_name=psql", line=3)
        + row(11, "duration: 1.000 ms  statement: SELECT 1", line=4)
        + row(12, "disconnection: session time: 0:00:02.000 user=ann database=shop", line=5)
        + row(13, "duration: 1.000 ms  statement: SELECT 2", session="6829a1a0.4", line=9)
    )

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    assert [one.does for one in actions] == ["connect", "simple", "disconnect", "connect", "simple"]
    assert actions[0].duration_ns == 20_000_000
    assert summary.sessions == 2
    assert summary.sessions_began_before == 1


@pytest.mark.parametrize("began_before", [False, True])
@pytest.mark.parametrize("name", sorted(assembly.OWN_NAMES))
def test_sessions_of_replayer_itself_are_left_out(
    tmp_path: Path, name: str, *, began_before: bool
) -> None:
    """Who looked on while it was captured did no work of the source's; it is counted and named."""
    begin = row(10, f"connection authorized: user=ann database=shop application_name={name}")
    asked = row(11, "duration: 1.000 ms  statement: SELECT count(*) FROM pg_settings", line=4)
    text = (
        ("" if began_before else begin.replace("psql", ""))
        + asked.replace("psql", name)
        + row(12, "disconnection: session time: 0:00:02.000 user=ann database=shop", line=5)
        + row(13, "duration: 1.000 ms  statement: SELECT 2", session="6829a1a0.4", line=9)
    )

    summary, actions, _ = converted(tmp_path, text)

    assert [one.text for one in statements(actions)] == ["SELECT 2"]
    assert summary.sessions == 1
    assert summary.skipped[assembly.OWN] == 1


def test_a_session_of_which_only_the_receipt_is_logged_began_in_the_log(tmp_path: Path) -> None:
    """PostgreSQL 18 can log each step of a connection by itself."""
    text = row(10, "connection received: host=[local]") + row(
        11, "duration: 100.000 ms  statement: SELECT 1", line=2
    )

    summary, actions, _ = converted(tmp_path, text)

    assert summary.sessions_began_before == 0
    assert [(one.does, one.start_ns) for one in actions] == [
        ("connect", 0),
        ("simple", 900_000_000),
    ]


def test_connections_later_in_the_log_tell_of_sessions_before_it(tmp_path: Path) -> None:
    """Where connections are logged, a session without one began before the log."""
    begin = "2026-05-16 05:11:10.000 UTC"
    text = (
        f"{begin} [7] ann@shop LOG:  duration: 1.000 ms  statement: SELECT 1\n"
        f"{begin} [8] [unknown]@[unknown] LOG:  connection received: host=[local]\n"
        f"{begin} [8] bob@shop LOG:  connection authorized: user=bob database=shop\n"
        f"{begin} [8] bob@shop LOG:  duration: 1.000 ms  statement: SELECT 2\n"
    )

    summary, _, _ = converted(tmp_path, text)

    assert (summary.sessions, summary.sessions_began_before) == (2, 1)


def test_a_process_number_that_is_given_again_is_another_session(tmp_path: Path) -> None:
    """Without session ids and disconnections, another user or host is another session."""
    text = "".join(
        f"2026-05-16 05:11:1{at} UTC:10.0.0.1({port}):{user}@shop:[77]:LOG:  duration: 1.0 ms  "
        f"statement: SELECT {at}\n"
        for at, (port, user) in enumerate([(1, "ann"), (1, "ann"), (2, "ann"), (2, "bob")])
    )

    summary, actions, _ = converted(tmp_path, text)

    assert [one.session for one in statements(actions)] == [0, 0, 1, 2]
    assert summary.sessions == 3


def test_stamps_of_whole_seconds_keep_the_order_of_each_session(tmp_path: Path) -> None:
    """What is logged in one second happens in that second, one after the other."""
    text = "".join(
        f"2026-05-16 05:11:10 UTC [7] ann@shop LOG:  duration: 1.000 ms  statement: SELECT {at}\n"
        for at in range(100)
    )

    summary, actions, _ = converted(tmp_path, text)

    sent = statements(actions)
    assert [one.text for one in sent] == [f"SELECT {at}" for at in range(100)]
    assert all(two.start_ns >= one.start_ns + one.duration_ns for one, two in pairwise(sent))
    assert sent[-1].start_ns - sent[0].start_ns > 900_000_000
    assert summary.source.resolution_ns == 1_000_000_000


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ('fastpath function call: "lo_open" (OID 952)', None),
        ("execute S: SELECT $1", ""),
        ("execute S: SELECT $1", "Parameters: $1 = 'aaaaaaaaaa...'"),
        ("execute fetch from S/C: SELECT 1", ""),
    ],
)
def test_what_cannot_be_replayed_is_counted_and_named(
    tmp_path: Path, message: str, detail: str | None
) -> None:
    """Fast-path calls, cut and missing parameters, further fetches."""
    text = row(9, "duration: 1.000 ms  statement: SELECT 1") + row(
        10, f"duration: 1.000 ms  {message}", detail=detail or ""
    )

    summary, actions, _ = converted(tmp_path, text)

    assert [one.text for one in statements(actions)] == ["SELECT 1"]
    assert list(summary.skipped.values()) == [1]


def test_dots_that_a_client_bound_are_not_the_limits(tmp_path: Path) -> None:
    """A value that ends with dots is whole where a longer one was logged whole."""
    details = "Parameters: $1 = 'a long value', $2 = 'short...'"
    text = row(10, "duration: 1.000 ms  execute S: SELECT $1, $2", detail=details)

    _, actions, _ = converted(tmp_path, text)

    assert statements(actions)[0].parameters == ("a long value", "short...")


def _executed(*values: str) -> str:
    """Return entries of statements with one parameter each, logged with a limit of 100 bytes."""
    return "".join(
        row(10 + at, "duration: 1.000 ms  execute S: SELECT $1",
            detail=f"Parameters: $1 = '{_logged(value)}'")
        for at, value in enumerate(values)
    )  # fmt: skip


def _logged(value: str) -> str:
    """Return a value as PostgreSQL logs it with a limit of 100 bytes."""
    cut = value.encode()[:100].decode(errors="ignore")
    return f"{cut}...".replace("'", "''") if cut != value else value.replace("'", "''")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        # The longest value in the log is no longest one in bytes of the value.
        ("b" * 60 + "'" * 30, "b" * 101),
        ("b" * 90, "'" * 101),
        # A character has several bytes, and none is cut into two.
        ("b" * 80, "ж" * 51),
        ("b" * 100, "b" + "ж" * 50),
        ("b" * 100, "b" + "😀" * 25),
    ],
    ids=[
        "quotes before",
        "quotes in it",
        "letters of two bytes",
        "a byte left",
        "three bytes left",
    ],
)
def test_a_value_that_the_server_cut_is_never_replayed(
    tmp_path: Path, layout: str, whole: str, cut: str
) -> None:
    """The limit is in bytes of the value, whatever has more characters in the log."""
    short = "b" * 60 + "..."

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](_executed(whole, cut, short)))

    assert [one.parameters for one in statements(actions)] == [(whole,), (short,)]
    assert summary.skipped == {logged_parameters.CUT_VALUE: 1}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_of_failed_statements_have_a_limit_apart(tmp_path: Path, layout: str) -> None:
    """log_parameter_max_length_on_error cuts the values in CONTEXT, whatever DETAIL has."""

    def failed(second: int, value: str) -> str:
        context = f"unnamed portal with parameters: $1 = '{value}'"
        return row(second, "too long", level="ERROR", state="22001", query="SELECT $1",
                   context=context)  # fmt: skip

    logged = ["b" * 64 + "...", "b" * 64, "b" * 30 + "..."]
    text = _executed("c" * 90) + "".join(failed(20 + at, one) for at, one in enumerate(logged))

    summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

    assert [one.parameters for one in statements(actions)[1:]] == [(one,) for one in logged[1:]]
    assert summary.skipped == {logged_parameters.CUT_VALUE: 1}


def many(count: int) -> str:
    """Return a csvlog with statements of one and of several lines."""
    return "".join(
        row(10 + at / 1000, f"duration: 0.500 ms  statement: SELECT {at},\n '2026-05-16 05:11'")
        for at in range(count)
    )  # fmt: skip


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        gzip.compress,
        bz2.compress,
        zstandard.compress,
        lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
        lambda data: b"\xef\xbb\xbf" + data,
    ],
    ids=["plain", "gz", "bz2", "zst", "gz of two members", "with a mark"],
)
def test_compressed_logs_hold_the_same(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Whatever a log is packed in."""
    summary, _, _ = converted(tmp_path, pack(many(300).encode()))

    assert summary.statements == 300
    assert not summary.damage


def test_rotated_files_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    """Whatever their names are; a file and its compressed copy are one log."""
    logs = tmp_path / "logs"
    logs.mkdir()
    lines = [row(10 + at, f"duration: 1.0 ms  statement: SELECT {at}") for at in range(9)]
    (logs / "c.log").write_text("".join(lines[:3]))
    (logs / "a.log.gz").write_bytes(gzip.compress("".join(lines[3:6]).encode()))
    (logs / "b.log").write_text("".join(lines[6:]))
    (logs / "c.log.gz").write_bytes(gzip.compress("".join(lines[:3]).encode()))
    (logs / "link.log").symlink_to("/etc/passwd")
    (logs / "other.txt").write_text("no log\n")

    summary, actions, notes = of([str(logs), str(logs / "b.log")], tmp_path)

    assert [one.text for one in statements(actions)] == [f"SELECT {at}" for at in range(9)]
    assert summary.source.logs == ("c.log", "a.log.gz", "b.log")
    assert sorted(note.partition(":")[0] for note in notes) == ["passed over"] * 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("times", "places"), [((10, 11, 10.7, 12), 0), ((10, 13, 11, 12), 1), ((20, 10, 25, 11), 2)]
)
def test_times_that_go_back_are_said(
    layout: str, times: Sequence[float], places: int, tmp_path: Path
) -> None:
    """A clock that was set, or logs that overlap; neighbours that were swapped are usual."""
    text = "".join(row(at, f"duration: 1.0 ms  statement: SELECT {at}") for at in times)
    _, actions, notes = converted(tmp_path, LAYOUTS[layout](text))
    told = [note for note in notes if "times go back" in note]

    assert len(statements(actions)) == len(times)
    assert len(told) == (places > 0)
    assert all(f"go back: {places}, by up to" in note for note in told)


def test_a_folder_with_one_log_in_two_layouts_is_not_replayed_twice(tmp_path: Path) -> None:
    """Of stderr and csvlog of the same server the one that tells more is read."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "p.csv").write_text(many(5))
    (logs / "p.log").write_text(as_stderr(many(5)))

    summary, _, notes = of([str(logs)], tmp_path)

    assert summary.statements == 5
    assert any("p.log" in note for note in notes)


def test_a_pipe_is_read_once_and_whole(tmp_path: Path) -> None:
    """Its beginning is looked at, and is there when it is read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = many(5000).encode()
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(data),))
    writer.start()

    summary, _, _ = of([str(pipe)], tmp_path)

    writer.join()
    assert summary.statements == 5000


@pytest.mark.parametrize("through", ["a file", "a pipe"])
def test_standard_input_is_read_once_and_whole(tmp_path: Path, through: str) -> None:
    """Where it is a file, too, of which the beginning was looked at."""
    log, out = tmp_path / "p.csv", tmp_path / "out.replay"
    log.write_text(many(3000))
    words = [sys.executable, "-m", "replayer", "convert", "-", "--out", str(out)]
    with log.open("rb") as file:
        given = {"stdin": file} if through == "a file" else {"input": file.read()}
        done = subprocess.run(words, **given, capture_output=True, check=False)

    assert done.returncode == 0, done.stderr
    with ArchiveReader(out) as reader:
        assert reader.summary.statements == 3000
        assert reader.summary.source.logs == ("standard input",)


def test_logs_with_the_newest_line_first_are_read_from_their_end(tmp_path: Path) -> None:
    """Exports of a cluster's logs are so; what clients did has the order of its time."""
    lines = [
        json.dumps({"logger": "postgres", "record": {
            "log_time": f"2026-05-16 05:11:{at:02}.000 UTC", "user_name": "a", "database_name": "d",
            "process_id": "7", "session_id": "6829a1b0.7", "session_line_num": str(at),
            "error_severity": "LOG", "sql_state_code": "00000",
            "message": f"duration: 1.000 ms  statement: SELECT {at}",
            "backend_type": "client backend", "query_id": "5"}})
        for at in range(30)
    ]  # fmt: skip

    _, actions, _ = converted(tmp_path, "\n".join(reversed(lines)) + "\n")

    assert [one.text for one in statements(actions)] == [f"SELECT {at}" for at in range(30)]


@pytest.mark.parametrize("mebibytes", [5, 9])
def test_a_long_line_among_lines_with_the_newest_first_is_cut_once(
    tmp_path: Path, mebibytes: int
) -> None:
    """Its beginning, which is read last, is no line of its own."""
    path = tmp_path / "log"
    path.write_text("3\n2" + "x" * (mebibytes << 20) + "\n1\n0")
    file = inputs.Input(path.name, path, path.stat().st_size)
    lines = [line for some in file.backwards(lambda _: None) for line in some]
    assert [line for line in lines if line != inputs.CUT] == ["0", "1", "3"]
    assert lines.count(inputs.CUT) == 1
    assert lines.index(inputs.CUT) == 2


def test_cloud_sql_has_times_outside_of_its_lines(tmp_path: Path) -> None:
    """An envelope tells when, the line in it who and what, and later lines go on."""
    lines = [
        {"textPayload": "[7]: [1-1] db=shop,user=ann LOG:  duration: 1.5 ms  statement: SELECT 1,",
         "timestamp": "2026-05-16T05:11:10.123456Z"},
        {"textPayload": "\t2", "timestamp": "2026-05-16T05:11:10.123457Z"},
        {"textPayload": "[7]: [2-1] db=shop,user=ann LOG:  duration: 1.000 ms  statement: SELECT 3",
         "timestamp": "2026-05-16T05:11:10.2Z"},
    ]  # fmt: skip

    _, actions, _ = converted(tmp_path, "".join(json.dumps(one) + "\n" for one in lines))

    assert [one.text for one in statements(actions)] == ["SELECT 1,\n2", "SELECT 3"]


def test_syslog_joins_the_parts_of_interleaved_entries(tmp_path: Path) -> None:
    """Parts stand between those of other processes; long lines are broken, tabs are numbers."""
    text = (
        "May 16 05:11:10 db postgres[7]: [5-1] u=a,d=b LOG:  duration: 1.0 ms  statement: SEL\n"
        "May 16 05:11:10 db postgres[8]: [3-1] u=c,d=b LOG:  duration: 2 ms  statement: SELECT 2\n"
        "May 16 05:11:10 db postgres[7]: [5-2] ECT 1\n"
        "May 16 05:11:10 db postgres[8]: [3-2] #011FROM t#012#011WHERE a\n"
        "May 16 05:11:10 db postgres[7]: [5-3] #011FROM u\n"
        'May 16 05:11:11 db postgres[7]: [6-1] u=a,d=b ERROR:  syntax error at or near "x"\n'
        "May 16 05:11:11 db postgres[7]: [6-2] u=a,d=b STATEMENT:  x\n"
    )  # fmt: skip

    _, actions, _ = converted(tmp_path, text)

    assert sorted(one.text for one in statements(actions)) == [
        "SELECT 1\nFROM u", "SELECT 2\nFROM t\nWHERE a", "x",
    ]  # fmt: skip


PREFIXES = [
    ("%m [%p] ", "2026-05-16 05:11:10.123 CEST [77] "),
    ("%m [%p] %q%u@%d ", "2026-05-16 05:11:10.123 +03 [77] ann@shop "),
    ("%t:%r:%u@%d:[%p]:", "2026-05-16 05:11:10 UTC:10.0.0.1(53):ann@shop:[77]:"),
    ("%t-%c-", "2026-05-16 05:11:10 UTC-6a07fca4.3e9-"),
    ("%n %p %u %d ", "1778908270.123 77 ann shop "),
    ("%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
     "2026-05-16 05:11:10 UTC [77]: [4-1] user=ann,db=shop,app=my app,client=::1 "),
    ("%m|%p|%c|%u|%d|%r|%a|%i|%e|%x|",
     "2026-05-16 05:11:10.123 UTC|77|6a07fca4.3e9|ann|shop|db.net(5)|psql|SELECT|00000|0|"),
    ("%-10u%m %5p %%", "ann       2026-05-16 05:11:10.123 UTC    77 %"),
]  # fmt: skip
"""Values of log_line_prefix, and what begins a client's line with each."""


@pytest.mark.parametrize(("prefix", "begin"), PREFIXES)
def test_a_prefix_that_is_given_is_understood(tmp_path: Path, prefix: str, begin: str) -> None:
    """Every escape, with widths; the statement is what follows."""
    text = f"{begin}LOG:  duration: 1.000 ms  statement: SELECT 1\n" * 3

    summary, _, _ = converted(tmp_path, text, prefix=prefix)

    assert summary.statements == 3


def test_a_verbose_server_logs_the_same_statements(tmp_path: Path) -> None:
    """Each message has its SQLSTATE before it and the place in the source after it."""
    begin = "2026-05-16 05:11:1{}.000 UTC [101] app@shop "
    lines = [
        (0, "LOG:  00000: duration: 0.300 ms  statement: SELECT 1"),
        (0, "LOCATION:  exec_simple_query, postgres.c:1366"),
        (1, 'ERROR:  42P01: relation "nope" does not exist at character 15'),
        (1, "LOCATION:  parserOpenTable, parse_relation.c:1392"),
        (1, "STATEMENT:  SELECT * FROM nope"),
        (2, "LOG:  00000: duration: 0.300 ms  execute S_1: SELECT $1"),
        (2, "DETAIL:  parameters: $1 = '7'"),
        (2, "LOCATION:  exec_execute_message, postgres.c:2230"),
    ]
    text = "".join(f"{begin.format(at)}{line}\n" for at, line in lines)

    _, actions, _ = converted(tmp_path, text)

    found = [(one.text, one.sqlstate) for one in statements(actions)]
    assert found == [("SELECT 1", ""), ("SELECT * FROM nope", "42P01"), ("SELECT $1", "")]


@pytest.mark.parametrize(
    ("template", "coarse"),
    [("%m [%p] ", False), ("%-30m [%p] ", False), ("%n %p ", False), ("%t [%p] ", True)],
)
def test_a_time_is_coarse_if_it_has_whole_seconds_only(template: str, *, coarse: bool) -> None:
    """A width in the prefix changes nothing."""
    assert prefix.compiled(template).coarse is coarse


KNOWN_BEGINNINGS = [
    "2026-05-16 05:11:10.123 CEST [77] ",
    "2026-05-16 05:11:10.123 GMT [77] ann@shop ",
    "2026-05-16 05:11:10 UTC:10.0.0.1(53):ann@shop:[77]:",
    "2026-05-16 05:11:10 UTC-6a07fca4.3e9-",
    "2026-05-16 05:11:10 UTC [77]: [4-1] user=ann,db=shop,app=psql,client=10.0.0.1 ",
    "2026-05-16 05:11:10.123 UTC [77] user=ann db=shop app=psql host=10.0.0.1 xid=0 ",
    "2026-05-16 05:11:10.123 UTC 77 6a07fca4.3e9 [queryid=12] ann@shop ",
]
"""What begins a client's line with a prefix that is found from the lines."""


@pytest.mark.parametrize("begin", KNOWN_BEGINNINGS)
def test_a_prefix_is_found_by_itself(tmp_path: Path, begin: str) -> None:
    """What servers of the cloud and of distributions write needs no --prefix."""
    text = "".join(f"{begin}LOG:  duration: 1.000 ms  statement: SELECT {at}\n" for at in range(3))

    summary, actions, _ = converted(tmp_path, text)

    assert [one.text for one in statements(actions)] == [f"SELECT {at}" for at in range(3)]
    assert summary.sessions == 1


@pytest.mark.parametrize(
    ("begin", "template"),
    [
        (" [77]: [4-1] user=ann,db=shop,app={},client=10.0.0.1 ",
         "%m [%p]: [%l-%x] user=%u,db=%d,app=%a,client=%r "),
        (" [77] user=ann db=shop app={} host=10.0.0.1 ", "%m [%p] user=%u db=%d app=%a host=%r "),
        (" [77] [app={}] ann@shop ", "%m [%p] [app=%a] %u@%d "),
        (" [77] ann@shop app={} ", "%m [%p] %u@%d app=%a "),
        (" [77] app={} SELECT ", "%m [%p] app=%a SELECT "),
        (" [77] ann@shop/{} ", "%m [%p] %u@%d/%a "),
        (" [77] ann@shop/{}: ", "%m [%p] %u@%d/%a: "),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["psql", "PostgreSQL JDBC Driver", "Job - Main", "[unknown]"])
def test_a_name_of_several_words_is_one_value_of_a_prefix(
    begin: str, template: str, name: str
) -> None:
    """Lines of one application show the prefix of those of all others."""
    stamp = "2026-05-16 05:11:10.123 UTC"
    line = f"{stamp}{begin.format(name)}LOG:  duration: 1.000 ms  statement: SELECT 1"

    found = prefix.guessed([line] * 3)

    assert found is not None
    assert found.template == template
    match = found.pattern.match(f"{stamp}{begin.format('Other App')}LOG:  x")
    assert match is not None
    values = {"application": "Other App", "user": "ann", "database": "shop"}
    assert {one: match[one] for one in values if found.has(one)} == {
        one: value for one, value in values.items() if found.has(one)
    }


def _applications_of(form: str, values: list[str]) -> set[str]:
    """Return the applications of the lines whose prefix is `form` with one of the `values`."""
    begins = [f"2026-05-16 05:11:10.123 UTC [77] {form.format(value)} " for value in values]
    found = prefix.guessed(
        [f"{begin}LOG:  duration: 1.000 ms  statement: SELECT 1" for begin in begins]
    )
    assert found is not None
    return {
        "" if (match := found.pattern.match(f"{begin}LOG:  x")) is None else match["application"]
        for begin in begins
    }


_COMMANDS = (
    *("SELECT", "INSERT", "UPDATE", "idle", "BEGIN", "COMMIT", "idle in transaction"),
    *("SAVEPOINT", "START TRANSACTION", "DISCARD ALL", "RELEASE", "PREPARE", "LOCK TABLE"),
)


@pytest.mark.parametrize("form", ["ann@shop/psql {}", "user=ann,db=shop,app=psql {}"])
@pytest.mark.parametrize("rare", [*_COMMANDS, "A TAG OF LATER VERSIONS", "REPACK"])
def test_a_rare_command_is_no_part_of_an_application(form: str, rare: str) -> None:
    """It follows the name, and one line with it does not change the names of the others."""
    values = [*_COMMANDS[:6] * 83, rare]

    assert _applications_of(form, values) == {"psql"}


@pytest.mark.parametrize("form", ["ann@shop/psql {}", "user=ann,db=shop,app=psql {}"])
@pytest.mark.parametrize(
    "values",
    [
        ["SAVEPOINT", "RELEASE"],
        ["client backend", "parallel worker"],
        ["client backend"],
        ["fd00:1::1", "10.0.0.1"],
        ["fd00:1::1"],
        ["fe80::1"],
    ],
    ids=" ".join,
)
def test_a_field_after_an_application_is_no_part_of_its_name(form: str, values: list[str]) -> None:
    """Be it the command, the kind of process or the address of the host."""
    assert _applications_of(form, values * 3) == {"psql"}


def test_a_version_in_a_name_is_no_number_of_a_prefix() -> None:
    """Nor is a bracket in it the end of the value, if a separator and a key follow."""
    for name in ("DBeaver 23.1.0 - Main <shop>", "worker 6.5 [0 of 5 busy]"):
        begin = f"2026-05-16 05:11:10.123 UTC [77] app={name},user=ann "
        found = prefix.guessed([f"{begin}LOG:  duration: 1.000 ms  statement: SELECT 1"] * 3)

        assert found is not None
        assert found.template == "%m [%p] app=%a,user=%u "


@pytest.mark.parametrize("given", [None, "%m [%p] %a %u@%d "])
def test_words_before_a_user_are_no_part_of_its_name(tmp_path: Path, given: str | None) -> None:
    """Where only a blank separates an application from it, also one of several words."""
    names = ["psql", "psql", "PostgreSQL JDBC Driver"]
    text = "".join(
        f"2026-05-16 05:11:10.{at}00 UTC [7{at}] {name} ann@shop LOG:  "
        f"duration: 1.000 ms  statement: SELECT {at}\n"
        for at, name in enumerate(names)
    )

    converted(tmp_path, text, prefix=given)

    sessions = _described(tmp_path)
    assert [(one.user, one.database) for one in sessions] == [("ann", "shop")] * 3
    assert [one.application for one in sessions] == (names if given else [""] * 3)


def _like_entries(*begins: str) -> list[str]:
    """Return lines of a value that look like entries of every kind after each of `begins`."""
    levels = (*prefix.SEVERITIES, "DEBUG1", *prefix.PARTS)
    return [
        f"{begin}{level}:  {words}"
        for begin in begins
        for level in levels
        for words in ("duration: 1.000 ms  statement: DELETE FROM t", "parameters: $1 = '9'", "x")
    ]


def _with_value(value: str) -> list[str]:
    """Return three messages, of which the second is a statement with this value."""
    texts = "SELECT 1", f"INSERT INTO t VALUES ('stack\n{value}\nend')", "SELECT 3"
    return [f"duration: 1.000 ms  statement: {text}" for text in texts]


@pytest.mark.parametrize("tab", ["\t", " " * 8], ids=["tab", "blanks"])
@pytest.mark.parametrize(
    ("given", "begin"), [*PREFIXES, *((None, begin) for begin in KNOWN_BEGINNINGS)]
)
def test_a_line_of_a_value_is_no_entry(
    tmp_path: Path, given: str | None, begin: str, tab: str
) -> None:
    """Though it looks like one; a server begins it with a tab, and a copy may have blanks there."""
    # Behind blanks, which are also what pads a user, a whole line cannot be told from an entry.
    is_padded = tab != "\t" and given is not None and given.startswith("%-")
    value = "\n".join(_like_entries("", " ", "u@shop ", *(() if is_padded else (begin,))))
    messages = _with_value(value)
    text = "".join(f"{begin}LOG:  {one}".replace("\n", f"\n{tab}") + "\n" for one in messages)

    _, actions, notes = converted(tmp_path, text, prefix=given)

    inside = value.replace("\n", "\n" if tab == "\t" else f"\n{tab}")
    blanks = "" if tab == "\t" else tab
    assert [one.text for one in statements(actions)] == [
        "SELECT 1", f"INSERT INTO t VALUES ('stack\n{blanks}{inside}\n{blanks}end')", "SELECT 3",
    ]  # fmt: skip
    assert notes == ()


SYSLOG_FORMS: dict[str, Callable[[int, list[str]], list[str]]] = {
    "numbered": lambda number, lines: [f"[{number}-{at}] {x}" for at, x in enumerate(lines, 1)],
    "without numbers": lambda _, lines: lines,
    "numbers of parts": lambda _, lines: [f"[{at}] {x}" for at, x in enumerate(lines, 1)],
    "whole": lambda _, lines: ["#012".join(lines)],
    "whole, numbered": lambda number, lines: [f"[{number}] {'#012'.join(lines)}"],
    # The third message has the number of its process.
    "whole, with large numbers": lambda number, lines: [f"[{number + 74}] {'#012'.join(lines)}"],
}
"""What syslog has of the lines of a message, by the server's settings for it."""


@pytest.mark.parametrize("tab", ["\t", "#011"])
@pytest.mark.parametrize("form", SYSLOG_FORMS)
@pytest.mark.parametrize(
    ("template", "begin"),
    [
        ("", ""),
        ("%u@%d ", "ann@shop "),
        ("%q%u@%d ", "ann@shop "),
        ("user=%u,db=%d ", "user=ann,db=shop "),
        ("[%p] %q%u@%d ", "[77] ann@shop "),
        (" sql_error_code = %e ", " sql_error_code = 00000 "),
    ],
)
@pytest.mark.parametrize("is_given", [True, False], ids=["given", "found"])
def test_a_line_of_a_value_in_syslog_is_no_entry(
    tmp_path: Path, template: str, begin: str, form: str, tab: str, *, is_given: bool
) -> None:
    """With every prefix, in every form, and also where the server's own lines have no prefix."""
    value = "\n".join(_like_entries("", "ann@shop ", begin))
    own = "[55] " if template.startswith("[%p]") else begin if "%q" not in template else ""
    messages = [("55", f"{own}LOG:  checkpoint starting: time")]
    messages += [("77", f"{begin}LOG:  {one}") for one in _with_value(value)]
    text = "".join(
        f"2026-05-16T05:11:{at:02}.000000+00:00 db postgres[{process}]: {line}\n"
        for at, (process, message) in enumerate(messages)
        for line in SYSLOG_FORMS[form](at + 1, message.replace("\n", f"\n{tab}").split("\n"))
    )

    summary, actions, notes = converted(tmp_path, text, prefix=template if is_given else None)

    assert summary.sessions == 1
    assert [one.text for one in statements(actions)] == [
        "SELECT 1", f"INSERT INTO t VALUES ('stack\n{value}\nend')", "SELECT 3",
    ]  # fmt: skip
    assert notes == ()


@pytest.mark.parametrize("form", ["numbered", "without numbers", "numbers of parts"])
@pytest.mark.parametrize("begin", ["", "ann@shop "])
def test_a_long_line_that_syslog_breaks_before_a_severity_is_one(
    tmp_path: Path, form: str, begin: str
) -> None:
    """The server breaks it at a blank, with which the rest begins."""
    parts = [f"{begin}LOG:  duration: 1.000 ms  statement: SELECT 'a", " LOG:  duration: b'"]
    messages = [[f"{begin}LOG:  duration: 1.000 ms  statement: SELECT 1"], parts] * 2
    text = "".join(
        f"2026-05-16T05:11:{at:02}.000000+00:00 db postgres[77]: {line}\n"
        for at, message in enumerate(messages)
        for line in SYSLOG_FORMS[form](at + 1, message)
    )

    _, actions, _ = converted(tmp_path, text)

    expected = ["SELECT 1", "SELECT 'a LOG:  duration: b'"]
    assert [one.text for one in statements(actions)] == expected * 2


FOREIGN = [
    "ERROR:  [082]: of another program",
    "rsync: connection lost",
    "2026-13-45 05:11:11.000 UTC [77] LOG:  x",
]


@pytest.mark.parametrize("line", FOREIGN)
@pytest.mark.parametrize("given", [None, "%m [%p] ", "%q%m [%p] "])
def test_a_statement_with_a_line_of_another_program_in_it_is_not_replayed(
    tmp_path: Path, line: str, given: str | None
) -> None:
    """It may lack a line, or have one too many; next to whole entries, that line costs nothing."""
    entries = [
        f"2026-05-16 05:11:1{at}.123 UTC [77] LOG:  duration: 1.000 ms  statement: DELETE FROM t"
        for at in range(3)
    ]
    last = "\tWHERE a"
    whole = "\n".join([entries[0], line, entries[1], last, line, entries[2], ""])
    torn = "\n".join([entries[0], entries[1], line, last, entries[2], ""])
    note = "is of nothing that a server writes, and was passed over"

    summary, actions, notes = converted(tmp_path, whole, prefix=given)

    expected = ["DELETE FROM t", "DELETE FROM t\nWHERE a", "DELETE FROM t"]
    assert [one.text for one in statements(actions)] == expected
    assert not summary.skipped
    assert notes == (f"2 lines {note}".replace("is", "are", 1).replace("was", "were"),)

    summary, actions, notes = converted(tmp_path, torn, prefix=given)

    assert [one.text for one in statements(actions)] == ["DELETE FROM t"] * 2
    assert summary.skipped == {"statements that could not be read whole": 1}
    assert notes == (f"1 line {note}",)


@pytest.mark.parametrize("rare", [12345, 123456])
def test_a_process_that_is_padded_begins_some_lines_with_a_blank(rare: int) -> None:
    """Each line is an entry, however many are short; one line of a log in a value is none."""
    usual = 12345 + 123456 - rare
    rest = "2026-11-27 10:00:00.123 UTC u@d LOG:  duration: 1.0 ms  statement: select 1"
    server = ["123456 2026-11-27 10:00:00.123 UTC LOG:  checkpoint starting: time"]
    lines = [f"{rare if i % 15 == 0 else usual:6d} {rest}" for i in range(60)] + server * 5
    value = f"  98765 {rest}"
    found, unpadded = prefix.guessed(lines), prefix.guessed([*[f"123456 {rest}"] * 60, value])

    assert found is not None
    assert all(map(found.pattern.match, lines))
    assert unpadded is not None
    assert unpadded.pattern.match(value) is None


def test_a_line_of_another_program_is_no_sample_of_a_prefix() -> None:
    """The server's own lines have a part of the prefix, and the time is in it."""
    begin = "2026-05-16 05:11:10.123 UTC [77] "
    lines = [f"{begin}ann@shop LOG:  duration: 1.000 ms  statement: SELECT 1"] * 3

    found = prefix.guessed([*lines, f"{begin}LOG:  checkpoint starting: time", *FOREIGN])

    assert found is not None
    assert found.template == "%m [%p]%q %u@%d "


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_line_of_100_megabytes_is_one_counted_item(tmp_path: Path, layout: str) -> None:
    """The statements around it are there, wherever it stands, and nothing is damaged."""
    csv.field_size_limit(1 << 25)
    giant = row(11, f"duration: 1.0 ms  statement: SELECT '{'x' * (4 * LONGEST_LINE)}'")
    others = [row(at, f"duration: 1.0 ms  statement: SELECT {at}") for at in (10, 12)]
    for place in range(3):
        text = "".join([*others[:place], giant, *others[place:]])

        summary, actions, _ = converted(tmp_path, LAYOUTS[layout](text))

        assert [one.text for one in statements(actions)] == ["SELECT 10", "SELECT 12"]
        assert list(summary.skipped.items()) == [("statements that could not be read whole", 1)]
        assert not summary.damage


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_first_entry_of_megabytes_is_read(tmp_path: Path, layout: str) -> None:
    """A log is known by its beginning even where that is part of one statement."""
    csv.field_size_limit(1 << 25)
    text = "".join(
        row(10 + at, f"duration: 1.0 ms  statement: SELECT '{'x' * (2 << 20)}'") for at in range(2)
    )

    summary, _, _ = converted(tmp_path, LAYOUTS[layout](text))

    assert summary.statements == 2
    assert not summary.damage


def test_a_quote_that_nobody_closed_costs_one_record(tmp_path: Path) -> None:
    """Whatever is damaged in the middle, what follows is read."""
    text = many(3000)
    middle = text.index('"duration', len(text) // 2)

    summary, _, _ = converted(tmp_path, text[:middle] + text[middle + 1 :])

    assert summary.statements >= 2990
    assert summary.damage


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("just\nsome\ntext\n", "none of"),
        (b"\x7fELF\0\0\0\0" * 100, "not text"),
        (b"PK\x03\x04" + b"\0" * 100, "zip"),
        ("LOG:  duration: 1.0 ms  statement: SELECT 1\n" * 3, "have no time"),
        ("[77] LOG:  duration: 1.0 ms  statement: SELECT 1\n" * 3, "have no time"),
        ("2026-05-16 05:11:10 UTC LOG:  duration: 1.0 ms  statement: SELECT 1\n" * 3, "%p or %c"),
        ("2026-05-16 05:11:10.123 UTC [7] LOG:  checkpoint starting: time\n" * 3, "no session"),
        (b"REPLAY1\n" + b"x" * 100, "replay file already"),
        # The head of a gzip holds the time, and a name of a test must be the same in every run.
        pytest.param(gzip.compress(b"x" * 100)[:15], "damaged", id="cut-gzip"),
        pytest.param(bz2.compress(b"x" * 100)[:30], "damaged", id="cut-bzip2"),
    ],
)
def test_what_can_never_be_replayed_is_one_sentence(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    """No log, no times, no sessions, no statements: the sentence says which."""
    with pytest.raises(Impossible) as failure:
        converted(tmp_path, content)

    assert words in str(failure.value)
    assert not (tmp_path / "out.replay").exists()


def test_sessions_without_statements_are_kept_and_noted(tmp_path: Path) -> None:
    """Connections alone are a capture, of which nothing but they can be replayed."""
    text = row(10, "connection received: host=[local]") + row(
        11, "connection authorized: user=ann database=shop", line=2
    )

    summary, actions, notes = converted(tmp_path, text)

    assert (summary.sessions, summary.statements) == (1, 0)
    assert [one.does for one in actions] == ["connect"]
    assert any("no statement" in note for note in notes)


def test_the_wrong_prefix_is_one_sentence(tmp_path: Path) -> None:
    """A prefix that no line has finds nothing, and says so."""
    text = "2026-05-16 05:11:10.123 UTC [7] LOG:  duration: 1.0 ms  statement: SELECT 1\n"

    with pytest.raises(Impossible, match="prefix"):
        converted(tmp_path, text * 3, prefix="%t <%p> %u ")


def test_bytes_that_are_no_utf8_are_kept_and_noted(tmp_path: Path) -> None:
    """A database in Latin-1 gets its own bytes."""
    text = many(3).encode().replace(b"SELECT 1", b"SELECT '\xe9'")

    _, actions, notes = converted(tmp_path, text)

    sent = [one.text.encode("utf-8", "surrogateescape") for one in statements(actions)]
    assert sum(b"SELECT '\xe9'" in one for one in sent) == 1
    assert any("UTF-8" in note for note in notes)


def test_logs_of_several_versions_are_one_capture(tmp_path: Path) -> None:
    """Rows of 23, 24 and 26 columns may follow each other, as servers are upgraded."""
    full = row(10, "duration: 1.0 ms  statement: SELECT 1")
    cells = full.rstrip("\n").split(",")
    older = [",".join(cells[:count]) + "\n" for count in (23, 24)]

    summary, _, _ = converted(tmp_path, "".join([*older, full]))

    assert summary.statements == 3


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_log_that_is_cut_anywhere_converts_up_to_there(
    tmp_path: Path, layout: str, pack: Callable[[bytes], bytes]
) -> None:
    """Wherever it is cut: statements in order from the first, or one sentence."""
    data = pack(LAYOUTS[layout](many(12)).encode())
    most = 0
    for length in range(0, len(data), max(1, len(data) // 90)):
        try:
            _, actions, _ = converted(tmp_path, data[:length])
        except Impossible:
            continue
        sent = [one.text.partition(",")[0] for one in statements(actions)]
        assert sent == [f"SELECT {at}" for at in range(len(sent))]
        assert len(sent) >= most - 1
        most = max(most, len(sent))
    assert most >= 10


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_anywhere_is_never_more_than_a_sentence(tmp_path: Path, layout: str) -> None:
    """Random bytes in the place of some, lines lost or twice: converted, or one sentence."""
    chance = random.Random(7)
    whole = LAYOUTS[layout](many(20)).encode()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
        with contextlib.suppress(Impossible):
            summary, _, _ = converted(tmp_path, bytes(data))
            assert summary.statements <= 21


def test_random_bytes_and_deep_nesting_are_one_sentence(tmp_path: Path) -> None:
    """Whatever is given as a log."""
    chance = random.Random(11)
    deep = b'{"textPayload": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    others = {
        "timestamp": "2026-05-16 05:11:10.000 UTC", "error_severity": "LOG", "pid": [7],
        "message": 5, "detail": {}, "query_id": "x", "line_num": None,
    }  # fmt: skip
    types = json.dumps(others).encode() + b"\n"
    for data in (
        chance.randbytes(5000), deep * 2, b'{"error_severity": 1, "timestamp": 2}\n', types,
    ):  # fmt: skip
        with pytest.raises(Impossible):
            converted(tmp_path, data)


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """Not even where it is named as the file to write."""
    log = tmp_path / "p.csv"
    log.write_text(many(3))

    for out in (log, tmp_path):
        with pytest.raises(Impossible):
            conversion.planned(conversion.ConversionRequest([str(log)], out))

    assert log.read_text() == many(3)


def test_sessions_without_an_end_are_not_kept_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where disconnections are not logged, those that are idle for the longest time are ended."""
    monkeypatch.setattr(assembly, "_MOST_SESSIONS", 10)
    text = "".join(
        row(10 + at / 100, "duration: 1.0 ms  statement: SELECT 1", session=f"6a07fca4.{at:x}")
        for at in range(100)
    )

    summary, actions, _ = converted(tmp_path, text)

    assert summary.sessions == 100
    assert summary.sessions_at_once < 20
    assert sum(one.does == "disconnect" for one in actions) >= 90


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """What people asked their database is in it."""
    converted(tmp_path, many(3))

    assert (tmp_path / "out.replay").stat().st_mode & 0o777 == 0o600


def test_an_anonymised_file_holds_no_value(tmp_path: Path) -> None:
    """Neither literals nor parameters; the statements are the same in form."""
    text = row(10, "duration: 1.0 ms  statement: SELECT * FROM t WHERE name = 'Grimaldi'") + row(
        11, "duration: 1.0 ms  execute S: SELECT $1", detail="Parameters: $1 = 'Grimaldi'", line=2
    )
    (tmp_path / "p.log").write_text(text)

    summary, actions, _ = of([str(tmp_path / "p.log")], tmp_path, anonymise=True)

    sent = statements(actions)
    assert summary.source.anonymised
    assert "Grimaldi" not in repr(actions)
    assert sent[1].parameters is not None
    assert sent[0].text == f"SELECT * FROM t WHERE name = '{sent[1].parameters[0]}'"


@pytest.mark.parametrize("number", [1, 2])
def test_a_replay_file_is_not_converted_again(tmp_path: Path, number: int) -> None:
    """One of a later format is no unknown log either."""
    (tmp_path / "shop.replay").write_bytes(b"REPLAY%d\n" % number + bytes(range(256)))

    with pytest.raises(Impossible, match="a replay file already: `replayer run` replays it"):
        conversion.planned(
            conversion.ConversionRequest([str(tmp_path / "shop.replay")], tmp_path / "out.replay")
        )


@pytest.mark.parametrize(
    "message",
    ["Dauer: 1.000 ms  Anweisung: select 1", "durée : 1.000 ms, instruction : select 1",
     "duración: 1.000 ms  sentencia: select 1"],
)  # fmt: skip
def test_a_log_in_another_language_names_the_setting(tmp_path: Path, message: str) -> None:
    """Its sentence has the reason and the remedy: lc_messages; an English log has no such note."""
    log = "".join(f"2026-11-27 10:00:0{at}.000 UTC [77] a@b LOG:  {message}\n" for at in (1, 2))
    with pytest.raises(Impossible, match="lc_messages = 'C'"):
        converted(tmp_path, log)

    mixed = log + log.replace(message, "duration: 1.000 ms  statement: select 1")
    assert any("lc_messages" in note for note in converted(tmp_path, mixed)[2])
    assert not any("lc_messages" in note for note in converted(tmp_path, many(3))[2])
