"""Judge whether a database fits on this machine, by a profile or a capture of its source.

The requirement is the busiest minute of the profile, times growth and headroom. A load of the same
kind is put on a database here. A search finds the highest multiple of the required rate that meets
the objective; then the required rate is held for some minutes. From a capture (FILE.replay) the
busiest minute itself is replayed, at one speed after the other. A speed is sustained if the lag of
the replay does not keep growing.
"""

from __future__ import annotations

import getpass
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from replayer import units
from replayer.analysis.profiles import confidence
from replayer.analysis.profiles.usage import NAMED
from replayer.capture.capture_summary import ENDING
from replayer.cli import run_options
from replayer.engines import engine
from replayer.errors import Impossible, NotFound, ReplayerError
from replayer.followers.followed_run import followed
from replayer.followers.options import configure_followers
from replayer.load.objective import NONE, given
from replayer.machine.host import Host
from replayer.model import Status
from replayer.report import files
from replayer.report.documents import sizing
from replayer.report.documents import speed as speed_report
from replayer.report.messages import say
from replayer.report.pages import sizing_sheet
from replayer.report.sanitize import sanitize
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import profile, store
from replayer.run.plan import workload as workload_file
from replayer.run.plan.forecast import check_folders, check_results
from replayer.run.plan.request import build_request
from replayer.run.result_writer import ResultWriter
from replayer.run.time_promise import TimePromise
from replayer.shortlist.shortlist import load_shortlist
from replayer.sizing import candidate, capture_sizing, requirement, sizing_plan, target
from replayer.sizing.record import Sizing
from replayer.sizing.requirement import parse_share
from replayer.sizing.speed_search import SpeedSearch, estimate
from replayer.sizing.target import Fit
from replayer.sizing.verdict import judge, refutations

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from replayer.model import Run, Workload
    from replayer.report.document import Document, Section
    from replayer.report.terminal.run_output import RunOutput
    from replayer.results.profile import ResourceProfile
    from replayer.run.context import Progress
    from replayer.run.runner import RunRequest
    from replayer.sizing.prediction import Prediction
    from replayer.sizing.requirement import Requirement
    from replayer.sizing.sizing_plan import SizingPlan
    from replayer.sizing.verdict import FitVerdict

