"""PyMySQL connections that refuse to send a password which others could read.

The server, or a machine that has taken its place, chooses the login method.  Over an unencrypted
connection it may ask for the password itself, or for the password encrypted with a key that it
sends along.  PyMySQL sends both; this module, like MySQL's own client, sends neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CR

from replayer.engines.login import is_here
from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Mapping

ALLOW = "enable_cleartext_plugin"
"""The URL parameter that allows a password in clear text; MySQL's own client has this option."""
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
_READABLE = ("mysql_clear_password", "dialog")
"""Plug-ins that send the password in clear text."""


class Careful(pymysql.connections.Connection):  # type: ignore[misc]
    """A connection of PyMySQL on which no host in between can read the password."""

    _key: Any = None
    _begun = False

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, auth_plugin_map=dict.fromkeys(_READABLE, _refuse))

    @property
    def server_public_key(self) -> Any:
        """Return the server's key, which encrypts a password on a connection without TLS."""
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: Any) -> None:
        # The first key is the user's own or None; any later key came from the server.
        if self._begun and not self._secure and not is_here(self.host):
            raise _refusal("the password, encrypted with a key that it sent along")
        self._key, self._begun = key, True


def connect(arguments: Mapping[str, Any]) -> Any:
    """Return a PyMySQL connection that refuses to send a password which others could read.

    With the URL parameter ALLOW, the user permits that; then it is an ordinary connection.  Raises
    Impossible for an invalid value of that parameter, and PyMySQL's errors.
    """
    given = dict(arguments)
    allowed = str(given.pop(ALLOW, "0")).lower()
    if allowed not in _YES | _NO:
        raise Impossible(f"?{ALLOW}={allowed}: give 1 or 0")
    return pymysql.connect(**given) if allowed in _YES else Careful(**given)


def _refuse(connection: Careful) -> None:
    """Raise an error if the server asks for the password in clear text and others could read it.

    PyMySQL calls this when the server chooses such a login method.  If the connection is safe,
    returns None, and PyMySQL itself goes on with the login.
    """
    # Secure means encrypted, or over a Unix socket.
    if not connection._secure:  # noqa: SLF001
        raise _refusal("the password as it is")


def _refusal(what: str) -> Exception:
    error: Exception = pymysql.err.OperationalError(
        CR.CR_AUTH_PLUGIN_ERR,
        f"it asked for {what}, over a connection that is not encrypted, and did not get it: "
        f"encrypt that with ?ssl_ca=FILE, use a Unix socket, or allow it with ?{ALLOW}=1",
    )
    return error
