"""Files that PostgreSQL 16 and later opens with O_DIRECT, such as data or wal."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("debug_io_direct")
