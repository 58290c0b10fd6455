"""Number of I/O workers of PostgreSQL 18."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("io_workers")
