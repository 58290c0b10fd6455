"""Run every benchmark of this folder, or those named: `python -m tests.benchmarks walk build`.

A benchmark is a module with NAME and `run(workdir) -> rows`.  `run` may take `seed` too, from which
it draws what it measures, and which is printed and given again by --seed; `cases`, the words that
choose some of its cases; and `seconds`, which bound each of its parts.  A row is a dict of `what`,
`against`, `bar` (text such as ">= 0.95"), `ratio` (number or None), `samples` and, where a peer is
missing, `skipped` with the reason.  One with ASKED_FOR runs only when it is named.

The table goes to stdout, the rows to bench-results/<time>.json.
"""

import argparse
import importlib
import inspect
import json
import operator
import pkgutil
import re
import secrets
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from replayer.machine.host import Host
from replayer.machine.machine_facts import read_facts
from tests.benchmarks import Row

HERE = Path(__file__).parent
OPERATORS = {">=": operator.ge, "<=": operator.le}


def names() -> list[str]:
    """Return the benchmarks of this folder in alphabetical order."""
    return sorted(found.name for found in pkgutil.iter_modules([str(HERE)]) if found.name[0] != "_")


def _usual() -> list[str]:
    """Return the benchmarks that are run when none is named: those that take hours are not."""
    modules = {name: importlib.import_module(f"tests.benchmarks.{name}") for name in names()}
    return [name for name, module in modules.items() if not getattr(module, "ASKED_FOR", False)]


def verdict(row: Row) -> str:
    """Return met, MISSED or skipped for a row."""
    if row.get("skipped"):
        return f"skipped: {row['skipped']}"
    bounds = re.findall(r"(>=|<=)\s*([\d.]+)", row["bar"])
    met = all(OPERATORS[sign](row["ratio"], float(limit)) for sign, limit in bounds)
    return "met" if met else "MISSED"


def table(rows: list[Row]) -> Table:
    """Return the rows as a table of at most 100 columns."""
    shown = Table(title="ratios, medians of one run on this machine")
    for title in ("what", "against", "bar", "ratio", "verdict"):
        shown.add_column(title, overflow="fold")
    for row in rows:
        ratio = "" if row.get("ratio") is None else f"{row['ratio']:.3f}"
        shown.add_row(row["what"], row["against"], row["bar"], ratio, verdict(row))
    return shown


def main() -> int:
    """Run, print, store; exit 1 when a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(names())} (default: all but those that take hours)"
    )
    parser.add_argument("--workdir", type=Path, help="a folder on the disk under test")
    parser.add_argument("--seed", type=int, help="draw the same points as the run that printed it")
    parser.add_argument(
        "--cases",
        default="",
        metavar="WORDS",
        help="those cases of a benchmark that have these words in their names",
    )
    parser.add_argument(
        "--for",
        type=float,
        dest="seconds",
        metavar="SECONDS",
        help="a bound on the time of each part of a benchmark that takes one",
    )
    args = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    unknown = set(args.names) - set(names())
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    rows = []
    store = HERE.parents[1] / "bench-results" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    store.parent.mkdir(exist_ok=True)
    facts = read_facts(Host(), args.workdir or Path(tempfile.gettempdir()))
    for name in args.names or _usual():
        print(f"benchmark {name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="replayer-bench-", dir=args.workdir) as folder:
            # A server's unprivileged user must be able to pass through.
            Path(folder).chmod(0o755)
            run = importlib.import_module(f"tests.benchmarks.{name}").run
            given = {"seed": seed, "cases": args.cases, "seconds": args.seconds}
            taken = inspect.signature(run).parameters
            made = list(run(Path(folder), **{key: given[key] for key in given if key in taken}))
        if not made and args.cases:
            parser.error(f"no case of {name} has {args.cases!r} in its name")
        rows += made
        stored = {"host": facts, "seed": seed, "rows": rows}
        store.write_text(json.dumps(stored, indent=1, default=str))
    Console(width=100).print(table(rows))
    print(f"seed {seed}: --seed {seed} draws the same points again")
    print(f"stored in {store}")
    return 1 if any(verdict(row) == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
