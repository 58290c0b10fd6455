"""Types of what fixtures of tests return."""

import subprocess
import sys
from collections.abc import Callable
from typing import Protocol

from replayer.model import Run
from replayer.run.context import Context
from replayer.servers.open import Server

Compare = Callable[[str, str], None]
"""`golden`: compares a text with a file of that name."""
RunOf = Callable[..., Run]
"""`run_of`: makes a run of values."""
Surroundings = Callable[[Server], Context]
"""`surroundings`: makes a step's context on a server."""


class Holding(subprocess.Popen[str]):
    """A process that holds something, and the first line that it printed."""

    said: str


class Holder(Protocol):
    """`holder`: starts a replayer that holds a server, or what other code has it hold."""

    code: str

    def __call__(
        self,
        *arguments: object,
        user: int | None = None,
        code: str | None = None,
        python: str = sys.executable,
        **environment: str,
    ) -> Holding:
        """Start it, and return it when it has printed a line."""
