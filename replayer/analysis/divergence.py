"""Where two replays of one capture, or a replay and its log, answered differently.

Both sides are what `Replayed` holds of each fingerprint.  Errors that only follow from an earlier
one are no divergence of their own, and rows of what varies by itself are held apart.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from replayer.model import UNKNOWN_STATE, Replayed

LEAST_RAN = 0.95
"""Share of the work that must have run on each side for two replays to be comparable."""
_CONSEQUENCES = frozenset({"25P02"})
"""In a log, where what follows from an earlier error is counted with the rest."""

What = Literal["errors", "rows", "answers", "varying"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """One fingerprint that ended in another way than on the other side."""

    replayed: Replayed
    what: What
    """`errors`: other SQLSTATEs; `rows`: another number of rows; `answers`: other rows; `varying`:
    other rows, as of a statement that has others each time."""
    ours: str
    theirs: str

    @property
    def counts(self) -> bool:
        """Tell whether it is more than what varies by itself."""
        return self.what != "varying"


def ran(replayed: Sequence[Replayed]) -> float:
    """Return the share of the planned statements that ran, 0 where none was planned."""
    planned = sum(one.planned for one in replayed)
    return sum(one.executions for one in replayed) / planned if planned else 0.0


def not_comparable(ours: Sequence[Replayed], theirs: Sequence[Replayed]) -> str:
    """Return why two replays cannot be compared, "" if they can."""
    for side, replayed in (("this replay", ours), ("the other one", theirs)):
        share = ran(replayed)
        if share < LEAST_RAN:
            return f"not comparable: only {share:.1%} of the work of {side} ran"
    common = _work(ours) & _work(theirs)
    for side, replayed in (("this replay", ours), ("the other one", theirs)):
        whole = sum(one.planned for one in replayed)
        shared = sum(one.planned for one in replayed if one.fingerprint in common)
        if not whole or shared < LEAST_RAN * whole:
            return f"not comparable: less than {LEAST_RAN:.0%} of the work of {side} is common work"
    return ""


def _work(replayed: Sequence[Replayed]) -> set[str]:
    return {one.fingerprint for one in replayed}


def against_log(replayed: Sequence[Replayed]) -> Iterator[Divergence]:
    """Yield the fingerprints whose errors are not those of the log, the heaviest first."""
    for one in replayed:
        logged = {c: n for c, n in one.logged_errors.items() if c not in _CONSEQUENCES}
        if not _explained(one.errors, logged):
            yield Divergence(one, "errors", show_errors(one.errors), show_errors(logged))


def _explained(errors: Mapping[str, int], logged: Mapping[str, int]) -> bool:
    """Tell whether they are the same errors; one whose state was not logged may be any."""
    more = Counter(errors) - Counter(logged)
    missing = Counter(logged) - Counter(errors)
    return more.total() == missing.pop(UNKNOWN_STATE, 0) and not missing


def against_run(ours: Sequence[Replayed], theirs: Sequence[Replayed]) -> Iterator[Divergence]:
    """Yield the fingerprints that ended otherwise in another replay, the heaviest of ours first.

    Rows are compared where both executed as many without an error.
    """
    others = {one.fingerprint: one for one in theirs}
    for one in ours:
        other = others.get(one.fingerprint)
        if other is None:
            continue
        if one.errors != other.errors:
            yield Divergence(one, "errors", show_errors(one.errors), show_errors(other.errors))
        elif fine(one) == fine(other):
            yield from _rows(one, other)


def fine(one: Replayed) -> int:
    """Return how many executions ended without an error."""
    return one.executions - one.consequences - sum(one.errors.values())


def _rows(one: Replayed, other: Replayed) -> Iterator[Divergence]:
    if one.rows is not None and other.rows is not None and one.rows != other.rows:
        what: What = "varying" if one.varies else "rows"
        yield Divergence(one, what, f"{one.rows:,} rows", f"{other.rows:,} rows")
    elif one.rows_hash and other.rows_hash and one.rows_hash != other.rows_hash:
        what = "varying" if one.varies else "answers"
        yield Divergence(one, what, "other rows", f"{other.rows or 0:,} rows")


def show_errors(errors: Mapping[str, int]) -> str:
    """Return errors by SQLSTATE as words: `40001 twice`, `no error`."""
    if not errors:
        return "no error"
    return ", ".join(f"{many:,} x {code}" for code, many in sorted(errors.items()))
