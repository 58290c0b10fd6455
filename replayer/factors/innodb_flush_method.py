"""Way in which InnoDB opens and flushes its files, such as O_DIRECT or fsync."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("innodb_flush_method", wires=("mysql",))
