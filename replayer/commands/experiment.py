"""Find a cause by switching factors on and off: which change the numbers, and by how much.

The workload is run with combinations of the factors' levels, in a random order. At the end all
changes of the machine are undone.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import factors, journal
from replayer.analysis.differences.doubts import count_results
from replayer.analysis.differences.selection import choose, no_column, pair
from replayer.cli import run_options
from replayer.conditions import switch_back
from replayer.errors import Impossible, Interrupted, ReplayerError
from replayer.experiments import work_lock
from replayer.experiments.answer import analyse, check_metrics, is_settled
from replayer.experiments.experiment import (
    FILE,
    ExperimentPlan,
    ExperimentWork,
    RunDone,
    changes,
    commands,
    due_run,
    find_experiment,
    load_plan,
    make_folder,
    perform,
    save_plan,
)
from replayer.experiments.factor_choice import (
    ChosenFactors,
    find_factors,
    gaps_of,
    parse_factors,
)
from replayer.experiments.reached_settings import shared_settings
from replayer.experiments.variant import check_levels, plan_run
from replayer.report import files
from replayer.report.documents import experiment as report
from replayer.report.messages import note, say, show
from replayer.report.terminal import run_output
from replayer.report.writers import page_writer
from replayer.results import store
from replayer.run.plan import forecast, workload
from replayer.run.plan.request import build_request
from replayer.run.recovery import give_back
from replayer.units import show_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from replayer.analysis.advice.estimates import Expectation
    from replayer.analysis.differences.samples import Side
    from replayer.experiments.boot_turns import BootJob
    from replayer.factors import FactorPlace
    from replayer.model import Run, Workload
    from replayer.run.runner import RunRequest

EPILOG = """\
examples:
  replayer experiment slob-cached --factors thp,read_ahead_kb=128:8192,io_method --yes
  replayer experiment slob-cached --factors pg.shared_buffers=64MB:512MB,walk.threads=4:16
  replayer experiment --between stock uek --dry-run
  replayer experiment cold-walk --factors switch=fast:slow --switch ./set-{} --for 2h --yes
  replayer experiment --resume latest
