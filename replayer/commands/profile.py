"""Profile what a database needs over time, of a source that runs.

A source is watched and never touched: nothing is written, no setting is changed, and its user needs
no more than pg_monitor (PostgreSQL) or PROCESS (MariaDB and MySQL).  The profile is saved every
minute; Ctrl-C ends it with what there is.
"""

from __future__ import annotations

import getpass
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.engines import engine
from replayer.errors import Impossible
from replayer.report.words import clean
from replayer.sizing import recording, source
from replayer.units import duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

EPILOG = """\
examples:
  replayer profile postgresql://monitor@db.example/shop --for 24h
  replayer profile postgresql:///shop?host=/run/postgresql --for 10min --out shop.profile
"""
_ENDING = ".profile"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("what", metavar="URL", help="the database to profile")
    add("--for", default="24h", metavar="TIME", dest="seconds", help="how long (default: 24h)")
    add("--every", default="1s", metavar="TIME", help="one row each (default: 1s)")
    add("--out", metavar="FILE", help="where the profile is written")


def run(args: argparse.Namespace) -> int:
    """Watch a source and save its profile."""
    if "://" not in args.what:
        raise Impossible(
            "a source is given by its URL, such as postgresql://monitor@db.example/shop"
        )
    return _watched(args)


def _watched(args: argparse.Namespace) -> int:
    order = source.Order(
        engine=engine.of_url(args.what),
        url=args.what,
        seconds=duration(args.seconds),
        every=duration(args.every),
        ask=_asker(),
    )
    source.check(order)
    path = Path(args.out or f"{datetime.now().astimezone():%Y%m%d-%H%M%S}{_ENDING}")
    for sentence in recording.record(order, path, _say):
        print(clean(sentence))  # noqa: T201
    return 0


def _say(text: str) -> None:
    print(clean(text), file=sys.stderr)  # noqa: T201


def _asker() -> Callable[[str], str] | None:
    """Return what asks for a password where somebody sits at a terminal, else None."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None
