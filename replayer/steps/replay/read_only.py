"""A filter for replays that must change nothing: which statements may be sent.

The server refuses writes in a session that is read only.  A session can leave that state by its own
statements, so a statement that could do so is not sent.  The text of a statement decides, not the
kind that the file records: another user may have made the capture.  The body of a called function
is not visible here.  A connection that leaves the read-only state all the same is closed before its
next statement.
"""

import re
from typing import TYPE_CHECKING

from replayer.lazy_import import Later

if TYPE_CHECKING:
    from replayer.capture import fingerprint
else:
    # It loads sqlglot, and only a read-only replay needs it.
    fingerprint = Later("replayer.capture.fingerprint")

_READS = frozenset({"select", "begin", "commit", "rollback", "set"})
_BETWEEN = r"(?:[\s*/]|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n)+"
_LEAVES = re.compile(
    rf"(?:transaction|tx)_read_only|standard_conforming_strings|u&\""
    rf"|\binto{_BETWEEN}(?:outfile|dumpfile)\b|/\*m?!|/\*(?:(?!\*/).)*/\*",
    re.IGNORECASE | re.DOTALL,
)
"""Texts that may leave the read-only state, write files, or hide either of these.

They are the names of the settings, INTO OUTFILE, names written as Unicode escapes, and comments
that one server reads in another way than the next.
"""
_CHANGES = re.compile(
    rf"\bread{_BETWEEN}write\b|\brole\b|authorization"
    r"|\b(?:global|persist|persist_only|password)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Texts that are refused in statements other than SELECT.

They make a transaction writable, change settings of other sessions, too, or change the session's
role or user.
"""


class ReadOnlyTest:
    """Decides from the text of a statement whether a replay that only reads may send it."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._fingerprints = fingerprint.Fingerprints(wire)

    def only(self, text: str) -> bool:
        """Return whether a text is one single statement that may be sent.

        Such a statement reads, controls a transaction, or changes settings of this session only,
        in whichever way the server reads its quotes.
        """
        if _LEAVES.search(text):
            return False
        forms = fingerprint.forms(text, self._wire)
        known = [self._fingerprints.of_form(form) for form in forms]
        if any(one.kind not in _READS or one.writes for one in known):
            return False
        if any(";" in form for form in forms):
            return False
        return all(one.kind == "select" for one in known) or not _CHANGES.search(text)
