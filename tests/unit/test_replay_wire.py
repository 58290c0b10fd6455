"""Answers of servers, read in pieces of every size: the same as read at once."""

import fcntl
import os
import resource
import select
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from replayer.engines.wire_session import ConnectionGone, Refused
from replayer.engines.wires.mysql import mysql_packet
from replayer.engines.wires.mysql.mysql_connection import MySQLConnection
from replayer.engines.wires.mysql.threaded_attempt import MySQLConnectionAttempt
from replayer.engines.wires.postgres import libpq_attempt, postgres_message
from replayer.engines.wires.postgres.postgres_connection import PostgresConnection
from replayer.steps.replay import connection_pool
from replayer.steps.replay.connection_pool import ConnectionPool
from replayer.watch import workers
from tests.cpu_time import at_once

BEYOND = 2000
"""A descriptor that is not among those of select(2)."""


class Pg:
    """What libpq leaves to a connection: its socket."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end.fileno()


def postgres(end: socket.socket, **how: bool) -> PostgresConnection:
    """Return a connection over a socket, which it closes."""
    return PostgresConnection(Pg(end), end.close, **how)


class Sql:
    """What PyMySQL leaves to a connection: its socket."""

    def __init__(self, end: socket.socket) -> None:
        self._sock = end

    def close(self) -> None:
        """Close it."""
        self._sock.close()


def mysql(end: socket.socket, **how: bool) -> MySQLConnection:
    """Return a connection over a socket, which it closes."""
    return MySQLConnection(Sql(end), waits=False, **how)


def of_postgres(kind: bytes, body: bytes) -> bytes:
    """Return one message."""
    return kind + struct.pack(">I", 4 + len(body)) + body


def of_mysql(number: int, body: bytes) -> bytes:
    """Return one packet."""
    return struct.pack("<I", len(body) | number << 24) + body


ROWS = [postgres_message.row([b"abc", None, b"x" * 300]), postgres_message.row([b"", b"1", None])]
IDLE, OPEN = of_postgres(b"Z", b"I"), of_postgres(b"Z", b"T")
FAILED = of_postgres(b"Z", b"E")
POSTGRES = {
    "rows": (
        of_postgres(b"T", b"\0\0") + b"".join(ROWS) + of_postgres(b"C", b"SELECT 2\0") + IDLE,
        ("", 2, True),
    ),
    "changes": (of_postgres(b"2", b"") + of_postgres(b"C", b"UPDATE 17\0") + OPEN, ("", 17, False)),
    "insert": (of_postgres(b"C", b"INSERT 0 3\0") + IDLE, ("", 3, True)),
    "nothing": (of_postgres(b"C", b"BEGIN\0") + OPEN, ("", -1, False)),
    "error": (
        of_postgres(b"N", b"SNOTICE\0\0")
        + of_postgres(b"E", b"SERROR\0VERROR\0C23505\0Mno C00000\0\0")
        + FAILED,
        ("23505", -1, False),
    ),
    "several": (
        of_postgres(b"C", b"INSERT 0 1\0") + of_postgres(b"C", b"DELETE 4\0") + IDLE,
        ("", 5, True),
    ),
}
COLUMN = b"\x03def\0\0\0\1a\0\x0c?\0\0\0\0\0\x08\0\0\0\0\0"
MYSQL = {
    "rows": (
        of_mysql(1, b"\1") + of_mysql(2, COLUMN) + of_mysql(3, b"\xfe\0\0\2\0")
        + of_mysql(4, b"\1a") + of_mysql(5, b"\xfb") + of_mysql(6, b"\xfe\0\0\3\0"),
        ("", 2, False),
    ),
    "changes": (of_mysql(1, b"\0\xfc\x2c\1\0\2\0\0\0"), ("", 300, True)),
    "matched": (
        of_mysql(1, b"\0\3\0\2\0\0\0Rows matched: 4  Changed: 3  Warnings: 0"),
        ("", 3, True),
    ),
    "error": (of_mysql(1, b"\xff\x26\4#23000Duplicate"), ("23000", -1, True)),
    "several": (
        of_mysql(1, b"\0\1\0\x0a\0\0\0") + of_mysql(2, b"\0\2\0\2\0\0\0"),
        ("", 3, True),
    ),
}  # fmt: skip


def answers(
    make: Callable[[socket.socket], Any], whole: bytes, sizes: list[int], times: int = 2
) -> Iterator[tuple[Any, ...]]:
    """Send an answer some times in pieces of these sizes, and yield what was made of each."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with closing(theirs), closing(make(ours)) as connection:
        for _ in range(times):
            rest, number = whole, 0
            while rest:
                piece, rest = rest[: sizes[number % len(sizes)]], rest[sizes[number % len(sizes)] :]
                number += 1
                theirs.sendall(piece)
                done = connection.receive()
                assert done is (not rest)
            yield connection.sqlstate, connection.rows, connection.idle, connection.hash


