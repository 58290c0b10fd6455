"""The cost of sessions that use a driver's cursor, because their wire has no cheaper sessions."""

import contextlib
import statistics
import time
from typing import TYPE_CHECKING

from replayer.engines import driver
from replayer.engines.wire_session import DriverStatement, WireSession, await_answer

if TYPE_CHECKING:
    from replayer.engines.connection import Database

ON_POSTGRES = (
    "on PostgreSQL such sessions took 6 times the client's CPU for a statement that the wire's own "
    "sessions take"
)
"""Words for users.  The benchmark `python -m tests.benchmarks load` measured the factor, with reads
of one row by 8 sessions in a closed loop."""
_TIMES = 500
_NOTHING = DriverStatement(kind="compute", text="", names=(), weight=1.0, span=1, burn=0.0)


def measure_empty(database: "Database") -> float:
    """Return the seconds that an empty statement takes in one session: a median.

    The time is from sending it to its answer.
    """
    with contextlib.closing(driver.connect_session(database.connector())) as session:
        session.prepare((_NOTHING,))
        return statistics.median(_timed(session) for _ in range(_TIMES))


def _timed(session: WireSession) -> float:
    began = time.perf_counter()
    session.send_prepared(0, b"")
    await_answer(session)
    return time.perf_counter() - began
