"""Counts of what the server has in its own buffers, as far as the engine reports them."""

from typing import TYPE_CHECKING

from replayer.engines.verbs import VerbName
from replayer.servers import protocol

if TYPE_CHECKING:
    from replayer.engines.connection import Database


def counted(database: "Database", verb: VerbName, column: str) -> tuple[int | None, str]:
    """Return a count of what the server has in its buffers, and "".

    `verb` names the engine's query for it, whose only row has the count in `column`.  If the count
    is not known, return None and the reason.
    """
    engine = database.engine
    if engine.verb(verb) is None:
        return None, f"{engine.title} does not report what is in its buffers"
    where = engine.verb(protocol.BUFFERCACHE)
    rows = database.execute(where) if where is not None else [{"schema": "", "allowed": True}]
    if not rows:
        return None, "the extension pg_buffercache is not installed in the server"
    if not rows[0]["allowed"]:
        return None, "this database user may not read pg_buffercache (grant pg_monitor)"
    row = database.row(verb, {"schema": str(rows[0]["schema"])})
    return row.number(column), ""
