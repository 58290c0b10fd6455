"""The order that a replay keeps, noted while its records are planned: ends, turns and rows."""

from replayer.capture.action import Action, LoggedStatement
from replayer.steps.replay.commit_order import WHOLE_TABLE, RowChange, Sequenced
from replayer.steps.replay.row_keys import RowKeys
from replayer.steps.replay.uncertain_order import UncertainOrder
from replayer.steps.replay.work import Record

_MOST_HASH = (1 << 63) - 1
_ROWLESS = frozenset({"ddl", "other"})
"""Kinds of statements without tables in their text that change no row: CREATE FUNCTION, LOCK."""
_SHOWN = 60
"""Characters of a statement that is named."""


class PlannedOrder:
    """The ends and turns with the clients that have them, and what the log leaves uncertain."""

    def __init__(self, rows: RowKeys | None, coarse_ns: int, *, kept: bool) -> None:
        """Begin; `coarse_ns` is by how much the log's times may be wrong, in ns."""
        self.sequenced = Sequenced()
        self.uncertain = UncertainOrder(rows, coarse_ns)
        """The rows whose changes have no certain order in the log, if the order is kept."""
        self._rows, self._kept = rows, kept

    def note(
        self, owner: int, record: Record, action: Action, statement: LoggedStatement | None
    ) -> None:
        """Note the turn of a change, and the end of a transaction; `owner` is a client's number."""
        if statement is not None and record.chain >= 0:
            self._take_turn(owner, record, action, statement)
        if record.ends >= 0:
            if self._kept:
                self.sequenced.ends(record.ends, owner)
            self.uncertain.end_transaction(action.session, action.start_ns)

    def _take_turn(
        self, owner: int, record: Record, action: Action, statement: LoggedStatement
    ) -> None:
        """Note the turn of a change, and the row that it is for."""
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
            key = self._rows.find(writes, statement.text, action.parameters or ())
            if key is not None:
                kind, row = self.sequenced.kind(key.columns), hash(key) & _MOST_HASH
            elif self._rows.appends(writes, statement.text):
                # As many rows as changes: none waits for another one.
                kind, row = self.sequenced.kind(()), record.turn
            self.uncertain.add_change(
                *(writes, statement.text, key, (start_ns, end_ns)),
                alone=alone,
                session=action.session,
            )
        change = RowChange(kind, row, start_ns, end_ns)
        self.sequenced.takes(record.chain, record.turn, owner, change)
