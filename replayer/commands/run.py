"""Run a workload and store its measurements.

The default workload is demo. It builds a table like that of a column store, and flushes it to disk.
Then it reads the table's files, after a proof that no part of them is in memory. At last it runs
sessions that read blocks as the tool pgio does, from memory and from disk.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.followers.followed_run import followed
from replayer.followers.options import configure_followers
from replayer.model import Status
from replayer.report.documents import planned_run, run_details, side_by_side, summary
from replayer.report.messages import say
from replayer.report.sanitize import sanitize, visible_json
from replayer.report.terminal import console, overview
from replayer.report.writers import terminal_writer
from replayer.results import editing, store, tags
from replayer.run.plan import resume
from replayer.run.plan import workload as workload_file
from replayer.run.plan.forecast import check_folders, check_results, forecast
from replayer.run.plan.request import build_request
from replayer.run.plan.workload import turns
from replayer.run.remote.placement import Placement
from replayer.run.result_writer import ResultWriter
from replayer.servers import leftovers
from replayer.units import show_size
from replayer.watch import active_collectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from replayer.model import Run, Workload
    from replayer.report.terminal.run_output import RunOutput
    from replayer.run.runner import RunRequest

_STEP_KEYS = ("cross_check", "device", "i_will_lose_data", "i_will_change", "database", "source")

_DEFAULT = "demo"
_MOST_NAMED = 5

EPILOG = """\
examples:
  replayer run
  replayer run smoke --json
  replayer run demo --dry-run       what it will do, on which disk, and how long
  replayer run --resume latest      what is missing of a run that was cut
  replayer run demo --metrics 127.0.0.1:9464
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
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        default=_DEFAULT,
        metavar="WORKLOAD",
        help="a name from `replayer list workloads`, or a path to a .toml file or to a .replay "
        "file, which is replayed (default: demo)",
    )
    add(
        "--label",
        type=run_options.label,
        default="",
        help="the name of this machine or kernel in comparisons",
    )
    add(
        "--note",
        type=run_options.any_text,
        action="append",
        default=[],
        metavar="TEXT",
        help="a remark that is stored with the run",
    )
    add(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a tag to filter and compare by: `replayer compare --by tag.NAME`",
    )
    add(
        "--repeat",
        type=int,
        metavar="N",
        help="run the steps N times, instead of the number in the file",
    )
    run_options.add_run_options(add)
    _configure_hosts(parser)
    _configure_replay(parser)
    _configure_probes(parser)
    _configure_watching(parser)
    configure_followers(parser)
    add(
        "--dry-run",
        action="store_true",
        help="only print the steps, the disk, the bytes on it, and the approximate duration",
    )
    add(
        "--resume",
        metavar="RUN",
        help="continue an interrupted run with its missing steps and repeats: an id, a path or "
        "latest; the options of the server must be the same",
    )
    _configure_output(parser)


def _configure_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    run_options.add_results(add, "results go")
    add("--json", action="store_true", help="print the result as JSON instead of the report")
    how_much = parser.add_mutually_exclusive_group().add_argument
    how_much(
        "-q",
        "--quiet",
        action="store_true",
        help="print no progress and no report; only store the result",
    )
    how_much(
        "-v",
        "--verbose",
        action="store_true",
        help="print all details before the answer, and each step when it ends",
    )


