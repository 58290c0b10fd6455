"""Tell whether a database fits on this machine, by a profile or a capture of where it runs now.

The busiest minute of the profile, times growth and headroom, is what is required.  A load of the
same kind is put on a database here, the highest multiple of the required rate within the objective
is searched, and the required rate is held for long.  Of a capture (FILE.replay) the busiest minute
itself is replayed, at one speed after the other: sustained is what lags no more and more.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from replayer import units
from replayer.capture.summary import ENDING
from replayer.engines import engine
from replayer.errors import Impossible, NotFound
from replayer.load.objective import goals
from replayer.machine.host import Host
from replayer.report import files, screen, sizing, sizing_page
from replayer.report import speed as speed_report
from replayer.report.progress import conversation
from replayer.report.words import clean
from replayer.results import profile, store
from replayer.run import workload as workload_file
from replayer.run.keeping import Kept
from replayer.run.ordering import ordered
from replayer.run.recovery import give_back
from replayer.run.runner import execute
from replayer.sizing import candidate, plan, requirement, speed, target
from replayer.sizing.record import Sizing
from replayer.sizing.target import Fit
from replayer.sizing.verdict import judge

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from rich.console import Group

    from replayer.model import Run
    from replayer.results.profile import Profile
    from replayer.run.runner import Order
    from replayer.sizing.plan import Plan
    from replayer.sizing.requirement import Requirement
    from replayer.sizing.verdict import Verdict

EPILOG = """\
examples:
  replayer size prod.profile
  replayer size prod.profile --growth 1.5 --headroom 30% --slo p99=20ms
  replayer size prod.profile --data-dir /mnt/nvme/replayer --hold 30min
  replayer size prod.profile --target gp3.toml --html verdict.html
  replayer size prod.profile --dry-run
  replayer size monday.replay --restore shop.dump --growth 1.5 --beside latest
  replayer size show latest --html verdict.html
exit status: 0 fits or unclear, 3 does not fit
"""
_DOES_NOT_FIT = 3
_SLO = "p99=20ms"
"""Of a profile, where none is given."""
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add("what", metavar="FILE",
        help="a profile, or a capture (.replay); or `show`, to print a verdict again")  # fmt: skip
    add("which", nargs="?", metavar="RUN", help="with show: an id, a label, a path, or latest")
    _configure_requirement(parser)
    _configure_search(parser)
    _configure_place(parser)
    _configure_capture(parser)
    add("--beside", metavar="RUN", help="show the verdict of another `replayer size` beside it")
    add("--label", default="", help="what this machine is called in comparisons")
    add("--results", metavar="DIR", help="where results go (default: ./results)")
    add("--json", action="store_true", help="print the verdict as JSON instead of the report")
    for form in ("html", "csv", "markdown"):
        add(f"--{form}", metavar="FILE", help=f"write the verdict as {form} (- is stdout)")


def _configure_requirement(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what is required").add_argument
    add("--growth", type=float, default=1.0, metavar="TIMES", help="load to come, such as 1.5")
    add("--headroom", default="0%", metavar="PERCENT", help="room to be left, such as 30%%")
    add("--percentile", type=float, default=100.0, metavar="P",
        help="of the windows, in place of the busiest, such as 99")  # fmt: skip
    add("--window", default="1min", metavar="TIME", help="length of a window (default: 1min)")
    add("--by", default="", metavar="RESOURCE",
        help="the resource whose busiest window is imitated, such as write_iops")  # fmt: skip
    add("--slo", metavar="OBJECTIVE", help="response times to keep to, as 'p50=5ms p99=20ms' "
        "(default: p99=20ms of a profile, none of a capture)")  # fmt: skip
    add("--target", type=Path, metavar="FILE",
        help="limits of this machine that cannot be measured: a TOML file, see README")  # fmt: skip


def _configure_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how it is tried").add_argument
    add("--hold", default="10min", metavar="TIME",
        help="how long the required rate is held; 30min where a disk has credits")  # fmt: skip
    add("--trial", metavar="TIME", help="length of a trial of one rate (default: 20s or more)")
    add("--sessions", type=int, metavar="N", help="sessions in place of twice those active there")
    add("--working-set", metavar="SIZE", help="data in use, in place of the profile's")
    add("--source-probes", type=Path, metavar="RESULT",
        help="a result of `replayer run cpu` at the source, by which CPU is carried")  # fmt: skip
    add("--seed", type=int, default=1, metavar="N", help="of the load (default: 1)")
    add("--dry-run", action="store_true", help="say what would be done, and how long it takes")


def _configure_place(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("where").add_argument
    add("--engine", metavar="NAME|URL",
        help="a name, or the URL of a running server (default: the profile's engine)")  # fmt: skip
    add("--pg-bindir", "--bindir", type=Path, metavar="DIR", dest="bindir",
        help="the programs of another server version")  # fmt: skip
    add("--data-dir", type=Path, metavar="DIR",
        help="a folder on the disk under test; empty, or made by replayer")  # fmt: skip
    add("--pg-set", "--server-set", action="append", default=[], metavar="NAME=VALUE",
        dest="settings", help="a server setting, such as shared_buffers=8GB")  # fmt: skip


def _configure_capture(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("of a capture").add_argument
    add("--restore", metavar="FROM", help="a dump or a database: what each replay begins from")
    add("--i-will-change", metavar="DATABASE",
        help="the name of the database at the URL, which may be changed")  # fmt: skip
    add("--replay", action="append", default=[], metavar="KEY=VALUE",
        help="a key of the step replay, such as read_only=true")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Size this machine, or show again what came of it; return 3 where it does not fit."""
    if args.what == "show" and args.which is not None:
        return _told(args, store.load(store.find(args.which, store.folder(args.results))))
    if args.what == "show" and not Path("show").exists():
        raise Impossible("which verdict is to be shown is not said: `replayer size show latest`")
    if args.which is not None:
        raise Impossible(f"{clean(args.which)!r} is one argument too many: one profile is sized by")
    return _sized(args)


