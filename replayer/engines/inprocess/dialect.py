"""SQLAlchemy's dialect of the in-process server: PostgreSQL's, which asks nothing on connecting."""

from typing import Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg


class InProcessDialect(PGDialect_psycopg):
    """PostgreSQL's dialect without its questions on the server, which no library answers."""

    supports_statement_cache = True

    def initialize(self, _connection: Any) -> None:
        """Ask nothing: replayer uses SQLAlchemy for parameters and rows only."""
