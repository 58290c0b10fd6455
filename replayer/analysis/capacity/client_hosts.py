"""Client hosts in a result: their processors, which may have been the limit, and their start."""

from collections.abc import Mapping, Sequence
from typing import Any

from replayer.model import Run, StepResult

TABLE = "hosts"
"""Name of the table with one row for each client host and window, in the order of measurement."""
SPREAD = "cluster.start_spread_us"
"""Time between the first and the last host's start, in the worst of the step's windows."""
BOUND = "cluster.start_bound_us"
"""The largest possible error of this time."""
CLIENT_BOUND = 0.8
"""A client host that is busier than this share of its processors' time may be the limit."""

Row = Mapping[str, Any]


def last_window(result: StepResult) -> tuple[Sequence[Row], int]:
    """Return the rows of the last window, and the number of windows."""
    windows: list[list[Row]] = []
    for row in result.tables.get(TABLE, ()):
        # A host that appears again begins another window.
        if not windows or row["host"] in {known["host"] for known in windows[-1]}:
            windows.append([])
        windows[-1].append(row)
    return (windows[-1] if windows else []), len(windows)


def bound(result: StepResult, run: Run) -> dict[str, float]:
    """Return client host -> highest share of processor time, of those that were ever too busy.

    The database's own host is not judged: the server keeps it busy.
    """
    busiest: dict[str, float] = {}
    for row in result.tables.get(TABLE, ()):
        share = row.get("cpu_share")
        host = str(row["host"])
        if share is not None and share > CLIENT_BOUND and host != run.cluster.get("database"):
            busiest[host] = max(share, busiest.get(host, 0.0))
    return busiest


def bound_words(result: StepResult, run: Run) -> str:
    """Return a sentence that names the client hosts that were too busy; "" if none was."""
    busiest = [f"{host} {share:.0%}" for host, share in bound(result, run).items()]
    if not busiest:
        return ""
    return (
        f"client-bound: the processors of the client hosts were busy ({', '.join(busiest)}), "
        f"so that the database may do more than this"
    )
