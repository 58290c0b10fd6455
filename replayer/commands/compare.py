"""Compare two groups of runs: what differs, by how much, and whether it can be believed.

A and B are result files, folders of them, labels, or ids; A is the base. With --by, each value of a
fact, such as host.kernel, makes one group. A plan file made by `replayer plan` is compared by its
two kernels.
"""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from replayer.analysis.differences import boot_plan, replays
from replayer.analysis.differences.comparison import MetricVerdict, compare
from replayer.analysis.differences.finding import refuse_unjudged
from replayer.analysis.differences.metric_names import MOST_TIMES, name_ratio
from replayer.analysis.differences.samples import Unit
from replayer.analysis.differences.selection import no_column, pair
from replayer.cli import run_options
from replayer.errors import Impossible, Worse
from replayer.report import files
from replayer.report.documents import comparison, side_by_side
from replayer.report.documents.collector_columns import is_drawn
from replayer.report.messages import note
from replayer.report.sanitize import sanitize
from replayer.results import store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from replayer.analysis.differences.comparison import Comparison, MetricRow
    from replayer.analysis.differences.selection import Chosen
    from replayer.model import Run

_THRESHOLD = 2.0
"""The default of --threshold, in percent."""
_ENGINES = 3
"""The fewest engines that are shown side by side; two engines are compared."""