def _sized(args: argparse.Namespace) -> int:
    """Run the plan of a profile or a capture; the Run is saved after every step."""
    if args.what.endswith(ENDING):
        return _replayed(args)
    args.slo = args.slo or _SLO
    known = profile.load(Path(args.what))
    wanted = _required(args, known)
    named = args.engine or _engine_of(known)
    host = Host()
    machine = candidate.seen(host, named, bindir=args.bindir, data_dir=args.data_dir)
    planned = plan.planned(wanted, _options(args), machine, str(args.what))
    record = _record(args, known, wanted, planned, machine)
    begin = sizing.beginning(record, planned)
    if args.dry_run:
        screen.write(begin)
        return 0
    print(screen.text(begin), file=sys.stderr)  # noqa: T201
    order = ordered(
        planned.workload,
        named,
        label=args.label,
        bindir=args.bindir,
        data_dir=args.data_dir,
        sizing=record.model_dump(mode="json"),
    )
    return _performed(args, order)


def _replayed(args: argparse.Namespace) -> int:
    """Search the highest speed at which a capture is kept up with."""
    if args.slo:
        goals(args.slo)
    keys = {"restore": args.restore, "i_will_change": args.i_will_change}
    asked = speed.Options(
        growth=args.growth,
        headroom=_share(args.headroom),
        window=units.duration(args.trial or args.window),
        objective=args.slo or "",
        hold=units.duration(args.hold),
        keys={**{k: v for k, v in keys.items() if v}, **_pairs(args.replay)},
        settings=workload_file.server_settings(args.settings),
    )
    wanted, workload = speed.planned(args.what, asked)
    begin = speed_report.beginning(wanted)
    if args.dry_run:
        screen.write(begin)
        return 0
    print(screen.text(begin), file=sys.stderr)  # noqa: T201
    order = ordered(
        workload,
        args.engine or wanted.source.partition(" ")[0],
        label=args.label,
        bindir=args.bindir,
        data_dir=args.data_dir,
        sizing=wanted.model_dump(mode="json"),
    )
    return _performed(args, replace(order, following=speed.following(wanted)))


def _pairs(texts: list[str]) -> dict[str, str]:
    parts = [text.partition("=") for text in texts]
    if any(not name or not sign for name, sign, _ in parts):
        raise Impossible("--replay is KEY=VALUE, such as read_only=true")
    return {name.strip(): value.strip() for name, _, value in parts}


def _performed(args: argparse.Namespace, order: Order) -> int:
    """Run the plan, keep the Run after every step, and tell what came of it."""
    kept = Kept(store.folder(args.results))
    statuses: list[int] = []
    try:
        with conversation() as progress:
            give_back(progress.say)
            for current in execute(order, progress):
                kept.keep(current, progress.say)
    finally:
        kept.finish(partial(_tell, args, statuses))
    return statuses[0]


