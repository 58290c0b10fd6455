"""Huge pages for the buffers of InnoDB; they must have been reserved."""

from replayer.factors import Scope, ServerSetting, need_huge_pages

SCOPE: Scope = "server"
SETTING = ServerSetting("large_pages", wires=("mysql",), levels=("ON", "OFF"))


def check_level(level: str) -> None:
    """Raise Impossible for the level `ON` if this machine has reserved no huge pages."""
    if level == "ON":
        need_huge_pages("large_pages=ON")
