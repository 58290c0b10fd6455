"""Show what replayer can do, with three examples; the options of a command; or a warning's meaning.

`replayer help --man` prints the manual page, which is made from what --help prints.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from replayer.cli import command_parser
from replayer.errors import NotFound, nearest
from replayer.lazy_import import Later
from replayer.report import man_page

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from replayer.analysis.advice import warnings
else:
    warnings = Later("replayer.analysis.advice.warnings")

EPILOG = """\
examples:
  replayer help
  replayer help run
  replayer help large_read_ahead    the warning of that name in a report
  replayer help --man
"""
_WAYS = """\
replayer runs the same database work on two machines and reports whether the database will run the
same there, with proof for every number.

  replayer run smoke                the whole way in seconds: build, flush, read cold, sessions
  replayer compare stock uek        two groups of runs, by their labels: what differs, and how sure
  replayer size prod.profile        whether the work of a database fits on this machine

commands:
"""
_MORE = """
`replayer help COMMAND` shows the options of a command; `replayer check` shows what this machine
allows.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "command",
        nargs="?",
        metavar="COMMAND",
        help="the command, or the warning of a report, to show (default: a short list of all)",
    )
    parser.add_argument("--man", action="store_true", help="print the manual page, as roff")


def run(args: argparse.Namespace) -> int:
    """Print the help on stdout; raise NotFound for a name of no command and no warning."""
    top = command_parser.parser()
    if args.man:
        sys.stdout.write(man_page.page(top))
        return 0
    known = man_page.commands(top)
    if args.command in known:
        top.parse_args([args.command, "--help"])
    if args.command is not None:
        _explain(args.command, known)
        return 0
    width = max(map(len, known))
    listed = "".join(f"  {name:{width}}  {about}\n" for name, about in known.items())
    sys.stdout.write(_WAYS + listed + _MORE)
    return 0


def _explain(name: str, commands: Iterable[str]) -> None:
    """Print the meaning of a warning; raise NotFound if there is none of that name."""
    meanings = {one.__name__: inspect.cleandoc(one.__doc__ or "") for one in warnings.every()}
    if name not in meanings:
        near = nearest(name, [*commands, *meanings])
        raise NotFound(f"there is no command or warning {name!r}{near}")
    sys.stdout.write(f"{name}: {meanings[name]}\n")
