"""SQLAlchemy's dialect of the in-process server: PostgreSQL's, without queries on connecting."""

from typing import Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg


class InProcessDialect(PGDialect_psycopg):
    """PostgreSQL's dialect without the queries that it executes when it connects.

    They ask for properties of PostgreSQL, which other database libraries do not have.
    """

    supports_statement_cache = True

    def initialize(self, _connection: Any) -> None:
        """Execute no query: replayer uses SQLAlchemy for parameters and rows only."""
