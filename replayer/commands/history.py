"""Show a metric over all stored runs: when its level changed, and what else changed at that time.

Each metric of the same work is one series. A change point is a place at which its level changed. It
is reported only if runs in random order would rarely show a change as clear as this one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from replayer.cli import run_options
from replayer.errors import Impossible, NotFound, Worse
from replayer.model import Status
from replayer.report import files
from replayer.report.messages import note
from replayer.report.sanitize import sanitize
from replayer.results import measured_runs, run_listing, store

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from replayer.analysis.history.metric_history import RunHistory
    from replayer.results.measured_runs import MeasuredRun
    from replayer.results.store import StoredRun

EPILOG = """\
examples:
  replayer history
  replayer history --metric physical.sessions.riops --by host.kernel.release
  replayer history --where workload=demo --where label=nightly --html history.html
  replayer history --metric 'sessions.latency.*' --last 200 --json
  replayer history --where label=nightly --fail-if-worse 5
exit status: 3 if the newest change of a metric is for the worse, by at least --fail-if-worse
"""
_KERNEL = "host.kernel.release"
_SWITCHED = (("ab",), ("bisect",), ("experiment", "block", "combination"), ("variant",))
"""Tags of runs whose settings were changed on purpose: by `ab`, `bisect`, `experiment`, `boots`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "--metric",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only these metrics, such as 'sessions.latency.*' (default: the leading metrics)",
    )
    add(
        "--by",
        metavar="FACT",
        help=f"the fact whose changes are marked (default: {_KERNEL})",
    )
    add(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"only runs with that: {', '.join(run_listing.KEYS)} or tag.NAME; "
        "* stands for anything",
    )
    add("--last", type=int, metavar="N", help="only the newest N runs")
    add(
        "--threshold",
        type=float,
        default=2.0,
        metavar="PERCENT",
        help="leave out changes that are smaller (default: 2)",
    )
    add(
        "--fail-if-worse",
        type=float,
        nargs="?",
        const=0.0,
        metavar="PERCENT",
        help="exit with 3 if a metric's newest change is for the worse, by at least this much",
    )
    add("--json", action="store_true", help="print the history as JSON")
    files.add_forms(
        add,
        "the changes",
        html="write a page with every series (- is stdout)",
    )
    run_options.add_results(add)


def run(args: argparse.Namespace) -> int:
    """Print the history of metrics on stdout, and notes about skipped runs on stderr; return 0.

    Raises Worse if the newest change of a metric is for the worse by at least --fail-if-worse.
    """
    from replayer.analysis.history import metric_history  # noqa: PLC0415 - arrays, not needed for --help
    from replayer.report.documents import history as report  # noqa: PLC0415 - arrays, not needed for --help

    _check(args)
    runs = _runs(args, store.folder_to_read(args.results))
    history = metric_history.trace(
        runs, args.by or _KERNEL, metrics=args.metric, threshold=args.threshold / 100, warn=note
    )
    if not history.series:
        asked = f"the metric {' or '.join(args.metric)}" if args.metric else "a metric"
        raise NotFound(f"none of {len(runs)} runs has {asked}: `replayer show RUN` lists them")
    files.tell(args, report.document(history), lambda: history.model_dump_json(indent=1))
    if args.fail_if_worse is not None:
        _fail_if_worse(history, args.fail_if_worse / 100)
    return 0


def _check(args: argparse.Namespace) -> None:
    for option, percent in (
        ("--threshold", args.threshold),
        ("--fail-if-worse", args.fail_if_worse or 0),
    ):
        if not 0 <= percent < math.inf:
            raise Impossible(f"{option} {percent:g}: give a percentage of 0 or more, such as 2")
    if args.last is not None and args.last < 1:
        raise Impossible(f"--last {args.last}: it must be 1 or more")


def _runs(args: argparse.Namespace, where: Path) -> list[MeasuredRun]:
    """Return the runs in the folder `where` that the options choose, in the order of their start.

    Runs that did not end well, and runs of experiments, are left out. Raises NotFound if no run is
    left.
    """
    found = measured_runs.read(where, args.by or _KERNEL, note)
    measured = {one.path: run for one, run in found}
    runs = run_listing.only([one for one, _ in found], args.where)
    if not runs:
        asked = f" with {' and '.join(args.where)}" if args.where else ""
        raise NotFound(store.none_in(where, asked))
    done = [one for one in runs if one.status == Status.DONE.value]
    if len(done) < len(runs):
        note(f"{len(runs) - len(done)} runs did not end as they should, and are left out")
    chosen = _without_variants(args, done)
    if not chosen:
        raise NotFound(f"none of {len(runs)} runs in {where}/ can be used, as noted above")
    kept = [measured[one.path] for one in chosen[-(args.last or len(chosen)) :]]
    # Imported runs need not have a kernel.
    if args.by is not None and not any(run.fact for run in kept):
        _check_fact(args.by, kept[-1].path)
    return kept


def _check_fact(fact: str, newest: Path) -> None:
    """Raise NotFound if the newest run has no such fact; the message has the most similar one.

    `newest` is the file of that run.
    """
    from replayer.analysis.differences import environment  # noqa: PLC0415 - arrays, not needed for --help

    found = environment.resolve(fact, [store.load(newest)])
    if found != fact:
        raise NotFound(f"no run has the fact {fact!r} - did you mean {found}?")


def _without_variants(args: argparse.Namespace, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs that do not belong to an experiment, as an experiment changes settings.

    It returns all runs if --where has a tag.
    """
    if any(condition.startswith("tag.") for condition in args.where):
        return list(runs)
    made = {tags[0]: [one for one in runs if set(tags) <= one.tags.keys()] for tags in _SWITCHED}
    for tag, switched in made.items():
        if switched:
            note(
                f"{len(switched)} runs of experiments are left out, as their settings were changed "
                f"on purpose: --where 'tag.{tag}=*' shows them"
            )
    out = {one.path for switched in made.values() for one in switched}
    return [one for one in runs if one.path not in out]


def _fail_if_worse(history: RunHistory, least: float) -> None:
    """Raise Worse if the newest change of a metric is proven, for the worse and large enough.

    Print a note on metrics that cannot be judged.
    """
    if unclear := [one.name for one in history.series if one.is_unclear]:
        note(
            f"{', '.join(map(sanitize, unclear))}: too few runs or boots to show a change, so "
            f"--fail-if-worse does not judge this"
        )
    if ended := [one.name for one in history.series if one.later]:
        note(
            f"{', '.join(map(sanitize, ended))}: not in the newest run, so --fail-if-worse judges "
            f"only the runs before"
        )
    worse = [
        (one, change)
        for one in history.series
        for change in one.changes[-1:]
        if change.worse and (change.share is None or abs(change.share) >= least)
    ]
    if unproven := [one.name for one, change in worse if not change.is_proven]:
        note(
            f"{', '.join(map(sanitize, unproven))}: worse, but of too few boots to prove it, so "
            f"--fail-if-worse does not count it"
        )
        worse = [(one, change) for one, change in worse if change.is_proven]
    if worse:
        words = [
            one.name if change.share is None else f"{one.name} by {abs(change.share):.1%}"
            for one, change in worse
        ]
        doubt = ", of few boots: another boot alone may do this"
        words = [
            f"{sanitize(text)}{doubt if change.may_be_boots else ''}"
            for text, (_, change) in zip(words, worse, strict=True)
        ]
        raise Worse(f"the newest change is for the worse: {', '.join(words)}")
