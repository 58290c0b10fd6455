"""Profile what a database needs over time: from a running server, or from other tools' recordings.

A source is watched and never touched: nothing is written, no setting is changed, and its user needs
no more than pg_monitor (PostgreSQL) or PROCESS (MariaDB and MySQL). The profile is saved every
minute; Ctrl-C ends it and keeps the rows up to then. Files of other tools are recognized by their
beginning. Values that they do not contain are left out; parts that cannot be read are listed.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import registry
from replayer.cli import run_options
from replayer.engines import engine
from replayer.errors import Impossible
from replayer.report import files
from replayer.report.documents import profile as report
from replayer.report.messages import note, say, show
from replayer.report.sanitize import sanitize
from replayer.results import imported, profile
from replayer.run.plan.request import asker
from replayer.sizing import profile_recording, source
from replayer.sizing.requirement import parse_share
from replayer.units import duration

if TYPE_CHECKING:
    import argparse

    from replayer.results.profile import ResourceProfile

EPILOG = """\
examples:
  replayer profile postgresql://monitor@db.example/shop --for 24h
  replayer profile postgresql:///shop?host=/run/postgresql --for 10min --out shop.profile
  replayer profile --from iostat.txt --out shop.profile
  replayer profile show shop.profile
  replayer profile show shop.profile --html shop.html --above read_iops=3000

files:
"""
_ENDING = ".profile"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG + "".join(
        f"  {tool:<9}{registry.about('profiles', tool).splitlines()[0].partition(': ')[2]}\n"
        for tool in registry.names("profiles")
    )
    about = registry.about("profiles", "csv").partition("\n\n")[2]
    parser.epilog += f"\n{about}\n\nand of what was recorded:\n\n{_columns()}\n"
    add = parser.add_argument
    add("what", nargs="?", metavar="URL", help="the database to profile; or show, and a FILE")
    add("file", nargs="?", metavar="FILE", help="with show: the profile to show")
    add(
        "--for",
        type=duration,
        default="24h",
        metavar="TIME",
        dest="seconds",
        help=("how long to watch (default: 24h)"),
    )
    add("--every", type=duration, default="1s", metavar="TIME",
        help="the length of a row (default: 1s)")  # fmt: skip
    add("--out", type=run_options.file_path, metavar="FILE", help="the profile to write")
    group = parser.add_argument_group("a profile from recordings of other tools")
    add = group.add_argument
    add(
        "--from",
        dest="source",
        metavar="FILE",
        help=("a file that another tool recorded; - is stdin"),
    )
    add("--device", action="append", default=[], metavar="NAME", help=(
        "the disk of the data, if the file has several; may be repeated"
    ))  # fmt: skip
    group = parser.add_argument_group("the report of a profile")
    add = group.add_argument
    add("--above", action="append", default=[], metavar="RESOURCE=LEVEL", help=(
        "show the minutes a day for which a resource is above a level, such as read_iops=3000"
    ))  # fmt: skip
    add("--growth", type=float, default=1.0, metavar="TIMES",
        help=(
            "the factor by which the load may grow, for the recommended size, such as 1.5"
        ))  # fmt: skip
    add(
        "--headroom",
        default="0%",
        metavar="PERCENT",
        help=("the spare capacity to keep, such as 30%%"),
    )
    add("--json", action="store_true", help="print the profile's report as JSON")
    files.add_forms(
        add,
        "the profile",
        html="write one self-contained page with charts",
        csv="write every percentile (- is stdout)",
        markdown="write tables for a ticket (- is stdout)",
    )


def _columns() -> str:
    """Return a text with a line for every column of a profile, with its unit and meaning."""
    width = max(len(column.name) for column in profile.COLUMNS)
    return "\n".join(
        f"    {column.name:{width}}  {column.meaning}"
        + ("" if column.unit in column.meaning else f", {column.unit}")
        for column in profile.COLUMNS
    )


def run(args: argparse.Namespace) -> int:
    """Watch a server and save its profile, make a profile of a file, or print one; return 0."""
    if args.source is not None:
        if args.what is not None:
            raise Impossible(f"either {sanitize(args.what)!r} or --from can be asked for, not both")
        return _made(args)
    if args.what == "show" and args.file is not None:
        return _shown(args)
    if args.what is None or args.what == "show" or args.file is not None:
        raise Impossible(
            "nothing to do was named: `replayer profile URL`, `profile show FILE`, or "
            "`profile --from FILE`"
        )
    if "://" not in args.what:
        raise Impossible(
            "a source is given by its URL, such as postgresql://monitor@db.example/shop; a "
            "profile is shown by `replayer profile show FILE`"
        )
    return _watched(args)


def _watched(args: argparse.Namespace) -> int:
    order = source.ProfileRequest(
        engine=engine.of_url(args.what),
        url=args.what,
        seconds=args.seconds,
        every=args.every,
        ask=asker(),
    )
    source.check(order)
    path = Path(args.out or f"{datetime.now().astimezone():%Y%m%d-%H%M%S}{_ENDING}")
    for sentence in profile_recording.record(order, path, say):
        show(sentence)
    return 0


def _made(args: argparse.Namespace) -> int:
    file = imported.opened(Path(args.source))
    made = _read(file, args.device)
    stem = "stdin" if args.source == "-" else Path(args.source).name.partition(".")[0]
    path = Path(args.out or f"{stem or 'imported'}{_ENDING}")
    profile.save(path, made)
    for sentence in (*file.unread.all(), *made.notes):
        note(sentence)
    show(f"{path}  {len(made.ends):,} rows of {', '.join(made.columns)}")
    return 0


def _read(file: imported.ImportSource, devices: list[str]) -> ResourceProfile:
    """Return the profile that the recording of another tool gives.

    `devices` are the disks to use, by their names in the file; [] for all. Raises Impossible if no
    known tool has made the file.
    """
    if file.head.startswith('{"profile"'):
        raise Impossible(f"{file.name} is a profile already: `replayer profile show` shows it")
    tools = registry.names("profiles")
    for tool in tools:
        reader = registry.plugin("profiles", tool)
        if reader.SIGN.search(file.head):
            made: ResourceProfile = reader.read(file, devices)
            return made
    raise Impossible(
        f"{file.name} is of none of {', '.join(tools)}: `replayer profile --help` lists the files "
        f"that are read"
    )


def _shown(args: argparse.Namespace) -> int:
    one = report.summary(
        profile.load(Path(args.file)),
        args.above,
        growth=args.growth,
        headroom=parse_share(args.headroom),
        now=datetime.now(UTC).timestamp(),
    )
    document = report.document(one)
    files.tell(
        args, document, lambda: json.dumps(report.as_facts(one), indent=1), is_file_enough=True
    )
    return 0
