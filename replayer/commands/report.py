"""Report runs: as a page with charts in the browser or in a file, as CSV, Markdown or text.

Each RUN is a file, a folder, a label, an id or a unique part of one. Two of them are also compared
in the page. Without a file the page is opened in the browser, from a temporary file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replayer.analysis.differences import boot_plan, replays
from replayer.analysis.differences.comparison import compare
from replayer.analysis.differences.selection import no_column, pair
from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.report import browser, files
from replayer.report.documents import run_details, runs
from replayer.report.documents.collector_columns import is_drawn
from replayer.report.messages import note, say
from replayer.report.pages import sizing_sheet
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, page_writer, terminal_writer
from replayer.results import store

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from replayer.analysis.differences.comparison import Comparison
    from replayer.analysis.differences.selection import Chosen, Columns

EPILOG = """\
examples:
  replayer report latest
  replayer report latest --html report.html
  replayer report latest --text
  replayer report stock uek --html comparison.html
  replayer report --by host.kernel results/ --html comparison.html
  replayer report results/ --csv all.csv
  replayer report latest --markdown -
  replayer report latest --summary sign.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="files, folders, labels, ids, a plan, or latest")
    add("--by", default="", metavar="FACT", help="group the runs by a fact, such as host.kernel")
    add(
        "--where",
        action="append",
        default=[],
        metavar="FACT=VALUE",
        help=("only runs with this fact, such as workload.name=demo"),
    )
    add("--text", action="store_true", help="print every detail of each run on the terminal")
    add("--html", metavar="FILE", help="write one self-contained page with charts")
    add("--csv", metavar="FILE", help="write every measurement (- is stdout)")
    add("--markdown", metavar="FILE", help="write tables for a ticket (- is stdout)")
    add("--summary", metavar="FILE", help=(
        "write the verdict of `replayer size` as one page to print and sign (HTML, A4)"
    ))  # fmt: skip
    run_options.add_results(add, "labels and ids are looked up")


def run(args: argparse.Namespace) -> int:
    """Write the reports of runs to the files that were asked for, or to the terminal; return 0.

    Without a file and without --text, open a page in the browser.
    """
    chosen = _chosen(args, store.folder_to_read(args.results))
    for words in chosen.said:
        note(words)
    if args.summary:
        _write_sheet(args.summary, chosen)
    if args.text:
        for side in chosen.sides:
            for one in side.runs:
                console.write(terminal_writer.render(run_details.document(one)))
    is_file_asked = args.html or args.csv or args.markdown
    if (args.summary or args.text) and not is_file_asked:
        return 0
    comparison, refused = _compared(chosen)
    if not is_file_asked:
        page = page_writer.page(runs.document(chosen.sides, comparison, refused))
        say(browser.open_page(page))
        return 0
    forms = files.forms_of_runs(chosen.sides, comparison, refused)
    files.write(args, {**forms, "csv": lambda: csv_writer.written(runs.data(chosen.sides, None))})
    return 0


def _write_sheet(wanted: str, chosen: Chosen) -> None:
    """Write the page with the verdict of one run of `replayer size` into the file `wanted`.

    Raises Impossible if not exactly one run was chosen.
    """
    runs = [run for side in chosen.sides for run in side.runs]
    if len(runs) != 1:
        raise Impossible(f"--summary is of one run of `replayer size`, and {len(runs)} are named")
    files.put(wanted, sizing_sheet.sheet(runs[0]))


def _chosen(args: argparse.Namespace, where: Path) -> Chosen:
    return boot_plan.choose_runs(
        args.runs, where, by=args.by, only=args.where, columns=_columns(args)
    )


def _columns(args: argparse.Namespace) -> Columns:
    """Return a function that chooses which columns of the time series of runs are loaded.

    Columns that no asked report shows need not be read from the files. None loads all.
    """
    if args.html or not (args.csv or args.markdown or args.text):
        return is_drawn
    return None if args.text else no_column


def _compared(chosen: Chosen) -> tuple[Comparison | None, str]:
    """Return (comparison, "") of the two groups; (None, reason) if they cannot be compared.

    If not exactly two groups were chosen, it returns (None, "").
    """
    if len(chosen.sides) != 2:
        return None, ""
    try:
        base, other = pair(chosen)
        compared = compare(base, other, by=chosen.by)
        return replays.compare(compared, base, other), ""
    except Impossible as error:
        return None, str(error)
