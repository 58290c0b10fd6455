"""Planning a replay, the order of commits, what is counted, and where two replays diverge."""

import itertools
import os
import re
import struct
import time
from array import array
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import make_url

from replayer.analysis.differences import divergence
from replayer.capture import fingerprint
from replayer.capture.action import Action, Does, Fingerprint, LoggedSession, LoggedStatement
from replayer.capture.archive import ArchiveReader, ArchiveWriter
from replayer.engines import engine as engines
from replayer.engines import wires
from replayer.engines.wire_session import SessionLogin
from replayer.engines.wires.postgres import postgres_message
from replayer.errors import UNKNOWN_STATE, Impossible, ReplayerError
from replayer.model import Places, Replayed
from replayer.run.plan import workload as workload_file
from replayer.steps.replay import nondeterministic, replay_target, step
from replayer.steps.replay import schedule as schedules
from replayer.steps.replay.commit_order import Gate, Sequenced, client_number
from replayer.steps.replay.read_only import ReadOnlyTest
from replayer.steps.replay.replay_counts import (
    FIELDS,
    ReplayCounts,
    all_together,
    by_code,
    by_fingerprint,
    by_place,
    held,
    number_of,
    sqlstate_of,
    tally,
    where,
)
from replayer.steps.replay.schedule import Planner, ReplaySchedule, processes_for, shares
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.spool import Spool, records
from replayer.steps.replay.work import CONNECT, DISCONNECT, NAMED, NOWHERE, WHOLE, Record

SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND
POSTGRES = wires.load("postgres")


def spec_of(path: str, **keys: object) -> Spec:
    """Return a replay's keys as a workload file gives them."""
    return Spec.model_validate({"step": "replay", "file": path, **keys})


def action(
    session: int, does: Does, start: float, text: str = "", *, duration: float = 0.001, **more: Any
) -> Action:
    """Return an action that starts at a second of the capture."""
    return Action(
        session, does, BEGIN + round(start * SECOND), round(duration * SECOND), text, **more
    )


def scheduled(
    tmp_path: Path,
    actions: Iterable[Action],
    sessions: Iterable[LoggedSession] = (),
    processes: int = 1,
    **keys: object,
) -> tuple[ReplaySchedule, dict[int, list[Any]]]:
    """Return the schedule of a capture of these actions, and the records of each session."""
    path = tmp_path / "some.replay"
    with ArchiveWriter(path) as writer:
        for session in sessions:
            writer.describe(session)
        for one in sorted(actions, key=lambda each: each.start_ns + each.duration_ns):
            writer.add(one)
        writer.close()
    spec = Spec.model_validate({"step": "replay", "file": str(path), **keys})
    planner = Planner(spec, lambda session: f"user={session.user}", processes, POSTGRES)
    with ArchiveReader(path) as reader:
        for block in reader.blocks():
            for session in block.sessions:
                planner.describe(session)
            for row in range(len(block)):
                planner.add(block.action(row), block.statement(row), block.place(row))
    with planner.schedule() as schedule:
        done = {
            session.number: list(records(job.spool.fd, session.first))
            for job in schedule.jobs
            for session in job.sessions.all()
        }
    planner.close()
    return schedule, done