EPILOG = """\
examples:
  replayer size prod.profile
  replayer size prod.profile --growth 1.5 --headroom 30% --slo p99=20ms
  replayer size prod.profile --data-dir /mnt/nvme/replayer --hold 30min
  replayer size prod.profile --target gp3.toml --html verdict.html
  replayer size prod.profile --from-shortlist prod.shortlist --machine m6g.large
  replayer size prod.profile --dry-run
  replayer size monday.replay --restore shop.dump --growth 1.5 --beside latest
  replayer size prod.profile monday.replay --restore shop.dump
  replayer size show latest --html verdict.html --summary sign.html
exit status: 0 fits or unclear, 3 does not fit
"""
_DOES_NOT_FIT = 3
_SLO = "p99=20ms"
"""The objective for response times, if a profile is given without --slo."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("what", metavar="FILE",
        help="a profile, or a capture (.replay); or `show`, to print a verdict again")  # fmt: skip
    add("which", nargs="?", metavar="RUN|FILE",
        help="with show: an id, a label, a path, or latest; otherwise a capture after a profile, "
        "or the other way round: both then size this machine, one after the other")  # fmt: skip
    _configure_requirement(parser)
    _configure_search(parser)
    _configure_place(parser)
    _configure_capture(parser)
    configure_followers(parser)
    parser.set_defaults(quiet=False, verbose=False)
    add("--beside", metavar="RUN", help="show the verdict of another `replayer size` next to it")
    add("--label", type=run_options.label, default="",
        help="the name of this machine in comparisons")  # fmt: skip
    add("--results", metavar="DIR", help="the folder for results (default: ./results)")
    add("--json", action="store_true", help="print the verdict as JSON instead of the report")
    add("--summary", metavar="FILE", help="write one page to print and sign (HTML, A4)")
    files.add_forms(add, "the verdict")


def _configure_requirement(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the requirement").add_argument
    add(
        "--growth",
        type=float,
        metavar="TIMES",
        help="the factor by which the load may grow, such as 1.5",
    )
    add("--headroom", metavar="PERCENT", help="the spare capacity to keep, such as 30%%")
    add("--percentile", type=float, default=100.0, metavar="P",
        help="use this percentile of the windows, such as 99, not the busiest one")  # fmt: skip
    add("--window", type=units.duration, default="1min", metavar="TIME",
        help="the length of a window (default: 1min)")  # fmt: skip
    add("--by", default="", metavar="RESOURCE",
        help="imitate the busiest window of this resource, such as write_iops")  # fmt: skip
    add("--slo", type=given, metavar="OBJECTIVE",
        help="the objective for response times, such as 'p50=5ms p99=20ms' (default: p99=20ms; "
        "for a capture twice its p99, if that is more; none: only lag and errors)")  # fmt: skip
    add("--target", type=Path, action="append", default=[], metavar="FILE", dest="targets",
        help="a TOML file with limits of this machine that cannot be measured, see "
        "docs/administrator.md; may be repeated")  # fmt: skip
    add("--from-shortlist", type=Path, metavar="FILE",
        help="a file of `replayer shortlist --out`: use its growth, headroom and limits with "
        "credits, and show its prediction for --machine next to the verdict")  # fmt: skip
    add("--machine", metavar="NAME", help="the machine of that shortlist, or MACHINE / DISK")


def _configure_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the trials").add_argument
    add("--hold", type=units.duration, default="10min", metavar="TIME",
        help="how long to hold the required rate (default: 10min); give 30min if the disk has "
        "credits")  # fmt: skip
    add("--trial", type=units.duration, metavar="TIME",
        help="the length of a trial of one rate (default: 20s or more)")  # fmt: skip
    add("--sessions", type=int, metavar="N",
        help="the number of sessions (default: twice the active ones of the source)")  # fmt: skip
    add(
        "--working-set",
        type=units.size,
        metavar="SIZE",
        help="the amount of data in use (default: from the profile)",
    )
    add("--source-probes", type=Path, metavar="RESULT",
        help="a result of `replayer run cpu` at the source, to convert its CPU time to this "
        "machine's")  # fmt: skip
    add("--wait", type=units.duration, default="0s", metavar="TIME",
        help="the longest time to wait for other programs that disturb two trials in a row, such "
        "as 30min (default: as long as the promised duration allows)")  # fmt: skip
    add("--seed", type=int, default=1, metavar="N", help="the seed of the load (default: 1)")
    add("--dry-run", action="store_true", help="only print the plan and its duration")


def _configure_place(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the server and the disk").add_argument
    add("--engine", metavar="NAME|URL",
        help="a name, or the URL of a running server (default: the profile's engine)")  # fmt: skip
    add("--pg-bindir", "--bindir", type=Path, metavar="DIR", dest="bindir",
        help="the programs of another server version")  # fmt: skip
    add("--data-dir", type=Path, metavar="DIR",
        help="a folder on the disk under test; empty, or made by replayer")  # fmt: skip
    add("--pg-set", "--server-set", action="append", default=[], metavar="NAME=VALUE",
        dest="settings", help="a server setting, such as shared_buffers=8GB")  # fmt: skip


def _configure_capture(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("for a capture").add_argument
    add("--restore", metavar="FROM", help="a dump or a database from which each replay begins")
    add("--i-will-change", metavar="DATABASE",
        help="the name of the database at the URL; it allows the replays to change that "
        "database")  # fmt: skip
    add("--database", metavar="NAME",
        help="replay only the sessions of this database of the capture")  # fmt: skip
    add("--replay", action="append", default=[], metavar="KEY=VALUE",
        help="a key of the step replay, such as read_only=true")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Size this machine, or show an earlier verdict again; return 3 if it does not fit."""
    if args.what == "show" and args.which is not None:
        return _tell(args, store.load(store.find(args.which, store.folder(args.results))))
    if args.what == "show" and not Path("show").exists():
        raise Impossible("no verdict to show was named: `replayer size show latest`")
    if args.which is None:
        return _sized(args, args.what)
    if args.what.endswith(ENDING) == args.which.endswith(ENDING):
        raise Impossible(
            f"{sanitize(args.which)!r} is one argument too many: a machine is sized by one "
            f"profile, one capture ({ENDING}), or one of each"
        )
    return _sized_by_both(args)


