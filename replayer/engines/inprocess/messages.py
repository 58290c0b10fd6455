"""The server's side of PostgreSQL's protocol, as far as simple queries need it.

The messages are those of the chapter Frontend/Backend Protocol, version 3.0: a letter, a length,
the content.  All cells are text.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from replayer.engines.guests import GuestRows

_LENGTH = struct.Struct(">I")
_FIELD = struct.Struct(">IhIhih")
_PROTOCOL, _CANCEL, _TLS, _GSS = 3 << 16, 80877102, 80877103, 80877104
_LONGEST = 64 << 20
"""Most bytes of a message, which is a statement; a longer one is refused."""
_BATCH = 1 << 16
READY = b"Z\0\0\0\5I"
EMPTY = b"I\0\0\0\4"
_PARAMETERS = {
    "server_version": "14.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
}


class ProtocolError(Exception):
    """The error for a client that does not speak PostgreSQL's protocol."""


class Cancel(NamedTuple):
    """A client's request to cancel the statement that a session executes."""

    session: int
    secret: int


def begin(end: socket.socket) -> Cancel | None:
    """Read a client's first message; return it if it is a request to cancel, None for a login.

    `end` is the server's socket to the client.  Raises ProtocolError for an invalid message, and
    EOFError if the client has gone.
    """
    while True:
        (length,) = _LENGTH.unpack(_read(end, 4))
        if not 8 <= length <= 1 << 14:
            raise ProtocolError("the first message has no length that is possible")
        content = _read(end, length - 4)
        (code,) = _LENGTH.unpack_from(content)
        if code in {_TLS, _GSS}:
            end.sendall(b"N")
            continue
        if code == _CANCEL and length == 16:
            return Cancel(*struct.unpack_from(">II", content, 4))
        if code >> 16 != _PROTOCOL >> 16:
            raise ProtocolError("the client speaks another version of the protocol")
        return None


def greet(session: int, secret: int) -> bytes:
    """Return the bytes that answer a login, which needs no password.

    `session` is the session's number; a request to cancel must have that number and `secret`.
    """
    parts = [_message(b"R", bytes(4))]
    for name, value in _PARAMETERS.items():
        parts.append(_message(b"S", f"{name}\0{value}\0".encode()))
    parts.append(_message(b"K", struct.pack(">II", session, secret)))
    return b"".join((*parts, READY))


def queries(end: socket.socket) -> Iterator[str]:
    """Yield the text of each query until the client ends the session or is gone.

    `end` is the server's socket to the client.  Raises ProtocolError for a message that is no
    simple query.
    """
    while True:
        try:
            kind = _read(end, 1)
            (length,) = _LENGTH.unpack(_read(end, 4))
            if not 4 <= length <= _LONGEST:
                raise ProtocolError("a message has no length that is possible")
            content = _read(end, length - 4)
        except EOFError:
            return
        if kind == b"X":
            return
        if kind != b"Q":
            raise ProtocolError("this server takes simple queries only")
        yield content.rstrip(b"\0").decode("utf-8", "replace")


def refuse(code: str, text: str, *, severity: str = "ERROR") -> bytes:
    """Return the bytes of the message ErrorResponse; `code` is its SQLSTATE."""
    fields = f"S{severity}\0V{severity}\0C{code}\0M{text}\0\0"
    return _message(b"E", fields.encode("utf-8", "replace"))


def answer(found: GuestRows) -> Iterator[bytes]:
    """Yield the bytes of the messages that answer a query with its result, in several pieces."""
    if not found.columns:
        yield _message(b"C", b"OK\0")
        return
    described = struct.pack(">H", len(found.columns)) + b"".join(
        column.name.encode() + b"\0" + _FIELD.pack(0, 0, column.kind, -1, -1, 0)
        for column in found.columns
    )
    piece = _message(b"T", described)
    head = struct.pack(">H", len(found.columns))
    for row in found.rows:
        if len(row) != len(found.columns):
            raise TypeError(f"a row has {len(row)} cells for {len(found.columns)} columns")
        piece += _message(b"D", head + b"".join(map(_cell, row)))
        if len(piece) > _BATCH:
            yield piece
            piece = b""
    yield piece + _message(b"C", f"SELECT {len(found.rows)}\0".encode())


def _cell(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff\xff\xff"
    if not isinstance(text, str):
        raise TypeError(f"a cell is {text!r}, where a text or None belongs")
    encoded = text.encode("utf-8", "replace")
    return _LENGTH.pack(len(encoded)) + encoded


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + _LENGTH.pack(4 + len(content)) + content


def _read(end: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = end.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
