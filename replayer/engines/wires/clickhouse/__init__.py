"""ClickHouse's HTTP interface, by clickhouse-connect."""