def _sized(args: argparse.Namespace, file: str) -> int:
    """Size this machine by one file, and print the verdict; return the exit status."""
    orders = _ordered(args, file)
    if not orders:
        return 0
    statuses: list[int] = []

    _performed(args, orders[0], lambda one: statuses.append(_tell(args, one)))
    return statuses[0]


def _sized_by_both(args: argparse.Namespace) -> int:
    """Size by a profile, then by a capture, and print both verdicts; return the exit status."""
    # Both are checked before the first begins, so that an error is reported at once.
    orders = _ordered(args, args.what, args.which)
    runs: list[Run] = []
    try:
        for order in orders:
            _performed(args, order, runs.append, last=order is orders[-1])
    finally:
        statuses = [_tell_all(args, runs)] if runs else []
    return max(statuses, default=0)


class _Planned(NamedTuple):
    """The request for a run that sizes by one file, and the description to print before the run."""

    order: RunRequest
    words: Sequence[Section]
    facts: dict[str, Any]
    """The description as JSON."""
    between: Callable[[Run, Progress], None] | None = None
    """A function that is called after each step of the run, with the run so far."""


def _ordered(args: argparse.Namespace, *files: str) -> list[_Planned]:
    """Check folders, print the plan for each file, and return the plans; [] for --dry-run."""
    planned = {
        file: (_by_capture if file.endswith(ENDING) else _by_profile)(args, file) for file in files
    }
    for one in planned.values():
        check_folders(one.order)
    if not args.dry_run:
        for one in planned.values():
            print(console.text(terminal_writer.render_parts(one.words)), file=sys.stderr)  # noqa: T201
        return list(planned.values())
    check_results(store.folder(args.results))
    if args.json:
        facts = {Path(file).name: one.facts for file, one in planned.items()}
        print(json.dumps(facts if len(files) > 1 else facts[Path(files[0]).name], indent=1))  # noqa: T201
    else:
        console.write(*(terminal_writer.render_parts(one.words) for one in planned.values()))
        say("nothing was started, and nothing was written")
    return []


def _by_profile(args: argparse.Namespace, file: str) -> _Planned:
    """Return the plan of the run by a profile: the request, and the description to print."""
    known = _profile(args, file)
    chosen = _shortlisted(args, file)
    wanted = _required(args, known)
    named = args.engine or _engine_of(known)
    host = Host()
    machine = candidate.seen(host, named, bindir=args.bindir, data_dir=args.data_dir)
    planned = sizing_plan.planned(wanted, _options(args), machine, file)
    record = _record(args, file, known, wanted, planned, machine)
    if chosen is not None:
        record = _with_prediction(record, chosen, known)
    order = _request(args, planned.workload, named, record.model_dump(mode="json"))
    why = refutations(record)
    stages = [{"words": stage.words, "seconds": stage.seconds} for stage in planned.stages]
    facts = {
        **record.model_dump(mode="json"),
        "refuted": why,
        "seconds": 0.0 if why else planned.seconds,
        "stages": [] if why else stages,
    }
    words = list(sizing.beginning(record, planned, why))
    order = replace(order, promise=TimePromise(planned.seconds))
    return _Planned(_as_far_as_needed(order, record, why), words, facts)


