"""The transactions of a capture, found while its actions are read in the order of their starts."""

from replayer.capture.action import Action, CommitPlace, LoggedSession, LoggedStatement


class TransactionWalk:
    """Numbers the transactions of a capture from 0, in the order in which they begin.

    Actions must come in the order of their starts.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, LoggedSession] = {}
        self._open: dict[int, int] = {}
        self._count = 0

    def describe(self, session: LoggedSession) -> None:
        """Store the description of a session: call it before its actions."""
        self._sessions[session.number] = session

    def session(self, action: Action) -> LoggedSession:
        """Return the session of an action, without a user or names if it was not described."""
        known = self._sessions.get(action.session)
        return known or self._sessions.setdefault(action.session, LoggedSession(action.session))

    def transaction(
        self, action: Action, statement: LoggedStatement | None, place: CommitPlace
    ) -> tuple[int, bool]:
        """Return the number of an action's transaction, and whether the action is all of it.

        The number counts from 0, in the order in which transactions begin.
        """
        session = action.session
        number = self._open.get(session)
        inside = number is not None
        if number is None:
            number, self._count = self._count, self._count + 1
        goes_on = place.ends < 0 and (inside or place.needs >= 0)
        if statement is not None and statement.fingerprint.bounds == "restart":
            # A transaction chained to the last one (AND CHAIN), or one whose BEGIN ends the last
            # one, counts as the same transaction.
            goes_on = True
        if goes_on:
            self._open[session] = number
        else:
            self._open.pop(session, None)
        if action.does == "disconnect":
            self._open.pop(session, None)
            self._sessions.pop(session, None)
        return number, not inside and not goes_on
