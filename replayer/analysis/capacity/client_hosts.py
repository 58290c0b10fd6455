"""What a result says of the client hosts: whose processors may have limited it, and one start."""

from collections.abc import Mapping, Sequence
from typing import Any

from replayer.model import Run, StepResult

TABLE = "hosts"
"""A row for each client host of each window, in the order in which they were measured."""
SPREAD = "cluster.start_spread_us"
"""The longest between the first and the last host's start: of all the step's windows the worst."""
BOUND = "cluster.start_bound_us"
"""By how much that may be wrong."""
CLIENT_BOUND = 0.8
"""From this share of a client host's processor time on it may be what limits, not the database."""

Row = Mapping[str, Any]


def last_window(result: StepResult) -> tuple[Sequence[Row], int]:
    """Return the rows of the window that was measured last, and how many windows there are."""
    windows: list[list[Row]] = []
    for row in result.tables.get(TABLE, ()):
        # A host that comes again begins another window.
        if not windows or row["host"] in {known["host"] for known in windows[-1]}:
            windows.append([])
        windows[-1].append(row)
    return (windows[-1] if windows else []), len(windows)


def bound(result: StepResult, run: Run) -> dict[str, float]:
    """Return the client hosts that were too busy in any window -> the busiest share of their time.

    The database's own host is not judged: there the server is what keeps it busy.
    """
    busiest: dict[str, float] = {}
    for row in result.tables.get(TABLE, ()):
        share = row.get("cpu_share")
        host = str(row["host"])
        if share is not None and share > CLIENT_BOUND and host != run.cluster.get("database"):
            busiest[host] = max(share, busiest.get(host, 0.0))
    return busiest


def bound_words(result: StepResult, run: Run) -> str:
    """Return in a sentence which client hosts were too busy, "" if none was."""
    busiest = [f"{host} {share:.0%}" for host, share in bound(result, run).items()]
    if not busiest:
        return ""
    return (
        f"client-bound: the processors of the client hosts were busy ({', '.join(busiest)}), "
        f"so that the database may do more than this"
    )
