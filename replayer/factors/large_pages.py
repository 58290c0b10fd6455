"""Huge pages for the buffers of InnoDB; they must have been reserved."""

from replayer.factors import Scope, ServerSetting, need_huge_pages

SCOPE: Scope = "server"
SETTING = ServerSetting("large_pages", wires=("mysql",), levels=("ON", "OFF"))


def check_level(level: str) -> None:
    """Raise Impossible for a level that needs huge pages if none were reserved."""
    if level == "ON":
        need_huge_pages("large_pages=ON")
