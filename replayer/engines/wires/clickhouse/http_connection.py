"""A connection over HTTP whose socket is known, so that a statement on it can be cut."""

import contextlib
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from clickhouse_connect.dbapi.connection import Connection
from clickhouse_connect.driver.exceptions import OperationalError
from clickhouse_connect.driver.httputil import get_pool_manager
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

from replayer.engines.wires import CONNECT_SECONDS

NAME = "replayer session "
"""Text before a session's number in the setting log_comment, which the server shows."""
_SETTING = "ch_"
"""Text before the name of a server's setting in the arguments of a connection."""
_OK = 200
# It reports what it retries, and replayer reports what failed.
for _talkative in ("clickhouse_connect", "urllib3"):
    logging.getLogger(_talkative).setLevel(logging.CRITICAL)


class KnownSocketConnection(Connection):
    """A DBAPI connection: HTTP requests one after another, all with the same settings."""

    def __init__(self, pool: dict[str, Any], arguments: dict[str, Any]) -> None:
        """Connect; `pool` are parameters of the pool, `arguments` those of DBAPI's connect.

        The server is asked for its version, and has CONNECT_SECONDS for the whole of its answers.
        """
        self.number = secrets.randbits(31)
        self.password = str(arguments.get("password") or "")
        self._sockets: list[socket.socket] = []
        self._too_late = False
        self._manager = get_pool_manager(maxsize=1, **pool)
        self._manager.pool_classes_by_scheme = {
            "http": _pool_of(HTTPConnectionPool, HTTPConnection, self._keep),
            "https": _pool_of(HTTPSConnectionPool, HTTPSConnection, self._keep),
        }
        timer = threading.Timer(CONNECT_SECONDS, self._cut)
        timer.start()
        try:
            super().__init__(
                **arguments, pool_mgr=self._manager, log_comment=f"{NAME}{self.number}"
            )
            self._try_settings(arguments)
        except Exception as error:
            self._manager.clear()
            if self._too_late:
                words = f"it did not answer within {CONNECT_SECONDS} s"
                raise OperationalError(words) from error
            raise
        except BaseException:
            self._manager.clear()
            raise
        finally:
            timer.cancel()
            timer.join()

    def _try_settings(self, arguments: Mapping[str, Any]) -> None:
        """Execute a statement with the settings if any is not in the server's list of settings.

        Each statement carries all of them, so that a server that lacks one refuses the connection
        and not the first statement: raises its error. A user's own settings are in no list.
        """
        names = [key.removeprefix(_SETTING) for key in arguments if key.startswith(_SETTING)]
        if any(name not in self.client.server_settings for name in names):
            self.client.command("SELECT 1")

    def _keep(self, latest: socket.socket) -> None:
        """Keep the latest socket; close it and raise TimeoutError if the time limit has passed."""
        self._sockets[:] = [latest]
        if self._too_late:
            latest.close()
            raise TimeoutError

    def _cut(self) -> None:
        self._too_late = True
        for latest in self._sockets:
            with contextlib.suppress(OSError):
                latest.shutdown(socket.SHUT_RDWR)

    def fileno(self) -> int:
        """Return the descriptor of the latest socket, -1 if it is closed."""
        return self._sockets[-1].fileno() if self._sockets else -1

    def ping(self, seconds: float) -> bool:
        """Return whether the server answers a request for /ping within `seconds`.

        Raises an exception if no answer comes.
        """
        address = f"{self.client.uri}/ping"
        answer = self._manager.request("GET", address, timeout=seconds, retries=False)
        return bool(answer.status == _OK)

    def close(self) -> None:
        """Close the connection and its sockets."""
        super().close()
        self._manager.clear()


def _pool_of(pool: Any, kind: Any, keep: Callable[[socket.socket], None]) -> Any:
    """Return a subclass of `pool`, a class of connection pools, that reports each new socket.

    Its connections, a subclass of `kind`, call `keep` with the socket.
    """

    def connect(self: Any) -> None:
        kind.connect(self)
        keep(self.sock)

    known = type(f"Known{kind.__name__}", (kind,), {"connect": connect})
    return type(f"Known{pool.__name__}", (pool,), {"ConnectionCls": known})
