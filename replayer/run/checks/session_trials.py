"""Trials of the SQL files that sessions use: of the SLOB method and of mixed statements.

In the SLOB method, a procedure on the server reads and changes random blocks of a table.
"""

from replayer import __version__
from replayer.engines.connection import Row
from replayer.errors import ReplayerError
from replayer.run.checks.proof import Finding
from replayer.run.checks.verb_trials import VerbTrials
from replayer.tables.pgio import TableSet

_TABLE, _INSERTED = "pgio1", "pgio0"
_ROWS = 6_144
_WANTED = TableSet(tables=1, rows=_ROWS, seed=-1)
"""The table of this check: its negative seed marks it, as the seed of a run is never negative."""
_SECONDS = 0.2
_OPERATIONS = 20_000
"""The most operations of the one slice (call of the session's procedure on the server).

So many take longer than one step of the clock; the slice also ends if the clock stands still."""
_MADE_BY = f"replayer {__version__}"
_CLOCK = "clock in a procedure"
_MASK = 8_191
"""The least power of two above the number of rows, less 1: a permutation gives each row its key."""


def attempt_all(trials: VerbTrials) -> list[Finding]:
    """Load a small table, run the session procedure and statements of each kind, drop the table.

    Returns one finding: whether the server's clock moves on while the procedure runs.  The finding
    is untested, and nothing is tried, if the engine has no session procedure or if a run's table is
    there.
    """
    if trials.database.engine.named("slob/slice") is None:
        why = "the engine has no session procedure, and its steps are skipped"
        return [Finding(name=_CLOCK, proven=None, found=why)]
    there = trials.attempt("slob/tables")
    if trials.failed("slob/tables"):
        why = "slob/tables failed, and what is not known to be replayer's is left alone"
        return [Finding(name=_CLOCK, proven=None, found=why)]
    taken = [str(row["name"]) for row in there if not _may_go(row)]
    if taken:
        why = f"{taken[0]} of an earlier run is there, and was left alone"
        return [Finding(name=_CLOCK, proven=None, found=why)]
    for row in there:
        if row["name"] in (_TABLE, _INSERTED):
            trials.attempt("slob/drop", {"table": str(row["name"])})
    try:
        _load(trials)
        finding = _slice(trials)
        _mix(trials)
    finally:
        trials.roll_back()
        for name in (_TABLE, _INSERTED):
            trials.attempt("slob/drop", {"table": name})
    return [finding]


def _may_go(row: Row) -> bool:
    """Return whether the check may go on although the database has the table that `row` describes.

    It may if it does not use a table of that name, or if an earlier, killed check left the table.
    """
    if row["name"] not in (_TABLE, _INSERTED):
        return True
    return bool(row["ours"]) and row["made_as"] in (None, "", _WANTED.mark)


def _load(trials: VerbTrials) -> None:
    attempt, table = trials.attempt, {"table": _TABLE}
    attempt("begin")
    attempt("slob/create", table, name=_TABLE, made_by=_MADE_BY)
    permutation = {
        f"{word}{n}": int(word == "factor") for word in ("factor", "addend") for n in (1, 2, 3)
    }
    attempt(
        "slob/load", table, low=0, high=_MASK + 1, rows=_ROWS, mask=_MASK, shift=7, **permutation
    )
    attempt("slob/index", {**table, "rows": _ROWS, "seed": _WANTED.seed})
    attempt("commit")
    attempt("slob/finish", table)
    attempt("slob/layout", table, name=_TABLE)
    attempt("slob/files", name=_TABLE)


def _slice(trials: VerbTrials) -> Finding:
    """Call the session procedure once; return the finding on whether the clock moved inside it.

    `proven` is None if the procedure returned no row, or a row that cannot be read.
    """
    attempt, table = trials.attempt, {"table": _TABLE}
    attempt("slob/procedure", table)
    attempt("slob/name", {"number": 1})
    attempt("slob/access_planner")
    attempt("slob/access_index")
    attempt("slob/seed", seed=0.5)
    attempt("slob/plan", {**table, "work_unit": 4})
    for name in ("slob/updates", "slob/all_rows", "slob/own_rows"):
        attempt(name)
    rows = attempt(
        "slob/slice", table, work_unit=4, update_work_unit=4, rows=_ROWS, stop_at=1e11,
        seconds=_SECONDS, operations=_OPERATIONS, update_pct=10, window_left=0, updates_left=0,
    )  # fmt: skip
    attempt("slob/settle")
    if not rows:
        return Finding(name=_CLOCK, proven=None, found="slob/slice gave no row")
    try:
        row = rows[0]
        elapsed = row.real("ended") - row.real("began")
        done = row.number("selects") + row.number("updates")
    except (ReplayerError, KeyError) as error:
        return Finding(name=_CLOCK, proven=None, found=str(error))
    found = f"{done:,} operations, and the clock moved by {elapsed:.3f} s inside the procedure"
    return Finding(name=_CLOCK, proven=elapsed > 0, found=found)


def _mix(trials: VerbTrials) -> None:
    attempt, table = trials.attempt, {"table": _TABLE}
    attempt("mix/session")
    attempt("mix/fill", table, last=0)
    attempt("mix/create", {"table": _INSERTED}, name=_INSERTED, made_by=_MADE_BY)
    for family in ("mix", "mix/burning"):
        burn = {"burn": 0} if family != "mix" else {}
        key = 1 if burn else 2
        for kind in ("point", "range", "update", "scan", "compute"):
            attempt(f"{family}/{kind}", table, first=1, last=4, **burn)
        attempt(f"{family}/insert", {"table": _INSERTED}, first=key, last=64, **burn)
    attempt("mix/settle")
