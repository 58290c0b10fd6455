"""SQL functions whose value changes from call to call: rows that differ by them are expected."""

import re

_FUNCTIONS = (
    *("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday"),
    *("sysdate", "curdate", "curtime", "unix_timestamp", "utc_timestamp", "utc_date", "utc_time"),
    *("random", "random_normal", "rand", "setseed", "gen_random_uuid", "uuid_generate_v4"),
    *("uuid", "uuid_short", "uuidv4", "uuidv7", "uuid_generate_v1", "gen_random_bytes"),
    *("nextval", "lastval", "currval", "setval", "last_insert_id"),
    *("pg_backend_pid", "connection_id", "txid_current", "pg_current_xact_id"),
    *("pg_current_wal_lsn", "pg_current_wal_insert_lsn", "pg_postmaster_start_time"),
    *("inet_client_port", "inet_server_addr", "inet_client_addr"),
)
_WORDS = ("current_timestamp", "current_time", "current_date", "localtimestamp", "localtime")
_CALL = re.compile(rf"\b({'|'.join(_FUNCTIONS)})\s*\(", re.IGNORECASE)
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b", re.IGNORECASE)
_RETURNS_NEW = re.compile(r"^\s*(?:with\b.*)?insert\b.*\breturning\b", re.IGNORECASE | re.DOTALL)
_MIDDLES = re.compile(r"\b(ctid|xmin|xmax)\b", re.IGNORECASE)


def functions(text: str) -> tuple[str, ...]:
    """Return the sorted reasons why the rows of a statement may differ from one run to the next.

    Examples: `now()`, `generated ids`.  `text` is the normalised statement.  Returns () if there is
    no such reason.
    """
    reasons = {f"{call.lower()}()" for call in _CALL.findall(text)}
    reasons |= {word.lower() for word in (*_WORD.findall(text), *_MIDDLES.findall(text))}
    if _RETURNS_NEW.search(text):
        reasons.add("generated ids")
    return tuple(sorted(reasons))
