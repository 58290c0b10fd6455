"""Work for a replayer on another host, which starts this command by ssh; users never call it.

Its instructions arrive on stdin. It ends when the host that started it is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.cluster import agent

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  replayer agent                    started by `replayer run --clients HOST,HOST`
"""


def configure(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: this command has no arguments."""


def run(_args: argparse.Namespace) -> int:
    """Work as an agent until the host that started it is gone; return the exit status."""
    return agent.main()
