"""Huge pages for the shared memory of PostgreSQL; they must have been reserved."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("huge_pages", levels=("off", "try", "on"))
