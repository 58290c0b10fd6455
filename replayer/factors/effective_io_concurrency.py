"""Reads that one scan of PostgreSQL keeps in flight."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("effective_io_concurrency")