def test_every_action_of_a_session_is_planned_in_its_order_at_its_time(tmp_path: Path) -> None:
    """Starts count from the first action and are divided by the speed; chunks join up again."""
    many = [action(1, "simple", 1 + number / 100, f"SELECT {number}") for number in range(600)]
    capture = [action(1, "connect", 0), *many, action(1, "disconnect", 10)]
    schedule, done = scheduled(tmp_path, capture, [LoggedSession(1, "ada")], speed=2)

    assert [one.does for one in done[1]] == [CONNECT, *[WHOLE] * 600, DISCONNECT]
    assert [one.payload for one in done[1][1:-1]] == [
        postgres_message.encode_query(one.text) for one in many
    ]
    assert [one.start_ns for one in done[1][:3]] == [0, SECOND // 2, round(1.01 * SECOND) // 2]
    assert (schedule.planned, schedule.sessions, schedule.at_once) == ((600,), 1, 1)
    (session,) = schedule.jobs[0].sessions.all()
    assert session.conninfo == "user=ada"


@pytest.mark.parametrize(
    ("begin", "waits"),
    [
        ("BEGIN", "UPDATE cell SET v = 1"),
        ("start transaction isolation level serializable;", "UPDATE cell SET v = 1"),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", ""),
        ("BEGIN; SELECT 1", ""),
    ],
)
def test_a_transaction_that_only_begins_waits_with_its_next_statement(
    tmp_path: Path, begin: str, waits: str
) -> None:
    """It has no snapshot and no lock before: the way to the server is not waited for twice."""
    capture = [
        action(1, "simple", 0, "UPDATE cell SET v = 2"),
        *(
            action(2, "simple", 1 + number, text)
            for number, text in enumerate((begin, "UPDATE cell SET v = 1", "COMMIT"))
        ),
    ]
    _, done = scheduled(tmp_path, capture, order="commit")
    needs = {one.payload: one.needs for one in done[2]}

    assert needs[postgres_message.encode_query(waits or begin)] == 1
    assert sorted(needs.values()) == [-1, -1, 1]


def test_a_session_whose_first_statement_is_imposed_begins_when_it_did(tmp_path: Path) -> None:
    """A later begin would delay all sessions after it, as they begin in their order."""
    capture = [
        action(1, "simple", 0, "LOCK t", duration=30, sqlstate="55P03"),
        action(2, "simple", 1, "SELECT 1"),
    ]
    schedule, done = scheduled(tmp_path, capture, order="commit", speed=1)

    assert [one[0].start_ns for one in (done[1], done[2])] == [30 * SECOND, SECOND]
    assert list(schedule.jobs[0].sessions.begins) == [0, SECOND]


def test_a_window_of_the_capture_begins_at_its_own_zero(tmp_path: Path) -> None:
    """What is before `from` and from `until` on is left out and counted; sessions are there."""
    capture = [action(1, "simple", number, "SELECT 1") for number in range(10)]
    window: dict[str, Any] = {"from": 3, "until": 6}
    schedule, done = scheduled(tmp_path, capture, **window)

    assert [one.start_ns for one in done[1]] == [0, SECOND, 2 * SECOND]
    assert schedule.left_out == {"before from or after until": 7}
    assert next(schedule.jobs[0].sessions.all()).before


def test_a_window_of_the_capture_has_whole_transactions(tmp_path: Path) -> None:
    """The one that begins before `from` is left out, the one that begins before `until` is whole.

    Otherwise what the source rolled back would be committed, and the other way round.
    """
    texts = ("select 0", "begin", "insert 1", "insert 2", "rollback", "begin", "insert 3",
             "insert 4", "commit", "begin", "commit", "select 9")  # fmt: skip
    capture = [action(1, "simple", at, text) for at, text in enumerate(texts)]
    window: dict[str, Any] = {"from": 3, "until": 7}
    schedule, done = scheduled(tmp_path, capture, **window)

    kept = [postgres_message.encode_query(text) for text in texts[5:9]]
    assert [one.payload for one in done[1]] == kept
    assert schedule.left_out == {"before from or after until": 8}


def test_sessions_of_one_database_alone_are_replayed_where_one_is_named(tmp_path: Path) -> None:
    """What is of others is counted by their names; a name that none has is one sentence."""
    sessions = [
        LoggedSession(1, database="shop"),
        LoggedSession(2, database="stock"),
        LoggedSession(3),
    ]
    capture = [action(n, "simple", n + at, "SELECT 1") for n in (1, 2, 3) for at in range(n)]
    schedule, done = scheduled(tmp_path, capture, sessions, database="shop")

    assert (list(done), schedule.databases, schedule.planned) == ([1], ("shop",), (1,))
    (reason,) = schedule.left_out
    assert schedule.left_out[reason] == 5
    assert "one that the log does not name 3, stock 2" in reason

    none, _ = scheduled(tmp_path, capture, sessions, database="shopp")
    spec = Spec.model_validate({"step": "replay", "file": "a.replay", "database": "shopp"})
    with pytest.raises(Impossible, match=r"no session of the database shopp: .*stock, shop"):
        step._check_schedule(spec, none)


def test_skipped_pauses_last_a_second(tmp_path: Path) -> None:
    """Only pauses in which no session did anything are shortened."""
    capture = [
        action(1, "simple", 0, "SELECT 1", duration=5),
        action(2, "simple", 4, "SELECT 1"),
        action(2, "simple", 100, "SELECT 1"),
    ]
    _, done = scheduled(tmp_path, capture, idle="skip")

    assert [one.start_ns for one in done[2]] == [4 * SECOND, 6 * SECOND]


def test_prepared_statements_are_sent_by_name_and_parameters_as_text(tmp_path: Path) -> None:
    """The text of a named statement travels once, and NULL is not text."""
    text = "UPDATE t SET a = $1 WHERE b = $2"
    one: dict[str, Any] = {"name": "S_1", "parameters": ("7", None)}
    capture = [action(1, "extended", number, text, **one) for number in range(3)]
    schedule, done = scheduled(tmp_path, capture)

    assert [each.does for each in done[1]] == [NAMED] * 3
    assert schedule.jobs[0].prepared == ((b"S_1", text.encode()),)
    assert postgres_message.values_of(done[1][0].payload) == [b"7", None]


def test_texts_are_sent_in_the_encoding_of_the_log(tmp_path: Path) -> None:
    """It is that of the database: what a client set for its own texts is not set again."""
    texts = (
        "SET client_encoding TO 'LATIN1'",
        "set names 'latin1' ;",
        "SET LOCAL client_encoding = 'LATIN1'; SET NAMES 'UTF8'",
        "SET client_encoding = 'UTF8'; SELECT 1",
        "SET search_path = names",
    )
    capture = [action(1, "simple", at, text) for at, text in enumerate(texts)]
    schedule, done = scheduled(tmp_path, capture)
    settings = (("client_encoding", "LATIN1"), ("work_mem", "8MB"))
    info = POSTGRES.make_conninfo({}, SessionLogin(settings=settings))

    sent = [postgres_message.encode_query(text) for text in texts[3:]]
    assert [one.payload for one in done[1]] == sent
    assert list(schedule.left_out.values()) == [3]
    assert conninfo_to_dict(info)["options"] == "-c work_mem=8MB"


def test_more_parameters_than_a_message_has_are_left_out(tmp_path: Path) -> None:
    """No server takes them, so none had them: that is counted, and is not an end of the replay."""
    many = [
        action(1, "extended", at, "SELECT 1", parameters=("1",) * (65535 + at)) for at in (0, 1)
    ]
    schedule, done = scheduled(tmp_path, many)

    assert len(done[1]) == 1
    assert schedule.left_out == {"it has more parameters than a server takes": 1}


def test_messages_are_those_of_the_protocol() -> None:
    """Lengths count themselves, and what libpq is told is what the bytes say."""
    whole = postgres_message.encode_bound("SELECT $1, $2", ("a", None))
    kinds, place = b"", 0
    while place < len(whole):
        kinds += whole[place : place + 1]
        place += 1 + struct.unpack_from(">I", whole, place + 1)[0]

    assert (kinds, place) == (b"PBES", len(whole))
    text, ending = postgres_message.parts_of(whole)
    assert (text, postgres_message.values_of(ending)) == (b"SELECT $1, $2", [b"a", None])


def test_read_only_replays_leave_out_what_writes(tmp_path: Path) -> None:
    """Also what would let a transaction write after all."""
    texts = [
        "SELECT 1",
        "UPDATE t SET a = 1",
        "BEGIN READ WRITE",
        "BEGIN",
        "SET ROLE dba",
        "COMMIT",
    ]
    capture = [action(1, "simple", at, text) for at, text in enumerate(texts)]
    schedule, done = scheduled(tmp_path, capture, read_only=True)

    sent = [one.payload[5:-1].decode() for one in done[1]]
    assert sent == ["SELECT 1", "BEGIN", "COMMIT"]
    assert schedule.left_out == {"it may write": 3}


@pytest.mark.parametrize(
    ("wire", "text", "only"),
    [
        ("postgres", "SELECT ';' FROM t WHERE a = 'read write';", True),
        ("postgres", "SELECT read, write FROM io", True),
        ("postgres", "SELECT set_config('search_path', '', false)", True),
        ("postgres", "SET search_path = a", True),
        ("postgres", "START TRANSACTION READ ONLY", True),
        ("postgres", "SELECT set_config('default_transaction_read_only', 'off', false)", False),
        ("postgres", "SELECT 1; DROP TABLE t", False),
        ("postgres", "COMMIT; DROP TABLE t", False),
        ("postgres", "SET SESSION CHARACTERISTICS AS TRANSACTION READ/**/WRITE", False),
        ("postgres", "BEGIN READ/*/**/*/WRITE", False),
        ("postgres", "BEGIN READ --\n WRITE", False),
        ("postgres", "RESET default_transaction_read_only", False),
        ("postgres", 'SET U&"default_transaction_read\\005fonly" = off', False),
        ("postgres", "SELECT 1 /* /* */ ' */ ; DROP TABLE t --'", False),
        ("postgres", "SET standard_conforming_strings = off", False),
        # A server takes a word directly after a string, and the strings are not certain.
        ("postgres", r"select 'x\'as a into u from t where b='y'", False),
        (
            "postgres",
            r"with d as (select 'x\'as a), e as (delete from t returning 'y') select 1",
            False,
        ),
        ("postgres", r"select 'x\'as a from t where b='y'", True),
        ("mysql", "SELECT ';' FROM t", True),
        ("mysql", "SET @a = 1", True),
        ("mysql", "SET tx_read_only = 0", False),
        ("mysql", "SET @@`session`.`transaction_read_only` = 0", False),
        ("mysql", "SET STATEMENT tx_read_only = 0 FOR DELETE FROM t", False),
        ("mysql", "SET GLOBAL max_connections = 1", False),
        ("mysql", "SELECT 1 INTO OUTFILE '/tmp/x'", False),
        ("mysql", "SELECT 1 /*!50000 INTO OUTFILE '/tmp/x' */", False),
        ("mysql", "SELECT 1 /*M! INTO DUMPFILE '/tmp/x' */", False),
    ],
)
def test_what_could_end_a_read_only_state_is_no_reading(
    wire: str, text: str, *, only: bool
) -> None:
    """However it is written: in another statement of the text, a comment, codes, another name."""
    assert ReadOnlyTest(wire).only(text) is only


def test_read_only_replays_believe_the_text_and_not_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that calls a DELETE a SELECT has it left out all the same."""
    forged = Fingerprint(1, "SELECT ?", "select")
    monkeypatch.setattr(
        fingerprint.Fingerprints, "statement", lambda _, text, *__: LoggedStatement(text, forged)
    )
    path = tmp_path / "forged.replay"
    with ArchiveWriter(path) as writer:
        for at, text in enumerate(("SELECT 1", "DELETE FROM t")):
            writer.add(action(1, "simple", at, text))
        writer.close()
    monkeypatch.undo()
    planner = Planner(spec_of(str(path), read_only=True), lambda _: "", 1, POSTGRES)
    with ArchiveReader(path) as reader:
        for block in reader.blocks():
            assert {form.kind for form in block.forms()[1]} == {"select"}
            for row in range(len(block)):
                planner.add(block.action(row), block.statement(row), block.place(row))
    with planner.schedule() as schedule:
        planned, left_out = sum(schedule.planned), schedule.left_out
    planner.close()

    assert (planned, left_out) == (1, {"it may write": 1})


def test_serial_order_has_one_transaction_at_a_time(tmp_path: Path) -> None:
    """A transaction needs all that ended before it ended, however early it began."""
    capture = [
        action(1, "simple", 0.0, "BEGIN"),
        action(2, "simple", 0.5, "UPDATE t SET a = 2"),
        action(1, "simple", 1.0, "UPDATE t SET a = 1"),
        action(1, "simple", 2.0, "COMMIT"),
    ]
    _, done = scheduled(tmp_path, capture, order="serial")
    _, commit = scheduled(tmp_path, capture, order="commit")

    assert [one.needs for one in done[1]] == [1, -1, -1]
    assert [one.ends for one in done[1]] == [-1, -1, 1]
    assert (done[2][0].needs, done[2][0].ends) == (0, 0)
    assert [one.needs for one in commit[1]] == [-1, 0, -1]
    assert (commit[2][0].turn, commit[1][1].turn) == (0, 1)


def shared(order: Sequenced, processes: int) -> Any:
    """Return what `processes` processes share, with descriptors that stay open for the test."""
    return order.shared(processes, 9)


def test_who_waits_in_the_order_is_released_when_all_before_have_ended() -> None:
    """Ranks that nobody ends have ended; another process sees what this one ended."""
    order = Sequenced()
    for rank in (0, 2):
        order.ends(rank)
    order.takes(5, 0)
    order.takes(5, 1)
    with order.shared(2, 9) as common:
        one, other = Gate(common, 0), Gate(common, 1)
        assert not one.waits(7, 0, -1, -1)
        assert one.waits(7, 3, -1, -1)
        assert other.waits(8, -1, 5, 1)
        assert one.sleep()
        assert other.sleep()
        other.end(0, -1, -1)
        assert one.released() == []
        one.end(2, 5, 0)
        one.ring()
        assert os.eventfd_read(other.bell) == 1
        assert (one.released(), other.released()) == ([7], [8])
        assert not one.waits(7, 3, -1, -1)
        assert not one.sleep()
        for gate in (one, other):
            gate.close()


def test_one_of_those_goes_who_wait_for_each_other_here_and_in_the_server() -> None:
    """The one that holds the lock, by the process that has it; who only waits stays."""
    order = Sequenced()
    for turn, (process, who) in enumerate([(0, 1), (1, 2), (0, 3)]):
        order.takes(5, turn, client_number(process, who, 2))
    with order.shared(2, 9) as common:
        one, other = Gate(common, 0), Gate(common, 1)
        for gate, who, session in ((one, 1, 101), (other, 2, 202), (one, 3, 303)):
            gate.meet(who, session)
        assert other.waits(2, -1, 5, 1)
        assert one.waits(3, -1, 5, 2)
        later = time.monotonic_ns()

        assert one.deadlocked([], later) == other.deadlocked([], later) == []
        # The first one's turn has come, and it waits in the server for a stranger, then for them.
        assert other.deadlocked([(101, 999)], later) == []
        assert other.deadlocked([(101, 202)], 0) == []
        assert one.deadlocked([(101, 202)], later) == []
        assert other.deadlocked([(101, 202)], later) == [2]
        assert one.deadlocked([(101, 303)], later) == [3]
        one.goes(3)
        assert one.deadlocked([(101, 303), (303, 101)], later) == []
        for gate in (one, other):
            gate.close()


def test_no_order_of_answers_leaves_anybody_waiting() -> None:
    """Whoever ends what he may end, in any order, in the end nobody waits."""
    for answers in itertools.permutations(range(4)):
        order = Sequenced()
        for rank in range(4):
            order.ends(rank)
        with order.shared(1, 9) as common:
            gate = Gate(common, 0)
            waiting = {who for who in range(4) if gate.waits(who, max(0, who - 1), -1, -1)}
            for who in sorted(answers, key=lambda one: (one in waiting, one)):
                gate.end(who, -1, -1)
                waiting -= set(gate.released())
            assert waiting == set()
            gate.close()


def rows(*table: tuple[int, ...]) -> "array[int]":
    """Return records as a worker writes them; of a log without durations, if none is given."""
    table = tuple((*row, -1) if len(row) == FIELDS - 1 else row for row in table)
    assert all(len(row) == FIELDS for row in table)
    return array("q", [number for row in table for number in row])


def test_lag_is_the_servers_while_a_session_had_no_answer_and_replayers_afterwards() -> None:
    """Intended at 0, free at 30 ms, begun at 40 ms: 30 are the server's and 10 replayer's."""
    ms = 10**6
    row = (0, 0, 30 * ms, 40 * ms, 100 * ms, 0, 1, 0, -1, 0)
    one = tally(rows(row), array("Q"), 0, timed=True)

    assert dict(one.lag_server_in.items()) == {0: 30 * ms}
    assert dict(one.lag_client_in.items()) == {0: 10 * ms}
    assert all_together(one.response).most_ns == pytest.approx(100 * ms, rel=0.002)
    assert all_together(one.service).most_ns == pytest.approx(60 * ms, rel=0.002)


def test_what_is_counted_in_parts_is_what_is_counted_at_once() -> None:
    """Sums of parts are exact, of every column, whatever is in them."""
    random = np.random.Generator(np.random.PCG64(7))
    table = []
    for number in range(500):
        begun = int(random.integers(0, 5 * SECOND))
        code = int(random.choice([0, 0, 0, number_of("40001"), -number_of("25P02")]))
        done = begun + int(random.integers(0, 2 * SECOND))
        against = held(number % 3, number % 3) if not code and number % 4 else -1
        at = where(number % 300, number % 64)
        table.append(
            (number % 7, begun - 5, begun - 2, begun, done, code, number % 4 - 1, code > 0,
             against, at)
        )  # fmt: skip
    hashes = array("Q", random.integers(0, 1 << 63, 500, np.int64).tolist())
    whole = tally(rows(*table), hashes, 0, timed=True)
    parts = [
        tally(rows(*table[at : at + 100]), hashes[at : at + 100], 0, timed=True)
        for at in range(0, 500, 100)
    ]
    summed = ReplayCounts.of(parts)

    names = ("service", "response", "errors", "consequences", "rows", "hashes", "busy_in")
    against_log = ("held_rows", "logged_rows", "otherwise", "follows", "by_part", "by_session")
    for name in (*names, *against_log):
        assert dict(getattr(summed, name).items()) == dict(getattr(whole, name).items()), name
    assert summed.longest_server_in == whole.longest_server_in
    assert sum(dict(whole.busy_in.items()).values()) == sum(row[4] - row[3] for row in table)
    counts = {place: seen.operations for place, seen in by_fingerprint(whole.service).items()}
    assert counts == dict(whole.executions.items())
    fine = [row for row in table if row[5] == 0 and row[6] >= 0]
    assert sum(dict(whole.rows.items()).values()) == sum(row[6] for row in fine)
    compared = [row for row in table if row[8] >= 0]
    assert sum(dict(whole.logged_rows.items()).values()) == sum(row[8] >> 2 for row in compared)
    assert sum(dict(whole.otherwise.items()).values()) == sum(row[8] & 3 == 1 for row in compared)
    assert sum(dict(whole.follows.items()).values()) == sum(row[8] & 3 == 2 for row in compared)
    errors = by_code(whole.errors)
    assert sum(one["40001"] for one in errors.values()) == sum(row[5] > 0 for row in table)


def test_what_was_answered_otherwise_is_found_where_it_was() -> None:
    """Rows or a hash that differ once change the digest of that part and session, no other."""
    table = [(n % 2, 0, 0, n, n + 1, 0, 5, 0, -1, where(n % 9, n % 64)) for n in range(400)]
    hashes = array("Q", range(400))

    def places(table: Any, hashes: Any) -> Any:
        counted = tally(rows(*table), hashes, 0, timed=False)
        parts = by_place(counted.by_part, session=False)
        return parts, by_place(counted.by_session, session=True)

    plain = places(table, hashes)
    other_rows = [(*row[:6], 6, *row[7:]) if number == 131 else row
                  for number, row in enumerate(table)]  # fmt: skip
    other_hash = array("Q", [n + (n == 131) * (1 << 40) for n in range(400)])
    for changed in (places(other_rows, hashes), places(table, other_hash)):
        for before, after, place in zip(plain, changed, (131 % 64, 131 % 9), strict=True):
            assert before[0] == after[0]
            differing = {at for at in before[1] if before[1][at] != after[1][at]}
            assert differing == {place}


@pytest.mark.parametrize(
    "code", ["00000", "40001", "25P02", "XX000", "08006", "ZZZZY", UNKNOWN_STATE]
)
def test_sqlstates_survive_as_numbers(code: str) -> None:
    """Every SQLSTATE is five digits of base 36."""
    assert sqlstate_of(number_of(code)) == code


@pytest.mark.parametrize("code", ["z" * 4000, "-1", " 1_0 ", "4000", "23505\n", "\u0663" * 5, "#"])
def test_what_is_no_sqlstate_has_that_of_no_reason(code: str) -> None:
    """Whatever a file or a server says, it is a number that a record has room for."""
    assert sqlstate_of(number_of(code)) == "XX000"


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("SELECT now(), random()", ("now()", "random()")),
        ("INSERT INTO t (a) VALUES ($1) RETURNING id", ("generated ids",)),
        ("SELECT CURRENT_TIMESTAMP", ("current_timestamp",)),
        ("SELECT nextval('s')", ("nextval()",)),
        ("SELECT a FROM snow WHERE known(a)", ()),
    ],
)
def test_what_varies_by_itself_is_known(text: str, reasons: tuple[str, ...]) -> None:
    """Functions with another answer each time, and ids that the server makes."""
    assert nondeterministic.functions(text) == reasons


def replayed(fingerprint: str, executions: int = 10, planned: int = 10, **more: Any) -> Replayed:
    """Return what became of one fingerprint."""
    return Replayed(
        fingerprint=fingerprint, text=fingerprint, kind="select", planned=planned,
        executions=executions, **more,
    )  # fmt: skip


def test_divergences_are_those_of_errors_rows_and_answers() -> None:
    """Equal sides have none, and what varies by itself is told apart."""
    ours = [
        replayed("same", rows=5, rows_hash="aa"),
        replayed("error", errors={"40001": 1}),
        replayed("rows", rows=5),
        replayed("answers", rows=5, rows_hash="aa"),
        replayed("now", rows=5, rows_hash="aa", varies=("now()",)),
        replayed("behind", consequences=3, rows=1),
    ]
    theirs = [
        replayed("same", rows=5, rows_hash="aa"),
        replayed("error"),
        replayed("rows", rows=6),
        replayed("answers", rows=5, rows_hash="bb"),
        replayed("now", rows=5, rows_hash="bb", varies=("now()",)),
        replayed("behind", rows=4),
    ]
    kinds = [(one.replayed.fingerprint, one.what) for one in divergence.against_run(ours, theirs)]

    assert kinds == [
        ("error", "errors"),
        ("rows", "rows"),
        ("answers", "answers"),
        ("now", "varying"),
    ]
    assert not list(divergence.against_run(ours, ours))


def test_rows_that_are_not_the_logs_diverge_once_from_their_cause() -> None:
    """What only follows from something earlier is none of its own; what varies is told apart."""
    found = [
        replayed("same", held_rows=7, logged_rows=7),
        replayed("other", held_rows=5, logged_rows=7, rows_otherwise=2),
        replayed("behind", held_rows=0, logged_rows=3, rows_follow=3),
        replayed("now", held_rows=1, logged_rows=2, rows_otherwise=1, varies=("now()",)),
        replayed("failed", failed_here={"23505": 1}),
    ]
    named = [(one.replayed.fingerprint, one.what, one.answers) for one in
             divergence.against_log(found, errors_logged=False)]  # fmt: skip

    assert named == [("other", "rows", 2), ("now", "varying", 1)]
    assert [one.what for one in divergence.against_log(found)] == ["rows", "varying", "errors"]


def test_the_first_place_of_another_runs_answers_is_told() -> None:
    """The first part of the capture that differs, and all sessions that do."""

    def at(parts: list[int], sessions: list[int]) -> Places:
        return Places(part_s=2.0, parts=dict(enumerate(parts)), sessions=dict(enumerate(sessions)))

    ours = replayed("a", rows=5, places=at([1, 2, 3], [4, 5, 6]))
    theirs = replayed("a", rows=6, places=at([1, 2, 9, 4], [4, 8, 9]))
    (one,) = divergence.against_run([ours], [theirs])
    without = replayed("a", rows=6)

    assert one.where is not None
    assert (one.where.begin, one.where.end, one.where.sessions) == (4.0, 6.0, (1, 2))
    assert one.where.words == "4.0 to 6.0 s, sessions 1, 2"
    assert next(divergence.against_run([ours], [without])).where is None


def test_rows_of_the_log_are_held_where_both_count_them_alike(tmp_path: Path) -> None:
    """Not those of a CALL, nor of what is selected into a variable."""
    texts = ["SELECT 1", "SELECT a INTO @x FROM t", "UPDATE t SET a = 1", "CALL p()", "SET a = 1"]
    capture = [action(1, "simple", at, text, rows=3) for at, text in enumerate(texts)]
    _, done = scheduled(tmp_path, [*capture, action(1, "simple", 9, "DELETE FROM t")])

    assert [one.rows for one in done[1]] == [3, -1, 3, -1, -1, -1]


def test_replays_of_which_little_ran_are_not_comparable() -> None:
    """95 % of the work must have run on both sides, and be the same work."""
    whole, half = [replayed("a")], [replayed("a", executions=5)]

    assert divergence.not_comparable(whole, whole) == ""
    assert "only 50.0%" in divergence.not_comparable(whole, half)
    assert "only 50.0%" in divergence.not_comparable(half, whole)
    assert "common" in divergence.not_comparable(whole, [replayed("b")])


@pytest.mark.parametrize(
    ("code", "logged", "found"),
    [
        ("23505", "23505", []),
        ("40P01", "", [("here", "1 x 40P01", "no error")]),
        ("", "40P01", [("there", "no error", "1 x 40P01")]),
        ("57014", "40P01", [("otherwise", "1 x 57014", "1 x 40P01")]),
        # What only follows from what failed before it, there or here.
        ("", "25P02", []),
        ("-25P02", "", []),
        ("-25P02", "23505", []),
        # A log without SQLSTATEs tells that a statement failed, and not how.
        ("23505", "?????", []),
        ("", "?????", [("there", "no error", "1 x ?????")]),
    ],
)
def test_each_error_is_held_against_the_logs_of_the_same_statement(
    code: str, logged: str, found: list[tuple[str, str, str]]
) -> None:
    """Failed here, failed there, or in another way; and two that are not the same make two."""
    failed = -number_of(code[1:]) if code.startswith("-") else number_of(code)
    row = (0, 0, 0, 1, 2, failed, -1, number_of(logged), -1, 0)
    swapped = (0, 0, 0, 1, 2, number_of(logged), -1, max(0, failed), -1, 0)

    def divergences(*table: Any) -> list[tuple[str, str, str]]:
        counted = tally(rows(*table), array("Q"), 0, timed=False)
        one = replayed(
            "a",
            failed_here=by_code(counted.here).get(0, {}),
            failed_there=by_code(counted.there).get(0, {}),
            failed_otherwise=tuple(
                by_code(counts).get(0, {}) for counts in (counted.others_here, counted.others_there)
            ),
        )
        return [(each.failed, each.ours, each.theirs) for each in divergence.against_log([one])]

    assert divergences(row) == found
    if found and "40P01" in {code, logged} and code != "57014":
        # As many errors of the same statement, of others of its executions.
        assert [one[0] for one in divergences(row, swapped)] == ["here", "there"]


def test_a_capture_is_a_workload_of_its_replay(tmp_path: Path) -> None:
    """`replayer run FILE.replay` has one step, whose keys are set as any other's."""
    (tmp_path / "monday.replay").touch()

    workload = workload_file.load(
        f"{tmp_path}/monday.replay", ["replay.speed=0"], probe={"i_will_change": "shop"}
    )

    (spec,) = workload.steps
    assert isinstance(spec, Spec)
    assert (spec.file, spec.speed, spec.i_will_change) == (f"{tmp_path}/monday.replay", 0, "shop")
    assert workload.name == "monday"


def test_a_replay_ends_after_it_begins(tmp_path: Path) -> None:
    """One sentence, by the names that were typed."""
    capture = tmp_path / "a.replay"
    capture.touch()

    with pytest.raises(Impossible, match="until must be after from"):
        workload_file.load(str(capture), ["replay.from=5", "replay.until=5"])


def test_shares_of_connections_and_processes() -> None:
    """Nobody is left without one, and fast replays have processes enough."""
    assert shares(None, 3) == [None] * 3
    assert sum(one or 0 for one in shares(8, 3)) == 8
    assert shares(1, 2) == [1, 1]
    assert processes_for(1, 10, 5) == 1
    assert processes_for(0, 10, 1) == 1


def test_a_spool_gives_back_what_was_written(tmp_path: Path) -> None:
    """Chunks of several sessions lie between each other; nothing is left in its folder."""
    made = [Record(0, n, b"x" * n, n, -1, -1, -1, -1, 0, -1, 0, -1, 0) for n in range(40)]
    spool = Spool(tmp_path)
    last = {0: NOWHERE, 1: NOWHERE}
    first: dict[int, tuple[int, int]] = {}
    for begin in range(0, 40, 5):
        session = begin // 5 % 2
        last[session] = spool.write(made[begin : begin + 5], last[session])
        first.setdefault(session, last[session])
    spool.flush()
    for session in (0, 1):
        own = [one for one in made if one.fingerprint // 5 % 2 == session]
        assert list(records(spool.fd, first[session])) == own
    assert list(records(spool.fd, NOWHERE)) == []
    assert not list(tmp_path.iterdir())
    spool.close()
    with pytest.raises(ReplayerError, match="could not be written in"):
        Spool(tmp_path / "nowhere")


def test_sessions_that_ended_are_forgotten_while_a_replay_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are written when many wait, and those of each session are whole and in order."""
    monkeypatch.setattr(schedules, "_MOST_HELD", 50)
    capture = []
    for number in range(40):
        capture.append(action(number, "connect", number / 4))
        capture += [
            action(number, "simple", number / 4 + turn / 10, f"SELECT {number}, {turn}")
            for turn in range(1, 12)
        ]
        if number % 2:
            capture.append(action(number, "disconnect", number / 4 + 2))
    for order in ("none", "serial"):
        schedule, done = scheduled(tmp_path, capture, processes=2, order=order)

        assert len(done) == schedule.sessions == 40
        for number, mine in done.items():
            texts = [one.payload for one in mine if one.does == WHOLE]
            assert texts == [
                postgres_message.encode_query(f"SELECT {number}, {turn}") for turn in range(1, 12)
            ]
            assert len(mine) == 12 + number % 2
        assert schedule.at_once == brute_force(capture)


def brute_force(capture: list[Action]) -> int:
    """Return how many sessions there are at a time at most."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for one in capture:
        end = one.start_ns + max(0, one.duration_ns)
        first[one.session] = min(one.start_ns, first.get(one.session, end))
        last[one.session] = max(end, last.get(one.session, 0))
    return max(sum(first[n] <= at <= last[n] for n in first) for at in first.values())


def conninfo_of(session: LoggedSession, **keys: object) -> dict[str, Any]:
    """Return what a connection of a captured session is opened with, by name."""
    url = make_url("postgresql+psycopg://ann@db.example/shop")
    spec = spec_of("x", **keys)
    database = SimpleNamespace(url=url, engine=engines.of_url(str(url)))
    return conninfo_to_dict(replay_target.Conninfo(spec, cast("Any", database))(session))


@pytest.fixture
def without_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no server asked for its roles."""
    monkeypatch.setattr(replay_target, "_roles", lambda _: frozenset())


@pytest.mark.parametrize("name", ["a\0b", "a\udcffb", "x" * 100_000, "it's \\ a = 'b'\n", ""])
def test_any_name_of_an_application_can_begin_a_connection(without_roles: None, name: str) -> None:
    """What no connection can begin with is left out, and no more is sent than a server keeps."""
    given = conninfo_of(LoggedSession(1, application=name))["application_name"]

    assert len(given) <= 63
    assert given.encode().decode().isprintable() or "\n" in name
    assert given[:1] == (name or "replayer")[:1]
    assert sorted(conninfo_of(LoggedSession(1))) == sorted(
        conninfo_of(LoggedSession(1, application=name))
    )


def test_a_setting_of_a_capture_is_one_setting(without_roles: None) -> None:
    """White space and backslashes of a value are its own; what is not a name is not set."""
    settings = (
        ("search_path", "a, \tb\n-c\rx\\=\x0b1\x0c"),
        ("x -c role", "dba"),
        ("", "1"),
        ("my.own", "\0\udcff"),
    )
    options = conninfo_of(LoggedSession(1, settings=settings))["options"]
    parts = re.findall(r"(?:\\.|[^\\\s])+", options, re.DOTALL)

    assert parts[::2] == ["-c"] * 2
    assert [re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts[1::2]] == [
        "search_path=a, \tb\n-c\rx\\=\x0b1\x0c",
        "my.own=?",
    ]


def test_a_read_only_session_becomes_nobody_else_by_its_settings(without_roles: None) -> None:
    """Neither as another role nor writing; what replayer sets comes last, and so it holds."""
    settings = (("role", "dba"), ("default_transaction_read_only", "off"), ("Role", "dba"))
    options = conninfo_of(LoggedSession(1, settings=settings), read_only=True)["options"].split()

    assert not any("role" in part.lower() for part in options)
    assert options.index("default_transaction_read_only=off") < options.index(
        "default_transaction_read_only=on"
    )
