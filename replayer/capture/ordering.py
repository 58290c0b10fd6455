"""The commit order: for each action of a log, the earlier actions that a replay must wait for.

A replay that keeps this order leaves the data as the source left it.  A transaction is a single
statement, or the statements between its start and its end; it also ends with its session.
Transactions have ranks in the order of their ends.  Actions that change rows of a table have turns
in the order of their ends: an UPDATE that waited for the lock of another one ended after it.
Actions that ask for advisory locks have turns, too.
"""

import re
from array import array
from bisect import bisect_left

from replayer.capture.action import UNKNOWN, Action, CommitPlace, Fingerprint

_NO_PLACE = CommitPlace()
_RESOLUTION_NS = 10**6
"""Resolution of logs' stamps, in nanoseconds: the order of closer events is not certain."""
_LOCKS = re.compile(
    r"\b(?:pg_(?:try_)?advisory_(?:xact_)?lock(?:_shared)?|get_lock)\s*\(", re.IGNORECASE
)
_ADVISORY = "(advisory locks)"
_MOST_REMEMBERED = 50_000
_MOST_ENDS = 1 << 17
"""At least so many of the latest ends of transactions are kept one by one."""
_EVERY = 64
_MOST_TABLES = 10_000
"""Tables with a separate chain; later tables share the chain of unknown tables."""


class CommitOrder:
    """The commit order of a capture: it determines the CommitPlace of each action.

    The commit order is the order in which transactions ended and tables were changed.  The caller
    passes the actions in the order of their ends.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._manual: set[int] = set()
        self._ends = _Ends()
        self._chains: dict[str, int] = {}
        self._turns: dict[int, int] = {}
        self._locking: dict[int, bool] = {}
        """Fingerprint -> whether its statements ask for advisory locks."""

    @property
    def transactions(self) -> int:
        """Return how many transactions have ended in the actions that were passed so far."""
        return self._ends.count

    @property
    def chains(self) -> int:
        """Return how many tables were changed so far, plus one for all unknown tables."""
        return len(self._chains) + 1

    def place(self, action: Action, end_ns: int, fingerprint: Fingerprint | None) -> CommitPlace:
        """Return the place of the next action in the commit order.

        `fingerprint` is None for a connect or disconnect.  `end_ns` is the end of the action, in
        nanoseconds since 1970.
        """
        if fingerprint is None:
            return self._left(action, end_ns) if action.does == "disconnect" else _NO_PLACE
        session = action.session
        if fingerprint.bounds or session in self._manual:
            needs, ends = self._transaction(action, end_ns, fingerprint.bounds)
        elif session in self._open:
            needs = ends = UNKNOWN
        else:
            needs, ends = self._ends.before(action.start_ns), self._ends.add(end_ns)
        writes = fingerprint.writes
        if writes == ():
            if not self._locks(fingerprint):
                return CommitPlace(needs, ends)
            writes = (_ADVISORY,)
        chain = 0 if writes is None else self._chain(writes[0])
        turn = self._turns.get(chain, 0)
        self._turns[chain] = turn + 1
        return CommitPlace(needs, ends, chain, turn)

    def _left(self, action: Action, end_ns: int) -> CommitPlace:
        self._manual.discard(action.session)
        if action.session not in self._open:
            return _NO_PLACE
        self._open.discard(action.session)
        return CommitPlace(ends=self._ends.add(end_ns))

    def _transaction(self, action: Action, end_ns: int, bounds: str) -> tuple[int, int]:
        session = action.session
        was_open = session in self._open
        needs = UNKNOWN if was_open else self._ends.before(action.start_ns)
        stays_open = bounds in ("begin", "restart") or (
            not bounds and (was_open or session in self._manual)
        )
        if bounds in ("manual", "automatic"):
            (self._manual.add if bounds == "manual" else self._manual.discard)(session)
            stays_open = was_open and bounds == "manual"
        (self._open.add if stays_open else self._open.discard)(session)
        ended = not stays_open or (was_open and bounds == "restart")
        return needs, self._ends.add(end_ns) if ended else UNKNOWN

    def _locks(self, fingerprint: Fingerprint) -> bool:
        """Return whether statements of this fingerprint ask for an advisory lock, as get_lock does.

        It is for statements that change no table.
        """
        known = self._locking.get(fingerprint.number)
        if known is None:
            known = _LOCKS.search(fingerprint.text) is not None
            if len(self._locking) < _MOST_REMEMBERED:
                self._locking[fingerprint.number] = known
        return known

    def _chain(self, table: str) -> int:
        chain = self._chains.get(table)
        if chain is None:
            if len(self._chains) >= _MOST_TABLES:
                return 0
            chain = self._chains[table] = len(self._chains) + 1
        return chain


class _Ends:
    """The times at which transactions ended; the index of a time is the rank of its transaction.

    To save memory, only the latest times are kept one by one, and every 64th of all.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last = array("q")
        self._some = array("q")

    def add(self, end_ns: int) -> int:
        """Add the next transaction; return its rank, which is the number that ended before it.

        `end_ns` is its end in nanoseconds since 1970.
        """
        rank = self.count
        self.count += 1
        # An entry that is later in the log did not end earlier, whatever its clock shows.
        end = max(end_ns, self._last[-1]) if self._last else end_ns
        self._last.append(end)
        if not rank % _EVERY:
            self._some.append(end)
        if len(self._last) > 2 * _MOST_ENDS:
            del self._last[:_MOST_ENDS]
        return rank

    def before(self, start_ns: int) -> int:
        """Return how many transactions had certainly ended before this time, in ns since 1970.

        A log's clock is coarse, so ends in the last millisecond before this time do not count.  For
        a time long ago, the result may be up to 63 too low.
        """
        start_ns -= _RESOLUTION_NS
        if self._last and self._last[0] < start_ns:
            return self.count - len(self._last) + bisect_left(self._last, start_ns)
        some = bisect_left(self._some, start_ns)
        return (some - 1) * _EVERY + 1 if some else 0
