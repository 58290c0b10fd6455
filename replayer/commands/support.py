"""Bundle a result, checks, versions and the server's log, without secrets, for support.

The bundle is one .tar.gz with plain text files. Look at them before you send it: passwords, tokens
and the values of such variables of the environment are replaced, but names of hosts, users and
tables stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replayer.cli import run_options
from replayer.errors import Impossible, NotFound
from replayer.report.messages import note, say, show
from replayer.results import run_listing, store
from replayer.run.checks import preflight
from replayer.run.support_bundle import SupportBundle

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  replayer support                  of the newest run
  replayer support 20261120-154500 --output for-help.tar.gz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "which",
        nargs="?",
        default="latest",
        metavar="RUN",
        help="an id or a unique part of one, a label, a path, or latest (default: latest)",
    )
    parser.add_argument(
        "--output",
        type=run_options.file_path,
        default=Path("replayer-support.tar.gz"),
        metavar="FILE",
        help="the bundle; the file must not exist (default: ./replayer-support.tar.gz)",
    )
    run_options.add_results(parser.add_argument)


def run(args: argparse.Namespace) -> int:
    """Write the support bundle, and print the name and size of each file in it; return 0."""
    where = store.folder_to_read(args.results)
    bundle = SupportBundle()
    _add_run(bundle, args.which, where)
    bundle.add_versions()
    bundle.add_checks(preflight.Case(bundle.host))
    bundle.add_logs()
    bundle.write(args.output)
    for name, size in bundle.contents():
        show(f"{name:24} {size}")
    say(f"written: {args.output}; look at it before you send it")
    return 0


def _add_run(bundle: SupportBundle, which: str, where: Path) -> None:
    """Add a run of the folder `where` to the bundle; a note reports why a run is not in it.

    Raises NotFound if `which` names a run that is not there.
    """
    try:
        path = store.find(which, where)
    except NotFound as error:
        if which != "latest":
            raise
        note(f"the bundle has no run: {error}")
        return
    entries = store.runs(path.parent) if which == "latest" else ()
    for entry in run_listing.unread_since(path, entries):
        note(f"{entry.path.name} is newer, and is not in the bundle: {entry.reason}")
    try:
        bundle.add_run(path)
    except Impossible as error:
        note(f"the bundle has no run: {error}")
