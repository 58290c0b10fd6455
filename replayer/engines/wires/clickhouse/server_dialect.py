"""SQLAlchemy's dialect of clickhouse-connect, which asks the server nothing on connecting."""

from collections.abc import Sequence
from typing import Any, Literal

from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect

from replayer import lazy_import


class ClickHouseServerDialect(ClickHouseDialect):
    """The dialect without its questions: replayer uses it for parameters and rows only."""

    supports_statement_cache = False

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the driver's module."""
        return lazy_import.load("clickhouse_connect.dbapi")

    def initialize(self, _connection: object) -> None:
        """Ask nothing."""

    def get_isolation_level_values(self, _connection: object) -> Sequence[Literal["AUTOCOMMIT"]]:
        """Return the only level: every statement takes effect by itself."""
        return ["AUTOCOMMIT"]
