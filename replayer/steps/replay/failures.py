"""Exceptions of a replay's connections: lost, or not made."""

LOST = "08006"
"""SQLSTATE of a lost connection."""


class ConnectionGone(Exception):
    """The connection is lost; `sqlstate` is the server's last error, if it sent one."""

    def __init__(self, why: str, sqlstate: str = LOST) -> None:
        super().__init__(why)
        self.sqlstate = sqlstate


class Refused(Exception):
    """No connection was made; `passing` is true if another attempt may succeed a little later."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing
