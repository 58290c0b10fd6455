"""Data for COPY FROM STDIN, which no log has: from files of the user's, and from nowhere else."""

import os
import resource
import select
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from replayer.capture.copies import SEVERAL, copied
from replayer.engines import driver
from replayer.engines.connection import Database
from replayer.engines.wires.postgres.postgres_connection import (
    EncryptedPostgresConnection,
    PostgresConnection,
)
from replayer.engines.wires.postgres.postgres_message import encode_query
from replayer.errors import Impossible
from replayer.model import Outcome
from replayer.run.context import Context
from replayer.servers.open import Server
from replayer.steps.replay import step
from replayer.steps.replay.copy_files import NO_DATA, NO_TABLE
from replayer.steps.replay.spec import Spec
from tests.captured import Capture
from tests.cpu_time import at_once
from tests.replaying import OWN, perform_replay, query, value
from tests.server_pool import ServerPool

DUMP = """
CREATE TABLE orders (id int PRIMARY KEY, note text);
CREATE SCHEMA "Odd.One"; CREATE TABLE "Odd.One"."a/b" (id int);
"""
Replayed = Callable[..., Outcome]


@pytest.fixture
def server(server_pool: ServerPool) -> Server:
    """Return the server that tests share."""
    return server_pool()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an empty folder that is the user's alone."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def replayed(context: Context, tmp_path: Path) -> Replayed:
    """Replay statements of one session, with a folder of data or none.

    Ten come in a second; an empty one is a pause, and one that failed in the log has its code.
    """

    def replay(folder: Path | None, *texts: str | tuple[str, str], **more: object) -> Outcome:
        capture = Capture().session(1)
        for number, given in enumerate(texts):
            text, code = (given, "") if isinstance(given, str) else given
            extended: dict[str, Any] = {"parameters": ()} if text.endswith("/* extended */") else {}
            if text:
                capture.runs(1, 0.1 * number, text, sqlstate=code, **extended)
        dump = tmp_path / "dump.sql"
        dump.write_text(DUMP)
        keys = {} if folder is None else {"copy_from": folder}
        file = capture.write(tmp_path / "a.replay", errors_logged=True)
        return perform_replay(context, file, restore=dump, **keys, **more)

    return replay


def errors(outcome: Outcome) -> dict[str, int]:
    """Return the errors of all statements."""
    return {state: many for one in outcome.replayed for state, many in one.errors.items()}


def test_each_copy_gets_the_data_of_its_table(
    server: Server, replayed: Replayed, folder: Path
) -> None:
    """By the number of the COPY, where there is a file for it; also megabytes of it."""
    many = "".join(f"{number}\t{'x' * 100}\n" for number in range(1000, 31_000))
    (folder / "public.orders.copy").write_text("1\tone\n2\t\\N\n")
    (folder / "public.orders.2.copy").write_text(many)
    (folder / "orders.3.copy").write_text("7,seven\n")
    (folder / "Odd%2EOne.a%2Fb.copy").write_text("5\n")
    outcome = replayed(
        folder,
        *("BEGIN", "COPY orders FROM STDIN", "COMMIT"),
        "COPY public.orders (id, note) FROM STDIN /* extended */",
        "copy orders from stdin with (format csv)",
        'COPY "Odd.One"."a/b" FROM STDIN /* extended */',
        "SELECT count(*) FROM orders",
    )
    assert errors(outcome) == {}
    state = query(server, "SELECT id, length(note) FROM orders ORDER BY id", database=OWN)
    assert state == [(1, 3), (2, None), (7, 5), *((n, 100) for n in range(1000, 31_000))]
    assert query(server, 'SELECT id FROM "Odd.One"."a/b"', database=OWN) == [(5,)]


def test_data_that_the_server_refuses_is_an_error_and_the_session_goes_on(
    server: Server, replayed: Replayed, folder: Path
) -> None:
    """Also where much of it is still on its way, in both protocols."""
    (folder / "orders.copy").write_text("no number\n" + "3\tthree\n" * 1_000_000)
    outcome = replayed(
        folder,
        "COPY orders FROM STDIN",
        "INSERT INTO orders VALUES (1, 'a')",
        "COPY orders FROM STDIN /* extended */",
        "INSERT INTO orders VALUES (2, 'b')",
    )
    assert sum(errors(outcome).values()) == 2
    assert outcome.facts["replay.sessions_lost"] == 0
    assert query(server, "SELECT id FROM orders ORDER BY id", database=OWN) == [(1,), (2,)]


def test_without_data_these_statements_are_left_out_and_counted(replayed: Replayed) -> None:
    """The others run."""
    outcome = replayed(None, "COPY orders FROM STDIN", "BEGIN; COPY orders FROM STDIN; COMMIT",
                       "SELECT 'COPY orders FROM STDIN'")  # fmt: skip
    assert errors(outcome) == {}
    assert f"2 statements were left out: {NO_DATA}" in outcome.notes
    assert outcome.facts["replay.planned"] == 1


