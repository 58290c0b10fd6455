"""Timeouts and waits for locks, as a PostgreSQL log shows them."""

import re
from typing import NamedTuple

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
_GIVEN = re.compile(
    rf"\s*set\s+(?:session\s+|(local)\s+)?{_NAMED}\s*(?:=|\bto\b)\s*'?\s*{_VALUE}\s*'?\s*;?\s*\Z",
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
    """The first word of a timeout's name (deadlock, lock, statement), and its nanoseconds."""

    name: str
    ns: int
    local: bool
    """True if it was set by SET LOCAL, until the end of the transaction."""


def waited_ns(message: str) -> int | None:
    """Return how long a session has waited for a lock, in nanoseconds; None for other messages."""
    match = _WAITS.match(message)
    return None if match is None else round(float(match[1]) * 1e6)


def given(text: str) -> Timeout | None:
    """Return the timeout that a statement sets; None for other statements."""
    return _timeout(_GIVEN.match(text))


def changed(message: str) -> Timeout | None:
    """Return the timeout that a message reports as changed; None for other messages."""
    return _timeout(_CHANGED.match(message))


def ended(message: str, sqlstate: str) -> str:
    """Return the timeout that ended a statement: "lock", "statement" or "deadlock"; "" for none."""
    for name in ("lock", "statement"):
        if f"due to {name} timeout" in message:
            return name
    return "deadlock" if sqlstate == _DEADLOCK else ""


def _timeout(match: re.Match[str] | None) -> Timeout | None:
    """Return a matched timeout, whose value without a unit is in ms; None without a match."""
    if match is None:
        return None
    local, name, value, unit = match.groups()
    return Timeout(name.lower(), int(value) * _UNITS_NS[(unit or "ms").lower()], bool(local))
