"""Make runs of what other tools have measured: pgio, fio, sysbench.

The runs are stored like replayer's own, so that show, report and compare take them.  Nothing is
guessed: what a file does not say is left out, and lines that cannot be read are named.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import registry
from replayer.errors import Impossible
from replayer.report.words import clean
from replayer.results import store

if TYPE_CHECKING:
    import argparse

    from replayer.model import Run

EPILOG = """\
examples:
  replayer import pgio runit.out --label uek
  replayer import fio randread.json --label stock
  replayer import sysbench before.txt after.txt
"""
_MOST_NAMED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("tool", choices=registry.names("imports"), help="the tool whose files they are")
    add("files", nargs="+", type=Path, metavar="FILE", help="files with the tool's output")
    add("--label", default="", help="what this machine or kernel is called in comparisons")
    add(
        "--results",
        metavar="DIR",
        help="where runs are stored (default: $REPLAYER_RESULTS or ./results)",
    )
    add("--json", action="store_true", help="print the runs as JSON, one a line")


def run(args: argparse.Namespace) -> int:
    """Store the runs and print where they are; lines that were not read are named on stderr."""
    module = registry.load("imports", args.tool)
    where = store.folder(args.results)
    sheaves = [module.read(path, args.label) for path in args.files]
    unread = [words for sheaf in sheaves for words in sheaf.unread]
    for words in unread[:_MOST_NAMED]:
        print(f"note: {clean(words)}", file=sys.stderr)  # noqa: T201
    if len(unread) > _MOST_NAMED:
        print(f"note: and {len(unread) - _MOST_NAMED} more", file=sys.stderr)  # noqa: T201
    runs = [found for sheaf in sheaves for found in sheaf.runs]
    _store(runs, where, as_json=args.json)
    return 0


def _store(runs: list[Run], where: Path, *, as_json: bool) -> None:
    if not runs:
        raise Impossible("there was nothing to import in these files")
    present = [one.id for one in runs if (where / f"{one.id}.json").exists()]
    if present:
        raise Impossible(f"{present[0]} was imported before: {where / present[0]}.json")
    for one in runs:
        path = store.reserve(where, one)
        if as_json:
            print(one.model_dump_json())  # noqa: T201
        else:
            count = f"{len(one.steps)} step{'' if len(one.steps) == 1 else 's'}"
            print(f"{path}  {one.workload.name}, {count}")  # noqa: T201
