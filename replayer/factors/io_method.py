"""Way in which PostgreSQL 18 reads: by its own workers, by io_uring, or synchronously."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("io_method", levels=("worker", "io_uring", "sync"))
