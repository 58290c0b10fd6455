"""Size of PostgreSQL's own cache, such as 1GB."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("shared_buffers")
