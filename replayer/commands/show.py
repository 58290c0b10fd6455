"""Print the report of a stored run, or the summary of a replay file.

RUN is a run's id or a unique part of one, a label (its newest run), a path to a result file, or
`latest`. It can also be the path to a replay file that `replayer convert` has written.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.capture.capture_summary import ENDING, SIGN
from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.report.documents import run_details, summary
from replayer.report.messages import note
from replayer.report.sanitize import visible_json
from replayer.report.terminal import console, overview
from replayer.report.writers import terminal_writer
from replayer.results import run_listing, store
from replayer.results.store import StoredRun, Unreadable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from replayer.model import Run

EPILOG = """\
examples:
  replayer show latest
  replayer show latest --full
  replayer show 20261120-154500
  replayer show stock --results /mnt/shared/results
  replayer show latest --json
  replayer show monday.replay
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "which",
        metavar="RUN",
        help="an id or a unique part of one, a label, a path, or latest; or a replay file",
    )
    parser.add_argument(
        "--full", action="store_true", help="print all details of each step before the answer"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help=("print the result file, or the summary of a capture, as JSON"),
    )
    run_options.add_results(parser.add_argument)


def run(args: argparse.Namespace) -> int:
    """Print the report of a run, or the summary of a replay file, on stdout; return 0."""
    if _is_capture(args.which):
        return _capture(Path(args.which), as_json=args.json)
    if args.which.endswith(".profile") and os.path.isfile(args.which):  # noqa: PTH113 - as in `find`
        raise Impossible(f"{args.which} is a profile: `replayer profile show` prints it")
    path = store.find(args.which, store.folder_to_read(args.results))
    if args.which == "latest":
        entries = store.runs(path.parent)
        for entry in _newer(path, entries):
            reason = store.load(entry.path).error or entry.status
            note(f"{entry.id} is newer and measured nothing ({reason})")
        for unread in run_listing.unread_since(path, entries):
            note(f"{unread.path.name} is newer and cannot be read: {unread.reason}")
    stored = store.load(path)
    if args.json:
        whole = stored if stored.headline else summary.with_headline(stored)
        sys.stdout.write(visible_json(store.text(whole)))
        return 0
    if stored.sizing is not None:
        _verdict(stored)
    if args.full:
        console.write(terminal_writer.render(run_details.document(stored, path)), "")
    console.write(overview.render(stored, path, lines=not args.full))
    return 0


def _newer(path: Path, entries: Sequence[StoredRun | Unreadable]) -> Sequence[StoredRun]:
    """Return those of `entries`, sorted by start, that began after the run in the file `path`."""
    runs = [one for one in entries if isinstance(one, StoredRun)]
    names = [one.path for one in runs]
    return runs[names.index(path) + 1 :] if path in names else ()


def _is_capture(which: str) -> bool:
    """Return whether the name or the first bytes of a file are those of a replay file."""
    if which.endswith(ENDING):
        return True
    with contextlib.suppress(OSError, ValueError):
        if Path(which).is_file():
            with Path(which).open("rb") as file:
                return file.read(len(SIGN)) == SIGN
    return False


def _capture(path: Path, *, as_json: bool) -> int:
    """Print the summary of a replay file, as text or as JSON; return 0."""
    from replayer.capture.archive import ArchiveReader  # noqa: PLC0415 - runs are shown without it
    from replayer.report.documents import capture_file  # noqa: PLC0415 - runs are shown without it

    with ArchiveReader(path) as reader:
        summary = reader.summary
    if as_json:
        sys.stdout.write(visible_json(f"{summary.model_dump_json(indent=2)}\n"))
    else:
        console.write(terminal_writer.render_parts(capture_file.parts(summary, path)))
    return 0


def _verdict(stored: Run) -> None:
    """Print whether the database fits, for a run in which `replayer size` tested a machine."""
    from replayer.report.documents import sizing, speed  # noqa: PLC0415 - few runs have one
    from replayer.sizing.record import Sizing  # noqa: PLC0415 - few runs have one
    from replayer.sizing.verdict import judge  # noqa: PLC0415 - few runs have one

    try:
        if (by_capture := speed.summary(stored)) is not None:
            console.write(terminal_writer.render(speed.document(by_capture)))
            return
        record = Sizing.of(stored)
    except Impossible as error:
        # The verdict is missing, but what the run measured can be shown.
        note(str(error))
        return
    judged = sizing.SizingSummary(record, stored, judge(record, stored))
    console.write(terminal_writer.render(sizing.document(judged)))
