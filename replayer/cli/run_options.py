"""Options of `replayer run` that other commands have, too, because they make several runs.

Such a command passes the options on to each run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.errors import Impossible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def add_run_options(add: Callable[..., object], *, programs: bool = True) -> None:
    """Add the options of a run's workload, server and disk.

    `add` is the `add_argument` of a parser or of a group. Without `programs`, there is no option
    for the folder of the server's programs.
    """
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
    if programs:
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


def add_left_out(add: Callable[..., object]) -> None:
    """Add the option --without, which names the collectors that a run leaves out.

    `add` is the `add_argument` of a parser or of a group.
    """
    add(
        "--without",
        type=split_names,
        action="extend",
        default=[],
        metavar="NAME,…",
        help=(
            "leave out these active collectors, such as profile; `all` leaves out all of them; "
            "$REPLAYER_WITHOUT does the same"
        ),
    )


def add_results(add: Callable[..., object], use: str = "results are") -> None:
    """Add the option --results, the folder of results; `use` completes "where ..." in its help.

    `add` is the `add_argument` of a parser or of a group.
    """
    add(
        "--results",
        type=Path,
        metavar="DIR",
        help=f"where {use} (default: $REPLAYER_RESULTS or ./results)",
    )


def file_path(text: str) -> Path:
    """Return the path of a file that a command writes; raise ArgumentTypeError for `-`.

    Such a file is not written to stdout, as `-` would ask for with the options of reports.
    """
    if text == "-":
        raise argparse.ArgumentTypeError("this is not written to stdout: give the name of a file")
    return Path(text)


def split_names(text: str) -> list[str]:
    """Return the names in a text that separates them by commas, without blanks and empty names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def label(text: str) -> str:
    """Return the label of a run; raise Impossible for `latest`, which names the newest run."""
    if text == "latest":
        raise Impossible("`latest` stands for the newest run wherever a run is named: give another")
    return text


def list_run_arguments(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the options in `args` as arguments of `replayer run`, with absolute paths.

    `args` are the parsed arguments of another command.  Options that the user did not give are left
    out.
    """
    return tuple(part for pair in _pairs(args) for part in pair)


def any_text(text: str) -> str:
    """Return a text unchanged: the type of an argument whose value may also be empty."""
    return text


MAY_BE_EMPTY = (any_text, label, split_names)
"""The types of arguments for which an empty value has a meaning, such as no label."""


def _pairs(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    yield from (("--set", text) for text in args.overrides)
    yield from (("--pg-set", text) for text in args.settings)
    if args.engine:
        yield "--engine", args.engine
    # bisect has a --bindir of another meaning: the programs within a clone.
    if isinstance(args.bindir, Path):
        yield "--pg-bindir", str(args.bindir.absolute())
    if args.data_dir:
        yield "--data-dir", str(args.data_dir.absolute())
    if getattr(args, "repeat", None) is not None:
        yield "--repeat", str(args.repeat)
    if getattr(args, "without", None):
        yield "--without", ",".join(args.without)
