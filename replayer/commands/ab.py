"""Measure two variants in turns until their difference is settled.

A variant is a list of changes: settings of the server (pg.shared_buffers=1GB), keys of steps
(walk.threads=8), factors of the machine (read_ahead_kb=128, see `replayer list factors`), or
--pg-bindir and --engine. An empty variant is the machine and the workload as they are.
"""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import factors, journal
from replayer.analysis.differences.comparison import MetricVerdict
from replayer.analysis.differences.finding import refuse_unjudged
from replayer.cli import run_options
from replayer.conditions import switch_back
from replayer.errors import Impossible, Worse
from replayer.experiments import ab_trial, looks, variant, work_lock
from replayer.experiments.ab_trial import Trial, TrialLimits, TrialState
from replayer.experiments.boot_turns import BootJob
from replayer.experiments.reached_settings import shared_settings
from replayer.experiments.variant import RunOptions, Variant
from replayer.report import files
from replayer.report.documents import comparison as comparison_report
from replayer.report.messages import note, say, show
from replayer.report.terminal import run_output
from replayer.results import store
from replayer.run.plan.forecast import forecast
from replayer.run.recovery import give_back
from replayer.units import show_duration, show_with_noun

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from replayer.analysis.advice.estimates import Expectation
    from replayer.analysis.differences.comparison import Comparison
    from replayer.factors import FactorPlace

EPILOG = """\
examples:
  replayer ab slob-cached --b pg.shared_buffers=1GB
  replayer ab cold-walk --a read_ahead_kb=128 --b read_ahead_kb=4096 --within 2%
  replayer ab smoke --a walk.threads=1 --b walk.threads=8 --runs 6 --html ab.html
  replayer ab slob-cached --b=--pg-bindir=/usr/lib/postgresql/17/bin --for 1h
  replayer ab demo --b thp=never --dry-run
exit status: 3 if B is worse, with --fail-if-worse
"""
_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%?\s*")
_MOST = 40
"""The most runs of each variant, unless --runs or --for is given."""
_MANY = 500


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("workload", metavar="WORKLOAD", help="a name from `replayer list workloads`, or a path")
    add(
        "--a",
        type=run_options.any_text,
        default="",
        metavar="VARIANT",
        help=("the base (default: machine and workload as they are)"),
    )
    add(
        "--b",
        type=run_options.any_text,
        default="",
        metavar="VARIANT",
        help=("the variant that is compared with the base (default: as for --a)"),
    )
    add(
        "--switch",
        default="",
        metavar="'CMD {}'",
        help="a command that switches the machine; a word of each variant replaces {}",
    )
    add(
        "--switch-back",
        default="",
        metavar="CMD",
        help="the command that undoes --switch (default: --switch with the level of --a)",
    )
    _configure_end(parser)
    _configure_runs(parser)
    _configure_output(parser)


def _configure_end(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "the end of the trial: the first of these that is reached"
    ).add_argument
    add(
        "--within",
        type=_percent,
        default=0.02,
        metavar="PERCENT",
        help=(
            "the smallest difference that matters: variants that differ by less are the same "
            "(default: 2%%)"
        ),
    )
    add("--runs", type=_runs, metavar="N", help=f"runs of each variant (default: up to {_MOST})")
    add(
        "--for",
        type=run_output.seconds,
        metavar="TIME",
        dest="time",
        help="start no run that would end later than this, such as 1h",
    )
    add(
        "--all",
        action="store_true",
        help=("make all runs, even if the difference is settled earlier"),
    )


def _configure_runs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the runs of both variants, as of `replayer run`").add_argument
    run_options.add_run_options(add)
    run_options.add_left_out(add)
    add("--repeat", type=int, metavar="N", help="repeats in each run")
    add(
        "--wait-quiet",
        type=run_output.seconds,
        default=0.0,
        metavar="TIME",
        help="before each run, wait until other programs are quiet, for at most this time",
    )
    add("--seed", type=int, metavar="N", help="the seed for the order of the runs")
    add(
        "--resume",
        action="store_true",
        help="continue the same trial if it was interrupted in this boot: its runs count",
    )
    add(
        "--dry-run",
        action="store_true",
        help=(
            "only print the commands of both variants, the changes of the machine, and the duration"
        ),
    )