@pytest.mark.parametrize("sizes", [[1], [2, 3], [5], [7, 1], [100], [1 << 16]])
@pytest.mark.parametrize("hashes", [False, True])
@pytest.mark.parametrize("name", POSTGRES)
def test_answers_of_postgres_in_pieces(name: str, sizes: list[int], *, hashes: bool) -> None:
    """SQLSTATE, rows, whether a transaction is open, and the hash, of the first and the next."""
    whole, expected = POSTGRES[name]

    def make(end: socket.socket) -> Any:
        return postgres(end, hashes=hashes)

    seen = list(answers(make, whole, sizes))
    at_once = list(answers(make, whole, [1 << 16], 1))
    assert [one[:3] for one in seen] == [expected] * 2
    assert {one[3] for one in seen} == {at_once[0][3]}
    assert bool(at_once[0][3]) is (name == "rows" and hashes)


@pytest.mark.parametrize("sizes", [[1], [2, 3], [5], [1 << 16]])
@pytest.mark.parametrize("name", MYSQL)
def test_answers_of_mysql_in_pieces(name: str, sizes: list[int]) -> None:
    """The same of packets."""
    whole, expected = MYSQL[name]

    def make(end: socket.socket) -> Any:
        return mysql(end, hashes=True)

    seen = list(answers(make, whole, sizes))
    assert [one[:3] for one in seen] == [expected] * 2
    assert bool(seen[0][3]) is (name == "rows")
    assert seen[0][3] == seen[1][3]


@pytest.mark.parametrize(("make", "known"), [(postgres, POSTGRES), (mysql, MYSQL)])
def test_an_answer_without_rows_has_no_hash_of_an_earlier_one(
    make: Callable[..., Any], known: dict[str, tuple[bytes, Any]]
) -> None:
    """An answer is what it is, also if the same bytes came before the rows of another statement."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    hashes, rows = [], []
    with closing(theirs), closing(make(ours, hashes=True)) as connection:
        for name in ("changes", "rows", "changes", "several", "changes", "several"):
            theirs.sendall(known[name][0])
            assert connection.receive()
            hashes.append(bool(connection.hash))
            rows.append(connection.rows == known[name][1][1])
    assert hashes == [False, True, False, False, False, False]
    assert all(rows)


def test_hashes_know_the_order_only_where_it_is_promised() -> None:
    """Rows that came in another order are the same rows, unless the statement has an order."""
    ends = of_postgres(b"C", b"SELECT 2\0") + IDLE
    texts = [b"".join(rows) + ends for rows in (ROWS, ROWS[::-1])]
    hashes = {}
    for in_order in (False, True):
        for number, text in enumerate(texts):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            with (
                closing(theirs),
                closing(postgres(ours, hashes=True)) as connection,
            ):
                connection.send(b"", extended=False, in_order=in_order)
                theirs.sendall(text)
                assert connection.receive()
                hashes[in_order, number] = connection.hash
    assert hashes[False, 0] == hashes[False, 1]
    assert hashes[True, 0] != hashes[True, 1]


def test_what_the_socket_does_not_take_at_once_goes_later() -> None:
    """A statement of megabytes reaches the server whole."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    whole = postgres_message.encode_query("x" * 5_000_000)
    with (
        closing(theirs),
        closing(postgres(ours)) as connection,
    ):
        connection.send(whole, extended=False, in_order=False)
        assert connection.unsent
        came = b""
        while len(came) < len(whole):
            came += theirs.recv(1 << 20)
            connection.flush()
        assert came == whole
        assert not connection.unsent


def received(connection: Any) -> None:
    """Take all that comes."""
    while not connection.receive():
        pass


def test_a_connection_that_ends_says_what_the_server_said_last() -> None:
    """Its SQLSTATE where there was one, else that of a broken connection."""
    for words, code in ((b"", "08006"), (of_postgres(b"E", b"C57P01\0\0"), "57P01")):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with closing(postgres(ours)) as connection:
            theirs.sendall(words)
            theirs.close()
            with pytest.raises(ConnectionGone) as ended:
                received(connection)
            assert ended.value.sqlstate == code


LARGE = 16_000_000


