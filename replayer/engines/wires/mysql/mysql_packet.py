"""Packets of MySQL's protocol, as bytes: those that are sent for one statement of a capture.

A packet is as in the MySQL client/server protocol: 3 bytes of length, a sequence number, the
payload.  A captured statement contains its values in its text.
"""

import struct

from replayer.engines.wire_session import encode_text

_COM_QUERY = b"\x03"
LARGEST = 0xFFFFFF
DEADLOCK = "40001"


def encode_query(text: str) -> bytes:
    """Return the packets of COM_QUERY for an SQL text; 16 MiB or more take several packets."""
    rest, number, parts = _COM_QUERY + encode_text(text), 0, []
    while True:
        part, rest = rest[:LARGEST], rest[LARGEST:]
        parts.append(packet(part, number))
        number = (number + 1) & 0xFF
        if len(part) < LARGEST:
            return b"".join(parts)


def encode_failure(sqlstate: str, *, begins: bool, ends: bool) -> bytes:
    """Return a query that has the effect of a failed statement on the transaction.

    `sqlstate` is the error of that statement.  After a deadlock, the query rolls back the whole
    transaction.  After any other error it does nothing, because such an error undoes the statement
    only.  `begins` and `ends` have no effect.
    """
    del begins, ends
    return encode_query("ROLLBACK" if sqlstate == DEADLOCK else "DO 0")


def packet(payload: bytes, number: int = 0) -> bytes:
    """Return a packet; `number` is its sequence number."""
    return struct.pack("<I", len(payload) | number << 24) + payload
