"""List, show, rename, annotate and delete stored runs.

RUN is a run's id or a unique part of one, a label (its newest run), a path to a result file, or
`latest`.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from replayer import registry
from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.report.messages import say
from replayer.report.sanitize import sanitize
from replayer.report.terminal import run_list
from replayer.results import editing, run_listing, store, tags
from replayer.results.store import StoredRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from replayer.model import Run
    from replayer.results.store import Unreadable

EPILOG = """\
examples:
  replayer runs list
  replayer runs list --where label=stock --where workload=demo --sort physical.riops
  replayer runs list --where tag.disk=nvme --last 20 --json
  replayer runs show latest
  replayer runs rename 20261120-154500 uek
  replayer runs note latest 'after the firmware update'
  replayer runs delete 20261120-154500 20261120-160000 --yes
"""
_FIELDS = tuple(field.name for field in fields(StoredRun))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    _configure_list(actions.add_parser("list", help="print one line for each run, the newest last"))
    shown: Any = actions.add_parser(
        "show",
        help="print the report of a run, as `replayer show` does",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Loaded on use, like a command: only `show` needs the modules of a report.
    shown.load = functools.partial(registry.plugin, "commands", "show")
    renamed = actions.add_parser("rename", help="give a run another label")
    _which(renamed)
    renamed.add_argument(
        "label",
        type=run_options.label,
        metavar="LABEL",
        help="the new name of the machine or kernel",
    )
    noted = actions.add_parser("note", help="add a remark to a run")
    _which(noted)
    noted.add_argument(
        "notes",
        type=run_options.any_text,
        nargs="*",
        metavar="TEXT",
        help="the remark; it is added to the earlier ones",
    )
    _configure_note(noted)
    deleted = actions.add_parser("delete", help="remove result files")
    deleted.add_argument("runs", nargs="+", metavar="RUN", help="an id or a part of it, or latest")
    deleted.add_argument("--yes", action="store_true", help="delete without asking")
    _where(deleted)
    for action in (renamed, noted, deleted):
        action.allow_abbrev = False


def _configure_list(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"only runs with that: {', '.join(run_listing.KEYS)} or tag.NAME; "
        "* stands for anything",
    )
    add(
        "--sort",
        default="date",
        metavar="KEY",
        help="sort by one of these keys, or by a metric of the headlines (default: date)",
    )
    add("--reverse", action="store_true", help="sort backwards")
    add("--last", type=int, metavar="N", help="only the last N lines")
    add("--all", action="store_true", help="also list failed runs")
    add("--json", action="store_true", help="print all runs as JSON")
    _where(parser)


def _configure_note(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=(
            "give the run a tag, by which runs are filtered and compared; without a VALUE remove "
            "the tag"
        ),
    )
    add("--clear", action="store_true", help="remove the earlier remarks")


def _which(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("which", metavar="RUN", help="an id or a part of it, a label, or latest")
    _where(parser)


def _where(parser: argparse.ArgumentParser) -> None:
    run_options.add_results(parser.add_argument)


def run(args: argparse.Namespace) -> int:
    """List, rename, annotate or delete stored runs, as `args.action` names it.

    Returns the exit status, which is 1 if the user did not confirm a deletion.
    """
    actions = {"list": _list, "rename": _rename, "note": _note, "delete": _delete}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    where = store.folder_to_read(args.results)
    entries = store.runs(where)
    runs = run_listing.only((one for one in entries if isinstance(one, StoredRun)), args.where)
    runs = run_listing.by(runs, args.sort, reverse=args.reverse)
    others = [one for one in entries if not isinstance(one, StoredRun)]
    asked = any(condition.startswith("status=") for condition in args.where)
    runs, left = run_listing.without_failed(runs, every=args.all or args.json or asked)
    if args.last is not None:
        if args.last < 1:
            raise Impossible(f"--last {args.last}: it must be 1 or more")
        runs = runs[-args.last :]
    if args.json:
        _print(_as_json(runs, others))
        return 0
    run_list.write([*others, *runs], where, every=True, metric=args.sort)
    if left:
        say(left)
    return 0


def _as_json(runs: list[StoredRun], others: list[Unreadable]) -> Iterator[str]:
    """Yield the text of one JSON object: the runs, one in each line, then the unreadable files."""
    listed = (
        {field: getattr(run, field) for field in _FIELDS} | {"state": run_listing.state(run)}
        for run in runs
    )
    yield '{"runs": ['
    yield ",\n".join(json.dumps(one, default=str) for one in listed)
    yield '], "unreadable": ['
    yield ",\n".join(json.dumps(asdict(one), default=str) for one in others)
    yield "]}"


def _rename(args: argparse.Namespace) -> int:
    path = _path(args.which, args.results)
    edited = editing.change(path, lambda run: run.model_copy(update={"label": args.label}))
    say(
        f"{edited.id} is called {sanitize(edited.label)!r} now"
        if edited.label
        else f"{edited.id} has no label now"
    )
    return 0


def _note(args: argparse.Namespace) -> int:
    path = _path(args.which, args.results)
    if not (args.notes or args.tag or args.clear):
        raise Impossible("there is nothing to write down: give a TEXT, --tag NAME=VALUE or --clear")
    given = tags.given(args.tag, empty=True)

    def edit(run: Run) -> Run:
        kept = () if args.clear else run.notes
        known = {name: text for name, text in {**run.tags, **given}.items() if text}
        return run.model_copy(update={"notes": (*kept, *args.notes), "tags": known})

    edited = editing.change(path, edit)
    words = [*edited.notes, *(f"{name}={text}" for name, text in edited.tags.items())]
    say(f"{edited.id}: {'; '.join(map(sanitize, words)) or 'no notes'}")
    return 0


def _delete(args: argparse.Namespace) -> int:
    """Ask, and remove the files of the named runs; return 1 if the user answered no, else 0."""
    paths = list(dict.fromkeys(_path(word, args.results) for word in args.runs))
    for path in paths:
        editing.check(path)
        print(sanitize(path))  # noqa: T201
    sys.stdout.flush()
    if not args.yes:
        if not sys.stdin.isatty():
            raise Impossible("nothing was deleted: give --yes to delete without being asked")
        print("Delete these results? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            say("nothing was deleted")
            return 1
    for path in paths:
        editing.remove(path)
    say("deleted")
    return 0


def _path(which: str, results: Path | None) -> Path:
    """Return a run's file in the results folder; raise Impossible for a file outside it."""
    where = store.folder_to_read(results)
    path = store.find(which, where)
    # The folder may be reached by a symbolic link, the file may not: what is changed is the entry
    # of this name in the folder.
    if path.parent.resolve() != where.resolve():
        raise Impossible(
            f"{sanitize(path)} does not lie in {sanitize(where)}: name its folder, --results"
        )
    return path


def _print(lines: Iterable[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