@pytest.mark.parametrize(
    ("rows", "make", "whole"),
    [
        (
            1,
            postgres,
            lambda: postgres_message.row([b"x" * 4 * LARGE])
            + of_postgres(b"C", b"SELECT 1\0") + IDLE,
        ),
        (
            4,
            mysql,
            lambda: of_mysql(1, b"\1") + of_mysql(2, COLUMN) + of_mysql(3, b"\xfe\0\0\2\0")
            + b"".join(of_mysql(4, b"x" * LARGE) for _ in range(4)) + of_mysql(8, b"\xfe\0\0\2\0"),
        ),
    ],
    ids=["postgres", "mysql"],
)  # fmt: skip
def test_a_large_row_costs_as_much_as_many_small_ones(
    rows: int,
    make: Callable[[socket.socket], PostgresConnection | MySQLConnection],
    whole: Callable[[], bytes],
) -> None:
    """What has come of it is not copied with each part that comes: that was 20 s of CPU."""
    answer = whole()
    ours, theirs = socket.socketpair()
    with theirs, ThreadPoolExecutor() as threads, closing(make(ours)) as connection:
        with at_once(make):
            sent = threads.submit(theirs.sendall, answer)
            while not connection.receive():
                select.select([ours], [], [], 1)
            sent.result(300)

        assert connection.rows == rows


@pytest.fixture
def files() -> Iterator[int]:
    """Return how many files this process may open, to be changed until the end of the test."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] <= BEYOND:
        pytest.skip(f"no more than {limits[1]} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def beyond(end: socket.socket) -> socket.socket:
    """Return a socket under a number that select(2) does not know."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, BEYOND))


def test_a_connection_of_any_number_says_what_the_server_said_last(files: int) -> None:
    """With thousands of sessions descriptors have numbers above 1023."""
    ours, theirs = socket.socketpair()
    ours = beyond(ours)
    ours.setblocking(False)
    with closing(postgres(ours)) as connection:
        theirs.sendall(of_postgres(b"E", b"C57P01\0\0"))
        theirs.close()
        with pytest.raises(ConnectionGone) as ended:
            connection.send(b"Q" * 100, extended=False, in_order=False)

    assert ended.value.sqlstate == "57P01"


def test_an_attempt_of_any_number_is_waited_for(files: int) -> None:
    """It is known when it can go on, and when it cannot for so long."""
    ours, theirs = socket.socketpair()
    with beyond(ours) as ours, theirs:
        attempt = SimpleNamespace(fileno=ours.fileno, events=select.EPOLLIN)
        assert not connection_pool.is_ready(attempt, 0.01)
        theirs.sendall(b"x")
        assert connection_pool.is_ready(attempt, 10)


def test_the_rest_of_a_failed_copy_goes_without_keeping_a_processor_busy() -> None:
    """It is sent as the server takes it; then nothing more is waited for but the server's words."""
    ours, theirs = socket.socketpair()
    pool = ConnectionPool.__new__(ConnectionPool)
    with ours, theirs, select.epoll() as pool.poll:
        ours.setblocking(False)
        theirs.setblocking(False)
        pool.poll.register(ours, select.EPOLLIN | select.EPOLLOUT)
        connection = PostgresConnection(Pg(ours), ours.close)
        connection.unsent = b"the rest"
        client: Any = SimpleNamespace(connection=connection)

        pool.read_interrupted(client)

        assert theirs.recv(100) == b"the rest"
        assert pool.poll.poll(0) == []


def test_a_process_may_have_all_connections_that_the_system_allows(files: int) -> None:
    """The usual 1024 are fewer than sessions of a capture."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, files))

    workers.allow_all_files()

    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == files


def test_a_connection_for_which_there_is_no_room_is_asked_for_later(files: int) -> None:
    """Where no file can be opened any more, that passes: it is not an end of a worker."""
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, files))

    with pytest.raises(Refused, match="Too many open files") as refused:
        MySQLConnectionAttempt("{}")

    assert refused.value.passing


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("setting", "ends"),
    [
        (b"default_transaction_read_only\0off\0", True),
        (b"standard_conforming_strings\0off\0", True),
        (b"default_transaction_read_only\0on\0", False),
        (b"search_path\0off\0", False),
    ],
)
def test_a_connection_that_could_write_is_gone_where_nothing_may_be(
    setting: bytes, *, ends: bool, read_only: bool
) -> None:
    """The server reports it with the answer, before the session's next statement."""
    whole = of_postgres(b"C", b"SELECT 1\0") + of_postgres(b"S", setting) + IDLE
    ours, theirs = socket.socketpair()
    with (
        theirs,
        closing(postgres(ours, read_only=read_only)) as connection,
    ):
        connection.send(b"", extended=False, in_order=False)
        theirs.sendall(whole)
        if ends and read_only:
            with pytest.raises(ConnectionGone, match="not read only"):
                connection.receive()
        else:
            assert connection.receive()


