"""Where two replays of one capture, or a replay and its log, answered differently.

Both sides are what `Replayed` holds of each fingerprint.  Errors that only follow from an earlier
one are no divergence of their own, and rows of what varies by itself are held apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from replayer.model import Replayed

LEAST_RAN = 0.95
"""Share of the work that must have run on each side for two replays to be comparable."""
_NAMED = 3

What = Literal["errors", "rows", "answers", "varying"]
Failed = Literal["", "here", "there", "otherwise"]
"""Whether statements failed here and not in the log, there and not here, or in two ways."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where in a capture two replays answered differently first."""

    begin: float
    """Second of the capture from which on the first difference may lie."""
    end: float
    sessions: tuple[int, ...]
    """All that were answered otherwise, by their numbers."""

    @property
    def named(self) -> str:
        """Return the first few sessions as `1, 5, 7 and 12 more`."""
        first = ", ".join(map(str, self.sessions[:_NAMED]))
        more = len(self.sessions) - _NAMED
        return f"{first} and {more} more" if more > 0 else first

    @property
    def words(self) -> str:
        """Return it as `12.3 to 14.1 s, sessions 1, 5`."""
        several = "s" if len(self.sessions) > 1 else ""
        return f"{self.begin:.1f} to {self.end:.1f} s, session{several} {self.named}"


@dataclass(frozen=True, slots=True)
class Divergence:
    """One fingerprint that ended in another way than on the other side."""

    replayed: Replayed
    what: What
    """`errors`: other SQLSTATEs; `rows`: another number of rows; `answers`: other rows; `varying`:
    other rows, as of a statement that has others each time."""
    ours: str
    theirs: str
    answers: int | None = None
    """How many answers were others, where that is known."""
    where: Where | None = None
    """Where in the capture it came first, where that is known."""
    failed: Failed = ""
    """Of errors that are held against a log's."""

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


def against_log(
    replayed: Sequence[Replayed], *, errors_logged: bool = True
) -> Iterator[Divergence]:
    """Yield the fingerprints whose errors or rows are not those of the log, the heaviest first."""
    for one in replayed:
        if one.rows_otherwise:
            what: What = "varying" if one.varies else "rows"
            ours, theirs = (f"{rows or 0:,} rows" for rows in (one.held_rows, one.logged_rows))
            yield Divergence(one, what, ours, theirs, answers=one.rows_otherwise)
        if errors_logged:
            yield from _failed(one)


def _failed(one: Replayed) -> Iterator[Divergence]:
    """Yield how its executions failed otherwise than the log has it of the same executions.

    That two failed there and two here is no match where they are not the same two.
    """
    instead, logged = one.failed_otherwise
    sides: tuple[tuple[Failed, Mapping[str, int], Mapping[str, int]], ...] = (
        ("here", one.failed_here, {}),
        ("there", {}, one.failed_there),
        ("otherwise", instead, logged),
    )
    for failed, ours, theirs in sides:
        many = sum((ours or theirs).values())
        if many:
            words = show_errors(ours), show_errors(theirs)
            yield Divergence(one, "errors", *words, answers=many, failed=failed)


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
        ours, theirs = f"{one.rows:,} rows", f"{other.rows:,} rows"
        yield Divergence(one, what, ours, theirs, where=_where(one, other))
    elif one.rows_hash and other.rows_hash and one.rows_hash != other.rows_hash:
        what = "varying" if one.varies else "answers"
        theirs = f"{other.rows or 0:,} rows"
        yield Divergence(one, what, "other rows", theirs, where=_where(one, other))


def _where(one: Replayed, other: Replayed) -> Where | None:
    """Return where two replays first answered a fingerprint differently."""
    ours, theirs = one.places, other.places
    if ours is None or theirs is None or ours.part_s != theirs.part_s:
        return None
    parts = _differing(ours.parts, theirs.parts)
    if not parts:
        return None
    begin = parts[0] * ours.part_s
    sessions = tuple(_differing(ours.sessions, theirs.sessions))
    return Where(begin, begin + ours.part_s, sessions)


def _differing(ours: Mapping[int, int], theirs: Mapping[int, int]) -> list[int]:
    return sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))


def show_errors(errors: Mapping[str, int]) -> str:
    """Return errors by SQLSTATE as words: `40001 twice`, `no error`."""
    if not errors:
        return "no error"
    return ", ".join(f"{many:,} x {code}" for code, many in sorted(errors.items()))
