"""Comparison of the error and the number of rows of each answer with those in the log."""

from replayer.engines.wire_session import WireConnection
from replayer.errors import UNKNOWN_STATE
from replayer.steps.replay.replay_client import ReplayClient
from replayer.steps.replay.replay_counts import FOLLOWS, OTHERWISE, SAME, held, number_of
from replayer.steps.replay.replay_statistics import IMPOSED_FAILURES, ReplayStatistics
from replayer.steps.replay.work import IMPOSED, Record

_IN_FAILED_TRANSACTION = number_of("25P02")
_ANY_STATE = number_of(UNKNOWN_STATE)
_MISSING = frozenset(map(number_of, ("26000", "34000", "3B001")))
"""SQLSTATEs for a prepared statement, a cursor or a savepoint that does not exist.

After another error in the session, they follow from it: the statement that creates it failed.
"""


class AnswerVerification:
    """Compares the server's answers with the log, and notes the first difference of each kind."""

    def __init__(self, statistics: ReplayStatistics, *, rows: bool) -> None:
        """Set up the comparison: always of errors, and of numbers of rows if `rows` is True.

        `statistics` gets the result of each statement.
        """
        self._statistics = statistics
        self._with_rows = rows

    def check(self, client: ReplayClient, record: Record, connection: WireConnection) -> None:
        """Compare the answer to a statement with the log, and record the result of the statement.

        `connection` has the answer, `record` has the error and the rows of the log.
        """
        code = number_of(connection.sqlstate) if connection.sqlstate else 0
        if record.flags & IMPOSED:
            self._statistics.count(IMPOSED_FAILURES)
            # Some wire protocols cannot fail with a chosen SQLSTATE.
            code = code or record.logged
        if code:
            code = self.judge(client, record, code)
        elif record.logged > 0:
            self._stray(client, record, -record.logged)
        held_rows = -1
        if record.rows >= 0 and self._with_rows and not (code or record.logged):
            held_rows = self._hold(client, record, connection)
        self._statistics.write(client, record, code, connection.rows, connection.hash, held_rows)

    def judge(self, client: ReplayClient, record: Record, code: int) -> int:
        """Compare an error in the replay with the log, and note a difference.

        `code` is the SQLSTATE of the error as a number.  Return it unchanged.  An error that only
        follows from an earlier one is not compared: return -`code` for it.
        """
        if code == _IN_FAILED_TRANSACTION or (code in _MISSING and client.failed):
            return -code
        client.failed = True
        if record.logged not in {code, _ANY_STATE}:
            self._stray(client, record, code)
        return code

    def _stray(self, client: ReplayClient, record: Record, code: int) -> None:
        client.strayed = True
        self._statistics.note_first(record, code, client.work.number)

    def _hold(self, client: ReplayClient, record: Record, connection: WireConnection) -> int:
        """Compare the number of rows of an answer with the log, and note a difference.

        Return the number in the log and the result of the comparison, packed into one number by the
        function `held`.  Return -1 if the answer has no number of rows.
        """
        logged = record.rows
        if connection.rows < 0:
            return -1
        # A MySQL client may have asked for the number of rows found instead of rows changed.
        if logged in {connection.rows, connection.matched}:
            return held(logged, SAME)
        if client.strayed:
            return held(logged, FOLLOWS)
        self._stray(client, record, 0)
        return held(logged, OTHERWISE)