def _tell(args: argparse.Namespace, statuses: list[int], one: Run, path: Path | None) -> None:
    statuses.append(_told(args, one))
    if path is not None:
        print(f"result: {path}", file=sys.stderr)  # noqa: T201


def _required(args: argparse.Namespace, known: Profile) -> Requirement:
    """Return what the profile requires, with the probes of its source where they are given."""
    wanted = requirement.of(
        known,
        growth=args.growth,
        headroom=_share(args.headroom),
        percentile=args.percentile,
        window=units.duration(args.window),
        by=args.by,
    )
    if args.source_probes is None:
        return wanted
    probes = candidate.probed(store.load(args.source_probes))
    return wanted.model_copy(update={"probes": {**wanted.probes, **probes}})


def _share(text: str) -> float:
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise Impossible(f"--headroom is {clean(text)!r}: it must be a percentage such as 30%")
    return float(match[1]) / 100


def _engine_of(known: Profile) -> str:
    """Return the engine of a profile's source if replayer can start one of it, else the default."""
    try:
        chosen = engine.load(known.source.engine)
    except NotFound:
        return ""
    return chosen.name if chosen.spec.server.starts else ""


def _options(args: argparse.Namespace) -> plan.Options:
    goals(args.slo)
    size = units.size(args.working_set) if args.working_set is not None else None
    if size is not None and size <= 0:
        raise Impossible(f"--working-set is {clean(args.working_set)!r}: it must be as in 10G")
    return plan.Options(
        objective=args.slo,
        hold=units.duration(args.hold),
        trial=None if args.trial is None else units.duration(args.trial),
        sessions=args.sessions,
        working_set=size,
        seed=args.seed,
        settings=workload_file.server_settings(args.settings),
    )


def _record(
    args: argparse.Namespace,
    known: Profile,
    wanted: Requirement,
    planned: Plan,
    machine: plan.Machine,
) -> Sizing:
    limits = None if args.target is None else target.load(args.target)
    source = known.source
    what = " ".join(word for word in (source.engine, source.version, source.place) if word)
    return Sizing(
        profile=str(args.what),
        source=what or Path(args.what).name,
        requirement=wanted,
        objective=args.slo,
        rate=planned.rate,
        target="" if limits is None else limits.name or args.target.name,
        judgements=() if limits is None else target.judge(limits, wanted, known),
        free_bytes=machine.free_bytes,
        memory_bytes=machine.memory_bytes,
        unproven=planned.data.unproven,
    )


def _told(args: argparse.Namespace, one: Run) -> int:
    """Print the verdict on a run, and write it where it was asked for; return the exit status."""
    verdict, rendered, forms = _judged(one)
    on_stdout = False
    for wanted, made in zip((args.html, args.csv, args.markdown), forms, strict=True):
        if wanted is not None:
            path = files.put(wanted, made())
            on_stdout |= path is None
            if path is not None:
                print(f"written: {path}", file=sys.stderr)  # noqa: T201
    if args.json:
        print(verdict.model_dump_json(indent=1))  # noqa: T201
    elif not on_stdout:
        screen.write(rendered, *_beside(args, one, verdict))
    sys.stdout.flush()
    return _DOES_NOT_FIT if verdict.fit is Fit.DOES_NOT_FIT else 0


def _judged(one: Run) -> tuple[Verdict, Group, tuple[Callable[[], str], ...]]:
    """Return the verdict on a run, as it is for the terminal, and what makes its other forms."""
    by_capture = speed_report.summary(one)
    if by_capture is not None:
        made = (speed_report.page, speed_report.as_csv, speed_report.as_markdown)
        forms = tuple(partial(form, by_capture) for form in made)
        return by_capture.verdict, speed_report.render(by_capture), forms
    record = Sizing.of(one)
    by_profile = sizing.Summary(record, one, judge(record, one))
    others = (sizing_page.page, sizing.as_csv, sizing.as_markdown)
    return (
        by_profile.verdict,
        sizing.render(by_profile),
        tuple(partial(form, by_profile) for form in others),
    )


def _beside(args: argparse.Namespace, one: Run, verdict: Verdict) -> list[Group]:
    """Return the verdict beside that of the other run that was asked for."""
    if args.beside is None:
        return []
    other = store.load(store.find(args.beside, store.folder(args.results)))
    return [speed_report.beside([(_by(one), verdict), (_by(other), _judged(other)[0])])]


def _by(one: Run) -> str:
    """Return the file that a run sized a machine by."""
    known = one.sizing or {}
    return str(known.get("capture") or known.get("profile") or one.id)
