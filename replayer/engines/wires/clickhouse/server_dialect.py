"""SQLAlchemy's dialect of clickhouse-connect, without queries on connecting."""

from collections.abc import Sequence
from typing import Any, Literal

from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect

from replayer import lazy_import


class ClickHouseServerDialect(ClickHouseDialect):
    """ClickHouse's dialect without queries on connecting, for parameters and rows only."""

    supports_statement_cache = False

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the DBAPI module of clickhouse-connect."""
        return lazy_import.load("clickhouse_connect.dbapi")

    def initialize(self, _connection: object) -> None:
        """Do nothing: SQLAlchemy calls it on the first connection, to query the server."""

    def get_isolation_level_values(self, _connection: object) -> Sequence[Literal["AUTOCOMMIT"]]:
        """Return the only isolation level: every statement takes effect by itself."""
        return ["AUTOCOMMIT"]
