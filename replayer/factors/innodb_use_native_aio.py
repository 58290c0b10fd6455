"""Asynchronous I/O of the kernel in InnoDB: ON or OFF."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("innodb_use_native_aio", wires=("mysql",), levels=("ON", "OFF"))
