"""A replay file: what is written is read, in the order of starts, and bad files are refused."""

import hashlib
import os
import re
import resource
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replayer.capture import archive, ordering
from replayer.capture.action import DOES, UNKNOWN, Action, CommitPlace, LoggedSession
from replayer.capture.archive import ArchiveReader, ArchiveWriter
from replayer.capture.capture_summary import ActionSource
from replayer.capture.implicit_transactions import ImplicitTransactions
from replayer.errors import Impossible, ReplayerError

_SECOND = 1_000_000_000
_T0 = 1_700_000_000 * _SECOND

_words = st.text(st.characters(codec=None), max_size=12)
_texts = st.one_of(
    _words, st.sampled_from(["select 1", "update t set a = $1", "BEGIN", "COMMIT", "select f()"])
)


@st.composite
def _actions(draw: st.DrawFn) -> list[Action]:
    """Actions in the order of their ends; those of a session follow one another."""
    free: dict[int, int] = {}
    many = draw(st.integers(1, 60))
    actions = []
    for _ in range(many):
        session = draw(st.integers(0, 5))
        begin = free.get(session, 0) + draw(st.integers(0, 20 * _SECOND))
        duration = draw(st.one_of(st.just(UNKNOWN), st.integers(0, 40 * _SECOND)))
        free[session] = begin + max(duration, 0)
        does = draw(st.sampled_from(DOES))
        statement = does in ("simple", "extended")
        values = st.lists(st.one_of(st.none(), _words), max_size=3).map(tuple)
        actions.append(
            Action(
                session,
                does,
                _T0 + begin,
                duration,
                draw(_texts) if statement else "",
                draw(_words) if statement else "",
                draw(st.one_of(st.none(), values)) if statement else None,
                draw(st.sampled_from(["", "40P01", "23505"])),
                draw(st.integers(-1, 10)),
            )
        )
    return sorted(actions, key=lambda each: each.start_ns + max(each.duration_ns, 0))


def _write(
    path: Path,
    actions: Iterable[Action],
    sessions: Iterable[LoggedSession] = (),
    engine: str = "postgres",
    **close: Any,
) -> Any:
    with ArchiveWriter(path, engine) as writer:
        for session in sessions:
            writer.describe(session)
        for action in actions:
            writer.add(action)
        return writer.close(**close)


def _read(path: Path) -> Any:
    with ArchiveReader(path) as reader:
        return list(reader.actions())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and a window so small that a few actions fill many."""
    monkeypatch.setattr(archive, "_BLOCK_ROWS", 4)
    monkeypatch.setattr(archive, "_LATE_ROWS", 3)
    monkeypatch.setattr(archive, "_MOST_ROWS", 12)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_actions())
def test_what_is_written_is_read_in_the_order_of_starts(
    tmp_path: Path, small: None, actions: list[Action]
) -> None:
    """Every action comes back with all that it had; each session's ones in their own order."""
    path = tmp_path / "a.replay"
    summary = _write(path, actions)
    back = _read(path)
    assert summary.actions == len(back) == len(actions)
    begin = summary.begin_ns
    assert [each.start_ns for each in back] == sorted(each.start_ns for each in back)
    assert back[0].start_ns == 0
    for session in range(6):
        written = [each for each in actions if each.session == session]
        read = [each for each in back if each.session == session]
        assert [each._replace(start_ns=0) for each in written] == [
            each._replace(start_ns=0) for each in read
        ]
        assert all(
            each.start_ns <= other.start_ns + begin
            for each, other in zip(written, read, strict=True)
        )


def test_what_began_long_before_it_ended_is_read_where_it_began(tmp_path: Path) -> None:
    """A statement of eight hours stands before the thousands that were logged before it."""
    many = [
        Action(1, "simple", _T0 + second * _SECOND, 1_000_000, f"select {second}")
        for second in range(1, 40_000)
    ]
    slow = Action(2, "simple", _T0, 30_000 * _SECOND, "select count(*) from large")
    path = tmp_path / "a.replay"
    summary = _write(path, [*many[:30_000], slow, *many[30_000:]], [LoggedSession(2, "anna")])
    assert summary.late == 1
    with ArchiveReader(path) as reader:
        blocks = list(reader.blocks())
    first = blocks[0].action(0)
    assert (first.session, first.start_ns, first.text) == (2, 0, slow.text)
    assert blocks[0].sessions == (LoggedSession(2, "anna"),)
    assert sum(len(block) for block in blocks) == 40_000