def test_a_copy_that_failed_fails_without_data_too(server: Server, replayed: Replayed) -> None:
    """Left out, it would let its transaction commit what the source rolled back."""
    outcome = replayed(
        None,
        "BEGIN",
        "INSERT INTO orders VALUES (1, 'lost')",
        ("COPY orders FROM STDIN", "22P02"),
        "COMMIT",
        "INSERT INTO orders VALUES (2, 'kept')",
    )
    assert query(server, "SELECT id FROM orders", database=OWN) == [(2,)]
    assert errors(outcome) == {"22P02": 1}
    assert outcome.facts["replay.imposed"] == 1
    assert outcome.facts["replay.divergences.log"] == 0


def test_a_copy_among_other_statements_of_its_text_gets_its_data(
    server: Server, replayed: Replayed, folder: Path
) -> None:
    """In the one transaction that the text is; a text of two COPYs is left out, and why is told."""
    (folder / "orders.copy").write_text("1\tone\n")
    (folder / "other.copy").write_text("5\n")
    (folder / "README").write_text("of nobody")
    outcome = replayed(
        folder,
        "COPY orders FROM STDIN; INSERT INTO orders VALUES (2, 'two')",
        "BEGIN; COPY orders FROM STDIN; COMMIT",
        "ROLLBACK",
        "COPY orders FROM STDIN; COPY orders FROM STDIN",
    )
    assert errors(outcome) == {"23505": 1}
    assert query(server, "SELECT id FROM orders ORDER BY id", database=OWN) == [(1,), (2,)]
    assert f"1 statement was left out: {NO_TABLE}" in outcome.notes
    assert "copy_from: no COPY of the capture takes other.copy" in outcome.notes


@pytest.mark.slow
def test_what_is_left_of_a_failed_copy_is_sent_in_a_pause(
    server: Server, replayed: Replayed, folder: Path
) -> None:
    """While its session does nothing, and the process sleeps meanwhile."""
    (folder / "orders.copy").write_text("no number\n" + "3\tthree\n" * 1_000_000)
    outcome = replayed(
        folder, *("COPY orders FROM STDIN", *[""] * 29, "INSERT INTO orders VALUES (1, 'a')"),
        speed=1,
    )  # fmt: skip
    assert query(server, "SELECT id FROM orders", database=OWN) == [(1,)]
    assert value(outcome, "replay.client_cpu") < 0.1


Kind = type[PostgresConnection]


@contextmanager
def copying(server: Server, kind: Kind, feed: int) -> Iterator[PostgresConnection]:
    """Yield a connection whose server has just asked for the data of a COPY."""
    engine = server.engine
    with closing(Database(engine, server.start())) as database:
        plain = driver.connect(database.connector())
        with closing(kind(plain.pgconn, plain.close)) as session:
            plain.pgconn.exec_(b"CREATE TEMPORARY TABLE fed (id int, note text)")
            plain.pgconn.nonblocking = 1
            os.set_blocking(session.fd, False)
            session.feed = feed
            session.send(encode_query("COPY fed FROM STDIN"), extended=False, in_order=False)
            while session.unsent or not select.select([session], [], [], 60)[0]:
                session.flush()
            assert not session.receive()
            yield session


def answer(session: PostgresConnection) -> tuple[str, str]:
    """Send and receive until the answer is complete, and return its error."""
    while True:
        readable, writable, _ = select.select([session], [session] * bool(session.unsent), [], 60)
        assert readable or writable
        if writable:
            session.flush()
        if (readable or not session.unsent) and session.receive():
            return session.refusal()


KINDS = pytest.mark.parametrize("kind", [PostgresConnection, EncryptedPostgresConnection])


@KINDS
def test_data_that_cannot_be_read_is_an_error_of_the_copy(
    server: Server, kind: Kind, tmp_path: Path
) -> None:
    """By our own messages and by libpq; the session goes on."""
    with (
        (tmp_path / "written").open("wb") as unreadable,
        copying(server, kind, unreadable.fileno()) as session,
    ):
        code, words = answer(session)

    assert code == "57014"
    assert "the file with its data cannot be read" in words


