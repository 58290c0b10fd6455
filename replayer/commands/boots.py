"""Let a machine do a plan of boots by itself: it restarts into each kernel and does its step.

GRUB, systemd-boot or kexec chooses each kernel for one boot only. The machine's default is never
changed, so a machine that fails comes back with it. At the end everything is as it was before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replayer import registry, signals, trusted_path
from replayer.analysis.differences import boot_plan
from replayer.boots import loaders, responder, service, setup, ssh_driver, state, system, teardown
from replayer.errors import Impossible
from replayer.report.messages import show
from replayer.run.plan import run_words

if TYPE_CHECKING:
    import argparse

    from replayer.analysis.differences.boot_plan import BootSchedule

EPILOG = """\
examples:
  replayer boots start boots.plan             print what will be done
  replayer boots start boots.plan --yes       do it
  replayer boots start boots.plan --way kexec
  replayer boots start boots.plan --via ssh root@db1 --yes
  replayer boots status
  replayer boots stop
at the end of the plan, done or stopped, /bin/sh runs --then CMD; for example, to send a mail:
  --then 'mail -s "boots $REPLAYER_BOOTS_OUTCOME" me@example.org < "$REPLAYER_BOOTS_LOG"'
"""

_RESTARTING = "The machine's restarts take additional time."
_NOT_YET = "nothing was started: give --yes to begin"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parts = parser.add_subparsers(metavar="start|status|stop", required=True)
    start = parts.add_parser("start", help="begin a plan", allow_abbrev=False)
    add = start.add_argument
    add("plan", type=Path, metavar="PLAN", help="a file made by `replayer plan`")
    add("--yes", action="store_true", help="begin; without it, print only what would be done")
    add(
        "--way",
        choices=registry.names(loaders.KIND),
        default="",
        help="the way to choose a kernel for one boot (default: the boot loader, else kexec)",
    )
    add(
        "--via",
        nargs=2,
        metavar=("ssh", "HOST"),
        help="do the plan on this other machine, controlled from here",
    )
    add(
        "--then",
        default="",
        metavar="CMD",
        help=("a command that /bin/sh runs at the end of the plan"),
    )
    start.set_defaults(part=_start)
    status = parts.add_parser(
        "status", help=("show the progress of the plan, and the log of its boots")
    )
    status.set_defaults(part=_status)
    stop = parts.add_parser("stop", help="end the plan, and restore the machine")
    stop.set_defaults(part=_stop)
    after = parts.add_parser(
        "continue", description=("Continue the plan after a boot; the service runs this.")
    )
    after.set_defaults(part=_continue)
    remote = parts.add_parser(
        "remote",
        description=("Answer one request of the machine that controls the plan by --via ssh."),
    )
    remote.set_defaults(part=_remote)


def run(args: argparse.Namespace) -> int:
    """Start, show, stop or continue a plan of boots, as `args.part` does it; return its status."""
    status: int = args.part(args)
    return status


def _start(args: argparse.Namespace) -> int:
    planned = boot_plan.load(args.plan)
    asked = run_words.parse(planned.arguments)
    if args.via:
        return _drive(args, planned, asked)
    machine = system.this()
    intended = setup.intent(
        machine, args.plan, way=args.way, then=args.then, folders=_folders(asked)
    )
    time = run_words.time_of_boots(asked, boot_plan.folder(args.plan), intended.left)
    print(*intended.lines(f"{time} {_RESTARTING}"), sep="\n")  # noqa: T201
    if not args.yes:
        raise Impossible(_NOT_YET)
    setup.start(intended)
    return 0


def _drive(args: argparse.Namespace, planned: BootSchedule, asked: argparse.Namespace) -> int:
    """Do the plan on another machine, over ssh; return 0 if the whole plan was done, else 1.

    `planned` is the plan, and `asked` are the options of its runs. Without --yes it prints what
    would be done, and raises Impossible.
    """
    how, host = args.via
    if planned.job:
        raise Impossible(
            f"{args.plan} belongs to a `replayer {planned.job[0]}`, which names each next boot by "
            f"itself: start it on the machine that boots, without --via"
        )
    if how != "ssh":
        raise Impossible(f"a machine is reached by ssh, not by {how!r}: --via ssh {host}")
    plan = trusted_path.real(args.plan)
    left = len(planned.order) - len(boot_plan.finished(planned, boot_plan.runs(plan)))
    if not left:
        raise Impossible(
            f"all boots of the plan are done; compare them with replayer compare {plan}"
        )
    drive = ssh_driver.of(host, plan, planned, [asked.workload], args.then)
    reply = drive.begin(args.way)
    time = run_words.time_of_boots(asked, boot_plan.folder(plan), left)
    print(*drive.lines(reply, left, f"{time} {_RESTARTING}"), sep="\n")  # noqa: T201
    if not args.yes:
        raise Impossible(_NOT_YET)
    lines: list[str] = []

    def say(words: str) -> None:
        lines.append(f"{state.now()} {words}")
        print(lines[-1], flush=True)  # noqa: T201

    current = drive.follow(reply, say)
    teardown.then_here(current, lines)
    interrupted = signals.interruption()
    if interrupted is not None:
        raise interrupted
    return 0 if current.phase == "done" else 1


def _folders(asked: argparse.Namespace) -> list[Path]:
    """Return the folders that the plan's runs are given by --data-dir and --pg-bindir, if any."""
    return [folder.absolute() for folder in (asked.data_dir, asked.bindir) if folder is not None]


def _status(_: argparse.Namespace) -> int:
    with state.opened() as inner:
        current = state.load(inner)
        done = sum(one.outcome == "done" for one in current.attempts)
        reason = f": {current.reason}" if current.reason else ""
        show(f"{current.plan} is {current.phase}{reason}")
        show(
            f"{done} boots done and {current.failures()} failed since {current.started}, of "
            f"{len(current.schedule.order) or 'as many as it needs'} in the plan, by {current.way}"
        )
        print(state.log(inner), end="")  # noqa: T201
    return 0


def _stop(_: argparse.Namespace) -> int:
    show(teardown.stop(system.this()))
    return 0


def _remote(_: argparse.Namespace) -> int:
    responder.answer(system.this())
    return 0


def _continue(_: argparse.Namespace) -> int:
    service.run_service(system.this())
    return 0