def test_a_session_does_not_begin_a_statement_before_its_last_one_ended(tmp_path: Path) -> None:
    """Starts that are computed from a clock of milliseconds keep the order of the session."""
    actions = [
        Action(1, "simple", _T0 + 10_000_000 - 20_000, 20_000, "BEGIN"),
        Action(1, "simple", _T0 + 10_000_000 - 900_000, 900_000, "select 1"),
    ]
    path = tmp_path / "a.replay"
    _write(path, actions)
    assert [each.text for each in _read(path)] == ["BEGIN", "select 1"]


def test_sessions_keep_who_they_are(tmp_path: Path) -> None:
    """User, database, application, settings, and that a session was there before."""
    session = LoggedSession(7, "ann\udcff", "db", "app", (("search_path", "a, b"), ("x", "")), True)
    path = tmp_path / "a.replay"
    summary = _write(path, [Action(7, "simple", _T0, 5, "select 1")], [session])
    with ArchiveReader(path) as reader:
        assert [block.sessions for block in reader.blocks()] == [(session,)]
    assert summary.sessions_began_before == 1


def test_a_session_whose_description_was_forgotten_is_not_a_new_one(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets the name of its application after many others have begun and ended."""
    monkeypatch.setattr(archive, "_MOST_SESSIONS", 8)
    begun: list[int] = []
    monkeypatch.setattr(
        ImplicitTransactions, "begin_before", lambda _, number: begun.append(number)
    )
    first, path, minute = LoggedSession(0, began_before=True), tmp_path / "a.replay", 60 * 10**9
    with ArchiveWriter(path) as writer:
        for number in range(100):
            writer.describe(replace(first, number=number, began_before=number == 0))
            writer.add(Action(number, "simple", _T0 + number * minute, 5, "select 1"))
        named = replace(first, application="late")
        writer.describe(named)
        writer.add(Action(0, "simple", _T0 + 100 * minute, 5, "select 2"))
        summary = writer.close()

    with ArchiveReader(path) as reader:
        sessions = [one for block in reader.blocks() for one in block.sessions]
    assert [one for one in sessions if one.number == 0] == [first, named]
    assert (summary.sessions, summary.sessions_began_before) == (100, 1)
    assert begun == [0]


def test_a_summary_counts_what_was_written(tmp_path: Path) -> None:
    """Statements, kinds, sessions at once, errors, the busiest minute, the heaviest statements."""
    minute = 60 * _SECOND
    actions = [Action(session, "connect", _T0 + session) for session in range(3)]
    actions += [
        Action(0, "simple", _T0 + number * minute // 4, 1_000_000, f"select {number}")
        for number in range(1, 5)
    ]
    actions += [
        Action(1, "extended", _T0 + 3 * minute + number, 10, "update t set a = $1", "s", ("1",))
        for number in range(9)
    ]
    actions += [Action(2, "simple", _T0 + 4 * minute, 7_000_000, "delete from t", sqlstate="40001")]
    actions += [Action(session, "disconnect", _T0 + 5 * minute) for session in range(3)]
    summary = _write(
        tmp_path / "a.replay",
        actions,
        source=ActionSource(logs=("x.csv",)),
        skipped={"COPY data": 2},
        damage=("x.csv was cut off",),
    )
    with ArchiveReader(tmp_path / "a.replay") as reader:
        assert reader.summary == summary
    assert (summary.actions, summary.statements, summary.sessions) == (20, 14, 3)
    assert summary.sessions_at_once == 3
    assert summary.kinds == {"update": 9, "select": 4, "delete": 1}
    assert summary.errors == 1
    assert summary.skipped == {"COPY data": 2}
    assert summary.busiest_minute_statements == 9
    assert summary.span_ns == 5 * minute
    heaviest = [(work.text, work.statements, work.seconds) for work in summary.heaviest]
    assert heaviest == [
        ("DELETE FROM t", 1, 0.007),
        ("SELECT ?", 4, 0.004),
        ("UPDATE t SET a = ?", 9, 9e-8),
    ]
    assert summary.fingerprints == 3


def test_a_file_is_nobody_elses_business_and_whole_or_not_there(tmp_path: Path) -> None:
    """Mode 0600; without close there is neither the file nor its draft."""
    path = tmp_path / "a.replay"
    with ArchiveWriter(path) as writer:
        writer.add(Action(1, "simple", _T0, 5, "select 1"))
        assert not path.exists()
    assert list(tmp_path.iterdir()) == []
    _write(path, [Action(1, "simple", _T0, 5, "select 1")])
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor its draft."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(ReplayerError, match=r"a\.replay could not be written: File too large"):
            _write(tmp_path / "a.replay", [Action(1, "simple", _T0, 5, "select 1")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_until_another_one_is_whole(tmp_path: Path) -> None:
    """Then it is replaced; two files of the same actions have the same digest."""
    path, other = tmp_path / "a.replay", tmp_path / "b.replay"
    action = Action(1, "simple", _T0, 5, "select 1")
    _write(path, [action])
    with ArchiveReader(path) as reader:
        before = reader.digest
    with pytest.raises(AttributeError), ArchiveWriter(path) as writer:
        writer.add(cast("Action", "no action"))
    _write(other, [action])
    for each in (path, other):
        with ArchiveReader(each) as reader:
            assert reader.digest == before
    _write(path, [action, action])
    with ArchiveReader(path) as reader:
        assert reader.digest != before


def test_a_capture_of_nothing_is_read(tmp_path: Path) -> None:
    """No action at all is a file, too."""
    path = tmp_path / "a.replay"
    _write(path, [])
    assert _read(path) == []


def test_what_is_longer_than_any_statement_is_counted_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reason is in the summary."""
    monkeypatch.setattr(archive, "LONGEST", 100)
    actions = [
        Action(1, "simple", _T0, 5, "select '" + "x" * 100 + "'"),
        Action(1, "extended", _T0 + 9, 5, "select $1", "", ("y" * 100,)),
        Action(1, "simple", _T0 + 20, 5, "select 1"),
    ]
    summary = _write(tmp_path / "a.replay", actions)
    assert summary.skipped == {archive.TOO_LONG: 2}
    assert summary.statements == 1


def _sentence(path: Path) -> str:
    with pytest.raises(ReplayerError) as caught:
        _read(path)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400
    return text


def test_a_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    """The sentence says which format it has, and what to do."""
    path = tmp_path / "a.replay"
    path.write_bytes(b"REPLAY2\n" + os.urandom(200))
    assert re.search("has format 2,.*use a newer replayer", _sentence(path))


def test_a_file_that_was_cut_at_any_length_is_refused(tmp_path: Path) -> None:
    """No length of a file but its whole one is read."""
    path = tmp_path / "a.replay"
    _write(path, [Action(1, "simple", _T0 + number, 5, f"select {number}") for number in range(9)])
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert re.search("cut off|not a replay file", _sentence(path))


def test_any_other_byte_is_noticed(tmp_path: Path) -> None:
    """A file in which one byte is another one is refused."""
    path = tmp_path / "a.replay"
    _write(path, [Action(1, "simple", _T0 + number, 5, f"select {number}") for number in range(9)])
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x55
        path.write_bytes(changed)
        assert re.search("damaged|cut off|not a replay file|has format", _sentence(path))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, 1 << 20])