@KINDS
def test_a_large_file_is_not_held_in_memory(server: Server, kind: Kind, tmp_path: Path) -> None:
    """Its next part is read once the server has taken the last one."""
    with (tmp_path / "large").open("wb+") as large:
        large.write(b"1\tone\n")
        large.truncate(400 << 20)
        before = resident()
        with copying(server, kind, large.fileno()) as session:
            assert resident() - before < 100 << 20
            assert answer(session)[0] == "22021"
        assert resident() - before < 100 << 20


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_each_of_very_many_copies_can_have_a_file(
    context: Context, folder: Path, tmp_path: Path
) -> None:
    """More than a process may have open, unless it asks for more."""
    capture = Capture().session(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(list(Path("/proc/self/fd").iterdir())) + 100
    for number in range(1, few + 1):
        capture.runs(1, 0.001 * number, "COPY orders FROM STDIN")
        (folder / f"orders.{number}.copy").write_text("")
    file = capture.write(tmp_path / "a.replay")
    spec = Spec.model_validate({"step": "replay", "file": str(file), "copy_from": str(folder)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        step.check(spec, context)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_missing_file_is_named_before_the_run(
    context: Context, folder: Path, tmp_path: Path
) -> None:
    """As the check of a dry run says it."""
    capture = Capture().session(1).runs(1, 0.1, "COPY a.b FROM STDIN")
    capture.runs(1, 0.2, "COPY orders FROM STDIN").runs(1, 0.3, "COPY orders FROM STDIN")
    file = capture.write(tmp_path / "a.replay")
    (folder / "orders.2.copy").write_text("")
    spec = Spec.model_validate({"step": "replay", "file": str(file), "copy_from": str(folder)})
    with pytest.raises(Impossible, match=r"it has no .*a\.b\.copy") as told:
        step.check(spec, context)
    assert "orders.copy" in str(told.value)
    (folder / "orders.copy").write_text("")
    (folder / "b.copy").write_text("")
    step.check(spec, context)
    with pytest.raises(Impossible, match="No such file"):
        step.check(spec.model_copy(update={"copy_from": str(folder / "none")}), context)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_plain_files_of_the_folder_are_read(
    context: Context, folder: Path, tmp_path: Path, kind: str
) -> None:
    """No link out of it, nothing that waits."""
    file = Capture().session(1).runs(1, 0.1, "COPY orders FROM STDIN").write(tmp_path / "a.replay")
    place = folder / "orders.copy"
    if kind == "link":
        place.symlink_to("/etc/shadow")
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    spec = Spec.model_validate({"step": "replay", "file": str(file), "copy_from": str(folder)})
    with pytest.raises(Impossible, match=r"orders\.copy"):
        step.check(spec, context)


@pytest.mark.root
def test_root_sends_nothing_that_another_user_could_plant(
    context: Context, folder: Path, tmp_path: Path
) -> None:
    """Neither a file of that user's, nor one in a folder in which that user can write."""
    file = Capture().session(1).runs(1, 0.1, "COPY orders FROM STDIN").write(tmp_path / "a.replay")
    spec = Spec.model_validate({"step": "replay", "file": str(file), "copy_from": str(folder)})
    place = folder / "orders.copy"
    place.write_text("1\tone\n")
    step.check(spec, context)
    os.chown(place, 65534, 65534)
    with pytest.raises(Impossible, match="not root's alone"):
        step.check(spec, context)
    os.chown(place, 0, 0)
    folder.chmod(0o777)
    with pytest.raises(Impossible, match="can be written by others"):
        step.check(spec, context)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("COPY t FROM STDIN", "t"),
        ('/* a */ copy Public.T (a, "b)") FROM stdin WITH CSV', "public.t"),
        ('COPY "../../etc".passwd FROM STDIN', "%2E%2E%2F%2E%2E%2Fetc.passwd"),
        ('COPY "a""b\n%" FROM STDIN', 'a"b%0A%25'),
        ("COPY t FROM '/stdin'", None),
        ("SELECT 'COPY t FROM STDIN'", None),
        ("COPY (SELECT 1) TO STDOUT", None),
        ("COPY t FROM StdIn", "t"),
        ("COPY t FROM /* here */ STDIN -- it is", "t"),
        ("COPY BINARY t FROM STDIN", "t"),
        ("COPY binary FROM STDIN", "binary"),
        ('COPY shop."S.x"."T;y" FROM STDIN', "S%2Ex.T;y"),
        ("COPY TÜR FROM STDIN", "tÜr"),
        ("BEGIN; COPY t FROM STDIN; COMMIT", "t"),
        ("COPY t FROM STDIN WHERE a <> 'copy u from stdin'", "t"),
        ("COPY t FROM STDIN; COPY u FROM STDIN", SEVERAL),
        ('BEGIN; COPY U&"t" FROM STDIN', SEVERAL),
    ],
)
def test_the_table_of_a_copy_is_known(text: str, table: str | None) -> None:
    """As the name of a file, which is never a path."""
    assert copied(text) == table


@pytest.mark.parametrize(
    "text",
    [
        f"copy t from {'/**/' * 28} stdin_",
        "copy " * 20_000 + "stdin",
        f"copy t ({'(' * 20_000} from stdin",
        "/* " * 20_000 + "copy t from stdin",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    """A log has what clients wrote, who may be hostile: a few comments took minutes."""
    with at_once(text[:40]):
        copied(text)
