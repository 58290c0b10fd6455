"""The part of a capture that a replay runs, and the intended start of each of its actions."""

from replayer.capture.action import Action, CommitPlace, LoggedStatement
from replayer.steps.replay.spec import Spec
from replayer.steps.replay.transaction_walk import TransactionWalk

_SECOND = 10**9
_LONGEST_PAUSE = _SECOND
"""Longest pause, in ns, in which no session of the capture does anything, with idle = "skip"."""


class IntendedTimes:
    """Computes the intended start of each action from its start in the capture.

    The keys speed, idle, from and until decide how.
    """

    def __init__(self, spec: Spec) -> None:
        self.last_ns = 0
        """The last intended start, since the begin of the replay."""
        self._speed, self._skips = spec.speed or 1, spec.idle == "skip"
        self._skipped_ns = self._busy_until = 0
        self._from_ns = round((spec.begin or 0) * _SECOND)
        self._until_ns = None if spec.until is None else round(spec.until * _SECOND)
        self._walk = None if spec.begin is spec.until is None else TransactionWalk()
        self._open: dict[int, tuple[int, bool]] = {}
        """Session -> number of its last transaction, and whether that is replayed."""

    def has(self, action: Action, statement: LoggedStatement | None, place: CommitPlace) -> bool:
        """Return whether an action is in the part of the capture that is replayed.

        A transaction is in it as a whole if it begins in it: otherwise it would end differently.
        Actions must come in the order of their starts.
        """
        if self._walk is None:
            return True
        number, _ = self._walk.transaction(action, statement, place)
        last, has = self._open.get(action.session, (-1, False))
        if number != last:
            has = self._from_ns <= action.start_ns
            has = has and (self._until_ns is None or action.start_ns < self._until_ns)
            self._open[action.session] = number, has
        if action.does == "disconnect":
            self._open.pop(action.session, None)
        return has

    def start(self, since_ns: int, duration_ns: int) -> int:
        """Return the intended start of the next action, in ns since the begin of the replay.

        In the capture it started `since_ns` after the begin and took `duration_ns`; below 0 if the
        log has no duration.
        """
        start = since_ns - self._from_ns
        if self._skips:
            pause = start - self._busy_until
            if pause > _LONGEST_PAUSE:
                self._skipped_ns += pause - _LONGEST_PAUSE
            self._busy_until = max(self._busy_until, start + max(0, duration_ns))
            start -= self._skipped_ns
        start = round(start / self._speed)
        self.last_ns = max(self.last_ns, start)
        return start