EPILOG = """\
examples:
  replayer compare stock uek
  replayer compare results-stock/ results-uek/ --metric 'sessions.*'
  replayer compare --by host.kernel results/
  replayer compare --by host.kernel=6.1.0-44-amd64,6.12.9-amd64 results/
  replayer compare stock uek --full
  replayer compare postgres duckdb clickhouse       three engines or more: side by side
  replayer compare boots.plan --html comparison.html
  replayer compare stock uek --fail-if-worse 5
exit status: 3 if something is worse by at least --fail-if-worse
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="A B", help="files, folders, labels, ids, or one plan file")
    add("--by", default="", metavar="FACT", help="group the runs by a fact, such as host.kernel")
    add(
        "--where",
        action="append",
        default=[],
        metavar="FACT=VALUE",
        help="only runs with this fact, such as workload.name=demo",
    )
    add(
        "--metric",
        action="append",
        default=[],
        metavar="PATTERN",
        help=(
            "only these metrics, such as 'sessions.*': with fewer metrics, smaller differences "
            "can be shown"
        ),
    )
    add(
        "--allow",
        action="append",
        default=[],
        metavar="FACT",
        help="compare even if this fact differs, such as engine.version",
    )
    add(
        "--threshold",
        type=float,
        default=_THRESHOLD,
        metavar="PERCENT",
        help="the smallest difference that matters (default: 2)",
    )
    add(
        "--fail-if-worse",
        type=float,
        metavar="PERCENT",
        help="exit with 3 if a metric is worse, by at least this much (needs several boots)",
    )
    add("--full", action="store_true", help="print every metric, what else differs, every warning")
    add("--json", action="store_true", help="print the comparison as JSON")
    files.add_forms(add, "it")
    run_options.add_results(add, "labels and ids are looked up")


def run(args: argparse.Namespace) -> int:
    """Print the comparison on stdout, and notes about skipped runs on stderr; return 0.

    Raises Worse if a metric is worse by at least --fail-if-worse.  Raises Impossible if none is and
    a step is not judged, or if the runs are not boots that took turns.
    """
    if not 0 < args.threshold < 100:
        raise Impossible(f"--threshold {args.threshold:g}: give a percentage above 0, such as 2")
    if not 0 <= (args.fail_if_worse or 0) < math.inf:
        raise Impossible(
            f"--fail-if-worse {args.fail_if_worse:g}: give a percentage of 0 or more, such as 2"
        )
    chosen = _chosen(args, store.folder_to_read(args.results))
    for words in chosen.said:
        note(words)
    runs = _of_engines(chosen)
    if runs:
        _tell_engines(args, runs)
        return 0
    base, other = pair(chosen)
    compared = compare(
        base,
        other,
        by=chosen.by,
        allowed=args.allow,
        threshold=args.threshold / 100,
        metrics=args.metric,
    )
    compared = replays.compare(
        compared, base, other, allowed=args.allow, threshold=args.threshold / 100
    )
    files.tell(
        args,
        comparison.document(compared, _asked(args), full=args.full),
        lambda: compared.model_dump_json(indent=1),
        others=files.forms_of_runs(chosen.sides, compared),
    )
    _fail_if_worse(compared, args.fail_if_worse)
    return 0


def _of_engines(chosen: Chosen) -> list[Run]:
    """Return the newest run of each group, if there are three groups or more, of one engine each.

    Returns [] for fewer groups, and if two of these runs have the same engine.
    """
    runs = [max(side.runs, key=lambda run: run.started) for side in chosen.sides if side.runs]
    engines = {run.engine.name for run in runs if run.engine is not None}
    return runs if len(runs) >= _ENGINES and len(engines) == len(runs) else []


def _tell_engines(args: argparse.Namespace, runs: Sequence[Run]) -> None:
    """Print runs of several engines side by side; raise Impossible for --csv or --fail-if-worse."""
    if args.csv or args.fail_if_worse is not None:
        raise Impossible(
            "--csv and --fail-if-worse compare two sides, and these are several engines side by "
            "side: name two of them"
        )
    one = side_by_side.line_up(runs)
    files.tell(args, side_by_side.document(one), lambda: json.dumps(asdict(one), indent=1))


def _chosen(args: argparse.Namespace, where: Path) -> Chosen:
    columns = no_column if args.html is None else is_drawn
    return boot_plan.choose_runs(args.runs, where, by=args.by, only=args.where, columns=columns)


def _asked(args: argparse.Namespace) -> str:
    """Return the command line that makes this comparison, without options for its output."""
    words = ["replayer", "compare", *map(str, args.runs)]
    for option, value in (("--by", args.by), ("--results", args.results)):
        words += [option, str(value)] if value else []
    for option, all_ in (
        ("--where", args.where),
        ("--metric", args.metric),
        ("--allow", args.allow),
    ):
        words += [word for value in all_ for word in (option, value)]
    words += [] if args.threshold == _THRESHOLD else ["--threshold", f"{args.threshold:g}"]
    return sanitize(shlex.join(words))


def _worse_by(row: MetricRow) -> str:
    """Return a metric that is worse and by how much: in percent, unless it is over 1,000 times."""
    if row.change is None or row.ratio is None:
        return row.title
    if row.ratio < MOST_TIMES:
        return f"{row.title} by {row.change:.1%}"
    return f"{row.title}, {name_ratio(row.ratio)} times"


def _fail_if_worse(compared: Comparison, percent: float | None) -> None:
    if percent is None:
        return
    if compared.unit is Unit.BOOT and not compared.turns:
        raise Impossible(
            f"--fail-if-worse needs boots of {compared.base.name} and {compared.other.name} that "
            f"took turns, and these did not, so that a drift may be all they differ by: "
            f"`replayer plan` plans boots"
        )
    if compared.unit is not Unit.BOOT:
        raise Impossible(
            f"--fail-if-worse needs several boots of {compared.base.name} and "
            f"{compared.other.name} to judge by, and these runs are of one boot of each or of "
            f"unknown ones, which may differ by nothing but the boot: `replayer plan` plans boots"
        )
    worse = [
        _worse_by(row)
        for row in (*compared.rows, *replays.rows(compared))
        if row.verdict is MetricVerdict.WORSE
        and (row.change is None or row.change >= percent / 100)
    ]
    if worse:
        raise Worse(f"{compared.other.name} is worse than {compared.base.name}: {', '.join(worse)}")
    refuse_unjudged(compared)