def test_random_bytes_are_no_replay_file(tmp_path: Path, size: int) -> None:
    """One sentence says what makes one."""
    path = tmp_path / "a.replay"
    path.write_bytes(os.urandom(size))
    assert "replayer convert" in _sentence(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """So is a folder; a pipe that nobody writes to is not waited for."""
    assert "a.replay cannot be read" in _sentence(tmp_path / "a.replay")
    assert "cannot be read" in _sentence(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in _sentence(tmp_path / "pipe")


def _resealed(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file's bytes and make its digest fit again, as somebody who means harm would."""
    data = change(path.read_bytes())
    body = data[:-40]
    path.write_bytes(body + hashlib.sha256(body).digest() + b"REPLAY.\n")


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_file_made_to_harm_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """With a digest that fits, other bytes are still an error in one sentence, or harmless."""
    path = tmp_path / "a.replay"
    _write(path, [Action(1, "simple", _T0 + number, 5, f"select {number}") for number in range(9)])
    size = path.stat().st_size
    place = data.draw(st.integers(8, size - 41))
    byte = data.draw(st.integers(0, 255))

    def change(whole: bytes) -> bytes:
        changed = bytearray(whole)
        changed[place] = byte
        return bytes(changed)

    _resealed(path, change)
    try:
        _read(path)
    except Impossible as error:
        assert "\n" not in str(error)  # noqa: PT017 - it may be harmless


def _sealed(path: Path, last: bytes, before: bytes = b"") -> None:
    """Write a file whose last message is what is given, with an end that fits."""
    packed = zstandard.ZstdCompressor().compress(last)
    body = b"REPLAY1\n" + before
    data = body + struct.pack("<cII", b"F", len(packed), len(last)) + packed
    data += struct.pack("<Q", len(body))
    path.write_bytes(data + hashlib.sha256(data).digest() + b"REPLAY.\n")


_NUMBERS = ("offset", "begin", "end", "actions")
_SUMMARY = b'{"replayer": "1"}'
_ENDLESS = b'{"replayer": "1", "span_ns": 1%s}' % (b"0" * 400)


@pytest.mark.parametrize(
    "last",
    [
        msgpack.packb(None),
        msgpack.packb([1, 2]),
        msgpack.packb({"summary": "text"}),
        b"\xdd\x7f\xff\xff\xff" + b"\x90" * 1_000_000,
        b"\x91" * 1_000_000,
        b"\x81\xa1a" * 100_000,
        msgpack.packb({"summary": b"[" * 1_000_000}),
        msgpack.packb({"summary": b'{"replayer": 1e999}'}),
        msgpack.packb({"summary": _SUMMARY}),
        msgpack.packb({"summary": _SUMMARY, **dict.fromkeys(_NUMBERS, b"1234567")}),
        msgpack.packb({"summary": _SUMMARY, **dict.fromkeys(_NUMBERS, b"\xff" * 8)}),
        msgpack.packb({"summary": _SUMMARY, **dict.fromkeys(_NUMBERS, b"\x7f" * 8)}),
        msgpack.packb({"summary": _SUMMARY, **dict.fromkeys(_NUMBERS, b"\x08" + b"\0" * 7)}),
        msgpack.packb({"summary": _ENDLESS, **dict.fromkeys(_NUMBERS, b"")}),
        bytes(40 << 20),
    ],
    ids=range(15),
)
def test_a_file_made_to_harm_takes_little_memory(tmp_path: Path, last: bytes) -> None:
    """Lengths that nobody writes, lists in lists, indexes of nothing: one sentence each."""
    path = tmp_path / "a.replay"
    _sealed(path, last)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "damaged" in _sentence(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(_actions())
def test_an_order_that_was_written_is_right(
    tmp_path: Path, small: None, actions: list[Action]
) -> None:
    """Whatever sessions did, its places are those of so many actions; of nothing, too."""
    nothing: list[Action] = []
    for written in (actions, nothing):
        path = tmp_path / "a.replay"
        _write(path, written)
        with ArchiveReader(path) as reader:
            reader.check_order()


@pytest.mark.parametrize(
    "place",
    [
        CommitPlace(needs=1 << 40),
        CommitPlace(ends=1 << 40),
        CommitPlace(ends=10),
        CommitPlace(needs=1, ends=UNKNOWN - 1),
        CommitPlace(needs=-(1 << 60)),
        CommitPlace(chain=0, turn=1 << 62),
        CommitPlace(chain=0, turn=9),
        "many chains",
        CommitPlace(chain=UNKNOWN - 1, turn=0),
        CommitPlace(chain=1),
        CommitPlace(turn=1),
    ],
    ids=str,
)
def test_an_order_made_to_harm_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any
) -> None:
    """A place beyond the actions, below none, or half of one: no memory is made for it."""
    path = tmp_path / "a.replay"
    # Each of many chains has places that are some of nine actions', and all of them have 81.
    many = [CommitPlace(chain=chain, turn=8) for chain in range(9)]
    places = iter(many if place == "many chains" else [place] * 9)
    monkeypatch.setattr(ordering.CommitOrder, "place", lambda *_: next(places))
    _write(path, [Action(1, "simple", _T0 + number, 5, f"select {number}") for number in range(9)])

    with (
        ArchiveReader(path) as reader,
        pytest.raises(Impossible, match=r"is damaged, .*order") as refused,
    ):
        reader.check_order()

    assert "\n" not in str(refused.value)


def test_a_block_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    """A file has no more actions than it has bytes for."""
    path = tmp_path / "a.replay"
    with ArchiveWriter(path) as writer:
        for number in range(9):
            writer.add(Action(1, "simple", _T0 + number, 5, f"select {number}"))
        writer._sort()
        writer._write_sorted(9)
        for numbers in writer._index.values():
            numbers.extend(list(numbers))
        writer.close()
    assert "its index cannot be read" in _sentence(path)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_capture(tmp_path: Path) -> None:
    """Ten times as many actions, each of another text, need about the same memory."""

    def write(many: int) -> Any:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with ArchiveWriter(tmp_path / f"{many}.replay") as writer:
            for number in range(many):
                writer.add(
                    Action(
                        number % 50,
                        "simple",
                        _T0 + number * 1_000_000,
                        50_000,
                        f"select * from t where a = '{number:0200}'",
                    )
                )
            writer.close()
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024

    write(40_000)
    assert write(120_000) < 30
