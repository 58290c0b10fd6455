"""PostgreSQL's protocol, by psycopg and libpq."""
