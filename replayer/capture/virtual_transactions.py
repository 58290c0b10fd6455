"""Transactions of PostgreSQL's sessions, by the ids of virtual transactions in its log.

All statements of a transaction have the same id, such as 20/2.  That of a statement which the
server logs after the end of its transaction is 20/0, as no transaction is open then: a COMMIT, or a
simple query outside of a transaction.  An extended query is logged before its transaction ends.
Several of them that the client sent as one pipeline (a batch) are one transaction without a BEGIN.
"""


class SessionTransactions:
    """The transactions of one session: it numbers them from 1 in the order of their begins."""

    __slots__ = ("_inside", "_number", "_vxid", "cut")

    def __init__(self) -> None:
        self._number = 0
        self._vxid = ""
        self._inside = False
        """True if the last statement certainly left the transaction open."""
        self.cut = False
        """True if the first transaction may have begun before the log."""

    def number(self, vxid: str, *, at_end: bool = False) -> int:
        """Return the number of the next statement's transaction, 0 if it was alone or is not known.

        `vxid` is the id of the virtual transaction in the entry of the statement; "" if it is not
        logged.  `at_end` is True for a simple query that is logged at its end.
        """
        if not vxid or vxid.endswith("/0"):
            # The statement after which no transaction is open has ended the open one.
            ended = self._number if vxid and self._inside else 0
            self._vxid, self._inside = "", False
            return ended
        if vxid != self._vxid:
            self._number += 1
            self._vxid, self._inside = vxid, at_end
        else:
            self._inside = self._inside or at_end or (self.cut and self._number == 1)
        return self._number
