"""Timeouts of statements and waits for locks, as a PostgreSQL log shows them."""

import re
from typing import NamedTuple

from replayer.capture.readings import GAP

DEADLOCK_NS = 10**9
"""The default of deadlock_timeout, in nanoseconds, used until the log shows another value."""
RESOLUTION_NS = 10**6
_WAITS = re.compile(
    r"process \d+ (?:still waiting|(?:detected|avoided) deadlock while waiting) for .*"
    r" after (\d+\.\d+) ms"
)
"""The message of log_lock_waits about a session that waits for a lock."""
_NAMED = r"(deadlock|lock|statement)_timeout"
_VALUE = r"(\d{1,12})\s*(us|ms|s|min|h|d)?"
_GAP = GAP["postgres"]
_GIVEN = re.compile(
    rf"{_GAP}set\b{_GAP}(?:session\b{_GAP}|(local)\b{_GAP})?{_NAMED}{_GAP}(?:=|\bto\b){_GAP}"
    rf"'?\s*{_VALUE}\s*'?{_GAP};?{_GAP}\Z",
    re.IGNORECASE,
)
_CHANGED = re.compile(rf'()parameter "{_NAMED}" changed to "{_VALUE}"')
_UNITS_NS = {
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_DEADLOCK = "40P01"


class Timeout(NamedTuple):
    """A setting of deadlock_timeout, lock_timeout or statement_timeout to `ns` nanoseconds.

    `name` is the first word: deadlock, lock or statement.
    """

    name: str
    ns: int
    local: bool
    """True if it was set by SET LOCAL, until the end of the transaction."""


def waited_ns(message: str) -> int | None:
    """Return the nanoseconds that a session has waited for a lock, from a message of the log.

    Returns None if the message is not about such a wait.
    """
    match = _WAITS.match(message)
    return None if match is None else round(float(match[1]) * 1e6)


def given(text: str) -> Timeout | None:
    """Return the timeout that a SET statement sets; None for other statements."""
    return _timeout(_GIVEN.match(text))


def changed(message: str) -> Timeout | None:
    """Return the timeout that a message about the server's configuration reports as changed.

    Returns None for other messages.
    """
    return _timeout(_CHANGED.match(message))


def ended(message: str, sqlstate: str) -> str:
    """Return the timeout that ended a statement: "lock", "statement" or "deadlock"; "" for none.

    `message` and `sqlstate` are those of the statement's error.
    """
    for name in ("lock", "statement"):
        if f"due to {name} timeout" in message:
            return name
    return "deadlock" if sqlstate == _DEADLOCK else ""


def _timeout(match: re.Match[str] | None) -> Timeout | None:
    """Return the timeout in a match of a pattern; None if `match` is None.

    A value without a unit is in milliseconds.
    """
    if match is None:
        return None
    local, name, value, unit = match.groups()
    return Timeout(name.lower(), int(value) * _UNITS_NS[(unit or "ms").lower()], bool(local))
