"""Divergences: different answers in two replays of one capture, or in a replay and its log.

Both sides are given as `Replayed`, one for each fingerprint, which stands for all statements that
are the same except for their values.  An error that only follows from an earlier error is not a
divergence.  Different rows of a statement that varies by itself are reported as `varying`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from replayer.model import Replayed

LEAST_RAN = 0.95
"""Share of the work that must have run on each side, so that two replays can be compared."""
_NAMED = 3

What = Literal["errors", "rows", "answers", "varying"]
Failed = Literal["", "here", "there", "otherwise"]
"""The side on which statements failed: only here, only in the log (`there`), or on both sides with
different errors (`otherwise`)."""


@dataclass(frozen=True, slots=True)
class Where:
    """The time in a capture at which two replays first answered differently, and the sessions."""

    begin: float
    """Second of the capture: the first difference lies between `begin` and `end`."""
    end: float
    sessions: tuple[int, ...]
    """The numbers of all sessions that got different answers."""

    @property
    def named(self) -> str:
        """Return the numbers of the first three sessions as text, such as `1, 5, 7 and 12 more`."""
        first = ", ".join(map(str, self.sessions[:_NAMED]))
        more = len(self.sessions) - _NAMED
        return f"{first} and {more} more" if more > 0 else first

    @property
    def words(self) -> str:
        """Return the time in the capture and the sessions: `12.3 to 14.1 s, sessions 1, 5`."""
        several = "s" if len(self.sessions) > 1 else ""
        return f"{self.begin:.1f} to {self.end:.1f} s, session{several} {self.named}"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Different results of one fingerprint in two replays, or in a replay and its log.

    A fingerprint stands for all statements that differ only in their values.
    """

    replayed: Replayed
    what: What
    """`errors`: other SQLSTATEs; `rows`: another number of rows; `answers`: other rows; `varying`:
    other rows of a statement whose rows differ each time anyway."""
    ours: str
    theirs: str
    answers: int | None = None
    """The number of different answers, if it is known."""
    where: Where | None = None
    """The first place in the capture where the results differ; None if it is not known."""
    failed: Failed = ""
    """For errors that are compared with a log's: the side on which statements failed."""

    @property
    def counts(self) -> bool:
        """Return whether the divergence is real: the statement is not one that varies by itself."""
        return self.what != "varying"


def ran(replayed: Sequence[Replayed]) -> float:
    """Return the share of a replay's planned statements that ran, 0 to 1; 0 if none was planned."""
    planned = sum(one.planned for one in replayed)
    return sum(one.executions for one in replayed) / planned if planned else 0.0


def not_comparable(ours: Sequence[Replayed], theirs: Sequence[Replayed]) -> str:
    """Return the reason why two replays cannot be compared; "" if they can.

    At least 95 percent of the work of each must have run, and as much must be common to both.
    """
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
    """Yield the divergences of a replay from its log: other errors, or other numbers of rows.

    `replayed` has the results of each fingerprint, in whose order they are yielded.  Errors are
    compared only with `errors_logged`, which means that the log contains errors.
    """
    for one in replayed:
        if one.rows_otherwise:
            what: What = "varying" if one.varies else "rows"
            ours, theirs = (f"{rows or 0:,} rows" for rows in (one.held_rows, one.logged_rows))
            yield Divergence(one, what, ours, theirs, answers=one.rows_otherwise)
        if errors_logged:
            yield from _failed(one)


def _failed(one: Replayed) -> Iterator[Divergence]:
    """Yield the differences between a fingerprint's errors in a replay and those in the log.

    Each execution is compared with the same execution in the log.  So two failures on each side
    only match if the same two executions failed.
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
    """Yield the divergences between two replays of one capture: other errors, rows or answers.

    `ours` and `theirs` have the results of each fingerprint; the order is that of `ours`.  Rows are
    compared only if the errors are the same, and both replays have the same number of executions
    without an error.
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
    """Return the number of executions of a fingerprint that ended without an error."""
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
    """Return when in the capture two replays first answered a fingerprint differently.

    It also has the sessions that got different answers.  Return None if it is not known, because a
    replay has no digests of its answers over time, or other ones.
    """
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
    """Return counts of errors (SQLSTATE -> number) as text, such as `2 x 40001` or `no error`."""
    if not errors:
        return "no error"
    return ", ".join(f"{many:,} x {code}" for code, many in sorted(errors.items()))
