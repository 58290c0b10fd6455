"""MariaDB, started by replayer as PostgreSQL is: the same rows, pages, proofs and counts."""

import contextlib
import dataclasses
import json
import os
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from replayer import shell
from replayer.engines import driver, wires
from replayer.engines import engine as engines
from replayer.engines.connection import Database, connector_of
from replayer.engines.verbs import VerbName
from replayer.engines.wire_session import Refused
from replayer.engines.wires.mysql.threaded_attempt import MySQLConnectionAttempt
from replayer.errors import Impossible, ReplayerError
from replayer.load import dataset
from replayer.load.level import LevelRequest, measure_level
from replayer.load.mix import WeightedMix
from replayer.model import ReadOrigin, Temperature
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.servers.private import PrivateServer
from replayer.servers.protocol import Server
from replayer.steps.build import doubling
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.flush import step as flush
from replayer.steps.scan import step as scan
from replayer.steps.sessions import preparation as sessions_preparation
from replayer.steps.sessions import step as sessions
from replayer.steps.sessions.spec import Spec as SessionsSpec
from replayer.steps.walk import step as walk
from replayer.steps.walk.spec import Spec as WalkSpec
from replayer.tables import persons, pgio
from replayer.tables.pgio import TableSet
from tests.expected_rows import expected_rows
from tests.hooked import hooked
from tests.known import known
from tests.performed import performed
from tests.repeated import repeat_until
from tests.server_pool import ServerPool
from tests.slow_case import slow
from tests.waiting import wait_until

# PyMySQL leaves the socket of a refused connection to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

DOUBLINGS = 8
ROWS = 6 << DOUBLINGS
SEGMENTS = 4
SEGMENT_ROWS = ROWS // SEGMENTS
CATALOGUE = 3
PAGE = 16384


def build_of(**keys: object) -> BuildSpec:
    """Return a small build; every key can be set."""
    small = {"rows": ROWS, "segment_rows": SEGMENT_ROWS, "sessions": 2}
    return BuildSpec.model_validate({"step": "build", "name": "build", **small, **keys})


def walk_of(**keys: object) -> WalkSpec:
    """Return a walk of few threads; every key can be set."""
    return WalkSpec.model_validate({"step": "walk", "threads": 4, **keys})


def sessions_of(**keys: object) -> SessionsSpec:
    """Return small sessions; every key can be set."""
    small = {"num_schemas": 2, "num_threads": 1, "scale": 600, "work_unit": 16, "run_time": "1s"}
    return SessionsSpec.model_validate({"step": "sessions", "name": "sessions", **small, **keys})


def stored(database: Database) -> list[tuple[int, str]]:
    """Return the ids and last names that the table gives, sorted."""
    rows = database.query("SELECT id, lastname FROM persons1")
    return sorted((row["id"], row["lastname"]) for row in rows)


@pytest.fixture(scope="module")
def mariadb(server_pool: ServerPool, mariadbd: Path) -> Iterator[Server]:
    """Return the private MariaDB; at the end nothing of these tests is left on it."""
    server = server_pool("mariadb", bindir=mariadbd.parent)
    yield server
    with contextlib.closing(Database(server.engine, server.start())) as database:
        remove(database)
        pgio.drop(database)


@pytest.fixture
def server(mariadb: Server) -> Server:
    """Return it, running with its base settings."""
    mariadb.start()
    return mariadb


def remove(database: Database) -> None:
    """Remove the table if it is there."""
    found = persons.state(database)
    if found is not None:
        persons.drop(database, found.shape.layout)


# The table


