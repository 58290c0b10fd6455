"""The order that a replay keeps, as it is planned: ends of transactions, and turns of changes."""

from replayer.capture.action import Action, LoggedStatement
from replayer.steps.replay.commit_order import WHOLE_TABLE, RowChange, Sequenced
from replayer.steps.replay.row_keys import RowKeys, without_outer_comments
from replayer.steps.replay.uncertain_order import UncertainOrder
from replayer.steps.replay.work import Record

_MOST_HASH = (1 << 63) - 1
_ROWLESS = frozenset({"ddl", "other"})
"""Kinds of statements that change no row if their text shows no table, such as LOCK."""
_SHOWN = 60
"""Number of characters of a statement's text by which it is named."""


class PlannedOrder:
    """Collects the order that a replay keeps, while the replay is planned.

    That is the ends of transactions, and the turn of each change among the changes of its table.
    It also collects changes whose order is not certain.
    """

    def __init__(self, rows: RowKeys | None, coarse_ns: int, *, kept: bool) -> None:
        """Begin with no action.

        `rows` finds the row that a change is for; None if rows are not looked for.  The times of
        the log may be wrong by `coarse_ns` nanoseconds.  `kept` is True if the replay keeps an
        order.
        """
        self.sequenced = Sequenced()
        self.uncertain = UncertainOrder(rows, coarse_ns)
        """The rows and tables whose changes have no certain order in the log."""
        self._rows, self._kept = rows, kept

    def note(
        self, owner: int, record: Record, action: Action, statement: LoggedStatement | None
    ) -> None:
        """Note the turn that an action takes in the order, and the transaction that it ends.

        `owner` is the number of the client (replayed session) that runs it, among all clients.
        """
        if statement is not None and record.chain >= 0:
            self._take_turn(owner, record, action, statement)
        if record.ends >= 0:
            if self._kept:
                self.sequenced.ends(record.ends, owner)
            self.uncertain.end_transaction(action.session, action.start_ns)

    def _take_turn(
        self, owner: int, record: Record, action: Action, statement: LoggedStatement
    ) -> None:
        """Note the turn of a change (its place among the changes of its table).

        Also note the row that it changes, if its text shows that.
        """
        start_ns, end_ns = action.start_ns, action.start_ns + max(0, action.duration_ns)
        kind, row = WHOLE_TABLE, 0
        writes = statement.fingerprint.writes
        alone = record.needs >= 0 and record.ends >= 0
        if self._rows is not None and writes is None and statement.fingerprint.kind not in _ROWLESS:
            self.uncertain.add_hidden(
                *(statement.fingerprint.text[:_SHOWN], (start_ns, end_ns)),
                alone=alone,
                session=action.session,
            )
        elif self._rows is not None and record.chain > 0 and writes:
            text = without_outer_comments(statement.text)
            key = self._rows.find(writes, text, action.parameters or ())
            if key is not None:
                kind, row = self.sequenced.kind(key.columns), hash(key) & _MOST_HASH
            elif self._rows.appends(writes, text):
                # As many rows as changes: none waits for another one.
                kind, row = self.sequenced.kind(()), record.turn
            self.uncertain.add_change(
                *(writes, text, key, (start_ns, end_ns)),
                alone=alone,
                session=action.session,
            )
        change = RowChange(kind, row, start_ns, end_ns)
        self.sequenced.takes(record.chain, record.turn, owner, change)
