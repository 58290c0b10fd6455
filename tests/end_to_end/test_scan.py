"""The database's own scan from cold, and what the columnstore leaves unread."""

import contextlib

import pytest

from replayer.conditions import temperature
from replayer.engines import engine as engines
from replayer.engines.connection import Database
from replayer.errors import Impossible, ReplayerError
from replayer.machine import page_cache
from replayer.model import Temperature
from replayer.servers.open import open_server
from replayer.servers.protocol import NoFiles
from replayer.steps.build import step as build
from replayer.steps.flush import step as flush
from replayer.steps.scan import step as scan
from replayer.tables import persons, relations
from tests.performed import performed
from tests.ready_made import copy, ready_data

pytestmark = pytest.mark.alone

ROWS = 6 << 13
SEGMENT_ROWS = 6 << 10


@pytest.fixture(scope="module")
def prepared(server_home):
    """Build and flush a columnstore on a server of its own, once; return the server."""
    data = copy(ready_data("postgres"), server_home / "scanned")
    with open_server(engines.load("postgres"), data_dir=data) as server:
        server.start()
        yield server


@pytest.fixture
def context(prepared, surroundings):
    """Return a step's context on the server with the table."""
    prepared.start()
    return surroundings(prepared)


def built(context, **keys):
    """Build and flush the table unless it is there."""
    small = {"rows": ROWS, "segment_rows": SEGMENT_ROWS, "sessions": 2, "rebuild": False}
    performed(build, build.Spec(step="build", name="build", **{**small, **keys}), context)
    performed(flush, flush.Spec(step="flush", name="flush"), context)


def perform(context, **keys):
    """Run a scan step."""
    return performed(scan, scan.Spec(step="scan", name="scan", **keys), context)


def files_of(database, data, pattern):
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


def resident_after(context, statement):
    """Execute a statement from cold; return by column the bytes of its files in the page cache."""
    with context.database() as database:
        data = context.data_directory()
        columns = {
            name: files_of(database, data, f"^persons1_s[0-9]+_{name}$")
            for name in ("id", "lastname", "time")
        }
    cooled(context, [path for paths in columns.values() for path in paths])
    with context.database() as database:
        database.query(statement)
        return {
            name: temperature.residency(paths).resident_bytes for name, paths in columns.items()
        }


def cooled(context, files):
    """Stop the server and have the kernel forget the files."""
    context.server.stop()
    for path in files:
        page_cache.forget(path)
    assert temperature.residency(files).resident_bytes == 0


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
def test_scan_touches_only_the_files_of_its_columns(context, statement, read):
    """After a cold scan the files of the other columns have not one page in the page cache."""
    built(context)

    found = resident_after(context, statement)

    assert {name for name, size in found.items() if size} == read


def test_range_on_id_skips_segments_that_cannot_match(context):
    """After a cold range scan no page of a segment beyond the range is in the page cache."""
    built(context)
    with context.database() as database:
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
        (expected,) = database.query(
            f"SELECT count(*) FILTER (WHERE id >= {low}) AS n FROM persons1"
        )
    cooled(context, [path for _, paths in segments.values() for path in paths])
    with context.database() as database:
        found = database.query(
            f"SELECT count(lastname) AS n FROM persons1 WHERE id BETWEEN {low} AND {span['high']}"
        )

    touched = {number for number, (_, paths) in segments.items()
               if temperature.residency(paths).resident_bytes}  # fmt: skip
    can_match = {number for number, (matches, _) in segments.items() if matches}
    assert found == [expected]
    assert found[0]["n"] > 0
    assert touched == can_match
    assert 0 < len(touched) < len(segments)


@pytest.mark.parametrize(
    "condition",
    ["id = 5000", "id < 300", "id > 10**6", "id IN (101, 20000)", "id BETWEEN 700 AND 710"],
)
def test_conditions_give_what_they_give_on_the_control(context, condition):
    """Leaving out segments never loses a row."""
    condition = condition.replace("10**6", "1000000")
    rows = list(enumerate(("Jordan", "Kumar", "Duglas", "Johnson", "Petrov", "Hiraga"), 100))
    for _ in range(13):
        rows += [(id_ + n, name + str(n)) for n, (id_, name) in enumerate(rows, 1)]
    python = condition.replace("id = ", "id == ").replace("IN", "in")
    if "BETWEEN" in python:
        python = "700 <= id <= 710"
    expected = sorted(name for id_, name in rows if eval(python, {"id": id_}))
    built(context)
    with context.database() as database:
        found = database.query(f"SELECT lastname FROM persons1 WHERE {condition}")

    assert sorted(row["lastname"] for row in found) == expected


# The step


