"""A connection over HTTP whose socket is known, so that a statement on it can be cut."""

import logging
import secrets
import socket
from typing import Any

from clickhouse_connect.dbapi.connection import Connection
from clickhouse_connect.driver.httputil import get_pool_manager
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

NAME = "replayer session "
"""Before the number of a session in its setting log_comment, which the server shows."""
_OK = 200
# It reports what it retries, and replayer reports what failed.
for _talkative in ("clickhouse_connect", "urllib3"):
    logging.getLogger(_talkative).setLevel(logging.CRITICAL)


class KnownSocketConnection(Connection):
    """A DBAPI connection: HTTP requests one after another, all with the same settings."""

    def __init__(self, pool: dict[str, Any], arguments: dict[str, Any]) -> None:
        """Connect; `pool` are parameters of the pool, `arguments` those of DBAPI's connect."""
        self.number = secrets.randbits(31)
        self.password = str(arguments.get("password") or "")
        self._sockets: list[socket.socket] = []
        self._manager = get_pool_manager(maxsize=1, **pool)
        self._manager.pool_classes_by_scheme = {
            "http": _pool_of(HTTPConnectionPool, HTTPConnection, self._sockets),
            "https": _pool_of(HTTPSConnectionPool, HTTPSConnection, self._sockets),
        }
        try:
            super().__init__(
                **arguments, pool_mgr=self._manager, log_comment=f"{NAME}{self.number}"
            )
        except BaseException:
            self._manager.clear()
            raise

    def fileno(self) -> int:
        """Return the descriptor of the latest socket, -1 if it is closed."""
        return self._sockets[-1].fileno() if self._sockets else -1

    def ping(self, seconds: float) -> bool:
        """Return whether the server answers /ping in time."""
        address = f"{self.client.uri}/ping"
        answer = self._manager.request("GET", address, timeout=seconds, retries=False)
        return bool(answer.status == _OK)

    def close(self) -> None:
        """Close the connection and its sockets."""
        super().close()
        self._manager.clear()


def _pool_of(pool: Any, kind: Any, sockets: list[socket.socket]) -> Any:
    """Return a class of pools whose connections leave their latest socket in a list."""

    def connect(self: Any) -> None:
        kind.connect(self)
        sockets[:] = [self.sock]

    known = type(f"Known{kind.__name__}", (kind,), {"connect": connect})
    return type(f"Known{pool.__name__}", (pool,), {"ConnectionCls": known})
