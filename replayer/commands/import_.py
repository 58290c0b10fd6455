"""Import the results of other tools as runs.

The runs are stored like replayer's own, so that show, report and compare accept them. Nothing is
guessed: values that are not in a file are left out, and lines that cannot be read are listed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import registry
from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.report.messages import note, show
from replayer.results import imported, store
from replayer.units import show_with_noun

if TYPE_CHECKING:
    import argparse

    from replayer.imports import ImportResult
    from replayer.model import Run
    from replayer.results.imported import ImportSource

EPILOG = """\
examples:
  replayer import pgio runit.out --label uek
  replayer import fio randread.json --label stock
  replayer import sysbench before.txt after.txt
  replayer import ioping -          what comes through a pipe

tools:
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    tools = registry.names("imports")
    parser.epilog = EPILOG + "".join(
        f"  {tool:<15}{registry.about('imports', tool).splitlines()[0]}\n" for tool in tools
    )
    add = parser.add_argument
    add("tool", choices=tools, metavar="TOOL", help="the tool that wrote the files; see below")
    add("files", nargs="+", metavar="FILE", help="files with the tool's output; - is stdin")
    add(
        "--label",
        type=run_options.label,
        default="",
        help="the name of this machine or kernel in comparisons",
    )
    run_options.add_results(add, "runs are stored")
    add("--json", action="store_true", help="print the runs as JSON, one per line")


def run(args: argparse.Namespace) -> int:
    """Store the runs that other tools' files contain, and print their paths; return 0.

    Lines that cannot be read are printed on stderr.
    """
    where = store.folder(args.results)
    runs: list[Run] = []
    for names in registry.plugin("imports", args.tool).group_files(args.files):
        sheaf = _read(args.tool, imported.joined(list(map(Path, names))), args.label)
        for sentence in sheaf.unread:
            note(sentence)
        runs += sheaf.runs
    _store(runs, where, as_json=args.json)
    return 0


def _read(tool: str, source: ImportSource, label: str) -> ImportResult:
    """Return the runs in a file that `tool` has written, and the lines that cannot be read.

    Raises Impossible if another tool has written the file; the error names tools that may have.
    """
    try:
        sheaf: ImportResult = registry.plugin("imports", tool).read(source, label)
    except Impossible as error:
        fits = [
            name
            for name in registry.names("imports")
            if name != tool and registry.plugin("imports", name).SIGN.search(source.head)
        ]
        if not fits:
            raise
        hint = " or ".join(f"`replayer import {name}`" for name in fits)
        raise Impossible(f"{error}; it looks like a file for {hint}") from error
    return sheaf


def _store(runs: list[Run], where: Path, *, as_json: bool) -> None:
    if not runs:
        raise Impossible("there was nothing to import in these files")
    stored = {one.id: one for one in runs}
    if len(stored) < len(runs):
        note("some of these files are copies of others: their runs are stored once")
    present = [one.id for one in runs if (where / f"{one.id}.json").exists()]
    if present:
        raise Impossible(f"{present[0]} was imported before: {where / present[0]}.json")
    # These need numpy, for which the help of this command must not wait.
    from replayer.analysis.advice.leading_metrics import leaders  # noqa: PLC0415
    from replayer.report.documents.summary import with_headline  # noqa: PLC0415 - as above

    for run in stored.values():
        one = with_headline(run.model_copy(update={"leading": leaders(run)}))
        path = store.reserve(where, one)
        if as_json:
            print(json.dumps(json.loads(store.text(one))))  # noqa: T201
        else:
            count = show_with_noun(len(one.steps), "step")
            show(f"{path}  {one.workload.name}, {count}")
