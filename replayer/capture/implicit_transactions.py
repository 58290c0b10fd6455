"""Transactions of a capture that have no BEGIN in the log, or no end.

A pipeline (batch) of PostgreSQL's extended protocol is one transaction without a BEGIN: if a
statement of it fails, the server rolls all of them back.  The log may begin within a transaction,
and end before its COMMIT.  The replay sends one statement after the other, so the writer of the
replay file puts a BEGIN and a ROLLBACK around those that have to end together, if the log shows
which these are.  What it cannot repair is counted.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from replayer.capture.action import DOES, UNKNOWN, Action, LoggedStatement
from replayer.capture.block import ActionRow

FAILED = (
    "pipelines (batches) without a BEGIN that failed: replayed within BEGIN and ROLLBACK, as the "
    "server rolled all of each back"
)
APART = (
    "pipelines (batches) without a BEGIN that change data: replayed, each of their statements "
    "commits alone"
)
KEPT = (
    "pipelines (batches) without a BEGIN that failed, of which the replay keeps rows that the "
    "server rolled back: they are too long"
)
IN_DOUBT = (
    "failed statements whose server may have rolled back those before them, which the replay "
    "keeps: they may be of one pipeline (batch), which log_line_prefix shows with %v"
)
CUT_BEGIN = (
    "transactions that began before the log: what the log has of them is replayed, and their rows "
    "may differ"
)
UNSURE_BEGIN = (
    "sessions that may have begun a transaction before the log, as its COMMIT or ROLLBACK has no "
    "BEGIN: what they changed before it is committed by the replay, and may differ"
)
CUT_END = (
    "transactions that were open when the log ended: the replay rolls them back, and the source "
    "may have committed them later"
)
DIFFERING = (KEPT, IN_DOUBT, CUT_BEGIN, UNSURE_BEGIN, CUT_END)
"""Reasons for which the rows after a replay may differ from those of the source."""

_MOST_SESSIONS = 100_000
_PIPELINE_NS = 100_000_000
"""Between two statements of one pipeline passes less: their server waits for no client."""
_ENDS = frozenset({"commit", "rollback"})
_SIMPLE, _EXTENDED = DOES.index("simple"), DOES.index("extended")


class _Open:
    """The statements of a session that may be one transaction without a BEGIN."""

    __slots__ = ("changes", "count", "end_ns", "extended", "number", "rank")

    def __init__(self) -> None:
        self.rank = UNKNOWN
        """Rank of the transaction, if a statement of it failed and a ROLLBACK has to follow."""
        self.end_ns = 0
        self.restart(0)

    def restart(self, number: int) -> None:
        """Begin the next transaction, which has this number in its session."""
        self.number, self.count = number, 0
        self.changes = self.extended = False


class ImplicitTransactions:
    """Repairs the transactions of a capture's statements while the writer holds them back."""

    def __init__(
        self,
        window: list[ActionRow],
        statement: Callable[[str], LoggedStatement],
        skipped: Counter[str],
    ) -> None:
        """Begin; the rows of actions that are not yet written are in `window`, which is changed.

        `statement` makes a statement of an SQL text.  The reasons above are counted in `skipped`.
        """
        self._window, self._statement, self._skipped = window, statement, skipped
        self._sessions: dict[int, _Open] = {}
        self._cut: dict[int, bool] = {}
        """Session that began before the log -> whether it has changed something since.

        It is in here until its first BEGIN, COMMIT or ROLLBACK.
        """
        self._numbered = False
        """True if the log shows which statements are one transaction."""
        self._changing: set[int] = set()
        """Sessions whose open transaction, with a BEGIN, has changed something."""

    def finish(self) -> None:
        """Add what is missing at the end of the log, and count the transactions open there."""
        for number in list(self._sessions):
            self._leave(number)
        if self._changing:
            self._skipped[CUT_END] += len(self._changing)

    def begin_before(self, session: int) -> None:
        """Note a session that began before the log, before its first action."""
        self._cut[session] = False
        if len(self._cut) > _MOST_SESSIONS:
            del self._cut[next(iter(self._cut))]

    def add(self, action: Action, row: ActionRow, end_ns: int) -> None:
        """Add the row of the next action to the window; it ended at `end_ns`, in ns since 1970.

        Actions come in the order of their ends.
        """
        session, statement = action.session, row.statement
        if statement is None:
            if action.does == "disconnect":
                self._leave(session)
                self._changing.discard(session)
                self._cut.pop(session, None)
            self._window.append(row)
            return
        if session in self._cut:
            self._look_at_cut(action, row)
        if action.transaction or row.does == _EXTENDED or session in self._sessions:
            state = self._sessions.get(session)
            if state is None:
                state = self._sessions[session] = _Open()
                if len(self._sessions) > _MOST_SESSIONS:
                    self._leave(next(iter(self._sessions)))
            row = self._place(action, row, end_ns, state)
            if not (state.number or state.extended):
                del self._sessions[session]
        elif row.ends < 0 or row.needs < 0:
            self._note_open(session, row, changes=statement.fingerprint.writes != ())
        self._window.append(row)

    def _leave(self, session: int) -> None:
        """End the last statements of a session, if it had any."""
        state = self._sessions.pop(session, None)
        if state is not None:
            self._close(session, state)
            self._count_apart(state)

    def _place(self, action: Action, row: ActionRow, end_ns: int, state: _Open) -> ActionRow:
        """Return the row of a statement, changed if it ends or continues a transaction."""
        assert row.statement is not None
        form, session = row.statement.fingerprint, action.session
        joined = action.transaction != 0 and action.transaction == state.number
        self._numbered = self._numbered or action.transaction != 0
        if state.rank >= 0 and joined:
            return self._go_on(row, state)
        self._close(session, state)
        unnumbered = not action.transaction and not state.number
        if unnumbered and row.start_ns - state.end_ns > _PIPELINE_NS:
            state.restart(0)
        if row.needs < 0 or (row.ends < 0 and not joined):
            # It is in a transaction with a BEGIN, or it is that BEGIN.
            self._note_open(session, row, changes=form.writes != ())
            state.restart(0)
            return row
        if joined and state.changes and (action.sqlstate or form.bounds):
            row = self._join(action, row, end_ns, state)
        elif action.sqlstate and not action.transaction and state.changes:
            # The one before it was an extended query, too, and may be of the same pipeline.
            self._skipped[IN_DOUBT] += state.extended and row.does == _EXTENDED
        if not joined and not (unnumbered and state.extended and row.does == _EXTENDED):
            self._count_apart(state)
            state.restart(action.transaction)
        self._note(state, row, changes=form.writes != () or form.kind == "set")
        state.end_ns = end_ns
        return row

    def _go_on(self, row: ActionRow, state: _Open) -> ActionRow:
        """Return the row of a statement that follows an error in its transaction."""
        assert row.statement is not None
        if row.statement.fingerprint.bounds not in {"end", "restart"}:
            return row._replace(needs=UNKNOWN, ends=UNKNOWN)
        # A transaction with its own end was no pipeline.
        self._skipped[FAILED] -= 1
        self._skipped[CUT_BEGIN] += 1
        state.rank = UNKNOWN
        state.restart(0)
        return row._replace(needs=UNKNOWN)

    @staticmethod
    def _note(state: _Open, row: ActionRow, *, changes: bool) -> None:
        state.count += 1
        changes = changes and not row.sqlstate
        state.changes = state.changes or changes
        state.extended = row.does == _EXTENDED and not row.sqlstate

    def _count_apart(self, state: _Open) -> None:
        if state.number and state.count > 1 and state.changes:
            self._skipped[APART] += 1

    def _note_open(self, session: int, row: ActionRow, *, changes: bool) -> None:
        if row.ends >= 0:
            self._changing.discard(session)
        elif changes:
            self._changing.add(session)

    def _look_at_cut(self, action: Action, row: ActionRow) -> None:
        """Count a COMMIT or ROLLBACK that may be of a transaction that began before the log."""
        assert row.statement is not None
        form, session = row.statement.fingerprint, action.session
        if not form.bounds and row.needs >= 0:
            self._cut[session] = self._cut[session] or form.writes != ()
            return
        changed = self._cut.pop(session)
        state = self._sessions.get(session)
        joined = action.transaction and state is not None and action.transaction == state.number
        # If the log shows the transactions, a simple query without a number was alone.
        hidden = not self._numbered or (state is not None and state.number != 0)
        if changed and hidden and not joined and row.ends >= 0 and form.kind in _ENDS:
            self._skipped[UNSURE_BEGIN] += 1

    def _join(self, action: Action, row: ActionRow, end_ns: int, state: _Open) -> ActionRow:
        """Make one transaction of a session's last statements, which this one ends; return its row.

        If it failed, a ROLLBACK follows before the session's next action.
        """
        failed = bool(action.sqlstate)
        if not self._begin(action.session, state.count):
            self._skipped[KEPT if failed else CUT_BEGIN] += 1
            state.restart(0)
            return row
        if failed:
            self._skipped[FAILED] += 1
            state.rank, state.end_ns = row.ends, end_ns
            return row._replace(needs=UNKNOWN, ends=UNKNOWN)
        assert row.statement is not None
        if row.statement.fingerprint.kind in _ENDS:
            self._skipped[CUT_BEGIN] += 1
        state.restart(0)
        return row._replace(needs=UNKNOWN)

    def _begin(self, session: int, count: int) -> bool:
        """Insert a BEGIN before the last `count` statements of a session in the window.

        Return False, and change nothing, if some of them are already written.
        """
        places: list[int] = []
        for place in range(len(self._window) - 1, -1, -1):
            if self._window[place].session == session:
                places.append(place)
                if len(places) == count:
                    break
        if len(places) < count:
            return False
        first = self._window[places[-1]]
        for place in places:
            self._window[place] = self._window[place]._replace(needs=UNKNOWN, ends=UNKNOWN)
        self._window.insert(places[-1], self._row("BEGIN", session, first.start_ns, first.needs))
        return True

    def _close(self, session: int, state: _Open) -> None:
        """Add the ROLLBACK of a transaction that failed, if it has none yet."""
        if state.rank >= 0:
            self._window.append(self._row("ROLLBACK", session, state.end_ns, UNKNOWN, state.rank))
            state.rank = UNKNOWN
            state.restart(0)

    def _row(
        self, text: str, session: int, start_ns: int, needs: int, ends: int = UNKNOWN
    ) -> ActionRow:
        return ActionRow(
            *(start_ns, session, _SIMPLE, UNKNOWN, UNKNOWN, needs, ends, UNKNOWN, UNKNOWN),
            *(self._statement(text), "", "", None, 0),
        )


def differing(skipped: Mapping[str, int]) -> Sequence[str]:
    """Return a sentence for each reason in `skipped` for which rows of a replay may differ."""
    return [f"the log has {skipped[why]:,} {why}" for why in DIFFERING if skipped.get(why)]
