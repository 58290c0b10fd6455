"""How a connection ends, or is not made."""

LOST = "08006"
"""SQLSTATE of a connection that broke."""


class ConnectionGone(Exception):
    """The connection broke; `sqlstate` is what the server said before, if it said something."""

    def __init__(self, why: str, sqlstate: str = LOST) -> None:
        super().__init__(why)
        self.sqlstate = sqlstate


class Refused(Exception):
    """No connection was made; `passing` where one may be had a little later."""

    def __init__(self, why: str, *, passing: bool) -> None:
        super().__init__(why)
        self.passing = passing
