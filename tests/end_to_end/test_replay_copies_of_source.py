"""What a real server logged of COPY FROM STDIN, replayed: the tables end as they did there."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from replayer.capture.archive import ArchiveReader
from replayer.capture.copies import copied
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.steps.replay.copy_files import NO_DATA
from tests.command import Replayer
from tests.logged import Logged, Source, logging_server
from tests.replaying import OWN, Rows, perform_replay, query, value
from tests.server_pool import ServerPool
from tests.slow_case import slow

TEMPLATE = "copy_source"
PATIENT = "10m"
"""A limit that a busy machine does not reach; what hangs does."""
TABLES = (
    "CREATE TABLE cell (id int PRIMARY KEY, v bigint)",
    "INSERT INTO cell SELECT n, n FROM generate_series(1, 60) AS n",
    "CREATE TABLE keyed (id int PRIMARY KEY, v bigint, note text)",
    "CREATE TABLE plain (id int, v bigint, \"From\" text DEFAULT 'nowhere')",
    'CREATE SCHEMA "Odd.One"',
    'CREATE TABLE "Odd.One"."T/x" (id int, v bigint)',
    "CREATE TABLE parts (id int, v bigint) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (1000000)",
    "CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (1000000) TO (MAXVALUE)",
    "CREATE TABLE frozen (id int, v bigint)",
)
STATE = """
SELECT name, id, v, note FROM (
    SELECT 'cell', id, v, '' FROM cell UNION ALL SELECT 'keyed', id, v, note FROM keyed
    UNION ALL SELECT 'plain', id, v, "From" FROM plain
    UNION ALL SELECT 'odd', id, v, '' FROM "Odd.One"."T/x"
    UNION ALL SELECT tableoid::regclass::text, id, v, '' FROM parts
    UNION ALL SELECT 'frozen', id, v, '' FROM frozen
) AS each (name, id, v, note) ORDER BY name, id, v, note
"""
LAST = "SELECT 'the last of the capture'"
SETTINGS = "fsync = off\nmax_connections = 100\ndeadlock_timeout = '100ms'\n"
Session = psycopg.Connection


class CopySource(Source):
    """A server that is captured, and the data that its clients sent."""

    def __init__(self, logged: Logged) -> None:
        super().__init__(logged)
        self._numbers = count(1)
        self.keys = count(1)
        self.sent: dict[str, bytes] = {}
        """A comment in the text of a COPY -> its data."""

    def copy(
        self,
        session: Session,
        text: str,
        data: bytes,
        then: Callable[[], object] = int,
    ) -> None:
        """Send data to a COPY; `then` is called before the end of the data."""
        mark = f"/* copy {next(self._numbers)} */"
        self.sent[mark] = data
        with session.cursor() as cursor, cursor.copy(f"{text} {mark}") as copying:
            copying.write(data)
            then()

    def write_files(self, path: Path, folder: Path) -> None:
        """Write the data of each COPY of a capture into a folder, as the key copy_from takes it."""
        counts: Counter[str] = Counter()
        with ArchiveReader(path) as capture:
            for block in capture.blocks():
                for row in range(len(block)):
                    statement = block.statement(row)
                    table = None if statement is None else copied(statement.text)
                    if statement is not None and table is not None:
                        table = table.removeprefix("public.")
                        counts[table] += 1
                        mark = statement.text[statement.text.rindex("/* copy") :]
                        (folder / f"{table}.{counts[table]}.copy").write_bytes(self.sent[mark])


class Captured:
    """A capture, the data of its COPYs, and what its source ended with."""

    def __init__(
        self,
        folder: Path,
        work: Callable[[CopySource], object],
        settings: str = "",
        bindir: Path | None = None,
    ) -> None:
        with logging_server(SETTINGS + settings, bindir) as logged:
            logged.run("createdb", "bench")
            logged.run("psql", "-q", "-c", ";".join(TABLES), "bench")
            logged.forget()
            source = CopySource(logged)
            work(source)
            with source.connect() as own:
                self.rows: Rows = own.execute(STATE).fetchall()
                own.execute(LAST)
            logged.wait_for(LAST)
            self.path = folder / "copies.replay"
            self.log = logged.log.read_text()
            Replayer(folder)("convert", logged.log, "--out", self.path)
        self.data = folder / "data"
        self.data.mkdir(mode=0o700)
        source.write_files(self.path, self.data)


def lines(source: CopySource, many: int, *, by: int = 1, base: int = 0, sep: str = "\t") -> bytes:
    """Return rows with new keys."""
    return b"".join(f"{base + next(source.keys)}{sep}{by}\n".encode() for _ in range(many))


def change(session: Session, cell: int, by: int = 1) -> None:
    """Change a row so that the order of changes can be told from what it becomes."""
    session.execute(f"UPDATE cell SET v = (v * 3 + {by}) % 1000003 WHERE id = {cell}")


def binary(source: CopySource, many: int) -> bytes:
    """Return rows in the server's own format."""
    first = next(source.keys)
    for _ in range(many):
        next(source.keys)
    with source.connect("-c log_min_duration_statement=-1") as own, own.cursor() as cursor:
        text = f"COPY (SELECT n::int, 9::bigint FROM generate_series({first}, {first + many}) AS n)"
        with cursor.copy(f"{text} TO STDOUT (FORMAT binary)") as copying:
            return b"".join(bytes(part) for part in copying)


def well(source: CopySource, session: Session, draw: random.Random) -> None:
    """Copy rows in one of the forms that there are, alone."""
    many = draw.randrange(1, 40)
    texts: list[tuple[str, Callable[[], bytes]]] = [
        ("COPY keyed (id, v) FROM STDIN", lambda: lines(source, many)),
        ("COPY plain FROM STDIN WITH (FORMAT csv, HEADER, FORCE_NULL (v), DELIMITER ';')",
         lambda: b"id;v;From\n" + b"".join(b"%d;1;x\n" % next(source.keys) for _ in range(many))),
        ('copy public.plain(id, v, "From") from stdin csv quote \'"\' null \'NA\' where id % 2 = 0',
         lambda: b"".join(b'%d,NA,"a,""b"\n' % next(source.keys) for _ in range(many))),
        ("COPY plain (id, v) FROM STDIN WITH (FORMAT binary)", lambda: binary(source, many)),
        ("COPY BINARY keyed (id, v) FROM STDIN", lambda: binary(source, many)),
        ('COPY "Odd.One"."T/x" FROM STDIN', lambda: lines(source, many)),
        ("COPY parts FROM STDIN", lambda: lines(source, many, base=draw.choice((0, 1_000_000)))),
        ("COPY parts_high FROM Stdin WHERE v > 0", lambda: lines(source, many, base=1_000_000)),
        ("COPY public.keyed (id, v) FROM /* a comment */ STDIN",
         lambda: lines(source, many)),
    ]  # fmt: skip
    text, make = draw.choice(texts)
    source.copy(session, text, make())


def kept(source: CopySource, session: Session, draw: random.Random) -> None:
    """Copy in a transaction that changes rows of others' as well."""
    session.execute("BEGIN")
    change(session, draw.randrange(1, 11))
    well(source, session, draw)
    change(session, draw.randrange(11, 21))
    session.execute(draw.choice(("COMMIT", "ROLLBACK", "END")))


def frozen(source: CopySource, session: Session, draw: random.Random) -> None:
    """Copy with FREEZE into a table that the transaction emptied."""
    session.execute("BEGIN")
    session.execute("TRUNCATE frozen")
    source.copy(session, "COPY frozen FROM STDIN WITH (FREEZE)", lines(source, 5))
    session.execute("COMMIT")


def failing(source: CopySource, session: Session, draw: random.Random) -> None:
    """Have a COPY fail by its data, in a transaction or in a savepoint of it."""
    data = lines(source, 5) + draw.choice((b"no number\t1\n", b"1\t2\t3\t4\n", b"\\N\t1\n"))
    saved = draw.random() < 0.5
    session.execute("BEGIN")
    change(session, draw.randrange(21, 31))
    if saved:
        session.execute("SAVEPOINT a")
    with suppress(psycopg.Error):
        source.copy(session, "COPY keyed (id, v) FROM STDIN", data)
    if saved:
        session.execute("ROLLBACK TO SAVEPOINT a")
    session.execute("COMMIT")
    change(session, draw.randrange(21, 31), 5)


