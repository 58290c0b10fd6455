"""Files that PostgreSQL 16 and later opens with O_DIRECT, such as data or wal; none for no file."""

from replayer.factors import Scope, ServerSetting

SCOPE: Scope = "server"
SETTING = ServerSetting("debug_io_direct")


def run_arguments(level: str) -> tuple[str, ...]:
    """Return the arguments of `replayer run` that set debug_io_direct to `level` on the server.

    For the level `none` the value is an empty text.
    """
    return ("--pg-set", f"{SETTING.name}={'' if level == 'none' else level}")