def _configure_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the result").add_argument
    add(
        "--fail-if-worse",
        nargs="?",
        type=_percent,
        const=0.0,
        metavar="PERCENT",
        help="exit with 3 if B is worse in a leading metric, by at least this much",
    )
    files.add_forms(add, "the comparison")
    add("--json", action="store_true", help="print the comparison as JSON")
    run_options.add_results(add, "results go")


def _percent(text: str) -> float:
    """Return `2%` or `2` as the share 0.02; raise Impossible unless it is between 0 and 100."""
    number = _PERCENT.fullmatch(text)
    if number is None or not 0 < float(number[1]) < 100:
        raise Impossible("it must be a percentage above 0 and below 100, such as 2%")
    return float(number[1]) / 100


def _runs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MANY:
        raise Impossible(f"it must be a whole number from 1 to {_MANY}")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Make the runs of both variants, and print their comparison on stdout; return 0.

    Raises the error that ended the runs early, or Worse if --fail-if-worse asks for that.
    """
    trial = _trial(args)
    expected = [_expected(args.workload, own, trial.options) for own in trial.variants]
    if args.dry_run:
        _foretell(trial, expected, show)
        say("nothing was started, and nothing was changed")
        return 0
    give_back(say)
    if not trial.between_boots:
        variant.check_levels(trial.variants, trial.place)
    results = trial.options.results
    back = "" if trial.between_boots else args.switch_back or trial.variants[0].switch
    with (
        work_lock.held(results, f".ab-{trial.name}", f"this trial in {results}/"),
        switch_back.switched_back(back, say),
    ):
        state = _boot_once(args, trial) if trial.between_boots else _measure(args, trial, expected)
        _tell(args, trial, state)
        if state.error is not None:
            raise state.error
        _fail_if_worse(trial, state.comparison, args.fail_if_worse)
    return 0


def _measure(args: argparse.Namespace, trial: Trial, expected: Sequence[Expectation]) -> TrialState:
    """Make the runs of a trial that needs no reboot; return the trial's state at its end.

    `expected` are the expected durations of one run of each variant, to print before the first run.
    """
    state = ab_trial.found_again(trial) if args.resume else TrialState()
    if args.resume:
        say(f"{state.count()} runs of this trial were found in {trial.options.results}/")
    _foretell(trial, expected, say)
    return ab_trial.perform(trial, state, say)


def name_next_boot(args: argparse.Namespace) -> str:
    """Return the kernel to boot for the next run of two variants; "" if their trial is over."""
    trial = _trial(args)
    which = ab_trial.due(trial, ab_trial.found_again(trial))
    return "" if which is None else _kernels(trial)[which]


def _boot_once(args: argparse.Namespace, trial: Trial) -> TrialState:
    """Do one run if this boot has the kernel that is due, and print what to boot next.

    Returns the state of the trial after that run.
    """
    job = _job(args, trial)
    job.write()
    state = ab_trial.found_again(trial)
    used = [str(run.host.get("boot.id")) for side in state.runs for run in side]
    which = ab_trial.due(trial, state)
    if which is not None and job.is_here(trial.place.host, _kernels(trial)[which], used):
        ab_trial.perform_one(trial, state, which, say)
        which = ab_trial.due(trial, state)
    if which is not None:
        say(f"{state.count()} boots are done; {job.what_next(_kernels(trial)[which])}")
    return state


def _kernels(trial: Trial) -> tuple[str, ...]:
    return tuple(own.boot_kernel("") or "" for own in trial.variants)


def _job(args: argparse.Namespace, trial: Trial) -> BootJob:
    words = ["ab", args.workload, f"--a={args.a}", f"--b={args.b}", f"--within={args.within:%}"]
    words += [f"--runs={args.runs}"] if args.runs else []
    words += ["--all"] if args.all else []
    words += [f"--wait-quiet={args.wait_quiet:g}s"] if args.wait_quiet else []
    words += [
        *run_options.list_run_arguments(args),
        f"--seed={trial.seed}",
        f"--results={store.folder(args.results).absolute()}",
    ]
    return BootJob(
        path=trial.options.results.with_suffix(".plan"),
        kernels=_kernels(trial),
        words=tuple(words),
        arguments=(args.workload, *trial.options.arguments),
    )


def _trial(args: argparse.Namespace) -> Trial:
    """Return the plan of the trial of two variants for which the arguments ask.

    Raises Impossible if it cannot be made.
    """
    data = args.data_dir or journal.place() / "data"
    place = factors.place_at(data, args.engine or "")
    between_boots = _name_kernels(args, place)
    both = tuple(
        variant.parse_variant(text, place, switch=args.switch) for text in (args.a, args.b)
    )
    first, second = _named_apart(args, both[0], both[1])
    options = RunOptions(store.folder(args.results), run_options.list_run_arguments(args))
    if args.data_dir:
        first, second = variant.with_own_data((first, second), args.data_dir)
    digest = variant.digest_work(args.workload, options)
    what = [args.workload, digest, str(first), str(second), *options.arguments, args.switch]
    name = hashlib.sha256("\0".join(what).encode()).hexdigest()[:12]
    limits = TrialLimits(
        within=args.within,
        most=args.runs or (_MANY if args.time else _MOST),
        seconds=args.time,
        wait_quiet=args.wait_quiet,
        settle=not args.all,
    )
    if between_boots:
        options = replace(options, results=options.results.absolute() / f"ab-{name}.runs")
    # Another boot must draw the same order.
    drawn = int(name, 16) % (1 << 31) if between_boots else secrets.randbelow(1 << 31)
    if args.seed is not None and args.seed < 0:
        raise Impossible(f"--seed {args.seed}: it must be 0 or more")
    seed = drawn if args.seed is None else args.seed
    both = (first, second)
    return Trial(args.workload, both, place, options, limits, name, seed, between_boots)


def _named_apart(
    args: argparse.Namespace, first: Variant, second: Variant
) -> tuple[Variant, Variant]:
    """Return both variants unchanged; raise Impossible if both set exactly the same."""
    if (first.arguments, first.levels, first.switch) == (
        second.arguments,
        second.levels,
        second.switch,
    ):
        raise Impossible(
            f"both variants are {args.a or 'the machine as it is'!r}, and two are compared: give "
            f"--b another setting"
        )
    return first, second


def _name_kernels(args: argparse.Namespace, place: FactorPlace) -> bool:
    """Return whether each run needs its own boot, as a variant sets the kernel or its command line.

    If so, `args` is changed: a variant without a kernel gets the running kernel, and paths become
    absolute, as each boot begins in another folder. Raises Impossible for options that cannot be
    used with boots.
    """
    both = [variant.parse_variant(text, place, switch=args.switch) for text in (args.a, args.b)]
    if not any(own.of_scope("boot") for own in both):
        return False
    refused = {"--switch": args.switch, "--for": args.time is not None, "--resume": args.resume}
    given = [name for name, value in refused.items() if value]
    if given:
        needs = next(own.label for own in both if own.of_scope("boot"))
        raise Impossible(
            f"{given[0]} is for a trial within one boot, and {needs} needs boots: leave it out"
        )
    release = place.host.read("proc/sys/kernel/osrelease")
    for name, own in zip("ab", both, strict=True):
        if "kernel" not in dict(own.levels):
            setattr(args, name, f"kernel={release} {getattr(args, name)}".strip())
        setattr(args, name, variant.with_absolute_paths(getattr(args, name)))
    if args.data_dir:
        args.data_dir = args.data_dir.absolute()
    if args.workload.endswith((".toml", ".replay")):
        args.workload = str(Path(args.workload).absolute())
    return True


def _expected(workload: str, own: Variant, options: RunOptions) -> Expectation:
    """Return the expected duration and number of metrics of one run of a variant.

    Raises the error with which `replayer run` would refuse that run.
    """
    order = variant.plan_run(workload, own, options)
    return forecast(order, [options.results]).expected


# The plan in words


def _foretell(trial: Trial, expected: Sequence[Expectation], say: Callable[[str], None]) -> None:
    """Print each variant with its command and the machine's settings that change.

    The last line is on the number of runs and the time that the trial takes.
    """
    for letter, own in zip("AB", trial.variants, strict=True):
        say(f"{letter}: {own.label}")
        if own.switch:
            say(f"   runs: {own.switch}")
        for name, level in own.of_scope("machine"):
            now = factors.load(name).current(trial.place)
            say(f"   sets {name} to {level} for each of its runs (now {now}), and gives it back")
        say(f"   replayer {shlex.join(variant.run_arguments(trial.workload, own, trial.options))}")
    say(_duration(trial, expected))


def _duration(trial: Trial, expected: Sequence[Expectation]) -> str:
    """Return a sentence on the number of runs of a trial and the time that they take."""
    limits = trial.limits
    soonest = looks.first_look(
        max(1, *(one.leading for one in expected)), max(one.others for one in expected)
    )
    soonest = min(soonest, limits.most) if limits.settle else limits.most
    pair = sum(one.seconds for one in expected)
    whole = all(one.whole for one in expected)
    more = "about" if whole else "at least"
    runs = f"{show_with_noun(soonest, 'run')} of each variant"
    if limits.seconds is not None:
        ends = f"{runs} at the soonest, {show_duration(limits.seconds)} at most"
    else:
        ends = f"{runs} at the soonest, {limits.most} at most" if limits.most > soonest else runs
    if not pair:
        return f"seed {trial.seed}; {ends}; how long a run takes is not known yet"
    times = f"{more} {show_duration(pair * soonest)}"
    if limits.seconds is None and limits.most > soonest:
        times += f" to {show_duration(pair * limits.most)}"
    source = "as earlier runs did" if whole else "what steps are set to, without all around them"
    return f"seed {trial.seed}; {ends}: {times} ({source})"


# The finding in words


def _tell(args: argparse.Namespace, trial: Trial, state: TrialState) -> None:
    """Print how the trial ended, then the comparison, whose last lines are the answer."""
    both = zip(trial.variants, state.runs, strict=True)
    first = [(own.arguments, runs[0]) for own, runs in both if runs]
    for sentence in shared_settings(first):
        note(sentence)
    if state.reason and state.error is None:
        again = f"; {len(state.spoilt)} spoilt by other programs and done again"
        say(f"{state.reason}{again if state.spoilt else ''}")
    say(f"the runs are in {trial.options.results}/")
    compared = state.comparison
    if compared is None:
        return
    args.html = args.html or str(trial.options.results / f"ab-{trial.name}.html")
    files.tell(
        args,
        comparison_report.document(compared, full=False),
        lambda: compared.model_dump_json(indent=1),
        others=files.forms_of_runs(ab_trial.sides_of(trial, state), compared),
    )


def _fail_if_worse(trial: Trial, compared: Comparison | None, least: float | None) -> None:
    """Raise Worse if B is worse than A in a leading metric, by at least the share `least`.

    Leading metrics are the main metrics of a step, by which runs are judged. With `least` 0 the
    trial's threshold (--within) is used; with None nothing is checked. Raise Impossible if nothing
    is worse and a step is not judged.
    """
    if least is None or compared is None:
        return
    least = (least or compared.threshold) - math.ulp(1)
    worse = [
        row.title if row.change is None else f"{row.title} by {row.change:.1%}"
        for row in compared.rows
        if row.leading
        and row.verdict in (MetricVerdict.WORSE, MetricVerdict.DIFFERS)
        and row.worse
        and (row.change is None or row.change >= least)
    ]
    if worse:
        where = "" if trial.between_boots else ", within one boot"
        raise Worse(
            f"{compared.other.name} is worse than {compared.base.name} in these runs{where}: "
            f"{', '.join(worse)}"
        )
    refuse_unjudged(compared)
