"""Huge pages for the buffers of InnoDB; they must have been reserved."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("large_pages", wires=("mysql",), levels=("ON", "OFF"))
