"""Flushing the table on the real server: frozen, on disk, and proven to be."""

import pytest

from replayer.conditions.residency import residency
from replayer.engines.connection import Database
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible
from replayer.run.context import Context
from replayer.steps.build import step as build
from replayer.steps.build.spec import Spec
from replayer.steps.flush import step as flush
from replayer.tables import relations
from tests.performed import performed

ROWS = 6 << 9


def built(context: Context, **keys: object) -> None:
    """Build a small table."""
    small = {"rows": ROWS, "segment_rows": ROWS // 4, "sessions": 2}
    spec = Spec.model_validate({"step": "build", "name": "build", **small, **keys})
    performed(build, spec, context)


def spec() -> flush.Spec:
    """Return the keys of a flush step: it has none."""
    return flush.Spec(step="flush", name="flush")


@pytest.mark.parametrize("layout", ["columnstore", "rowstore"])
def test_nothing_is_left_to_write(context: Context, database: Database, layout: str) -> None:
    """After a flush no buffer and no page of the table is dirty, and there were some before.

    The rows are frozen, so the first reader has no hint bits to write.
    """
    built(context, layout=layout)
    files = relations.files(database, context.data_directory())
    (where,) = database.execute(VerbName("buffercache"))

    def dirty() -> int:
        number: int = database.execute(VerbName("dirty"), {"schema": where["schema"]})[0]["dirty"]
        return number

    before = dirty()
    outcome = performed(flush, spec(), context)

    assert before > 0
    assert outcome.facts["buffers.dirty"] == dirty() == 0
    found = residency(files)
    if found.dirty_bytes is None:
        assert outcome.facts["proven"] is False
        assert "not proven" in outcome.notes[0]
    else:
        assert outcome.facts["proven"] is True
        assert (found.dirty_bytes, found.writeback_bytes) == (0, 0)
    assert [(one.metric, one.unit) for one in outcome.measurements] == [("flush.elapsed", "s")]

    database.execute(VerbName("table/count"))

    assert dirty() == 0
    assert not residency(files).dirty_bytes


def test_planner_knows_the_rows_of_the_control(context: Context, database: Database) -> None:
    """ANALYZE of the rowstore tells the planner how many rows there are."""
    built(context, layout="rowstore", rebuild=False)
    performed(flush, spec(), context)
    found = database.query(
        "SELECT sum(reltuples)::bigint AS rows FROM pg_class "
        "WHERE relname ~ '^persons1_s[0-9]+$' AND relkind = 'r'"
    )

    assert found[0]["rows"] == ROWS


@pytest.mark.slow
def test_arrays_are_not_unpacked_for_statistics(context: Context, database: Database) -> None:
    """ANALYZE leaves the arrays of the columnstore out."""
    built(context, rebuild=False)
    performed(flush, spec(), context)
    found = database.query(
        "SELECT count(*) AS n FROM pg_stats WHERE tablename ~ '^persons1_s' AND attname = 'v'"
    )

    assert found[0]["n"] == 0


def test_without_pg_buffercache_it_says_what_is_not_proven(
    context: Context, database: Database
) -> None:
    """A server without the extension is flushed, and the report says what is not proven."""
    built(context, rebuild=False)
    database.query("DROP EXTENSION pg_buffercache")
    try:
        outcome = performed(flush, spec(), context)
    finally:
        database.query("CREATE EXTENSION pg_buffercache SCHEMA replayer")

    assert outcome.facts["proven"] is False
    assert outcome.facts["buffers.dirty"] is None
    assert "pg_buffercache is not installed" in outcome.notes[0]


def test_without_a_table_it_is_refused(context: Context, no_table: None) -> None:
    """There is nothing to flush before a build."""
    with pytest.raises(Impossible, match="put a build step before"):
        performed(flush, spec(), context)


def test_unfinished_table_is_refused(context: Context, database: Database, no_table: None) -> None:
    """What an interrupted build left is not a table yet."""
    built(context)
    database.query("UPDATE persons1_build SET rows_wanted = 6 << 10")

    with pytest.raises(Impossible, match="was interrupted at 3,072 of 6,144 rows"):
        performed(flush, spec(), context)
