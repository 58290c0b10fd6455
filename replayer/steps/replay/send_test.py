"""The test of which captured statements a replay sends, whatever its user chose."""

import re

from replayer.capture.action import Action, LoggedStatement
from replayer.steps.replay.read_only import ReadOnlyTest
from replayer.steps.replay.server_wide import SystemSessions, acts_beyond_database
from replayer.steps.replay.user_variables import UserVariables

_ENCODING = re.compile(
    r"(?:\s*set\s+(?:(?:session|local)\s+)?(?:client_encoding\b|names\b)[^;]*(?:;|\Z))+\s*",
    re.IGNORECASE,
)
"""Statements of PostgreSQL that only set the encoding of the client's texts."""
_MOST_PARAMETERS = 0xFFFF
"""Most parameters of a statement, whose number has two bytes in each protocol."""


class SendTest:
    """Tests the actions of a capture, in the order of their starts, for whether they are sent."""

    def __init__(self, dialect: str, *, read_only: bool) -> None:
        """Begin; `dialect` is "postgres" or "mysql", and `read_only` is the key of the step."""
        self._dialect = dialect
        self._reading = ReadOnlyTest(dialect) if read_only else None
        self._system = SystemSessions(dialect)
        self._variables = UserVariables()

    def refusal(self, action: Action, statement: LoggedStatement | None) -> str:
        """Return why a replay does not send an action, which may be a statement; "" if it does."""
        if statement and self._reading and not self._reading.only(statement.text):
            return "it may write"
        if statement and self._acts_beyond(action.session, statement.text):
            return "it acts on the server, on other sessions or other databases"
        if statement and self._dialect == "postgres" and _ENCODING.fullmatch(statement.text):
            return "it sets the encoding of the texts, and the log has all in that of the database"
        if len(action.parameters or ()) > _MOST_PARAMETERS:
            return "it has more parameters than a server takes"
        return ""

    def _acts_beyond(self, session: int, text: str) -> bool:
        """Return whether a text of a session acts on more than its database, or may do so."""
        if self._dialect == "mysql":
            text = self._variables.resolve(session, text)
        beyond = acts_beyond_database(text, self._dialect) or self._system.change(session, text)
        if beyond:
            # Without it, an earlier statement stays prepared under its name.
            self._variables.forget_prepared(session)
        return beyond

    def end(self, session: int) -> None:
        """Forget a session, by its number, that has ended."""
        self._system.end(session)
        self._variables.end(session)
