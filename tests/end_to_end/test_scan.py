"""The database's own scan from cold, and what the columnstore leaves unread."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from replayer.conditions import temperature
from replayer.conditions.residency import residency
from replayer.engines import connection
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError
from replayer.load import other_sessions
from replayer.load.machine_usage import block_counters
from replayer.machine import page_cache
from replayer.model import Cold, Outcome, Temperature
from replayer.run.context import Context
from replayer.servers.open import open_server
from replayer.servers.protocol import NoFiles, Server
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec as BuildSpec
from replayer.steps.flush import step as flush
from replayer.steps.scan import step as scan
from replayer.tables import checksum, persons, relations
from replayer.watch import ledger
from replayer.watch.ledger import ServerCounters
from tests.expected_rows import expected_rows
from tests.fixture_types import Surroundings
from tests.known import known
from tests.performed import performed
from tests.ready_made import copy, ready_data
from tests.repeated import repeat_until
from tests.slow_case import slow
from tests.waiting import wait_until

DOUBLINGS = 12
ROWS = 6 << DOUBLINGS
SEGMENT_ROWS = ROWS // 4
COLUMNS = ("id", "lastname", "time")


@pytest.fixture(scope="module")
def prepared(server_home: Path) -> Iterator[Server]:
    """Start a server of this file's own, on which the table is built once and then only read."""
    data = copy(ready_data("postgres"), server_home / "scanned")
    with open_server(engines.load("postgres"), data_dir=data) as server:
        server.start()
        yield server


@pytest.fixture
def server(prepared: Server) -> Server:
    """Return the server with the table, running."""
    prepared.start()
    return prepared


def built(context: Context, **keys: object) -> None:
    """Build and flush the table unless it is there."""
    small = {"rows": ROWS, "segment_rows": SEGMENT_ROWS, "sessions": 2, "rebuild": False}
    spec = BuildSpec.model_validate({"step": "build", "name": "build", **small, **keys})
    if not performed(build, spec, context).facts.get("reused"):
        performed(flush, flush.Spec(step="flush", name="flush"), context)


def drop(context: Context) -> None:
    """Remove the table where it is there."""
    with context.database() as database:
        found = persons.state(database)
        if found is not None:
            persons.drop(database, found.shape.layout)


def perform(context: Context, **keys: object) -> Outcome:
    """Run a scan step."""
    spec = scan.Spec.model_validate({"step": "scan", "name": "scan", **keys})
    return performed(scan, spec, context)


def cold_of(outcome: Outcome) -> Cold:
    """Return how cold a scan was."""
    return known(outcome.cold)


def files_of(database: Database, data: Path, pattern: str) -> list[Path]:
    """Return the files of the tables whose names match: heap, TOAST and index."""
    rows = database.query(
        "SELECT pg_relation_filepath(r.oid) AS path FROM pg_class AS c "
        "JOIN LATERAL (VALUES (c.oid), (c.reltoastrelid), "
        "  ((SELECT indexrelid FROM pg_index WHERE indrelid = c.reltoastrelid))) AS r (oid) "
        "ON true "
        "WHERE c.relname ~ :pattern AND c.relkind = 'r' AND r.oid <> 0",
        {"pattern": pattern},
    )
    return [data / row["path"] for row in rows]


def cooled(context: Context, files: list[Path]) -> None:
    """Empty the server's buffers, and have the kernel forget the files."""
    context.server.evict()
    for path in files:
        page_cache.forget(path)
    assert residency(files).resident_bytes == 0


def in_buffers(database: Database, files: list[Path]) -> bool:
    """Tell whether the server has a block of some files in its own buffers."""
    (row,) = database.query(
        "SELECT count(*) AS n FROM replayer.pg_buffercache WHERE relfilenode = ANY(:nodes)",
        {"nodes": [int(path.name) for path in files]},
    )
    return bool(row["n"])


