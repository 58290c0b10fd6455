"""Which statements may be sent where nothing is to be changed, whoever made the capture.

The server refuses what writes, in a session that is read only.  A session can leave that state by
itself, though, so what could do so is not sent; and what a statement is, its text tells, not the
file.  What a function does that is called cannot be seen here: a connection that leaves the state
all the same is closed before its next statement.
"""

import re
from typing import TYPE_CHECKING

from replayer.lazy_import import Later

if TYPE_CHECKING:
    from replayer.capture import fingerprint
else:
    # It loads sqlglot, and only a replay that is to change nothing asks for it.
    fingerprint = Later("replayer.capture.fingerprint")

_READS = frozenset({"select", "begin", "commit", "rollback", "set"})
_BETWEEN = r"(?:[\s*/]|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n)+"
_LEAVES = re.compile(
    rf"(?:transaction|tx)_read_only|standard_conforming_strings|u&\""
    rf"|\binto{_BETWEEN}(?:outfile|dumpfile)\b|/\*m?!|/\*(?:(?!\*/).)*/\*",
    re.IGNORECASE | re.DOTALL,
)
"""What a read only state is left by, files, names that are written in codes, and comments that one
server understands in another way than the next."""
_CHANGES = re.compile(
    rf"\bread{_BETWEEN}write\b|\brole\b|authorization"
    r"|\b(?:global|persist|persist_only|password)\b",
    re.IGNORECASE | re.DOTALL,
)
"""In what is no SELECT: it has a transaction write, or changes more than the session, or whose it
is."""


class ReadOnlyTest:
    """Tells which texts of an engine's clients only read."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._fingerprints = fingerprint.Fingerprints(wire)

    def only(self, text: str) -> bool:
        """Tell whether a text is one statement that reads, or of a transaction, or of settings."""
        known = self._fingerprints.statement(text).fingerprint
        if known.kind not in _READS or known.writes or _LEAVES.search(text):
            return False
        if ";" in fingerprint.cheap_form(text, self._wire):
            return False
        return known.kind == "select" or not _CHANGES.search(text)