def _request(
    args: argparse.Namespace, workload: Workload, named: str, sizing: dict[str, Any]
) -> RunRequest:
    """Return the request for the run of a sizing."""
    options = {name: getattr(args, name) for name in ("label", "bindir", "data_dir")}
    return build_request(workload, named, **options, sizing=sizing)


def _profile(args: argparse.Namespace, file: str) -> ResourceProfile:
    """Return the profile in a file; raise Impossible if a run was named in its place."""
    try:
        return profile.load(Path(file))
    except NotFound:
        one = _stored_run(file, store.folder(args.results))
        if one is None:
            raise
    name = sanitize(file)
    todo = f"give a file that `replayer profile` wrote, or `replayer convert` (*{ENDING})"
    if one.sizing is not None:
        todo += f"; `replayer size show {name}` prints that run's verdict again"
    raise Impossible(f"{name} is the run {one.id} ({one.workload.name}), not a profile", todo)


def _stored_run(name: str, folder: Path) -> Run | None:
    """Return the stored run that is called `name`, such as `latest`; None if there is none."""
    try:
        return store.load(store.find(name, folder))
    except ReplayerError:
        return None


def _shortlisted(args: argparse.Namespace, file: str) -> Prediction | None:
    """Return the prediction of --from-shortlist, or None; `args` gets its growth and headroom."""
    if args.from_shortlist is None:
        if args.machine is not None:
            raise Impossible("--machine names a row of a shortlist: give --from-shortlist FILE too")
        args.growth = 1.0 if args.growth is None else args.growth
        args.headroom = args.headroom or "0%"
        return None
    listed = load_shortlist(args.from_shortlist)
    if args.machine is None:
        raise Impossible(
            f"which row of {sanitize(str(args.from_shortlist))} this machine is, is not named: "
            f"--machine {sanitize(listed.candidates[0].machine)!r}"
        )
    if listed.profiles != (Path(file).name,):
        raise Impossible(
            f"that shortlist is for {sanitize(' + '.join(listed.profiles))}, and this machine is "
            f"to be sized by {sanitize(Path(file).name)}: try it with the same"
        )
    asked = (args.growth, None if args.headroom is None else parse_share(args.headroom))
    of_list = (listed.growth, listed.headroom)
    if any(own is not None and own != there for own, there in zip(asked, of_list, strict=True)):
        raise Impossible(
            f"the shortlist has growth {listed.growth:g} and headroom {listed.headroom:.0%}: leave "
            f"out --growth and --headroom, or draw it up again"
        )
    args.growth, args.headroom = listed.growth, f"{100 * listed.headroom:g}%"
    args.percentile, args.window = listed.percentile, listed.window
    return listed.prediction(args.machine, str(args.from_shortlist))


def _with_prediction(record: Sizing, chosen: Prediction, known: ResourceProfile) -> Sizing:
    """Return the record, with a shortlist's prediction and a judgement on each of its limits."""
    judged = [
        target.judge_limit(limit, record.requirement, known).model_copy(
            update={"title": f"{NAMED[limit.resource].title} of {chosen.machine}"}
        )
        for limit in chosen.limits
    ]
    names = (record.target, chosen.machine) if judged else (record.target,)
    return record.model_copy(
        update={
            "prediction": chosen,
            "target": ", ".join(filter(None, names)),
            "judgements": (*record.judgements, *judged),
        }
    )


def _as_far_as_needed(order: RunRequest, record: Sizing, why: Sequence[str]) -> RunRequest:
    """Return the request without steps that cannot change the verdict.

    `why` are reasons, known before the run, for which the database does not fit. With any of them
    no step is run. Without them the run ends as soon as its probes show such a reason.
    """
    if why:
        return replace(order, workload=order.workload.model_copy(update={"steps": ()}))
    return replace(order, enough=lambda run: bool(refutations(record, run)))


