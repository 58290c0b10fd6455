"""Run a workload and store what was measured.

The default workload, demo, is the main job: build a columnstore-like table, flush it, read its
files from a proven cold cache, run pgio-style sessions cached and physical.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.report import forecast as foretold
from replayer.report import screen
from replayer.report.progress import conversation
from replayer.results import store, tags
from replayer.run import workload as workload_file
from replayer.run.elsewhere.arrangement import Wanted, arranged
from replayer.run.forecast import forecast
from replayer.run.keeping import Kept
from replayer.run.ordering import ordered
from replayer.run.recovery import give_back
from replayer.watch import recordings

if TYPE_CHECKING:
    from replayer.model import Run
    from replayer.run.runner import Order

_STEP_KEYS = ("cross_check", "device", "i_will_lose_data", "i_will_change", "database")

EPILOG = """\
examples:
  replayer run
  replayer run smoke --json
  replayer run demo --dry-run       what it will do, on which disk, and how long
  replayer run demo --label uek --data-dir /mnt/nvme/replayer
  replayer run slob-physical --set sessions.num_threads=16 --set sessions.run_time=60s
  replayer run cold-walk --set walk.mode=direct --repeat 5
  replayer run orion-simple --clients 3 --data-dir /mnt/nfs/replayer
  replayer run storage --cross-check
  replayer run demo --without profile
  replayer run demo --engine postgresql://app@db/shop --clients app1,app2 --watch db
  replayer run monday.replay --engine postgresql://app@db/shop_copy --i-will-change shop_copy
  replayer run demo --pg-bindir /usr/lib/postgresql/15/bin --pg-set shared_buffers=2GB
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        default="demo",
        metavar="WORKLOAD",
        help="a name from `replayer list workloads`, or a path to a .toml file or to a .replay "
        "file, which is replayed (default: demo)",
    )
    add("--label", default="", help="what this machine or kernel is called in comparisons")
    add(
        "--note", action="append", default=[], metavar="TEXT", help="a word on this run, kept in it"
    )
    add(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a tag to filter and compare by: `replayer compare --by tag.NAME`",
    )
    add(
        "--repeat", type=int, metavar="N", help="run the steps N times, instead of as the file says"
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="STEP.KEY=VALUE",
        dest="overrides",
        help="replace one value of the workload",
    )
    add(
        "--engine",
        metavar="NAME|URL",
        help="a name from `replayer list engines`, or the URL of a running server",
    )
    add(
        "--pg-bindir",
        "--bindir",
        type=Path,
        metavar="DIR",
        dest="bindir",
        help="the programs of another server version, such as /usr/lib/postgresql/15/bin",
    )
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="a folder on the disk under test for the server's data; empty, or made by replayer",
    )
    add(
        "--pg-set",
        "--server-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a server setting",
    )
    add(
        "--clients",
        type=_clients,
        metavar="HOST,…",
        help="hosts whose processes are the sessions of the database, by what ssh calls them; or, "
        "of probes, a number of clients that start at one instant",
    )
    add(
        "--watch",
        default="",
        metavar="HOST",
        help="the host of the database, on which the run then works: found among the clients",
    )
    add(
        "--cluster",
        default="",
        metavar="tls://…",
        help="the scheduler of a cluster of Dask: its workers' hosts are the clients",
    )
    add(
        "--i-will-change",
        metavar="DATABASE",
        help="the name of the database at the URL, which allows a replay to change what is in it",
    )
    add(
        "--database",
        metavar="NAME",
        help="of a capture of several databases the one whose sessions are replayed",
    )
    _configure_probes(parser)
    _configure_watching(parser)
    add(
        "--dry-run",
        action="store_true",
        help="only say what will be done, on which disk, how many bytes, and about how long",
    )
    add("--results", type=Path, metavar="DIR", help="where results go (default: ./results)")
    add("--json", action="store_true", help="print the result as JSON instead of the report")


def _configure_probes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("probes of storage, without a database").add_argument
    add(
        "--cross-check",
        action="store_true",
        default=None,
        help="run fio, ioping, sysbench or bonnie++ on the same file in turn, and print the ratio",
    )
    add("--device", metavar="DEV", help="a raw block device instead of files; reads are harmless")
    add(
        "--i-will-lose-data",
        metavar="SERIAL",
        help="the serial number of --device, which allows to write on it",
    )


def _configure_watching(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what watches the steps (`replayer list collectors`)")
    add.add_argument(
        "--without",
        type=_names,
        action="extend",
        default=[],
        metavar="NAME,…",
        help="leave out collectors that do something beside the steps, as profile does; `all` "
        "leaves out all of them; so does $REPLAYER_WITHOUT",
    )
    add.add_argument(
        "--with",
        type=_names,
        action="extend",
        default=[],
        metavar="NAME,…",
        dest="also",
        help="watch with collectors that are left out by default",
    )


def _names(text: str) -> list[str]:
    """Return the names in a list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _clients(text: str) -> int | tuple[str, ...]:
    """Return a number of clients, or the names of hosts."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no number and no list of hosts: HOST,HOST")
    return int(text) if text.strip().lstrip("-").isdigit() else names


def run(args: argparse.Namespace) -> int:
    """Run the workload; the Run is saved after every step."""
    asked = {key: getattr(args, key) for key in _STEP_KEYS}
    wanted = Wanted(watch=args.watch, cluster=args.cluster)
    if isinstance(args.clients, int):
        asked["clients"] = args.clients
    elif args.clients is not None:
        wanted = replace(wanted, clients=args.clients)
    workload = workload_file.load(
        args.workload,
        args.overrides,
        repeat=args.repeat,
        settings=args.settings,
        probe={key: value for key, value in asked.items() if value is not None},
    )
    order = ordered(
        workload,
        args.engine or "",
        label=args.label,
        bindir=args.bindir,
        data_dir=args.data_dir,
        collectors=recordings.chosen(args.without, args.also),
    )
    order = replace(order, notes=tuple(args.note), tags=tags.given(args.tag))
    if args.dry_run:
        return _forecast(order, as_json=args.json, where=store.folder(args.results))
    kept = Kept(store.folder(args.results))
    try:
        with conversation() as progress:
            give_back(progress.say)
            with arranged(order, wanted, progress) as runs:
                for current in runs:
                    kept.keep(current, progress.say)
    finally:
        kept.finish(functools.partial(_tell, as_json=args.json))
    return 0


def _forecast(order: Order, *, as_json: bool, where: Path) -> int:
    """Print what a run would do."""
    foreseen = forecast(order, [where])
    if as_json:
        print(json.dumps(foreseen.as_json(), indent=1, default=str))  # noqa: T201
    else:
        screen.write(*foretold.render(foreseen))
        print("nothing was started, and nothing was written", file=sys.stderr)  # noqa: T201
    return 0


def _tell(run: Run, path: Path | None, *, as_json: bool) -> None:
    """Print the result on stdout, and where it is on stderr."""
    try:
        if as_json:
            print(store.text(run), end="")  # noqa: T201
        else:
            screen.show(run)
        sys.stdout.flush()
    finally:
        if path is not None:
            print(f"result: {path}", file=sys.stderr)  # noqa: T201