# What is not read


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("SELECT avg(id) FROM persons1", {"id"}),
        ("SELECT max(lastname) FROM persons1", {"lastname"}),
        ('SELECT count(DISTINCT "time") FROM persons1', {"time"}),
        ("SELECT count(*) FROM persons1", set()),
        ("SELECT max(lastname) FROM persons1 WHERE id > 3", {"id", "lastname"}),
        ("SELECT * FROM persons1", {"id", "lastname", "time"}),
    ],
)
def test_scan_touches_only_the_files_of_its_columns(
    context: Context, database: Database, statement: str, read: set[str]
) -> None:
    """A cold scan has the server read the files of its columns, and not one page of the others.

    What it has read is in its buffers; the page cache others may drop, but never fill.
    """
    built(context)
    columns = {
        name: files_of(database, context.data_directory(), f"^persons1_s[0-9]+_{name}$")
        for name in COLUMNS
    }
    cooled(context, [path for paths in columns.values() for path in paths])
    database.query(statement)

    assert {name for name, files in columns.items() if in_buffers(database, files)} == read
    assert {name for name, files in columns.items() if residency(files).resident_bytes} <= read


def test_range_on_id_skips_segments_that_cannot_match(context: Context, database: Database) -> None:
    """After a cold range scan no page of a segment beyond the range was read."""
    built(context)
    data = context.data_directory()
    (span,) = database.query("SELECT min(id) AS low, max(id) AS high FROM persons1")
    low = span["low"] + (span["high"] - span["low"]) * 9 // 10
    segments = {
        row["segment"]: (
            row["id_min"] <= span["high"] and row["id_max"] >= low,
            files_of(database, data, f"^persons1_s{row['segment']}_"),
        )
        for row in database.query("SELECT segment, id_min, id_max FROM persons1_segments")
    }
    (expected,) = database.query(f"SELECT count(*) FILTER (WHERE id >= {low}) AS n FROM persons1")
    cooled(context, [path for _, paths in segments.values() for path in paths])
    found = database.query(
        f"SELECT count(lastname) AS n FROM persons1 WHERE id BETWEEN {low} AND {span['high']}"
    )
    touched = {number for number, (_, paths) in segments.items() if in_buffers(database, paths)}
    cached = {number for number, (_, paths) in segments.items() if residency(paths).resident_bytes}

    assert found == [expected]
    assert found[0]["n"] > 0
    assert touched == {number for number, (matches, _) in segments.items() if matches}
    assert cached <= touched
    assert 0 < len(touched) < len(segments)


def test_conditions_give_what_they_give_on_the_control(
    context: Context, database: Database
) -> None:
    """Leaving out segments never loses a row."""
    built(context)
    conditions: dict[str, Callable[[int], bool]] = {
        "id = 5000": lambda id_: id_ == 5000,
        "id < 300": lambda id_: id_ < 300,
        "id > 1000000": lambda id_: id_ > 1_000_000,
        "id IN (101, 7000)": lambda id_: id_ in {101, 7000},
        "id BETWEEN 700 AND 710": lambda id_: 700 <= id_ <= 710,
    }
    rows = expected_rows(DOUBLINGS)
    for condition, holds in conditions.items():
        found = database.query(f"SELECT lastname FROM persons1 WHERE {condition}")
        expected = sorted(name for id_, name in rows if holds(id_))
        assert sorted(row["lastname"] for row in found) == expected, condition


# The step


def test_what_the_server_has_in_its_own_buffers_is_told(
    context: Context, read_before_the_clock: Callable[[str], None]
) -> None:
    """Somebody read the table after the start, and what the page cache had of it is gone."""
    built(context)
    read_before_the_clock("SELECT count(lastname) FROM persons1")
    outcome = perform(context)

    assert cold_of(outcome).got is Temperature.LUKEWARM
    assert "of the table was in the server's own buffers" in cold_of(outcome).why


