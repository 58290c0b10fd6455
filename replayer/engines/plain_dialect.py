"""An SQLAlchemy dialect for drivers whose URL scheme SQLAlchemy does not know."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy.engine.default import DefaultDialect


class PlainDialect(DefaultDialect):
    """A dialect that executes no statement itself; connections begin in autocommit mode.

    The driver gets `host`, `port`, `user`, `password` and `database`, as far as the URL has them,
    and the parameters of the URL.
    """

    name = "plain"
    default_paramstyle = "pyformat"
    supports_statement_cache = True

    def create_connect_args(self, url: Any) -> Any:
        """Return a URL's parts and parameters as named arguments, and no positional ones.

        The wire's `open_connection` takes them.
        """
        return [], {**url.translate_connect_args(username="user"), **url.query}

    def initialize(self, _connection: object) -> None:
        """Do nothing: SQLAlchemy calls it on the first connection, to query the server."""

    def get_isolation_level_values(self, _connection: object) -> Sequence[Literal["AUTOCOMMIT"]]:
        """Return AUTOCOMMIT, the only isolation level of this dialect."""
        return ["AUTOCOMMIT"]

    def set_isolation_level(self, _connection: object, _level: object) -> None:
        """Do nothing: the connection is in autocommit mode already."""
