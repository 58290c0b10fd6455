"""Remedies for statements of a replay that failed although they had not failed in the source."""

import re
from collections.abc import Iterable

from replayer.model import Replayed

_DATA = "begin from the source's data: --set replay.restore=DUMP, or a copy at --engine URL"
_CONFLICTS = (
    "conflicts of transactions (40...) depend on their order and not on the data: "
    "--set replay.order=serial runs one at a time"
)
_LARGE_OBJECTS = (
    "of large objects (42704), a restore has those older than the capture, and later ones have "
    "other ids here: leave their statements out with the key fingerprints"
)
_ON_LARGE_OBJECTS = re.compile(r"\blo(?:_\w+|read|write)\"? ?\(|\blarge object\b", re.IGNORECASE)


def remedies(replayed: Iterable[Replayed]) -> str:
    """Return what to do about the failures in a replay: a sentence for each kind of SQLSTATE."""
    kinds = {_kind(code, one.text) for one in replayed for code in one.failed_here}
    return "; ".join(kind for kind in (_DATA, _CONFLICTS, _LARGE_OBJECTS) if kind in kinds)


def _kind(code: str, text: str) -> str:
    # Class 40 is of transactions that the server rolls back, for a deadlock for example.
    if code.startswith("40"):
        return _CONFLICTS
    if code == "42704" and _ON_LARGE_OBJECTS.search(text):
        return _LARGE_OBJECTS
    return _DATA