def _by_capture(args: argparse.Namespace, file: str) -> _Planned:
    """Return the plan of the run by a capture: it searches the highest speed that is sustained."""
    if args.from_shortlist is not None:
        raise Impossible("a shortlist is drawn up of profiles: size by the profile, not a capture")
    objective = None if args.slo is None else "" if args.slo == NONE else args.slo
    names = ("restore", "i_will_change", "database")
    keys = {name: getattr(args, name) for name in names}
    asked = capture_sizing.SpeedOptions(
        growth=1.0 if args.growth is None else args.growth,
        headroom=parse_share(args.headroom or "0%"),
        window=args.window if args.trial is None else args.trial,
        objective=objective,
        hold=args.hold,
        keys={**{k: v for k, v in keys.items() if v}, **_pairs(args.replay)},
        settings=workload_file.server_settings(args.settings),
    )
    wanted, workload = capture_sizing.planned(file, asked)
    wanted = wanted.model_copy(update={"by": _user()})
    named = args.engine or wanted.source.partition(" ")[0]
    order = _request(args, workload, named, wanted.model_dump(mode="json"))
    search = SpeedSearch(wanted, TimePromise(estimate(wanted)), args.wait)
    order = replace(order, promise=search.promise, following=search.following)
    words = list(speed_report.beginning(wanted))
    return _Planned(order, words, wanted.model_dump(mode="json"), search.continue_with)


def _pairs(texts: list[str]) -> dict[str, str]:
    parts = [text.partition("=") for text in texts]
    if any(not name or not sign for name, sign, _ in parts):
        raise Impossible("--replay is KEY=VALUE, such as read_only=true")
    return {name.strip(): value.strip() for name, _, value in parts}


def _performed(
    args: argparse.Namespace,
    planned: _Planned,
    tell: Callable[[Run], None],
    *,
    last: bool = True,
) -> None:
    """Do the run, save it after each step, and call `tell` with it; `last`: no run comes after."""
    where = store.folder(args.results)
    kept = ResultWriter(where, worded=_with_headline)
    with followed(args, last=last) as follow:
        try:
            follow.perform(planned.order, kept, earlier=[where], between=planned.between)
        finally:
            kept.finish(partial(_end, tell, follow.output))


def _end(tell: Callable[[Run], None], output: RunOutput, run: Run, path: Path | None) -> None:
    tell(run)
    output.ended(run, path, "")


def _with_headline(run: Run) -> Run:
    """Return the run with its verdict as headline; a run that has not ended is not changed."""
    if run.status is Status.RUNNING:
        return run
    return run.model_copy(update={"headline": _judged(run).verdict.headline})


def _required(args: argparse.Namespace, known: ResourceProfile) -> Requirement:
    """Return the requirement of a profile, with the probes of the source if they are given."""
    wanted = requirement.of(
        known,
        growth=args.growth,
        headroom=parse_share(args.headroom),
        percentile=args.percentile,
        window=args.window,
        by=args.by,
    )
    if args.source_probes is None:
        return wanted
    probes = candidate.probed(store.load(args.source_probes))
    return wanted.model_copy(update={"probes": {**wanted.probes, **probes}})


def _engine_of(known: ResourceProfile) -> str:
    """Return the engine of a profile's source if replayer can start its servers, else ""."""
    try:
        chosen = engine.load(known.source.engine)
    except NotFound:
        return ""
    return chosen.name if chosen.spec.server.starts else ""


def _options(args: argparse.Namespace) -> sizing_plan.SizingOptions:
    objective = args.slo or _SLO
    if objective == NONE:
        raise Impossible("--slo none is for a capture: give an objective such as p99=20ms")
    if args.working_set is not None and args.working_set <= 0:
        raise Impossible("--working-set is 0: it must be as in 10G")
    return sizing_plan.SizingOptions(
        objective=objective,
        hold=args.hold,
        trial=args.trial,
        sessions=args.sessions,
        working_set=args.working_set,
        seed=args.seed,
        wait=args.wait,
        settings=workload_file.server_settings(args.settings),
    )


