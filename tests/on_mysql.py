"""Clients of MySQL and MariaDB; `from tests.on_mysql import connected, prepared`."""

import struct
from typing import Any

import pymysql

from replayer.servers.open import Server

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_INTEGER, _STRING = b"\x08\0", b"\xfd\0"


def connected(server: Server, **keys: object) -> Any:
    """Return a connection to a server that replayer started."""
    url = server.start()
    where: dict[str, object] = {"user": url.username or "root", "password": url.password or ""}
    where["unix_socket"] = url.query["unix_socket"]
    return pymysql.connect(**{**where, "autocommit": True, "charset": "utf8mb4", **keys})


def _packets(connection: Any, count: int) -> None:
    """Read definitions of parameters or columns, and what ends them."""
    for _ in range(count + 1 if count else 0):
        connection._read_packet()


def prepared(connection: Any, text: str, *rows: tuple[object, ...]) -> None:
    """Prepare a statement on the wire, execute it with each row of parameters, and close it."""
    connection._execute_command(_PREPARE, text)
    _, number, columns, holes = struct.unpack("<BIHH", connection._read_packet().get_all_data()[:9])
    _packets(connection, holes)
    _packets(connection, columns)
    for row in rows:
        nothing = sum(1 << place for place, value in enumerate(row) if value is None)
        data = struct.pack("<IBIBB", number, 0, 1, nothing, 1)
        data += b"".join(_INTEGER if isinstance(value, int) else _STRING for value in row)
        for value in row:
            if isinstance(value, int):
                data += struct.pack("<q", value)
            elif isinstance(value, bytes):
                data += bytes([len(value)]) + value
        connection._execute_command(_EXECUTE, data)
        if connection._read_packet().get_all_data()[0]:
            for _ in range(2):
                while not connection._read_packet().is_eof_packet():
                    pass
    connection._execute_command(_CLOSE, struct.pack("<I", number))
