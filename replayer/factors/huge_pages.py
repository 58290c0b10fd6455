"""Huge pages for the shared memory of PostgreSQL; they must have been reserved."""

from replayer.factors import Scope, ServerSetting, need_huge_pages

SCOPE: Scope = "server"
SETTING = ServerSetting("huge_pages", levels=("off", "try", "on"))


def check_level(level: str) -> None:
    """Raise Impossible for the level `on` if this machine has reserved no huge pages."""
    if level == "on":
        need_huge_pages("huge_pages=on")
