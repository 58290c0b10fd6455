"""System call by which PostgreSQL makes its log durable."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting(
    "wal_sync_method", levels=("fdatasync", "fsync", "open_datasync", "open_sync")
)