def twice(source: CopySource, session: Session, draw: random.Random) -> None:
    """Have a COPY meet a key that is there."""
    data = lines(source, 3)
    source.copy(session, "COPY keyed (id, v) FROM STDIN", data)
    with suppress(psycopg.Error):
        source.copy(session, "COPY keyed (id, v) FROM STDIN", lines(source, 2) + data)


def cancelled(source: CopySource, session: Session, draw: random.Random) -> None:
    """Have a COPY cancelled while its data is on its way: by an operator, or by its client."""
    session.execute("BEGIN")
    change(session, draw.randrange(31, 41))
    with suppress(psycopg.Error, ZeroDivisionError):
        then = draw.choice((session.cancel_safe, lambda: 1 // 0))
        source.copy(session, "COPY plain (id, v) FROM STDIN", lines(source, 3), then)
    session.execute(draw.choice(("COMMIT", "ROLLBACK")))
    change(session, draw.randrange(31, 41), 7)


def killed(source: CopySource, session: Session, draw: random.Random) -> None:
    """Have another session end in the middle of its COPY: killed, or with its client."""
    with suppress(psycopg.Error, OSError), source.connect() as other:
        if draw.random() < 0.5:
            other.execute("BEGIN")
            change(other, draw.randrange(41, 51))

        def end() -> None:
            if draw.random() < 0.5:
                source.ask(f"SELECT pg_terminate_backend({other.info.backend_pid})")
            else:
                other.pgconn.finish()

        source.copy(other, "COPY keyed (id, v) FROM STDIN", lines(source, 4), end)
    change(session, draw.randrange(41, 51), 3)


def in_two_orders(source: CopySource, first: Session, second: Session, draw: random.Random) -> None:
    """Have two COPYs wait for a row of each other, or a COPY and an UPDATE: one of them loses."""
    key, other = next(source.keys), next(source.keys)
    cell = draw.randrange(51, 61)
    updates = draw.random() < 0.5

    def insert(session: Session, key: int) -> None:
        source.copy(session, "COPY keyed (id, v) FROM STDIN", b"%d\t1\n" % key)

    def end(session: Session, last: Callable[[], object]) -> None:
        try:
            last()
        except psycopg.Error:
            session.execute("ROLLBACK")
        else:
            session.execute("COMMIT")

    first.execute("BEGIN")
    second.execute("BEGIN")
    change(first, cell) if updates else insert(first, key)
    insert(second, other)
    waiting = threading.Thread(target=end, args=(first, partial(insert, first, other)))
    waiting.start()
    source.wait_for(first)
    end(second, partial(change, second, cell) if updates else partial(insert, second, key))
    waiting.join()


def deadlocks(source: CopySource) -> None:
    """Have two sessions meet again and again, next to others that copy."""
    draw = random.Random(1)

    def meet() -> None:
        with source.connect() as first, source.connect() as second:
            for _ in range(6):
                in_two_orders(source, first, second, draw)

    meeting = threading.Thread(target=meet)
    meeting.start()
    crowd(source, sessions=3, each=6, seed=2)
    meeting.join()


DOINGS = (well, well, kept, kept, frozen, failing, twice, cancelled, killed)


def crowd(source: CopySource, sessions: int, each: int, seed: int = 1) -> None:
    """Have many sessions copy into the same tables."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        draw = random.Random(f"{seed}:{number}")
        try:
            with source.connect() as session:
                for _ in range(each):
                    time.sleep(draw.random() * 0.03)
                    draw.choice(DOINGS)(source, session, draw)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.fixture(params=["newest", slow("Debian's")])
def bindir(request: pytest.FixtureRequest) -> Path | None:
    """Return the folder of a server's programs, None for the newest."""
    if request.param == "newest":
        return None
    folder: Path = request.getfixturevalue("postgres15")
    return folder


@pytest.fixture
def server(server_pool: ServerPool, bindir: Path | None) -> Server:
    """Return a server that does not wait for the disk where databases are made and removed."""
    return server_pool(bindir=bindir, settings={"fsync": "off", "max_connections": "100"})


Again = Callable[..., tuple[Rows, Outcome]]


@pytest.fixture
def again(context: Context, server: Server) -> Iterator[Again]:
    """Return a function that replays a capture, and returns what rows it left and what it found."""
    query(server, f"DROP DATABASE IF EXISTS {TEMPLATE}", f"CREATE DATABASE {TEMPLATE}")
    query(server, *TABLES, database=TEMPLATE)

    def replay(captured: Captured, **keys: object) -> tuple[Rows, Outcome]:
        more: dict[str, Any] = {"restore": TEMPLATE, "order_timeout": PATIENT}
        more |= {"copy_from": captured.data, **keys}
        outcome = perform_replay(context, captured.path, **more)
        return query(server, STATE, database=OWN), outcome

    yield replay
    query(
        server,
        f"DROP DATABASE IF EXISTS {OWN} WITH (FORCE)",
        "DELETE FROM replayer_owned WHERE kind = 'database'",
        f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)",
    )


def different(rows: Rows, captured: Captured) -> dict[str, tuple[Rows, Rows]]:
    """Return, by table, the rows that only the replay has, and those that only the source has."""
    here, there = Counter(rows), Counter(captured.rows)
    tables = {str(row[0]) for row in (here - there) + (there - here)}
    return {
        table: (
            [row for row in (here - there) if row[0] == table],
            [row for row in (there - here) if row[0] == table],
        )
        for table in tables
    }


def check(again: Again, captured: Captured, speed: float) -> None:
    """Replay in the order of commits: to the state of the source, and each failure in its place."""
    rows, outcome = again(captured, order="commit", speed=speed)
    told = f"{outcome.tables.get('divergences', ())} {outcome.notes}"
    assert different(rows, captured) == {}, told
    assert outcome.facts["replay.divergences.log"] == 0, told
    assert outcome.facts["replay.order_timeouts"] == 0
    assert value(outcome, "replay.ran") == 100


@pytest.mark.slow
@pytest.mark.parametrize("speed", [0, 1])
def test_a_crowd_of_copies_ends_as_it_did(
    again: Again, tmp_path: Path, bindir: Path | None, speed: float
) -> None:
    """In all forms, kept and rolled back, failing, cancelled, and with their sessions killed."""
    check(again, Captured(tmp_path, partial(crowd, sessions=8, each=12), bindir=bindir), speed)


def test_the_victims_among_copies_are_those_of_the_source(
    again: Again, tmp_path: Path, bindir: Path | None
) -> None:
    """Two COPYs that wait for keys of each other, and a COPY and an UPDATE."""
    captured = Captured(tmp_path, deadlocks, bindir=bindir)

    assert captured.log.count("ERROR,40P01") == 6
    check(again, captured, 0)


@pytest.mark.slow
def test_without_an_order_what_ends_otherwise_is_told(
    again: Again, tmp_path: Path, bindir: Path | None
) -> None:
    """What failed here and not there, or there and not here, with the time and the session."""
    captured = Captured(tmp_path, deadlocks, bindir=bindir)
    rows, outcome = again(captured, speed=0)

    told = outcome.tables.get("divergences", ())
    assert not different(rows, captured) or told
    assert all(row["session"] is not None and row["first_s"] is not None for row in told)


@pytest.mark.slow
def test_without_data_the_rest_ends_as_it_did(
    again: Again, tmp_path: Path, bindir: Path | None
) -> None:
    """Each COPY that succeeded is counted as left out; one that failed takes its transaction."""
    captured = Captured(tmp_path, partial(crowd, sessions=4, each=8), bindir=bindir)
    rows, outcome = again(captured, order="commit", speed=0, copy_from="")

    assert "cell" not in different(rows, captured)
    assert {row[0] for row in rows} == {"cell"}
    assert any(NO_DATA in note for note in outcome.notes)
