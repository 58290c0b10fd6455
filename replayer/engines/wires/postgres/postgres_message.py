"""Messages of PostgreSQL's protocol, as bytes: those that are sent for one statement.

The messages are those of the chapter Frontend/Backend Protocol in PostgreSQL's manual: a letter, a
length, the body.  Parameters and results of a captured statement are sent as text, and the server
chooses their types.  Parameters and results of a load's statement are binary.
"""

import struct
from collections.abc import Sequence

from replayer.engines.wire_session import Packing, encode_text

_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_NULL = b"\xff\xff\xff\xff"
_NO_VALUE = 0xFFFFFFFF
EXECUTE_AND_SYNC = b"E" + _LENGTH.pack(9) + b"\0" + bytes(4) + b"S" + _LENGTH.pack(4)
SYNC = b"S" + _LENGTH.pack(4)
_NO_FORMATS = _COUNT.pack(0)
_ALL_BINARY = struct.pack(">HH", 1, 1)
PACKING = Packing(">", _LENGTH.pack(8))


def encode_query(text: str) -> bytes:
    """Return the message Query (a simple query)."""
    body = encode_text(text) + b"\0"
    return b"Q" + _LENGTH.pack(4 + len(body)) + body


def encode_failure(sqlstate: str, *, begins: bool, ends: bool) -> bytes:
    """Return a query with the same effect on its transaction as a statement that failed.

    `sqlstate` is the error of that statement.  `begins`: it began the transaction.  `ends`: it was
    the end of the transaction.
    """
    if ends:
        return encode_query("ROLLBACK")
    first = "BEGIN; " if begins else ""
    return encode_query(
        f"{first}DO $$BEGIN RAISE 'it failed in the log' USING ERRCODE = '{sqlstate}'; END$$"
    )


def parse(name: bytes, text: bytes) -> bytes:
    """Return the message Parse, which prepares a statement; the server chooses all types."""
    body = name + b"\0" + text + b"\0" + _NO_FORMATS
    return b"P" + _LENGTH.pack(4 + len(body)) + body


def forget(name: bytes) -> bytes:
    """Return the message Close, with which the server forgets the prepared statement `name`."""
    body = b"S" + name + b"\0"
    return b"C" + _LENGTH.pack(4 + len(body)) + body


def encode_values(values: Sequence[str | None]) -> bytes:
    """Return the end of the message Bind: values as text (None is NULL), and text for results."""
    parts = [_NO_FORMATS, _COUNT.pack(len(values))]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            plain = encode_text(value)
            parts += (_LENGTH.pack(len(plain)), plain)
    parts.append(_NO_FORMATS)
    return b"".join(parts)


def bind(name: bytes, ending: bytes) -> bytes:
    """Return the message Bind, which gives the prepared statement `name` its parameters.

    `ending` has the parameters' values, packed by `encode_values`.
    """
    body = b"\0" + name + b"\0" + ending
    return b"B" + _LENGTH.pack(4 + len(body)) + body


def encode_bound(text: str, values: Sequence[str | None]) -> bytes:
    """Return all messages that execute an SQL text with these parameters once.

    The text is an unnamed prepared statement.  The values are sent as text; None is NULL.
    """
    return parse(b"", encode_text(text)) + bind(b"", encode_values(values)) + EXECUTE_AND_SYNC


def bind_packed(name: bytes, many: int) -> tuple[bytes, bytes]:
    """Return the messages that execute the prepared statement `name`, without its parameters.

    Returns the bytes before and those after the packed parameters; `many` is their number.
    """
    begin = b"\0" + name + b"\0" + _ALL_BINARY + _COUNT.pack(many)
    length = 4 + len(begin) + many * (len(PACKING.prefix) + 8) + len(_ALL_BINARY)
    return b"B" + _LENGTH.pack(length) + begin, _ALL_BINARY + EXECUTE_AND_SYNC


def unpack(payload: bytes) -> list[bytes]:
    """Return the parameters in `payload` (packed as PACKING describes), each as 8 bytes."""
    width = len(PACKING.prefix) + 8
    return [payload[place - 8 : place] for place in range(width, len(payload) + 1, width)]


def end_of_answer(tag: bytes) -> bytes:
    """Return the bytes with which the server ends an answer outside of a transaction.

    `tag` is the command tag, such as `SELECT 1`.
    """
    return b"C" + _LENGTH.pack(5 + len(tag)) + tag + b"\0Z" + _LENGTH.pack(5) + b"I"


def parts_of(whole: bytes) -> tuple[bytes, bytes]:
    """Return the SQL text and the packed values of messages that `encode_bound` made."""
    bound = 1 + _LENGTH.unpack_from(whole, 1)[0]
    after = bound + 1 + _LENGTH.unpack_from(whole, bound + 1)[0]
    return whole[6 : bound - 3], whole[bound + 7 : after]


def values_of(ending: bytes) -> list[bytes | None]:
    """Return the values in `ending`, which `encode_values` packed; None is NULL."""
    count, place = _COUNT.unpack_from(ending, 2)[0], 4
    values: list[bytes | None] = []
    for _ in range(count):
        length = _LENGTH.unpack_from(ending, place)[0]
        place += 4
        if length == _NO_VALUE:
            values.append(None)
            continue
        values.append(ending[place : place + length])
        place += length
    return values


def row(cells: Sequence[bytes | None]) -> bytes:
    """Return the message DataRow as a server sends it for these cells; None is NULL."""
    body = _COUNT.pack(len(cells)) + b"".join(
        _NULL if cell is None else _LENGTH.pack(len(cell)) + cell for cell in cells
    )
    return b"D" + _LENGTH.pack(4 + len(body)) + body


COPY_DONE = b"c" + _LENGTH.pack(4)


def copy_data(data: bytes) -> bytes:
    """Return the message CopyData."""
    return b"d" + _LENGTH.pack(4 + len(data)) + data


def copy_fail(why: bytes) -> bytes:
    """Return the message CopyFail: the data of a COPY cannot be sent, for the reason `why`."""
    return b"f" + _LENGTH.pack(5 + len(why)) + why + b"\0"