def made(attempt: Any) -> None:
    """Wait for the end of an attempt to connect."""
    while not attempt.go_on():
        select.select([attempt], [] if attempt.events == select.EPOLLIN else [attempt], [], 1)


def refused(*fields: str) -> Refused:
    """Return how libpq's connection ends where a server says these fields and hangs up."""
    body = b"".join(field.encode() + b"\0" for field in fields) + b"\0"
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:
        where = f"host=127.0.0.1 port={listening.getsockname()[1]}"
        attempt = libpq_attempt.PostgresConnectionAttempt(
            f"{where} user=x sslmode=disable gssencmode=disable"
        )
        ended = threads.submit(made, attempt)
        with listening.accept()[0] as server:
            server.recv(1 << 16)
            server.sendall(of_postgres(b"E", body))
        with pytest.raises(Refused) as caught:
            ended.result(300)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "passing"),
    [
        (("S致命错误", "VFATAL", "C53300", "M对不起, 已经有太多的客户"), True),
        (("SFATAL", "VFATAL", "C57P03", "Mdas Datenbanksystem startet"), True),
        (("SFATAL", "VFATAL", "C57P01", "Mの接続を終了しています"), True),
        (("SFATAL", "VFATAL", "C28P01", 'Mrole "too many slots" in recovery'), False),
        (("S致命错误", "VFATAL", "C3D000", 'M数据库 "x" 不存在'), False),
        (("SFATAL", "C08P01", "Mno more connections allowed (max_client_conn)"), True),
        (("SFATAL", "C08P01", "Mno such user"), False),
    ],
)
def test_a_refusal_is_known_by_its_sqlstate_in_any_language(
    fields: tuple[str, str, str, str] | tuple[str, str, str], *, passing: bool
) -> None:
    """Limits and a server that is not up pass; only a pooler's words count, as it has no codes."""
    refusal = refused(*fields)

    assert refusal.passing is passing
    assert fields[-1][1:] in str(refusal)
    assert fields[-2][1:] not in str(refusal)


def test_libpq_is_found_among_all_that_is_mapped() -> None:
    """Beside memory without a name, in a folder with a space, once for all its parts."""
    maps = """7f01-7f02 r--p 00000000 fd:01 66 /a b/psycopg_binary.libs/libpq-e9b5c9ac.so.5.18
7f02-7f03 r-xp 00001000 fd:01 66                /a b/psycopg_binary.libs/libpq-e9b5c9ac.so.5.18
7f03-7f04 rw-p 00000000 00:00 0
7f04-7f05 r--p 00000000 fd:01 67                /usr/lib/libpqxx/libc.so.6
"""
    assert set(libpq_attempt._LIBPQ.findall(maps)) == {
        "/a b/psycopg_binary.libs/libpq-e9b5c9ac.so.5.18"
    }


def test_a_refusal_is_known_by_its_words_where_libpq_is_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the SQLSTATE the English words are what there is."""
    monkeypatch.setattr(libpq_attempt, "_set_verbosity", lambda: None)

    assert refused("SFATAL", "C53300", "Msorry, too many clients already").passing
    assert not refused("SFATAL", "C28P01", "Mpassword authentication failed").passing


def test_a_server_that_says_nothing_may_be_there_later() -> None:
    """Nobody listens: that passes, and libpq's own words say it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    attempt = libpq_attempt.PostgresConnectionAttempt(f"host=127.0.0.1 port={port} user=x")

    with pytest.raises(Refused, match="refused") as caught:
        made(attempt)

    assert caught.value.passing


def test_statements_of_16_mebibytes_take_several_packets() -> None:
    """The last of them is shorter than the largest, also where that leaves it empty."""
    for length in (0, 100, 0xFFFFFF - 1, 0xFFFFFF, 2 * 0xFFFFFF + 5):
        sent = mysql_packet.encode_query("y" * length)
        place, body, number = 0, b"", 0
        while place < len(sent):
            head = int.from_bytes(sent[place : place + 4], "little")
            assert head >> 24 == number
            body += sent[place + 4 : place + 4 + (head & 0xFFFFFF)]
            place += 4 + (head & 0xFFFFFF)
            number += 1
        assert body == b"\x03" + b"y" * length
        assert (head & 0xFFFFFF) < 0xFFFFFF