@pytest.mark.parametrize("layout", ["columnstore", "rowstore"])
def test_scan_from_cold(context, layout):
    """Both statements start cold, proven, count the rows, and their time is the step's."""
    built(context, layout=layout)

    outcome = perform(context)

    assert outcome.cold.asked is Temperature.COLD
    assert outcome.cold.proof in {"cachestat", "mincore"}
    avg, full = outcome.tables["statements"]
    assert (avg["statement"], full["statement"]) == ("avg", "full count")
    assert full["result"] == str(ROWS)
    assert [one.metric for one in outcome.measurements] == ["scan.elapsed"]
    assert outcome.measurements[0].value == pytest.approx(avg["seconds"] + full["seconds"])
    files_bytes = outcome.cold.file_bytes
    assert full["file_bytes"] > 0.4 * files_bytes
    if layout == "columnstore":
        assert 0 < avg["file_bytes"] < 0.5 * full["file_bytes"]
    if outcome.cold.got is not Temperature.COLD:
        assert outcome.cold.why


def test_what_the_server_has_in_its_own_buffers_is_told(context, read_before_the_clock):
    """Somebody read the table after the start, and what the page cache had of it is gone."""
    built(context)
    read_before_the_clock("SELECT count(lastname) FROM persons1")
    outcome = perform(context)

    assert outcome.cold.got is Temperature.LUKEWARM
    assert "of the table was in the server's own buffers" in outcome.cold.why


def test_a_statement_that_needed_nothing_is_not_cold(context, monkeypatch):
    """Somebody read the table between the last look at the server's buffers and the clock."""
    built(context)
    missed = scan._missed

    def read_and_missed(database):
        with context.database() as other:
            files = relations.files(other, context.data_directory())
            other.query("SELECT count(lastname), count(id), count(time) FROM persons1")
        temperature.drop(files, context.host)
        return missed(database)

    monkeypatch.setattr(scan, "_missed", read_and_missed)
    outcome = perform(context)

    assert outcome.cold.got is Temperature.LUKEWARM
    assert "from the device" in outcome.cold.why


def test_hot_scan_finds_the_files_in_memory(context):
    """With cold = "hot" the page cache has the table before the clock starts."""
    built(context)

    outcome = perform(context, cold="hot")

    assert outcome.cold.got is Temperature.HOT
    assert outcome.cold.resident_share > 0.99


def test_somebody_elses_server_has_its_buffers_emptied(context, surroundings):
    """A server that is not stopped is cold once its buffers are emptied; the result says how."""
    built(context)
    url = context.server.start().render_as_string(hide_password=False)
    with open_server(engines.load("postgres"), url=url) as remote:
        outcome = perform(surroundings(remote))

    assert "server not stopped" in outcome.cold.method
    assert "its buffers emptied by pg_buffercache_evict_all" in outcome.cold.method
    assert outcome.cold.got is Temperature.COLD or outcome.cold.why
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def test_somebody_elses_older_server_is_scanned_lukewarm(context, surroundings):
    """A server that cannot be stopped or emptied has a cache of its own, and the result says so."""
    built(context)
    url = context.server.start().render_as_string(hide_password=False)
    with open_server(engines.load("postgres"), url=url) as remote:
        remote.engine = remote.engine.at(17)
        outcome = perform(surroundings(remote))

    assert outcome.cold.got is Temperature.LUKEWARM
    assert "not stopped" in outcome.cold.why
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def test_server_on_another_machine_is_scanned_without_proof(context, surroundings, monkeypatch):
    """Where the files cannot be reached no device of this machine is counted for it."""
    built(context)
    made = surroundings(context.server)
    elsewhere = NoFiles("the server's data files are not on this machine", "run replayer there")
    monkeypatch.setattr(type(context.server), "data_directory", lambda _: None)
    monkeypatch.setattr(type(context.server), "no_files", lambda _: elsewhere)
    outcome = perform(made)

    assert outcome.cold.got is Temperature.UNKNOWN
    assert outcome.cold.todo == "run replayer there"
    assert "not on this machine" in outcome.cold.why
    assert outcome.cold.device_bytes is None
    assert outcome.tables["statements"][1]["result"] == str(ROWS)


def test_damaged_table_fails(context):
    """A count that is not what was built ends the step with both numbers."""
    built(context)
    with contextlib.closing(Database(context.engine, context.server.start())) as database:
        database.query("UPDATE persons1_doublings SET rows = rows + 6 WHERE rows = :n", {"n": ROWS})
        try:
            with pytest.raises(ReplayerError, match="counted 49,152 rows where 49,158 rows"):
                perform(context)
        finally:
            with context.database() as again:
                again.query(
                    "UPDATE persons1_doublings SET rows = rows - 6 WHERE rows = :n", {"n": ROWS + 6}
                )


def test_without_a_table_it_is_refused(context):
    """There is nothing to scan before a build."""
    with context.database() as database:
        found = persons.state(database)
        if found is not None:
            persons.drop(database, found.shape.layout)

    with pytest.raises(Impossible, match="put a build step before"):
        perform(context)
