"""The SQLSTATE of an error in a PostgreSQL log, deduced from its message where the log has none."""

import re

from replayer.capture.entry import LogEntry
from replayer.errors import UNKNOWN_STATE

_STATES = (
    ("duplicate key value violates unique constraint", "23505"),
    ("violates foreign key constraint", "23503"),
    ("violates not-null constraint", "23502"),
    ("violates check constraint", "23514"),
    ("current transaction is aborted", "25P02"),
    ("deadlock detected", "40P01"),
    ("could not serialize access", "40001"),
    ("canceling statement due to lock timeout", "55P03"),
    ("canceling statement due to ", "57014"),
    ("could not obtain lock on row", "55P03"),
    ("terminating connection due to administrator command", "57P01"),
    ("syntax error", "42601"),
    ("division by zero", "22012"),
    ("permission denied", "42501"),
)
_MISSING = re.compile(r"(relation|column|function|type|schema|operator) .*does not exist")
_MISSING_STATES = {
    "relation": "42P01",
    "column": "42703",
    "function": "42883",
    "type": "42704",
    "schema": "3F000",
    "operator": "42883",
}


def state_of(entry: LogEntry) -> str:
    """Return the SQLSTATE of an error; if the log has none, deduce it from the English message."""
    if entry.sqlstate:
        return entry.sqlstate
    if (match := _MISSING.match(entry.message)) is not None:
        return _MISSING_STATES[match[1]]
    return next((state for words, state in _STATES if words in entry.message), UNKNOWN_STATE)
