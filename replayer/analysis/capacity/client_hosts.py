"""Client hosts (whose processes are the sessions) in a result: their start and processor time."""

from collections.abc import Mapping, Sequence
from typing import Any

from replayer.model import Run, StepResult

TABLE = "hosts"
"""The name of the table with one row for each client host and window, in order of measurement."""
SPREAD = "cluster.start_spread_us"
"""Fact: microseconds between the starts of the first and the last host, in the worst window."""
BOUND = "cluster.start_bound_us"
"""Fact: the largest possible error of the time in SPREAD, in microseconds."""
CLIENT_BOUND = 0.8
"""A client host whose processors are busier than this share may be the limit."""

Row = Mapping[str, Any]
_QUANTITIES = (
    *("sessions", "per_second", "share", "start_us", "bound_us", "first_done_s", "last_done_s"),
    *("cpu_share", "cores", "client_cores", "agent_cpu_s"),
)
_HUGE = 1e30
"""A number that no quantity of a host reaches, and that can be added and printed."""


def host_rows(result: StepResult) -> list[Row]:
    """Return the rows of a step's table of client hosts; damaged ones are left out.

    A row has the names of a host and a window, and each of its known quantities is a number.
    """
    return [row for row in result.tables.get(TABLE, ()) if _is_whole(row)]


def _is_whole(row: Row) -> bool:
    known = [row[key] for key in _QUANTITIES if row.get(key) is not None]
    return all(isinstance(row.get(key), str) for key in ("host", "window")) and all(
        isinstance(value, int | float) and abs(value) < _HUGE for value in known
    )


def last_window(result: StepResult) -> tuple[Sequence[Row], int]:
    """Return the rows of a step's last measured window, and the number of its windows.

    There is one row for each client host, from the result's table of hosts.  Returns ([], 0) if the
    result has no such rows.
    """
    windows: list[list[Row]] = []
    for row in host_rows(result):
        # A host that appears again begins another window.
        if not windows or row["host"] in {known["host"] for known in windows[-1]}:
            windows.append([])
        windows[-1].append(row)
    return (windows[-1] if windows else []), len(windows)


def bound(result: StepResult, run: Run) -> dict[str, float]:
    """Return client host -> its highest share, 0 to 1, of processor time, if it was too busy.

    A host is too busy if this share was above 0.8 in any measured window of the step: then the
    clients may have been the limit.  The host of the database is left out, because the server keeps
    it busy.
    """
    busiest: dict[str, float] = {}
    for row in host_rows(result):
        share = row.get("cpu_share")
        host = row["host"]
        if share is not None and share > CLIENT_BOUND and host != run.cluster.get("database"):
            busiest[host] = max(share, busiest.get(host, 0.0))
    return busiest


def bound_words(result: StepResult, run: Run) -> str:
    """Return a sentence that names the client hosts with too busy processors; "" if none has any.

    The processors are too busy if more than 80 percent of their time was used in a window.
    """
    busiest = [f"{host} {share:.0%}" for host, share in bound(result, run).items()]
    if not busiest:
        return ""
    return (
        f"client-bound: the processors of the client hosts were busy ({', '.join(busiest)}), "
        f"so that the database may do more than this"
    )
