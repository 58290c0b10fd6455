"""Shape of the table to build (layout, compression, segments), and checks for enough room."""

from replayer import units
from replayer.engines.connection import Database
from replayer.engines.engine import Engine
from replayer.engines.engine_spec import LayoutSpec
from replayer.engines.verbs import VerbName
from replayer.errors import Impossible, nearest
from replayer.machine.free_space import free_bytes
from replayer.model import Fact
from replayer.run.context import Context
from replayer.steps.build import doubling
from replayer.steps.build.spec import Spec
from replayer.tables.persons import SEEDS, Shape

_MOST_SEGMENTS = 1024
"""The most segments of a table without the key `segment_rows`: it gets larger ones instead."""
_MARGIN_BYTES = 256 << 20
_MARGIN_SHARE = 0.05
_COMPRESSIONS = VerbName("{layout}/compressions")
_LOCKS = VerbName("{layout}/locks")
_DOUBLE = VerbName("{layout}/double")
_ESTIMATE = VerbName("{layout}/estimate")


def layout_of(spec: Spec, engine: Engine) -> str:
    """Return the key `layout` or the engine's default; raise Impossible if the engine lacks it."""
    layouts = engine.layouts()
    layout = spec.layout or engine.spec.layout
    if layout not in layouts:
        raise Impossible(f"{engine.title} has no layout {layout!r}{nearest(layout, layouts)}")
    return layout


def grows_whole(engine: Engine, layout: str) -> bool:
    """Return whether the table has no segments (parts), so that one statement doubles all of it."""
    return engine.verb(_DOUBLE.of(layout=layout)) is None


def segment_rows_of(spec: Spec, engine: Engine, layout: str) -> int:
    """Return the number of rows of a segment, which is a part of the table.

    It must be six times a power of 2. Raise Impossible for any other number, or for too large a
    number.
    """
    seeds = len(SEEDS)
    keys = engine.spec.layouts.get(layout, LayoutSpec())
    if grows_whole(engine, layout):
        return keys.segment_rows
    if spec.segment_rows is None:
        rows = keys.segment_rows
        while spec.rows > rows * _MOST_SEGMENTS:
            rows *= 2
        return rows
    times, rest = divmod(spec.segment_rows, seeds)
    if rest or times & (times - 1):
        raise Impossible(
            f"segment_rows = {spec.segment_rows} must be {seeds} times a power of 2, such as 98304"
        )
    most = keys.most_segment_rows or spec.segment_rows
    if spec.segment_rows > most:
        raise Impossible(
            f"segment_rows = {spec.segment_rows} is too many: a segment of the {layout} holds at "
            f"most {most} rows"
        )
    return spec.segment_rows


def check_length(rows: int) -> None:
    """Raise Impossible for so many rows that a last name would get too long for its column.

    Each doubling of the rows appends digits to last names.
    """
    most = 0
    while doubling.longest_name(most + 1) <= doubling.LONGEST_NAME:
        most += 1
    if rows > doubling.rows_after(most):
        raise Impossible(
            f"rows = {rows:,} is too many: after {most} doublings "
            f"({doubling.rows_after(most):,} rows) a last name would be longer than "
            f"{doubling.LONGEST_NAME} characters"
        )


def shape_of(spec: Spec, database: Database) -> Shape:
    """Return the layout, the compression and the rows per segment of the table to build.

    Raise Impossible for a table that this server cannot have.
    """
    layout = layout_of(spec, database.engine)
    compression = _compression(spec, database, layout)
    shape = Shape(layout, compression, segment_rows_of(spec, database.engine, layout))
    _check_locks(spec, shape, database)
    return shape


def _compression(spec: Spec, database: Database, layout: str) -> str:
    """Return the name of the compression: the key `compression`, or else the server's first one.

    Returns "" if the layout has no compression. Raise Impossible for one that this server does not
    have.
    """
    verb = database.engine.verb(_COMPRESSIONS.of(layout=layout))
    if verb is None:
        if spec.compression not in {None, "none"}:
            raise Impossible(
                f"compression = {spec.compression!r}: the layout {layout} has no compression; "
                f"leave the key out"
            )
        return ""
    names = [row["name"] for row in database.execute(verb)]
    if spec.compression is None:
        return str(names[0])
    if spec.compression not in names:
        raise Impossible(
            f"compression = {spec.compression!r} is not in this server ({database.engine.title} "
            f"{database.engine.version}); it has {' and '.join(names)}"
        )
    return spec.compression


def _check_locks(spec: Spec, shape: Shape, database: Database) -> None:
    """Raise Impossible if the server has too few locks for a query of all segments at once.

    A segment is a part of the table.
    """
    verb = database.engine.verb(_LOCKS.of(layout=shape.layout))
    if verb is None:
        return
    segments = _segments(spec, shape)
    row = database.row(verb, segments=segments)
    if row["needed"] > row["available"]:
        raise Impossible(
            f"{segments:,} segments need about {row['needed']:,} locks and the server has "
            f"{row['available']:,}: set {row['setting']} to {row['value']} or more, or give a "
            f"larger segment_rows"
        )


def _segments(spec: Spec, shape: Shape) -> int:
    return max(1, rows_built(spec) // shape.segment_rows)


def rows_built(spec: Spec) -> int:
    """Return the number of rows that the build makes, which is at least `spec.rows`.

    It is the smallest such number of the form 6 * 2^n, because the build doubles six rows.
    """
    return doubling.rows_after(len(doubling.doublings(spec.rows)))


def check_space(
    spec: Spec, shape: Shape, context: Context, database: Database, *, freed: int
) -> None:
    """Raise Impossible if the file system of the data has too little space for the table.

    The message has the bytes needed and free. `freed` is the size of the table that is there, whose
    bytes count as free. A margin of 5 percent and 256 MiB is added to the bytes needed. Nothing is
    checked if the server's folder is not on this host, or if the engine cannot estimate the bytes.
    """
    folder = context.server.data_directory()
    verb = database.engine.verb(_ESTIMATE.of(layout=shape.layout))
    if folder is None or verb is None:
        return
    doublings = len(doubling.doublings(spec.rows))
    row = database.row(
        verb,
        rows=doubling.rows_after(doublings),
        lastname_bytes=doubling.average_name(doublings),
        compression=shape.compression,
        segments=_segments(spec, shape),
    )
    data, wal = row.number("table_bytes"), row.number("wal_bytes")
    wanted = data + wal + _MARGIN_BYTES + int(_MARGIN_SHARE * (data + wal))
    free = free_bytes(folder) + freed
    if wanted > free:
        raise Impossible(
            f"building {doubling.rows_after(doublings):,} rows needs about "
            f"{units.show_size(wanted)} ({units.show_size(data)} of table, "
            f"{units.show_size(wal)} of WAL, the rest as margin) and {folder} has "
            f"{units.show_size(free)} free: free some space, ask for fewer rows, or put the data "
            f"on another disk with --data-dir"
        )


def facts_of(shape: Shape, rows: int) -> dict[str, Fact]:
    """Return name -> value of the facts on a table of `rows` rows: its layout and its segments."""
    return {
        "layout": shape.layout,
        "compression": shape.compression or "none",
        "segment_rows": shape.segment_rows,
        "segments": max(1, rows // shape.segment_rows),
    }