def _record(  # noqa: PLR0917 - one for each part of the record
    args: argparse.Namespace,
    file: str,
    known: ResourceProfile,
    wanted: Requirement,
    planned: SizingPlan,
    machine: sizing_plan.CandidateMachine,
) -> Sizing:
    limits = {path: target.load(path) for path in args.targets}
    source = known.source
    what = " ".join(word for word in (source.engine, source.version, source.place) if word)
    return Sizing(
        profile=file,
        source=what or Path(file).name,
        requirement=wanted,
        objective=args.slo or _SLO,
        rate=planned.rate,
        target=", ".join(one.name or path.name for path, one in limits.items()),
        judgements=tuple(
            chain.from_iterable(
                target.judge(
                    one, wanted, known, of=(one.name or path.name) if len(limits) > 1 else ""
                )
                for path, one in limits.items()
            )
        ),
        free_bytes=machine.free_bytes,
        memory_bytes=machine.memory_bytes,
        cores=machine.cores,
        in_memory=machine.own_server and planned.data.residence is sizing_plan.Residence.MEMORY,
        compute=planned.compute,
        confidence=confidence.rate(known, datetime.now(UTC).timestamp()),
        by=_user(),
        unproven=planned.data.unproven,
    )


def _user() -> str:
    """Return the name of the user; "" if the system has no name for the user id."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _tell(args: argparse.Namespace, one: Run) -> int:
    """Print and write the verdict on a run as it was asked for; return the exit status."""
    others = []
    if args.beside is not None:
        others = [store.load(store.find(args.beside, store.folder(args.results)))]
    judged = _judged(one)
    sides = [_side(each) for each in (one, *others)] if others else []
    _write(args, judged, sides, lambda: judged.verdict.model_dump_json(indent=1))
    return _status(judged.verdict)


def _tell_all(args: argparse.Namespace, runs: Sequence[Run]) -> int:
    """Print the verdicts on runs, and compare them side by side; return the exit status."""
    judged = [_judged(one) for one in runs]
    verdicts = {
        _by(one): each.verdict.model_dump(mode="json")
        for one, each in zip(runs, judged, strict=True)
    }
    if not args.json and "-" not in {args.html, args.csv, args.markdown, args.summary}:
        console.write(*(terminal_writer.render(each.document) for each in judged[:-1]))
    sides = [_side(one) for one in runs] if len(runs) > 1 else []
    _write(args, judged[-1], sides, lambda: json.dumps(verdicts, indent=1))
    return max(_status(each.verdict) for each in judged)


def _status(verdict: FitVerdict) -> int:
    return _DOES_NOT_FIT if verdict.fit is Fit.DOES_NOT_FIT else 0


def _write(
    args: argparse.Namespace,
    judged: _Judged,
    sides: Sequence[speed_report.Side],
    as_json: Callable[[], str],
) -> None:
    """Write a verdict to the files that were asked for; print it unless stdout is already used."""
    document = judged.document
    if sides:
        parts = (*document.parts, speed_report.line_up(sides))
        document = replace(document, parts=parts)
    files.tell(args, document, as_json, others={"summary": judged.sheet})
    sys.stdout.flush()


class _Judged(NamedTuple):
    """The verdict on a run, its report, and a function that makes the page to print and sign."""

    verdict: FitVerdict
    document: Document
    sheet: Callable[[], str]


def _judged(one: Run) -> _Judged:
    sheet = partial(sizing_sheet.sheet, one)
    by_capture = speed_report.summary(one)
    if by_capture is not None:
        return _Judged(by_capture.verdict, speed_report.document(by_capture), sheet)
    record = Sizing.of(one)
    by_profile = sizing.SizingSummary(record, one, judge(record, one))
    return _Judged(by_profile.verdict, sizing.document(by_profile), sheet)


def _side(one: Run) -> speed_report.Side:
    return _by(one), _judged(one).verdict


def _by(one: Run) -> str:
    """Return the file name of the profile or capture of a run; its id if it has neither."""
    known = one.sizing or {}
    return Path(str(known.get("capture") or known.get("profile") or one.id)).name