def _configure_hosts(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("other hosts").add_argument
    add(
        "--clients",
        type=_clients,
        metavar="HOST,…",
        help=(
            "hosts, named as for ssh, that run the sessions of the database; for probes also a "
            "number of clients that start at the same time"
        ),
    )
    add(
        "--watch",
        default="",
        metavar="HOST",
        help=(
            "the host of the database, on which the run is then executed (default: found among "
            "the clients)"
        ),
    )
    add(
        "--cluster",
        default="",
        metavar="tls://…",
        help="the scheduler of a Dask cluster: the hosts of its workers are the clients",
    )


def _configure_replay(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("a replay of a capture").add_argument
    add(
        "--i-will-change",
        metavar="DATABASE",
        help="the name of the database at the URL; it allows a replay to change that database",
    )
    add(
        "--database",
        metavar="NAME",
        help="replay only the sessions of this database of the capture",
    )
    add(
        "--source",
        metavar="URL",
        help=(
            "the URL of the captured server: it is asked for the plans of statements that became "
            "slower"
        ),
    )


def _configure_probes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("probes of storage, without a database").add_argument
    add(
        "--cross-check",
        action="store_true",
        default=None,
        help="run fio, ioping, sysbench or bonnie++ on the same file in turn, and print the ratio",
    )
    add(
        "--device",
        metavar="DEV",
        help="a raw block device to use instead of files; reading changes nothing on it",
    )
    add(
        "--i-will-lose-data",
        metavar="SERIAL",
        help="the serial number of --device; it allows writing on it",
    )


def _configure_watching(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "collectors, which watch the steps (`replayer list collectors`)"
    )
    run_options.add_left_out(add.add_argument)
    add.add_argument(
        "--with",
        type=run_options.split_names,
        action="extend",
        default=[],
        metavar="NAME,…",
        dest="also",
        help="also use these active collectors, which are left out by default",
    )


def _clients(text: str) -> int | tuple[str, ...]:
    """Return what --clients gives: a number of clients, or the names of hosts.

    Raises ArgumentTypeError for an empty name in a list.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor a list of hosts: HOST,HOST"
        )
    return int(text) if text.strip().lstrip("-").isdigit() else names


def run(args: argparse.Namespace) -> int:
    """Run the workload, and save the Run after every step; return the exit status."""
    several = _several(args)
    if several:
        return _run_each(args, several)
    _run_one(args)
    return 0


def _several(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the engines that the workload lists, to run it on each of them.

    Returns () if --engine, --resume or --pg-bindir is given, as these choose one engine or one run.
    """
    if args.engine or args.resume or args.bindir:
        return ()
    workload = _workload(args, {})
    return workload.engines


def _run_each(args: argparse.Namespace, names: Sequence[str]) -> int:
    """Run the workload on each engine in turn, and print all results side by side; return 0.

    Raises Impossible if the workload can run on none of the engines.
    """
    runs: list[Run] = []
    refused = []
    if args.data_dir is not None and not args.dry_run:
        try:
            args.data_dir.mkdir(exist_ok=True)
        except OSError as error:
            raise Impossible(
                f"--data-dir {args.data_dir} cannot be made: {error.strerror}"
            ) from error
    for name in names:
        own = {"engine": name, "label": args.label or name, **_own_folder(args.data_dir, name)}
        own |= {"json": args.json and args.dry_run, "quiet": args.quiet or args.json}
        say(f"engine: {name}")
        try:
            path = _run_one(argparse.Namespace(**{**vars(args), **own}), last=name == names[-1])
        except Impossible as error:
            # The others can be measured all the same.
            refused.append(f"{name}: {error}")
            continue
        runs += [] if path is None else [store.load(path)]
    for words in refused:
        say(f"left out: {words}")
    if refused and not runs and len(refused) == len(names):
        raise Impossible(f"no engine of {args.workload} can run here: {refused[0]}")
    if args.dry_run or not runs:
        return 0
    one = side_by_side.line_up(runs)
    if args.json:
        print(json.dumps(dataclasses.asdict(one), indent=1))  # noqa: T201
    elif not args.quiet:
        ids = " ".join(run.id for run in runs)
        folder = f" --results {shlex.quote(str(args.results))}" if args.results else ""
        again = f"as a page: replayer compare {ids}{folder} --html FILE"
        console.write(terminal_writer.render(side_by_side.document(one, again)))
    return 0


def _own_folder(above: Path | None, name: str) -> dict[str, Path]:
    """Return the options with the data folder of one of several engines; it is in --data-dir.

    `first_made` is the first folder that a run makes, as it makes --data-dir itself if missing.
    """
    if above is None:
        return {}
    folder = above / name
    return {"data_dir": folder, "first_made": folder if os.path.lexists(above) else above}


def _run_one(args: argparse.Namespace, *, last: bool = True) -> Path | None:
    """Run the workload on one engine; return the path of the result file, None if there is none.

    `last` is False if another engine follows: then the live page in the browser is closed at the
    end.
    """
    where = store.folder(args.results)
    asked = {key: getattr(args, key) for key in _STEP_KEYS}
    wanted = Placement(watch=args.watch, cluster=args.cluster)
    if isinstance(args.clients, int):
        asked["clients"] = args.clients
    elif args.clients is not None:
        wanted = replace(wanted, clients=args.clients)
    path, stored = _resumed(args, wanted, where) if args.resume else (None, None)
    probe = {key: value for key, value in asked.items() if value is not None}
    order = build_request(
        _workload(args, probe) if stored is None else resume.workload_of(stored),
        args.engine or "" if stored is None else resume.engine_name(stored, args.engine or ""),
        label=args.label,
        bindir=args.bindir,
        data_dir=args.data_dir or (None if stored is None else resume.data_folder(stored)),
        collectors=active_collectors.chosen(args.without, args.also),
    )
    notes = tuple(args.note)
    order = replace(order, notes=notes, tags=tags.given(args.tag), resumed=stored)
    if args.dry_run:
        check_results(where)
        if wanted == Placement():
            check_folders(replace(order, data_dir=getattr(args, "first_made", order.data_dir)))
        _forecast(order, as_json=args.json, where=where)
        return None
    kept = ResultWriter(where, goes_on=path, worded=summary.with_headline)
    with followed(args, last=last) as follow:
        try:
            follow.perform(order, kept, earlier=[where], place=wanted)
        finally:
            kept.finish(functools.partial(_tell, args, follow.output))
    return kept.path


def _workload(args: argparse.Namespace, probe: dict[str, Any]) -> Workload:
    return workload_file.load(
        args.workload,
        args.overrides,
        repeat=args.repeat,
        settings=args.settings,
        probe=probe,
    )


def _resumed(args: argparse.Namespace, wanted: Placement, where: Path) -> tuple[Path, Run]:
    """Return the file of the run that --resume names, and the run.

    Raises Impossible if other options contradict it (`wanted` has some of them), or if none of its
    steps is missing.
    """
    given = {
        "--set": args.overrides,
        "--repeat": args.repeat,
        "--label": args.label,
        "--note": args.note,
        "--tag": args.tag,
        "--pg-set": args.settings,
        "--clients, --watch and --cluster": wanted != Placement(),
        "probes' options": any(getattr(args, key) is not None for key in _STEP_KEYS),
        "--dry-run": args.dry_run,
        args.workload: args.workload != _DEFAULT,
    }
    extra = [name for name, value in given.items() if value]
    if extra:
        raise Impossible(
            f"--resume goes on with what the run was asked for: leave out {', '.join(extra)}"
        )
    path = store.find(args.resume, where)
    editing.check(path)
    stored = store.load(path)
    if next(resume.missing(stored, turns(resume.workload_of(stored))), None) is None:
        raise Impossible(f"{stored.id} is whole: none of its steps is missing")
    return path, stored


def _forecast(order: RunRequest, *, as_json: bool, where: Path) -> None:
    """Print what a run would do, as text or as JSON; nothing is started.

    `where` is the folder of earlier runs, by which durations are estimated.
    """
    foreseen = forecast(order, [where])
    if as_json:
        print(json.dumps(foreseen.as_json(), indent=1, default=str))  # noqa: T201
    else:
        console.write(terminal_writer.render_parts(planned_run.parts(foreseen)))
        say("nothing was started, and nothing was written")


def _tell(args: argparse.Namespace, voice: RunOutput, run: Run, path: Path | None) -> None:
    """Print the result's path on stderr, then the result on stdout, the main finding last.

    `path` is None if the run was not stored.
    """
    left = _left(run, args.engine or "")
    # For a run that measured nothing there is only the error that ends the program.
    lost = run.status is Status.FAILED and not any(s.status is Status.DONE for s in run.steps)
    screen = not (args.json or args.quiet or lost)
    seen = screen and sys.stdout.isatty()
    voice.ended(run, path, left, seen=seen)
    if args.json:
        print(visible_json(store.text(summary.with_headline(run))), end="")  # noqa: T201
    elif screen:
        if args.verbose:
            console.write(terminal_writer.render(run_details.document(run)), "")
        console.write(overview.render(run, path, left, lines=not args.verbose))
    sys.stdout.flush()


def _left(run: Run, engine: str) -> str:
    """Return a sentence on the data that replayer left on a running server, and how to remove it.

    Returns "" if it left nothing there.
    """
    if run.engine is None:
        return ""
    size, names = (run.engine.facts.get(key) for key in (leftovers.BYTES, leftovers.NAMES))
    if not isinstance(size, int) or not isinstance(names, tuple):
        return ""
    more = "" if len(names) <= _MOST_NAMED else ", …"
    return (
        f"left on the server: {show_size(size)} "
        f"({sanitize(', '.join(names[:_MOST_NAMED]))}{more}); "
        f"`replayer clean --engine {sanitize(shlex.quote(engine or run.engine.name))}` removes it"
    )
