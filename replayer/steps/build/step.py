"""Build the table: six rows, doubled until there are as many as asked for.

The last doubling by itself is a benchmark of the CPU: half of all rows are made in it.
"""

from replayer.engines.connection import Database
from replayer.model import Better
from replayer.run.context import Context
from replayer.run.step_plugin import Footprint
from replayer.run.step_recorder import StepRecorder
from replayer.steps.build import doubling
from replayer.steps.build.building import Build
from replayer.steps.build.shape import (
    check_length,
    check_space,
    facts_of,
    grows_whole,
    layout_of,
    rows_built,
    segment_rows_of,
    shape_of,
)
from replayer.steps.build.spec import Spec
from replayer.tables import persons
from replayer.tables.persons import BuildState, Shape

_LOG_BYTES = 256 << 20


def footprint(spec: Spec, _block_size: int) -> Footprint:
    """Return an estimate of the bytes that the table and the server's log will have on disk.

    The table is taken as hardly compressed.
    """
    doublings = len(doubling.doublings(spec.rows))
    row = 21.5 + doubling.average_name(doublings)
    size = int(1.2 * row * doubling.rows_after(doublings)) + _LOG_BYTES
    return Footprint(("built", spec.layout), size)


def check(spec: Spec, context: Context) -> None:
    """Raise Impossible for a table that no version of this engine's server could have.

    For example, the engine does not have the layout that the key `layout` names.
    """
    layout = layout_of(spec, context.engine)
    segment_rows_of(spec, context.engine, layout)
    check_length(spec.rows)


def run(spec: Spec, context: Context) -> None:
    """Build the table; continue an interrupted build, or use the table if it is there already."""
    with context.database() as database:
        shape = shape_of(spec, database)
        existing = persons.state(database)
        if existing is not None and not _goes_on(spec, shape, existing):
            if not spec.rebuild and _fits(spec, shape, existing):
                _reuse(context.findings, database, existing)
                return
            check_space(spec, shape, context, database, freed=persons.bytes_(database))
            persons.drop(database, existing.shape.layout)
            existing = None
        else:
            there = persons.bytes_(database) if existing is not None else 0
            check_space(spec, shape, context, database, freed=there)
        if spec.segment_rows is not None and grows_whole(database.engine, shape.layout):
            context.findings.note(
                f"segment_rows = {spec.segment_rows} was not used: the {shape.layout} of "
                f"{database.engine.title} grows as a whole"
            )
        Build(spec, context, database, shape).run(existing)


def _goes_on(spec: Spec, shape: Shape, existing: BuildState) -> bool:
    """Return whether the existing table is an interrupted build of the table that is wanted."""
    same = existing.shape == shape and existing.rows_wanted == spec.rows
    return same and not existing.whole and existing.doubling is not None


def _fits(spec: Spec, shape: Shape, existing: BuildState) -> bool:
    return existing.whole and existing.shape == shape and existing.rows == rows_built(spec)


def _reuse(findings: StepRecorder, database: Database, existing: BuildState) -> None:
    """Record the size of a table that an earlier run built; no time is measured."""
    findings.measure("build.rows", existing.rows, "rows", Better.NEITHER)
    findings.measure("build.table_bytes", persons.bytes_(database), "bytes", Better.LESS)
    findings.facts |= {**facts_of(existing.shape, existing.rows), "reused": True}
    findings.note("the table of an earlier build was reused, so no time was measured")