@pytest.mark.parametrize("parallel", [1, 4])
def test_rows_are_those_of_plain_python(
    context: Context, database: Database, parallel: int
) -> None:
    """For 1 and 4 sessions the rows are the same, as on PostgreSQL, each doubling with its time."""
    outcome = performed(build, build_of(sessions=parallel, segment_rows=ROWS // 8), context)

    assert stored(database) == sorted(expected_rows(DOUBLINGS))
    times = database.query("SELECT `time`, COUNT(*) AS n FROM persons1 GROUP BY 1 ORDER BY 1")
    assert [row["n"] for row in times] == [6] + [6 << number for number in range(DOUBLINGS)]
    assert outcome.facts["layout"] == "rowstore"
    assert outcome.facts["segments"] == 8


def test_columns_have_the_types_of_the_table(context: Context, database: Database) -> None:
    """persons1 is (id bigint, lastname varchar(255), time timestamp)."""
    performed(build, build_of(rebuild=False), context)
    found = database.query(
        "SELECT column_name AS name, data_type AS type, character_maximum_length AS length "
        "FROM information_schema.columns "
        "WHERE table_schema = 'replayer' AND table_name = 'persons1' ORDER BY ordinal_position"
    )

    assert [tuple(row.values()) for row in found] == [
        ("id", "bigint", None),
        ("lastname", "varchar", 255),
        ("time", "timestamp", None),
    ]


def test_free_space_that_tables_share_is_not_of_each(context: Context, database: Database) -> None:
    """In a shared tablespace a table takes what its rows take, as in a file of its own."""
    performed(build, build_of(), context)
    own = persons.bytes_(database)
    database.query("SET GLOBAL innodb_file_per_table = OFF")
    try:
        performed(build, build_of(), context)
        shared = persons.bytes_(database)
    finally:
        database.query("SET GLOBAL innodb_file_per_table = ON")

    assert 0 < shared <= own


@pytest.mark.slow
def test_half_made_doubling_is_not_seen_and_the_build_goes_on(
    context: Context, database: Database
) -> None:
    """Whatever was done of a doubling before its last statement, the view shows the one before."""
    performed(build, build_of(rows=ROWS // 2), context)
    before = stored(database)
    database.query("UPDATE persons1_build SET rows_wanted = :n", {"n": ROWS})
    number = {"doubling": DOUBLINGS}
    database.execute(VerbName("table/begin"), number)
    work = doubling.tasks(doubling.Doubling(DOUBLINGS, ROWS // 2), SEGMENT_ROWS)
    for task in work:
        database.execute(VerbName("rowstore/double"), task._asdict())
    database.execute(VerbName("rowstore/publish"), number)

    assert stored(database) == before == sorted(expected_rows(DOUBLINGS - 1))
    with pytest.raises(Impossible, match="was interrupted at 768 of 1,536 rows"):
        persons.needs(database)
    outcome = performed(build, build_of(), context)
    assert stored(database) == sorted(expected_rows(DOUBLINGS))
    assert any(f"went on after doubling {DOUBLINGS - 1}" in note for note in outcome.notes)


@pytest.mark.slow
def test_segment_without_its_table_and_a_catalogue_without_an_end(
    context: Context, database: Database
) -> None:
    """DDL commits by itself: what a kill leaves between two statements, the next build clears."""
    performed(build, build_of(rows=ROWS // 2), context)
    database.query("UPDATE persons1_build SET rows_wanted = :n", {"n": ROWS})
    left = f"({SEGMENTS // 2 + 1}, {DOUBLINGS}, 0, {SEGMENT_ROWS})"
    database.query(f"INSERT INTO persons1_segments VALUES {left}")
    performed(build, build_of(), context)
    assert stored(database) == sorted(expected_rows(DOUBLINGS))

    persons.drop(database, "rowstore")
    database.query(
        "INSERT INTO replayer_owned (name, kind, made_by) VALUES ('persons1', 'table', '')"
    )
    database.query("CREATE TABLE persons1_doublings (half int)")
    performed(build, build_of(), context)
    assert stored(database) == sorted(expected_rows(DOUBLINGS))


@pytest.mark.slow
def test_killed_server_loses_no_whole_doubling(context: Context, server: Server) -> None:
    """After kill -9 of the server the next build goes on, and the rows are the right ones."""
    rows = 6 << 14
    main = server.pids()[0]

    def kill() -> None:
        with contextlib.closing(Database(server.engine, server.start())) as own:
            while True:
                with contextlib.suppress(ReplayerError):
                    (row,) = own.query(
                        "SELECT COUNT(*) AS n FROM persons1_doublings WHERE `rows` IS NOT NULL"
                    )
                    if row["n"] >= 11:
                        os.kill(main, signal.SIGKILL)
                        return
                time.sleep(0.002)

    killer = threading.Thread(target=kill)
    with contextlib.closing(Database(server.engine, server.start())) as own:
        remove(own)
    killer.start()
    with pytest.raises(ReplayerError):
        performed(build, build_of(rows=rows), context)
    killer.join()
    outcome = performed(build, build_of(rows=rows), context)

    assert any("an interrupted build went on" in note for note in outcome.notes)
    with contextlib.closing(Database(server.engine, server.start())) as own:
        assert stored(own) == sorted(expected_rows(14))


def test_foreign_table_is_refused_and_kept(context: Context, database: Database) -> None:
    """A table of one of the names that replayer did not make is never touched."""
    remove(database)
    database.query("CREATE TABLE persons1_x (precious int)")
    try:
        with pytest.raises(Impossible, match="persons1_x is there and was not made by replayer"):
            performed(build, build_of(), context)
        assert database.query("SELECT COUNT(*) AS n FROM persons1_x") == [{"n": 0}]
    finally:
        database.query("DROP TABLE persons1_x")


# Flush, walk, scan


def test_flush_proves_that_nothing_is_dirty(context: Context, database: Database) -> None:
    """Afterwards no page of the table is dirty, in the buffer pool or in the page cache."""
    performed(build, build_of(), context)
    outcome = performed(flush, flush.Spec(step="flush"), context)

    assert outcome.facts["proven"] is True
    assert outcome.facts["files"] == SEGMENTS + CATALOGUE
    # Of the table: the server's own housekeeping writes to its dictionary at any time.
    (row,) = database.query(
        "SELECT COUNT(*) AS pages, SUM(oldest_modification > 0) AS dirty "
        "FROM information_schema.innodb_buffer_page WHERE table_name LIKE '`replayer`.%'"
    )
    assert row["pages"] > SEGMENTS
    assert row["dirty"] == 0


def test_what_is_written_while_the_table_is_flushed_is_flushed_as_well(
    context: Context, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """InnoDB lets a single dirty page lie; another flush takes it, and its time is nobody's."""
    performed(build, build_of(), context)
    # It would wait ten seconds for what lies; what InnoDB's housekeeping writes meanwhile lies too.
    monkeypatch.setattr("replayer.tables.unwritten._TRIES", 2)
    monkeypatch.setattr("replayer.tables.unwritten._AGAIN", 100)
    synced: list[list[Path] | None] = []

    def sync(files: list[Path] | None) -> None:
        if not synced:
            database.query("CREATE OR REPLACE TABLE meanwhile AS SELECT 1 AS i")
        synced.append(files)

    monkeypatch.setattr("replayer.tables.unwritten.sync", sync)
    outcome = performed(flush, flush.Spec(step="flush"), context)
    database.query("DROP TABLE meanwhile")

    assert outcome.facts["proven"] is True
    again = len(synced) - 1
    assert again > 0
    said = "flushed once more" if again == 1 else f"flushed {again} times more"
    assert outcome.notes[-1].startswith(said)


def test_flush_without_the_checkpoint_statement(context: Context, database: Database) -> None:
    """A server without innodb_log_checkpoint_now writes all pages, and gets its setting back."""
    performed(build, build_of(), context)
    asked = "SELECT @@GLOBAL.innodb_max_dirty_pages_pct AS pct"
    before = database.query(asked)

    def flushed() -> bool:
        for statement in database.engine.needs(VerbName("flush")).statements():
            database.query(statement.replace("INNODB_LOG_CHECKPOINT_NOW", "NO_SUCH_VARIABLE"))
        return database.execute(VerbName("dirty"))[0].number("dirty") == 0

    wait_until(flushed)  # what the server purges meanwhile makes pages dirty again
    assert database.query(asked) == before


def test_walk_is_cold_with_the_server_stopped(context: Context) -> None:
    """Every file of the table is read while no server holds any of it."""
    performed(build, build_of(rebuild=False), context)
    outcome = performed(walk, walk_of(), context)
    values = {one.metric: one.value for one in outcome.measurements}

    assert values["walk.files"] == SEGMENTS + CATALOGUE
    assert "server stopped" in known(outcome.cold).method
    assert known(outcome.cold).resident_bytes == 0 or known(outcome.cold).why


def test_space_that_innodb_has_only_reserved_is_not_waited_for(context: Context) -> None:
    """InnoDB extends its files ahead of the rows: what was never written comes from no disk."""
    performed(build, build_of(rows=6 << 14, segment_rows=6 << 13), context)
    walked = performed(walk, walk_of(), context)
    cold = known(walked.cold)

    assert cold.got is Temperature.COLD, cold.why
    assert 0.95 * known(cold.stored_bytes) <= known(cold.own_bytes) < 0.95 * known(cold.file_bytes)
    assert known(cold.stored_bytes) == known(cold.data_bytes) < known(cold.file_bytes)


@pytest.mark.slow
def test_scan_reads_all_and_counts_right(context: Context) -> None:
    """Average and counts are those of the rows, and a restart does not fill the buffer pool."""
    performed(build, build_of(rebuild=False), context)
    outcome = repeat_until(
        lambda: performed(scan, scan.Spec(step="scan"), context),
        lambda outcome: all(map(told, outcome.tables["statements"])),
    )
    average, count = outcome.tables["statements"]
    ids = [id_ for id_, _ in expected_rows(DOUBLINGS)]

    assert float(average["result"]) == pytest.approx(sum(ids) / len(ids), abs=1e-4)
    assert int(count["result"]) == ROWS
    assert known(outcome.cold).got is Temperature.COLD or known(outcome.cold).why
    assert all(map(told, (average, count)))


def told(row: Mapping[str, Any]) -> bool:
    """Tell whether a statement read a page of each segment.

    A server that starts may have read some by itself, which is told.
    """
    return bool(row["file_bytes"] >= SEGMENTS * PAGE or row["cold"] == "lukewarm")


@pytest.mark.slow
def test_what_the_server_has_in_its_own_buffers_is_told(
    context: Context, read_before_the_clock: Callable[[str], None]
) -> None:
    """Also where InnoDB went around the page cache, in which nothing of it is to be seen."""
    performed(build, build_of(rebuild=False), context)
    read_before_the_clock("SELECT SUM(id) FROM persons1")
    outcome = performed(scan, scan.Spec(step="scan"), context)

    assert known(outcome.cold).got is Temperature.LUKEWARM
    assert "of the table was in the server's own buffers" in known(outcome.cold).why


# Sessions


def test_one_row_on_every_leaf_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages = rows, over all chunks of the load; every key once, in no physical order."""
    monkeypatch.setattr(pgio, "_CHUNK_ROWS", 300)
    rows = 1000
    pgio.drop(database)
    wanted = TableSet(tables=1, rows=rows, seed=3)
    assert sum(pgio.load(database, wanted, 1, "test")) == rows
    (found,) = pgio.layout(database, wanted.names)

    assert found.rows == found.blocks == rows
    assert found.indexed
    assert not found.flaw(rows)
    keys = [row["mykey"] for row in database.query("SELECT mykey FROM pgio1 ORDER BY id")]
    assert sorted(keys) == list(range(1, rows + 1))
    pgio.drop(database)


def test_rows_of_a_plain_load_share_pages_and_are_found_out(database: Database) -> None:
    """Without the splitting there are two rows on a page, and the layout check says so."""
    pgio.drop(database)
    engine = database.engine
    create = engine.needs(VerbName("slob/create")).statements(table="pgio1")
    for statement in create:
        database.query(statement, {"name": "pgio1", "made_by": "test"})
    database.query(
        "INSERT INTO pgio1 SELECT seq, 501 - seq, 0, REPEAT('x', 8073) FROM seq_1_to_500"
    )
    for verb in ("index", "finish"):
        database.execute(VerbName(f"slob/{verb}"), {"table": "pgio1", "rows": 500, "seed": 1})
    (found,) = pgio.layout(database, ["pgio1"])

    assert 250 <= found.blocks <= 260
    assert f"500 rows in {found.blocks} blocks" in found.flaw(500)
    pgio.drop(database)


def test_direct_sessions_read_each_page_from_the_device(context: Context) -> None:
    """With O_DIRECT and a small pool the touched pages are read, and the counters say it."""
    outcome = performed(sessions, sessions_of(scale=1000), context)
    values = {one.metric: one.value for one in outcome.measurements}
    touched = sum(row["select_blocks"] for row in outcome.tables["sessions"])
    seconds = known(outcome.ledger).window_seconds

    assert known(outcome.ledger).verdict in (
        ReadOrigin.PHYSICAL,
        ReadOrigin.UNKNOWN,
        ReadOrigin.MIXED,
    )
    assert 0 < values["sessions.riops"] * seconds <= 1.5 * touched
    assert (values["sessions.riops"] + values["sessions.cache_hits"]) * seconds >= touched
    assert outcome.facts["settings.innodb_flush_method"] == "O_DIRECT"
    plan = outcome.facts["sessions.plan"]
    assert isinstance(plan, tuple)
    assert "mykey" in plan[0]
    selects = sum(row["selects"] for row in outcome.tables["sessions"])
    assert outcome.latency["select"].operations == selects


@pytest.mark.parametrize("disturbed", [slow(False), True])
def test_other_sessions_of_the_server_are_told_of(context: Context, *, disturbed: bool) -> None:
    """Blocks are counted for all sessions together: by the rows it is said that others were there.

    What the own ones, and replayer beside them, read is not taken for others' work.
    """

    def reads() -> None:
        if disturbed:
            with context.database() as other:
                for _ in range(100):
                    other.query("SELECT SUM(scratch) FROM pgio1 FORCE INDEX (PRIMARY)")

    spec = sessions_of(memory="cached", scale=1000, operations=100, work_unit=255)
    outcome = performed(sessions, spec, hooked(context, begin={"sessions": reads}))
    told = [note for note in outcome.notes if note.startswith("other sessions of this server")]

    assert len(told) == disturbed, told


@pytest.mark.slow
def test_cached_sessions_read_through_the_page_cache(context: Context) -> None:
    """With fsync as the flush method the tables are warmed, and proven to be in the page cache."""
    spec = sessions_of(memory="cached", scale=1000)
    outcome = repeat_until(
        lambda: performed(sessions, spec, context), lambda it: known(it.cold).got is Temperature.HOT
    )

    assert known(outcome.cold).got is Temperature.HOT
    others = "other processes read" in known(outcome.ledger).note
    assert known(outcome.ledger).verdict is ReadOrigin.CACHED or outcome.notes or others
    assert known(outcome.ledger).riops > 0
    assert outcome.facts["settings.innodb_flush_method"] == "fsync"


@pytest.mark.slow
def test_updates_keep_their_quota_and_are_committed(context: Context, database: Database) -> None:
    """Of every 100 statements so many are UPDATEs; each one changed so many rows, and stays."""
    spec = sessions_of(update_pct=30, update_work_unit=4, operations=200)
    sessions_preparation.provide_tables(spec.tables(PAGE), context)

    def total(asked: Database) -> int:
        return sum(
            int(asked.query(f"SELECT SUM(scratch) AS s FROM pgio{number}")[0]["s"])
            for number in (1, 2)
        )

    before = total(database)
    outcome = performed(sessions, spec, context)
    rows = outcome.tables["sessions"]

    assert [row["updates"] for row in rows] == [60, 60]
    # Before the window each session makes one update for the plan's sake.
    with context.database() as anew:  # the server was started again
        assert total(anew) - before == sum(row["updates"] + 1 for row in rows) * 4
    assert outcome.latency["update"].operations == 120


def test_deadlock_is_counted_and_tried_again(context: Context, database: Database) -> None:
    """The session that InnoDB ends for a deadlock repeats its statement until it is done."""
    spec = sessions_of(num_schemas=1, scale=400)
    sessions_preparation.provide_tables(spec.tables(PAGE), context)
    database.execute(VerbName("slob/access_index"))
    done: list[dict[str, int]] = []
    connector = database.connector()
    with contextlib.closing(driver.connect(connector)) as other:
        cursor = other.cursor()
        cursor.execute("BEGIN")
        cursor.execute("UPDATE pgio1 SET scratch = scratch + 1 WHERE mykey > 100")

        def slice_() -> None:
            with contextlib.closing(
                driver.connect(connector, "SET @replayer_access = 'index'")
            ) as own:
                mine = own.cursor()
                mine.execute("CALL pgio1_slice(1, 400, 400, 1e11, 1e9, 1, 100, 0, 0)")
                names = [column[0] for column in mine.description]
                done.append(dict(zip(names, mine.fetchone(), strict=True)))

        thread = threading.Thread(target=slice_)
        thread.start()
        waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
        while not int(database.query(waiting)[0]["Value"]) and thread.is_alive():
            time.sleep(0.01)
        # It has rows 1 to 100 and waits for 101; now each waits for the other, and it did less.
        cursor.execute("UPDATE pgio1 SET scratch = scratch + 1 WHERE mykey <= 100")
        cursor.execute("ROLLBACK")
        thread.join()

    assert [(row["updates"], row["deadlocks"]) for row in done] == [(1, 1)]


def test_random_keys_depend_on_the_seed_alone(database: Database) -> None:
    """RAND() gives the same numbers after the same seed, and others after another."""
    drawn = []
    for seed in (0.25, 0.25, 0.5, -0.99):
        database.execute(VerbName("slob/seed"), seed=seed)
        drawn.append([database.query("SELECT RAND() AS r")[0]["r"] for _ in range(3)])

    assert drawn[0] == drawn[1]
    assert len({tuple(numbers) for numbers in drawn}) == 3


# The server


def test_setting_that_the_server_does_not_have_is_named(server: Server) -> None:
    """An unknown setting is one sentence with its name, and the server goes on as it was."""
    with (
        pytest.raises(Impossible, match="refused the setting innodb_buffer_pool_sizes"),
        server.settings({"innodb_buffer_pool_sizes": "1G"}),
    ):
        pass
    server.start()

    assert server.facts().settings["innodb_flush_method"] == "O_DIRECT"


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("innodb_flush_method", "foo", "Error while setting value 'foo' to 'innodb-flush-method'"),
        ("innodb_page_size", "4k", "Data file .* uses page size"),
    ],
)
def test_a_note_that_names_a_setting_does_not_refuse_it(
    server: Server, setting: str, value: str, why: str
) -> None:
    """InnoDB notes its sizes at each start, and names settings in the form of its options."""
    with pytest.raises(ReplayerError, match=why), server.settings({setting: value}):
        pass
    server.start()


def test_setting_in_replayers_own_hands_is_refused(server: Server) -> None:
    """What would take the server out of replayer's hands cannot be set."""
    for name in ("datadir", "socket", "skip_networking", "port"):
        with (
            pytest.raises(Impossible, match=f"the setting {name} cannot be changed"),
            server.settings({name: "x"}),
        ):
            pass
    # The server knows an option by its first letters, with dashes, and with words before it.
    for name, meant in (
        ("tmpdi", "tmpdir"),
        ("log-err", "log_error"),
        ("loose_bind_address", "bind_address"),
        ("disable-skip-networking", "skip_networking"),
        ("autoset-port", "port"),
    ):
        with (
            pytest.raises(Impossible, match=f"is one for {meant}, and that cannot be changed"),
            server.settings({name: "x"}),
        ):
            pass


def test_a_setting_may_have_dashes(server: Server) -> None:
    """To MariaDB they are the same as underscores, in the names of options."""
    with server.settings({"innodb-flush-log-at-trx-commit": "2"}):
        server.start()
        assert server.facts().settings["innodb_flush_log_at_trx_commit"] == "2"


def test_stopped_server_is_gone(server: Server) -> None:
    """After a stop no process of it is left, and a start brings the same data back."""
    with contextlib.closing(Database(server.engine, server.start())) as own:
        own.query("CREATE TABLE kept AS SELECT 1 AS a")
    pids = server.pids()
    server.stop()
    assert server.pids() == []
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: PTH110
    with contextlib.closing(Database(server.engine, server.start())) as own:
        assert own.query("SELECT a FROM kept") == [{"a": 1}]
        own.query("DROP TABLE kept")


@pytest.mark.slow
def test_temporary_tables_of_another_server_are_kept(server_home: Path, mariadbd: Path) -> None:
    """A server that is made and started takes nothing away that another one has in /tmp."""
    foreign = Path(tempfile.gettempdir(), f"#sql-temptable-{os.getpid():x}-1-1.MAI")
    foreign.touch()
    try:
        folder = server_home / "a folder with spaces"
        with open_server(engines.load("mariadb"), data_dir=folder, bindir=mariadbd.parent) as own:
            assert isinstance(own, PrivateServer)
            if own.programs.user is not None:  # of the same user, as two servers of packages are
                os.chown(foreign, own.programs.user.uid, own.programs.user.gid)
            own.start()
            assert foreign.exists()
    finally:
        foreign.unlink(missing_ok=True)


def test_missing_server_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    """Without mariadbd it is one sentence with the package and the option."""
    engine = engines.load("mariadb")
    server = engine.spec.server.model_copy(update={"folders": (), "program": "nosuchd"})
    spec = engine.spec.model_copy(update={"server": server})
    with (
        pytest.raises(Impossible, match="install mariadb-server or give --bindir"),
        open_server(dataclasses.replace(engine, spec=spec)),
    ):
        pass


# A mix of statements


EVERY_KIND = WeightedMix(
    point=50, range=20, update=20, insert=8, scan=2, work_unit=8, insert_bytes=60
)


def test_a_mix_at_a_rate_is_counted(context: Context, database: Database) -> None:
    """As on PostgreSQL: every statement, the proportions, what was written; nothing is left."""
    wanted = TableSet(2, 600, 1)
    dataset.provide_tables(wanted, context)
    status = "SHOW GLOBAL STATUS LIKE 'Handler_update'"
    before = int(database.query(status)[0]["Value"])
    # However late, none is given up.
    asked = LevelRequest(
        sessions=4, seconds=1.0, rate=900, mix=EVERY_KIND, tables=wanted, patience=3600
    )
    level = measure_level(asked, context, database)
    after = int(database.query(status)[0]["Value"])
    done = {kind: seen.operations for kind, seen in level.service_by_kind.items()}

    assert level.completed <= level.begun == level.offered == 900
    assert sum(done.values()) + level.failures == 900
    for kind, share in EVERY_KIND.shares.items():
        assert done[kind] / 900 == pytest.approx(share, abs=0.06)
    assert after - before >= done["update"]
    activity = level.activity
    assert activity.commits is not None
    assert activity.commits >= done["update"] + done["insert"]
    assert (activity.wal_bytes or 0) > 0
    assert (activity.hits or 0) + (activity.reads or 0) > 600 * done["scan"]
    assert {row["name"] for row in database.execute(VerbName("slob/tables"))} == set(wanted.names)


@pytest.mark.quiet
def test_a_mix_at_a_rate_is_kept(context: Context, database: Database) -> None:
    """A rate that the server can do is sustained to the end of its window."""
    wanted = TableSet(2, 600, 1)
    dataset.provide_tables(wanted, context)
    asked = LevelRequest(sessions=4, seconds=3.0, rate=300, mix=EVERY_KIND, tables=wanted)
    level = measure_level(asked, context, database)

    assert level.sustained, level.reason


@pytest.mark.parametrize("kind", ["point", slow("scan"), slow("compute")])
def test_a_mix_in_a_closed_loop_burns_cpu_in_the_server(
    context: Context, database: Database, kind: str
) -> None:
    """Units of CPU cost the server what they are, for each statement; one at most is under way."""
    wanted = TableSet(1, 600, 1)
    dataset.provide_tables(wanted, context)
    mix = WeightedMix.model_validate({kind: 1})
    asked = LevelRequest(sessions=1, seconds=0.5, mix=mix, tables=wanted)
    bare, burning = (
        measure_level(dataclasses.replace(asked, burn=units), context, database)
        for units in (0.0, 1000.0)
    )

    assert 0 < bare.in_flight <= 1
    assert 0 < burning.in_flight <= 1
    costs = [(level.use.server or 0) / level.completed for level in (bare, burning)]
    # What the bare one costs may be below a tick of the clock of a process's time.
    assert costs[1] > 3 * costs[0]
    assert costs[1] > 0


@pytest.mark.quiet
def test_a_closed_loop_is_never_without_a_statement(context: Context, database: Database) -> None:
    """Throughput times service time are the sessions, by Little's law."""
    wanted = TableSet(1, 600, 1)
    dataset.provide_tables(wanted, context)
    asked = LevelRequest(sessions=1, seconds=1.0, mix=WeightedMix(point=1), tables=wanted)
    bare, burning = (
        measure_level(dataclasses.replace(asked, burn=units), context, database)
        for units in (0.0, 200.0)
    )

    assert bare.little == pytest.approx(1, abs=0.02)
    assert burning.service.mean_ns > 3 * bare.service.mean_ns


@pytest.mark.slow
def test_sessions_that_update_one_row_wait_for_its_lock(
    context: Context, database: Database
) -> None:
    """Who waits for a row is seen waiting for it, and the server counts it."""
    wanted = TableSet(1, 600, 1)
    dataset.provide_tables(wanted, context)
    one_row = WeightedMix(update=1, hot="0.17%/100%")
    asked = LevelRequest(sessions=8, seconds=2.0, mix=one_row, tables=wanted, sample_seconds=0.05)
    with held_rows(database, 8, asked.seconds):
        level = measure_level(asked, context, database)

    assert (level.activity.lock_waits or 0) >= 8
    assert level.lock_waiting > 0.5, level.waits


@contextlib.contextmanager
def held_rows(database: Database, sessions: int, seconds: float) -> Iterator[None]:
    """Hold the locks of all rows until so many sessions have waited for them for so long."""
    over = threading.Event()

    def hold() -> None:
        with contextlib.closing(driver.connect(database.connector())) as holder:
            cursor = holder.cursor()
            cursor.execute("BEGIN")
            cursor.execute("UPDATE pgio1 SET scratch = scratch + 1")
            held.set()
            while not over.wait(0.05):
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
                if int(cursor.fetchone()[1]) >= sessions:
                    over.wait(seconds)
                    break
            cursor.execute("ROLLBACK")

    held, thread = threading.Event(), threading.Thread(target=hold)
    thread.start()
    try:
        held.wait()
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(("number", "name"), [(signal.SIGKILL, "SIGKILL"), (40, "signal 40")])
def test_a_server_that_is_killed_while_it_starts_is_told_so(
    server: Server, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """The last line of its log, which was told instead, is whatever it did at that moment."""
    server.stop()
    start: Callable[..., shell.Conversation] = shell.start

    def start_and_kill(*words: object, **keys: object) -> shell.Conversation:
        child = start(*words, **keys)
        child.send_signal(number)
        return child

    with monkeypatch.context() as patch:
        patch.setattr(shell, "start", start_and_kill)
        with pytest.raises(ReplayerError, match=f"MariaDB did not start: it was killed by {name}"):
            server.start()
    with contextlib.closing(Database(server.engine, server.start())) as own:
        assert own.query("SELECT 1 AS a") == [{"a": 1}]


# Connections


def test_a_ping_leaves_no_limit_to_later_statements(server: Server) -> None:
    """Whatever came after a look at the server on its connection had that look's time limit."""
    connector = connector_of(server.start())
    raw = driver.open_connection(connector.wire, connector.arguments)
    with contextlib.closing(raw), raw.cursor() as cursor:
        assert wires.load(connector.wire).ping(raw, 0.5)
        cursor.execute("SELECT SLEEP(1.5)")
        assert cursor.fetchone() == (0,)


def test_an_attempt_whose_first_statement_is_refused_leaves_no_session(server: Server) -> None:
    """The error held the connection, which nothing could close."""
    connector = connector_of(server.start())
    login = {key: one for key, one in connector.arguments.items() if isinstance(one, str | int)}
    with contextlib.closing(Database(server.engine, server.start())) as database:
        before = session_ids(database)
        first = ["SELECT no_such_column"]
        attempt = MySQLConnectionAttempt(json.dumps({**login, "first": first}))
        select.select([attempt], [], [], 60)
        with pytest.raises(Refused) as refused:
            attempt.go_on()

        wait_until(lambda: session_ids(database) <= before)
        assert "no_such_column" in str(refused.value)


def session_ids(database: Database) -> set[int]:
    """Return the numbers of the server's sessions."""
    return {row["id"] for row in database.query("SELECT id FROM information_schema.processlist")}