"""
_PAGE = "experiment.html"
_LOCK = ".lock"
_DEFAULT_WITHIN = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        metavar="WORKLOAD",
        help=(
            "a name from `replayer list workloads`, or a path to a .toml file (default with "
            "--between: the workload of the runs)"
        ),
    )
    add(
        "--factors",
        action="append",
        default=[],
        metavar="NAME[=FIRST:SECOND],…",
        help=(
            "the factors to switch: from `replayer list factors`, pg.SETTING, STEP.KEY, or switch"
            " (the command of --switch)"
        ),
    )
    add(
        "--between",
        nargs=2,
        metavar=("A", "B"),
        help="use the differences between two labels, folders or runs as factors",
    )
    add("--switch", default="", metavar="'CMD {}'", help="a command that switches the machine")
    add(
        "--switch-back",
        default="",
        metavar="CMD",
        help="the command that undoes --switch (default: --switch with the first level)",
    )
    add(
        "--seldom",
        type=run_options.split_names,
        action="extend",
        default=[],
        metavar="NAME,…",
        help=(
            "factors that are expensive to switch: they change seldom, and the analysis allows "
            "for that"
        ),
    )
    _configure_end(parser)
    _configure_runs(parser)
    _configure_output(parser)


def _configure_end(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--yes", action="store_true", help="allow changes of the machine's settings")
    add(
        "--metric",
        action="append",
        default=[],
        metavar="PATTERN",
        help="judge these metrics instead of the leading ones",
    )
    add(
        "--within",
        type=_percent,
        default=_DEFAULT_WITHIN,
        metavar="PERCENT",
        help="continue until each factor's effect is known this exactly (default: 2)",
    )
    add(
        "--for",
        type=run_output.seconds,
        dest="budget",
        metavar="TIME",
        help="start no run after this time, such as 2h",
    )
    add(
        "--wait-quiet",
        type=run_output.seconds,
        default=0.0,
        metavar="TIME",
        help=(
            "before each run, wait until other programs are quiet, for at most this time; a "
            "disturbed run is repeated once"
        ),
    )
    add("--seed", type=int, metavar="N", help="the seed of the order (default: drawn)")
    add("--dry-run", action="store_true", help="only print every command, and the duration")
    add("--resume", metavar="ID", help="continue an experiment: its id, or latest")


def _configure_runs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("all runs, as of `replayer run`").add_argument
    run_options.add_run_options(add)
    run_options.add_left_out(add)


def _configure_output(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    run_options.add_results(add, "results go")
    add("--json", action="store_true", help="print the answer as JSON instead of the report")
    files.add_forms(
        add, "the effects", html=f"write the page there, too (else: {_PAGE} of its folder)"
    )


def run(args: argparse.Namespace) -> int:
    """Plan an experiment, do its runs, and print their result; return the exit status."""
    where = store.folder(args.results)
    if args.resume:
        folder = _resumed(args, where)
        plan = load_plan(folder)
    else:
        folder, plan = Path(), _plan(args, where)
        folder = where / plan.id
    place = _place(_planned_order(plan))
    work = ExperimentWork.of_plan(plan, folder, place, args.wait_quiet)
    _check(work)
    if args.dry_run:
        return _forecast(work, where)
    give_back(say)
    changed = changes(work)
    _refuse_here(work)
    if changed and not args.yes:
        raise Impossible(
            f"this experiment changes the machine ({', '.join(changed)}), and gives it back after "
            f"each run: allow it with --yes, or look at it with --dry-run"
        )
    check_levels(work.variants, place)
    if not args.resume:
        make_folder(folder)
        save_plan(folder, plan)
    with work_lock.held(folder, _LOCK, f"the experiment {plan.id}"):
        return _work(args, work, where)


def _work(args: argparse.Namespace, work: ExperimentWork, where: Path) -> int:
    plan = work.plan
    for words in (*plan.notes, *(f"not switched here: {one}" for one in plan.not_switched)):
        note(words)
    say(_beginning(work, where))
    with switch_back.switched_back(plan.back(), say):
        if work.boots is not None:
            return _one_boot(args, work, work.boots)
        return _tell(args, work, _perform(args, work))


def name_next_boot(args: argparse.Namespace) -> str:
    """Return the kernel to boot for the next run of an experiment; "" if the experiment is over."""
    folder = _resumed(args, store.folder(args.results))
    plan = load_plan(folder)
    work = ExperimentWork.of_plan(plan, folder, _place(_planned_order(plan)))
    due = due_run(work, work.done(), _settled(work))
    return work.kernel_of(due[1]) if due is not None else ""


def _one_boot(args: argparse.Namespace, work: ExperimentWork, job: BootJob) -> int:
    """Do one run if this boot has the due kernel; print the next kernel to boot, or the answer.

    `job` has the plan of boots, which is written first. Returns the exit status.
    """
    job.write()
    done, host = work.done(), work.place.host
    due = due_run(work, done, _settled(work))
    used = [str(run.host.get("boot.id")) for run in done.runs.values()]
    if due is not None and job.is_here(host, work.kernel_of(due[1]), used):
        done.runs[due], _ = work.measure(*due)
        say(f"run {len(done.runs)}, {work.plan.text(work.design, due[1])}: done")
        if due[0] == 0:
            check_metrics(work.plan, done.in_block(0))
        due = due_run(work, done, _settled(work))
    if due is None:
        return _tell(args, work, done.blocks(work.design.size))
    say(f"{len(done.runs)} boots are done; {job.what_next(work.kernel_of(due[1]))}")
    return 0


def _refuse_here(work: ExperimentWork) -> None:
    """Raise Impossible if a factor needs boots and --switch is given.

    A boot undoes what the command of --switch has changed.
    """
    if work.boots is not None and work.plan.switch:
        raise Impossible(
            "--switch and a factor that needs a boot are not measured together: what a command "
            "switched is gone after the boot"
        )


def _check(work: ExperimentWork) -> None:
    """Raise the error with which `replayer run` would refuse one of the runs.

    It is called before anything is written.
    """
    for row, variant in enumerate(work.variants):
        plan_run(
            work.plan.workload,
            variant,
            work.plan.options(work.design, work.runs_folder, 0, row),
        )


def _settled(work: ExperimentWork) -> Callable[[list[list[Run]]], bool]:
    return lambda blocks: is_settled(work.plan, work.design, blocks)


def _perform(args: argparse.Namespace, work: ExperimentWork) -> list[list[Run]]:
    """Do the runs that are missing, and return the runs of all complete blocks.

    A block has one run of each combination of the factors' levels.
    """
    size = work.design.size

    def tell(done: RunDone) -> None:
        again = f"; done again, as {done.again}" if done.again else ""
        say(
            f"block {done.block + 1}, run {done.number} of {size}: {done.text} "
            f"({show_duration(done.seconds)}{again})"
        )
        if done.block == 0:
            check_metrics(work.plan, done.runs)

    try:
        return perform(work, over=_settled(work), seconds=args.budget, on_run=tell)
    except Interrupted:
        say(
            f"stopped; what was measured is kept: `replayer experiment --resume {work.plan.id}` "
            f"continues"
        )
        raise


def _tell(args: argparse.Namespace, work: ExperimentWork, blocks: list[list[Run]]) -> int:
    """Print the answer of the experiment and write its page; return the exit status.

    `blocks` are the runs of the complete blocks: each has one run of each combination. Raises
    ReplayerError if there are too few blocks for an answer.
    """
    plan, design, folder = work.plan, work.design, work.folder
    least = design.least_blocks()
    if len(blocks) < least:
        late = f", and --for {show_duration(args.budget)} is over" if args.budget else ""
        raise ReplayerError(
            f"there is no result yet: {len(blocks)} of at least {least} blocks of {design.size} "
            f"runs are complete{late}",
            f"`replayer experiment --resume {plan.id}` continues",
        )
    first = zip(work.variants, blocks[0], strict=True)
    unreached = shared_settings([(own.arguments, one) for own, one in first])
    answer = analyse(plan, design, blocks, tuple(unreached))
    document = report.document(answer)
    files.tell(args, document, lambda: answer.model_dump_json(indent=1))
    files.put(str(folder / _PAGE), page_writer.page(document))
    say(f"runs: {folder}")
    return 0


def _resumed(args: argparse.Namespace, where: Path) -> Path:
    """Return the folder of the experiment that --resume names.

    Raises Impossible for options that only a new experiment can have, such as --factors.
    """
    given = {
        "WORKLOAD": args.workload,
        "--factors": args.factors,
        "--between": args.between,
        "--switch": args.switch,
        "--switch-back": args.switch_back,
        "--seldom": args.seldom,
        "--metric": args.metric,
        "--seed": args.seed is not None,
        "--within": args.within != _DEFAULT_WITHIN,
        "--set": args.overrides,
        "--pg-set": args.settings,
        "--engine": args.engine,
        "--pg-bindir": args.bindir,
        "--data-dir": args.data_dir,
    }
    extra = [name for name, value in given.items() if value]
    if extra:
        raise Impossible(
            f"--resume goes on with what the experiment was asked for: leave out {', '.join(extra)}"
        )
    return find_experiment(args.resume, where)


def _percent(text: str) -> float:
    """Return the number in `2%` or `2` as 2.0; raise Impossible unless it is between 0 and 100."""
    with contextlib.suppress(ValueError):
        number = float(text.removesuffix("%"))
        if 0 < number < 100:
            return number
    raise Impossible("it must be above 0 and below 100 percent, such as 2%")


def _plan(args: argparse.Namespace, where: Path) -> ExperimentPlan:
    """Return the plan of a new experiment from its options; `where` is the folder of stored runs.

    Raises Impossible if the options are wrong, or if no factor can be tried on this machine.
    """
    if args.seed is not None and args.seed < 0:
        raise Impossible(f"--seed {args.seed}: it must be 0 or more")
    if bool(args.factors) == bool(args.between):
        raise Impossible("an experiment needs --factors NAME,… or --between A B, one of them")
    sides = _sides(args, where) if args.between else ()
    named = args.workload or (_workload_of(sides[0].runs[0]) if sides else None)
    if named is None:
        raise Impossible("an experiment needs a workload, such as slob-cached")
    if named.endswith((".toml", ".replay")):
        # It must be found again from another folder.
        named = str(Path(named).absolute())
    order = _order(args, named)
    place = _place(order)
    words = [word for text in args.factors for word in run_options.split_names(text)]
    chosen = (
        find_factors(sides[0], sides[1], place)
        if sides
        else parse_factors(words, place, switch=args.switch, seldom=args.seldom)
    )
    _refuse_none(chosen, args.between)
    counted = count_results(*sides) if sides else None
    return ExperimentPlan(
        id=store.identify(datetime.now(UTC), order.workload.name, "experiment"),
        workload=named,
        digest=workload.facts(order.workload).digest,
        arguments=run_options.list_run_arguments(args),
        switch=args.switch,
        switch_back=args.switch_back,
        release=place.host.read("proc/sys/kernel/osrelease"),
        boots_for=args.budget,
        factors=chosen.factors,
        metrics=tuple(args.metric),
        seed=secrets.randbelow(1 << 31) if args.seed is None else args.seed,
        within=args.within / 100,
        sides=tuple(side.name for side in sides),
        gaps=gaps_of(counted) if counted else {},
        not_switched=chosen.refused,
        notes=(
            *chosen.notes,
            *_changed(sides, order.workload),
            *(counted.remarks if counted else ()),
        ),
    )


def _workload_of(run: Run) -> str:
    """Return the workload of a stored run: the path of its .toml file if it exists, or its name."""
    source = Path(run.workload.source)
    return str(source) if source.suffix == ".toml" and source.is_file() else run.workload.name


def _changed(sides: tuple[Side, ...], asked: Workload) -> tuple[str, ...]:
    """Return a warning if a run of the two sides had another version of the workload than `asked`.

    The result is a tuple with one sentence, or ().
    """
    digest = workload.facts(asked).digest
    if all(run.workload.digest == digest for side in sides for run in side.runs):
        return ()
    words = (
        f"the workload {asked.name} is not as the runs had it (another file, or other options): "
        f"what they differ by may be otherwise"
    )
    return (words,)


def _refuse_none(chosen: ChosenFactors, between: list[str] | None) -> None:
    if chosen.factors or not between:
        return
    reasons = "; ".join(chosen.refused) or "they differ in nothing that may explain it"
    raise Impossible(
        f"nothing by which {between[0]} and {between[1]} differ can be switched here: {reasons}"
    )


def _sides(args: argparse.Namespace, where: Path) -> tuple[Side, Side]:
    chosen = choose(args.between, where, columns=no_column)
    base, other = pair(chosen)
    names = {side.runs[0].workload.name for side in (base, other)}
    if len(names) > 1:
        raise Impossible(
            f"{base.name} and {other.name} did different workloads ({', '.join(sorted(names))})"
        )
    return base, other


def _order(args: argparse.Namespace, named: str) -> RunRequest:
    """Return the request for one run of the workload `named`, with the options in `args`.

    Raises the error with which `replayer run` would refuse the run.
    """
    asked = workload.load(named, args.overrides, repeat=None, settings=args.settings)
    return build_request(asked, args.engine or "", bindir=args.bindir, data_dir=args.data_dir)


def _place(order: RunRequest) -> FactorPlace:
    folder = order.data_dir or journal.place() / "data"
    return factors.place_at(folder, order.url or order.engine.name)


def _planned_order(plan: ExperimentPlan) -> RunRequest:
    """Return the request for one run of an experiment, from its plan.

    Raises Impossible if the workload was changed since the experiment began.
    """
    parser = argparse.ArgumentParser(prog="replayer run", allow_abbrev=False)
    _configure_runs(parser)
    order = _order(parser.parse_args(plan.arguments), plan.workload)
    if plan.digest not in {"", workload.facts(order.workload).digest}:
        raise Impossible(
            f"the workload {plan.workload} was changed since {plan.id} began, so that its runs did "
            f"other work: put it back, or begin a new experiment"
        )
    return order


def _beginning(work: ExperimentWork, where: Path) -> str:
    """Return a sentence on the experiment: its factors, its runs, and their least duration."""
    plan, design = work.plan, work.design
    least = design.least_blocks()
    runs = least * design.size
    names = ", ".join(f"{one.name} {one.first} -> {one.second}" for one in plan.factors)
    return (
        f"experiment {plan.id}: {names}; {design.title}, blocks of {design.size} runs, at least "
        f"{least} of them ({runs} runs, {_time(_expected(plan, where), runs)}), until every factor "
        f"is settled within {100 * plan.within:g} %"
    )


def _time(expected: Expectation, runs: int) -> str:
    if not expected.seconds:
        return "how long is not known yet"
    about = "about" if expected.whole else "more than"
    return f"{about} {show_duration(expected.seconds * runs)}"


def _expected(plan: ExperimentPlan, where: Path) -> Expectation:
    """Return the expected duration of one run, from earlier runs or the steps' keys."""
    earlier = sorted(path.parent for path in where.glob(f"*/{FILE}"))
    return forecast.expect(_planned_order(plan).workload, [where, *earlier])


def _forecast(work: ExperimentWork, where: Path) -> int:
    """Print what an experiment would do at least, without doing it; return 0.

    It prints the commands of the fewest runs that give an answer, and the factors that cannot be
    switched here.
    """
    for words in commands(work):
        show(words)
    for words in (
        *work.plan.notes,
        *(f"not switched here: {one}" for one in work.plan.not_switched),
    ):
        note(words)
    say(_beginning(work, where))
    say("nothing was started, and nothing was written")
    return 0