def test_a_statement_that_needed_nothing_is_not_cold(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody read the table between the last look at the server's buffers and the clock."""
    built(context)
    count = scan._counters

    def read_and_count(database: Database) -> ServerCounters:
        with context.database() as other:
            files = relations.files(other, context.data_directory())
            other.query("SELECT count(lastname), count(id), count(time) FROM persons1")
        temperature.drop(files, context.host)
        return count(database)

    monkeypatch.setattr(scan, "_counters", read_and_count)
    outcome = perform(context)

    assert cold_of(outcome).got is Temperature.LUKEWARM
    assert "from the device" in cold_of(outcome).why


def test_next_to_reads_for_other_databases_that_may_be_its_own_no_scan_is_cold(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their processes are the server's, so that the server's bytes prove nothing of the table."""
    built(context)
    counted, count = itertools.count(0, 1 << 27), scan._counters
    monkeypatch.setattr(
        scan, "_counters", lambda one: replace(count(one), other_databases=next(counted))
    )
    cold = cold_of(perform(context))

    assert cold.got is Temperature.UNKNOWN
    assert "1.00 TiB were read for other databases of this server meanwhile" in cold.why


def test_beside_a_long_statement_of_another_database_no_scan_is_cold(
    context: Context, server: Server
) -> None:
    """Nothing of what it reads is counted before it ends."""
    built(context)
    other = server.start().set(database="postgres")
    with (
        closing(Database(context.engine, other)) as database,
        ThreadPoolExecutor() as threads,
        context.database() as here,
    ):
        asleep = threads.submit(database.query, "SELECT pg_sleep(60)")
        try:
            wait_until(lambda: bool(block_counters(here).other_statements))
            counters = block_counters(here)
        finally:
            here.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active'"
                       " AND datname = 'postgres'")  # fmt: skip
            with pytest.raises(ReplayerError):
                asleep.result()
    cold = Cold.model_validate({"asked": "cold", "got": "cold", "method": "", "proof": ""})
    apart = ledger.missed_apart(counters, counters) * context.engine.block_size
    told = scan._less_apart(cold.model_copy(update={"own_bytes": 1 << 40}), apart, 1000)

    assert told.got is Temperature.UNKNOWN
    assert "a statement for another database of this server had not ended" in told.why


@pytest.mark.parametrize(
    ("apart", "got"), [(0, "cold"), (275, "cold"), (276, "unknown"), (9000, "unknown")]
)
def test_a_scan_is_cold_as_far_as_the_bytes_left_for_it_prove_that(apart: int, got: str) -> None:
    """Of 1,500 bytes twice 276 may have been for others, and 948 are less than 95 % of 1,000."""
    before = {"asked": "cold", "got": "cold", "method": "", "proof": "", "own_bytes": 1500}
    cold = Cold.model_validate(before)

    assert scan._less_apart(cold, apart, 1000).got.value == got


def test_hot_scan_finds_the_files_in_memory(context: Context) -> None:
    """With cold = "hot" the page cache has the table before the clock starts."""
    built(context)

    def found(outcome: Outcome) -> bool:
        """Tell whether the files were in memory before the clock started."""
        return (cold_of(outcome).resident_share or 0) > 0.99

    # Another test may drop the page cache, of which the server's own buffers then know nothing:
    # before either of the two statements, so that the table is hot in none of these scans.
    outcome = repeat_until(
        lambda: perform(context, cold="hot"),
        lambda outcome: cold_of(outcome).got is Temperature.HOT and found(outcome),
    )

    assert cold_of(outcome).got is Temperature.HOT
    assert found(outcome)


def test_somebody_elses_server_has_its_buffers_emptied(
    context: Context, surroundings: Surroundings
) -> None:
    """A server that is not stopped is cold once its buffers are emptied; the result says how."""
    built(context)
    url = context.server.start().render_as_string(hide_password=False)
    with open_server(engines.load("postgres"), url=url) as remote:
        outcome = perform(surroundings(remote))

    assert "server not stopped" in cold_of(outcome).method
    assert "its buffers emptied by pg_buffercache_evict_all" in cold_of(outcome).method
    assert cold_of(outcome).got is Temperature.COLD or cold_of(outcome).why
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def cold_beside(
    context: Context, surroundings: Surroundings, work: Callable[[Database], object]
) -> Cold:
    """Return the coldness of scans of a server that runs on, while another user's session works.

    It does `work` when each statement's clock starts, and when it stops.
    """
    # The server must run on: its other users are there before the statement.
    url = context.server.start().render_as_string(hide_password=False)
    with (
        context.database() as other,
        open_server(engines.load("postgres"), url=url) as remote,
        pytest.MonkeyPatch.context() as patch,
    ):
        connection._sessions.discard(other.session)  # it belongs to another user
        made = surroundings(remote)
        mark = made.sampler.mark

        def mark_with_work() -> int:
            began: int = mark()
            work(other)
            return began

        patch.setattr(made.sampler, "mark", mark_with_work)
        return cold_of(perform(made))


_UNCOUNTED = "the server has not counted what they read"


def disturbed_beside(
    context: Context, surroundings: Surroundings, work: Callable[[Database], object], why: str
) -> Cold:
    """Return the same of scans that are not cold because of that session; none may be cold.

    If the session was first to read most of the table, the statement's own reads tell it already:
    then the table is scanned again, until the reason has the words `why`.
    """

    def attempt() -> Cold:
        cold = cold_beside(context, surroundings, work)
        assert cold.got is not Temperature.COLD
        return cold

    return repeat_until(attempt, lambda cold: why in cold.why)


@pytest.mark.parametrize("disturbed", [False, True])
def test_a_table_that_another_session_reads_meanwhile_is_not_cold(
    context: Context, surroundings: Surroundings, *, disturbed: bool
) -> None:
    """Its reads are the server's, too, and the statement may find in memory what it has read."""
    built(context)

    why = "other sessions of this database read"

    def read(other: Database) -> None:
        other.execute(scan._STATEMENTS["full count"])
        other.query("SELECT pg_stat_force_next_flush()")

    if disturbed:
        assert why in disturbed_beside(context, surroundings, read, why).why
    else:
        assert why not in cold_beside(context, surroundings, lambda _: None).why


@pytest.mark.slow
def test_reads_that_a_session_counts_later_are_waited_for(
    context: Context, surroundings: Surroundings
) -> None:
    """A session of PostgreSQL counts once a second, and what came after that when it is idle."""
    built(context)
    begins = itertools.cycle((True, False))

    def read(other: Database) -> None:
        if next(begins):
            other.query("SELECT pg_stat_force_next_flush()")
            other.execute(scan._STATEMENTS["full count"])

    why = "other sessions of this database read"
    assert why in disturbed_beside(context, surroundings, read, why).why


def test_next_to_a_session_that_leaves_no_scan_is_cold(
    context: Context, surroundings: Surroundings
) -> None:
    """Its counters go with it, and what it read."""
    built(context)

    def read(other: Database) -> None:
        with contextlib.suppress(ReplayerError):
            other.execute(scan._STATEMENTS["full count"])
            other.query("SELECT pg_terminate_backend(pg_backend_pid())")

    cold = disturbed_beside(context, surroundings, read, _UNCOUNTED)

    assert _UNCOUNTED in cold.why
    assert cold.got is Temperature.UNKNOWN


def test_next_to_a_session_that_comes_and_goes_no_scan_is_cold(
    context: Context, surroundings: Surroundings
) -> None:
    """It is there neither before the statement nor after it."""
    built(context)

    def read(_: Database) -> None:
        with context.database() as passing:
            passing.execute(scan._STATEMENTS["full count"])

    cold = disturbed_beside(context, surroundings, read, _UNCOUNTED)

    assert _UNCOUNTED in cold.why
    assert cold.got is Temperature.UNKNOWN


@contextlib.contextmanager
def blocks_of(context: Context) -> Iterator[int]:
    """Provide a table `blocks` that the server has not read since its start; yield its blocks."""
    with context.database() as database:
        database.query(
            "CREATE TABLE blocks AS SELECT repeat('x', 1000) FROM generate_series(1, 9000)"
        )
        database.query("VACUUM blocks")
        size = database.query("SELECT pg_relation_size('blocks') AS bytes")[0]["bytes"]
    context.server.stop()
    context.server.start()
    try:
        yield size // 8192
    finally:
        with context.database() as database:
            database.query("DROP TABLE blocks")


def read_by_another(context: Context, *settings: str) -> tuple[int, int]:
    """Return (blocks of a table, blocks that count as read) of a session that reads the table.

    The session is of another user, and has these settings.
    """
    with (
        blocks_of(context) as blocks,
        context.database() as database,
        context.database() as other,
    ):
        connection._sessions.discard(other.session)  # it belongs to another user
        before = other_sessions.look(database)
        for setting in settings:
            other.query(f"SET {setting}")
        other.query("SELECT count(*) FROM blocks")
        other.query("SELECT pg_stat_force_next_flush()")
        moved = other_sessions.work_between(before, other_sessions.look(database))
    assert moved
    return blocks, moved.reads or 0


def test_the_reads_of_another_session_are_counted_in_blocks(context: Context) -> None:
    """One operation of PostgreSQL 18 reads up to 16 of them."""
    blocks, read = read_by_another(context, "max_parallel_workers_per_gather = 0")

    assert read > 0.9 * blocks


def test_the_reads_of_another_sessions_parallel_workers_are_counted(context: Context) -> None:
    """A worker's own counts are gone when it ends, which is before its query does."""
    blocks, read = read_by_another(
        context,
        *("max_parallel_workers_per_gather = 2", "parallel_leader_participation = off"),
        *("min_parallel_table_scan_size = 0", "parallel_setup_cost = 0"),
    )

    assert 0.9 * blocks < read < 1.5 * blocks + 500


def test_a_user_without_rights_sees_what_others_read_and_not_when(context: Context) -> None:
    """Their blocks count; as nothing shows that they are idle, they may work all the time."""
    with (
        blocks_of(context) as blocks,
        context.database() as owner,
        contextlib.ExitStack() as opened,
    ):
        owner.query("CREATE ROLE onlooker LOGIN")
        try:
            plain = owner.url.set(username="onlooker")
            with contextlib.closing(Database(context.engine, plain)) as database:
                other = opened.enter_context(context.database())
                connection._sessions.difference_update({other.session, owner.session})
                before = known(other_sessions.look(database))
                other.query("SELECT count(*) FROM blocks")
                other.query("SELECT pg_stat_force_next_flush()")
                after = known(other_sessions.look(database))
            (right,) = [one for one in owner.rights() if one["verb"] == "mix/others"]
        finally:
            owner.query("DROP ROLE onlooker")

    moved = known(other_sessions.work_between(before, after))
    assert (moved.reads or 0) > 0.9 * blocks
    assert {pid for pid, _ in after.busy_since(before)} >= {owner.session, other.session}
    assert right["allowed"]


def test_next_to_a_transaction_that_counts_nothing_yet_no_scan_is_cold(
    context: Context, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has read is not known before it ends."""
    built(context)
    monkeypatch.setattr(other_sessions, "_COUNTED_IDLE", 0.5)

    def read(other: Database) -> None:
        other.query("BEGIN")
        other.execute(scan._STATEMENTS["full count"])

    cold = disturbed_beside(context, surroundings, read, _UNCOUNTED)

    assert _UNCOUNTED in cold.why
    assert cold.got is Temperature.UNKNOWN


def test_somebody_elses_older_server_is_scanned_lukewarm(
    context: Context, surroundings: Surroundings
) -> None:
    """A server that cannot be stopped or emptied has a cache of its own, and the result says so."""
    built(context)
    url = context.server.start().render_as_string(hide_password=False)
    with open_server(engines.load("postgres"), url=url) as remote:
        remote.engine = remote.engine.at(17)
        outcome = perform(surroundings(remote))

    assert cold_of(outcome).got is Temperature.LUKEWARM
    assert "not stopped" in cold_of(outcome).why
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def test_server_on_another_machine_is_scanned_without_proof(
    context: Context, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the files cannot be reached no device of this machine is counted for it."""
    built(context)
    made = surroundings(context.server)
    elsewhere = NoFiles("the server's data files are not on this machine", "run replayer there")
    monkeypatch.setattr(type(context.server), "data_directory", lambda _: None)
    monkeypatch.setattr(type(context.server), "explain_missing_files", lambda _: elsewhere)
    outcome = perform(made)

    assert cold_of(outcome).got is Temperature.UNKNOWN
    assert cold_of(outcome).todo == "run replayer there"
    assert "not on this machine" in cold_of(outcome).why
    assert cold_of(outcome).device_bytes is None
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def test_damaged_table_fails(context: Context) -> None:
    """A count that is not what was built ends the step with both numbers."""
    built(context)
    with closing(Database(context.engine, context.server.start())) as database:
        database.query("UPDATE persons1_doublings SET rows = rows + 6 WHERE rows = :n", {"n": ROWS})
        try:
            with pytest.raises(ReplayerError, match="counted 24,576 rows where 24,582 rows"):
                perform(context)
        finally:
            with context.database() as again:
                again.query(
                    "UPDATE persons1_doublings SET rows = rows - 6 WHERE rows = :n", {"n": ROWS + 6}
                )


@pytest.fixture
def counting(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[str], None]:
    """Return a function that gives the engine a table/count of its own."""

    def give(statement: str) -> None:
        engine = context.server.engine
        folder = tmp_path / "own"
        (folder / "table").mkdir(parents=True)
        (folder / "table" / "count.sql").write_text(statement)
        own = dataclasses.replace(engine, folders=(folder, *engine.folders))
        monkeypatch.setattr(context.server, "engine", own)

    return give


@pytest.mark.slow
def test_a_statement_that_read_little_of_the_table_is_not_cold(
    context: Context, counting: Callable[[str], None]
) -> None:
    """An engine that answers table/count by one column, or from metadata, is seen by its bytes."""
    built(context, layout="columnstore")
    known_sums = ", ".join(f"{n} AS {name}" for name, n in checksum.sums_after(DOUBLINGS).items())
    counting(f"SELECT count(id) AS rows, {known_sums} FROM persons1")
    cold = cold_of(perform(context))

    assert cold.got is Temperature.LUKEWARM
    assert "the statement that reads all of the table read" in cold.why


@pytest.mark.parametrize("sums", [slow(""), ", NULL AS id_sum, NULL AS lastname_sum"])
def test_a_count_without_sums_is_an_error_that_names_its_file(
    context: Context, counting: Callable[[str], None], sums: str
) -> None:
    """A count alone may be answered without a look at the table."""
    built(context, layout="columnstore")
    counting(f"SELECT count(*) AS rows{sums} FROM persons1")

    with pytest.raises(ReplayerError, match=r"^table/count\.sql of PostgreSQL: .*'id_sum'"):
        perform(context)


# All tests above read the columnstore, which is built once.
@pytest.mark.parametrize("layout", ["columnstore", slow("rowstore")])
def test_scan_from_cold(context: Context, layout: str) -> None:
    """Both statements start cold, proven, count the rows, and their time is the step's."""
    built(context, layout=layout)

    def brought(outcome: Outcome) -> bool:
        """Tell whether what was read stayed in the page cache, where it is counted."""
        avg_bytes, full_bytes = (row["file_bytes"] for row in outcome.tables["statements"])
        return bool(avg_bytes > 0 and full_bytes > 0.4 * (cold_of(outcome).file_bytes or 0))

    outcome = repeat_until(lambda: perform(context), brought)

    assert cold_of(outcome).asked is Temperature.COLD
    assert cold_of(outcome).proof in {"cachestat", "mincore"}
    avg, full = outcome.tables["statements"]
    assert (avg["statement"], full["statement"]) == ("avg", "full count")
    assert full["result"] == str(ROWS)
    assert [one.metric for one in outcome.measurements] == ["scan.elapsed"]
    assert outcome.measurements[0].value == pytest.approx(avg["seconds"] + full["seconds"])
    assert brought(outcome)
    if layout == "columnstore":
        assert 0 < avg["file_bytes"] < 0.5 * full["file_bytes"]
    if cold_of(outcome).got is not Temperature.COLD:
        assert cold_of(outcome).why


@pytest.mark.slow
def test_a_value_that_is_not_what_was_built_fails(context: Context) -> None:
    """As many rows as there must be, and one time, name or id is another: it is named."""
    built(context, layout="rowstore")
    with closing(Database(context.engine, context.server.start())) as database:
        (first,) = database.query("SELECT min(id) AS id FROM persons1")
    with contextlib.ExitStack() as changed:
        changed.callback(drop, context)
        for change, words in (
            ('"time" = "time" + interval \'1 second\'', "the times of the table add up to"),
            ("lastname = lastname || '7'", "the last names of the table add up to"),
            ("id = 93", "the ids of the table add up to 153,550,841 where 153,550,848"),
        ):
            with context.database() as database:
                database.query(f"UPDATE persons1 SET {change} WHERE id = {first['id']}")
            with pytest.raises(ReplayerError, match=words):
                perform(context)


def test_without_a_table_it_is_refused(context: Context) -> None:
    """There is nothing to scan before a build."""
    drop(context)

    with pytest.raises(Impossible, match="put a build step before"):
        perform(context)
