"""Work for a replayer on another host, which starts this by ssh; not for people.

It reads on stdin for whom it works, and ends when that host is gone.
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: none."""
    parser.epilog = EPILOG


def run(_args: argparse.Namespace) -> int:
    """Be an agent until the host that started it is gone."""
    return agent.main()
