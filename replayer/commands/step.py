"""Do the run that a plan of boots has for this boot, and print the kernel to boot next.

It refuses a kernel that is not due, and a boot that was used before. The runs are kept in a folder
next to the plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from replayer import registry
from replayer.analysis.advice import estimates
from replayer.analysis.differences import boot_plan
from replayer.followers.options import configure_followers, pass_followers_on
from replayer.machine.host import Host
from replayer.results import store
from replayer.run.plan import workload

EPILOG = """\
examples:
  replayer step boots.plan
  replayer step boots.plan --next   only print the kernel to boot
  replayer step boots.plan --live   follow this boot's run in a browser
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file made by `replayer plan`")
    parser.add_argument("--next", action="store_true", help="only print the kernel to boot next")
    configure_followers(parser)


def run(args: argparse.Namespace) -> int:
    """Run the plan's workload if it is this boot's turn; return the exit status.

    Raises ReplayerError for a wrong kernel or a boot that was used before.
    """
    planned, host = boot_plan.load(args.plan), Host()
    if planned.job:
        return _work(args)
    made = boot_plan.runs(args.plan)
    folder = boot_plan.folder(args.plan)
    left = len(planned.order) - len(boot_plan.finished(planned, made))
    command = registry.load("commands", "run")
    parser = argparse.ArgumentParser(prog="replayer run", allow_abbrev=False)
    command.configure(parser)
    if args.next:
        print(boot_plan.what_next(planned, made, args.plan))  # noqa: T201
        if left:
            print(_time(parser.parse_args(planned.arguments), folder, left))  # noqa: T201
        return 0
    release = host.read("proc/sys/kernel/osrelease")
    line = host.read("proc/cmdline")
    turn = boot_plan.admit(planned, made, release, host.boot_id(), line)
    kernel = planned.order[turn - 1]
    asked = parser.parse_args([*planned.arguments, "--label", kernel, "--results", str(folder)])
    pass_followers_on(args, asked)
    print(f"turn {turn} of {len(planned.order)} ({kernel}): {_time(asked, folder, left)}")  # noqa: T201
    status: int = command.run(asked)
    print(f"turn {turn} of {len(planned.order)} ({kernel}) is done")  # noqa: T201
    print(boot_plan.what_next(planned, boot_plan.runs(args.plan), args.plan))  # noqa: T201
    return status


def _work(args: argparse.Namespace) -> int:
    """Let the plan's job do this boot's run, or name the next kernel.

    A job's words name commands that will run: another user's plan is refused.
    """
    name, *words = boot_plan.load_own(args.plan).job
    command = registry.load("commands", name)
    parser = argparse.ArgumentParser(prog=f"replayer {name}", allow_abbrev=False)
    command.configure(parser)
    asked = parser.parse_args(words)
    if args.next:
        kernel = command.name_next_boot(asked)
        print(f"{boot_plan.NEXT}{kernel}" if kernel else "all boots are done")  # noqa: T201
        return 0
    status: int = command.run(asked)
    return status


def _time(asked: argparse.Namespace, folder: Path, boots: int) -> str:
    """Return a sentence about how long this boot and those after it take."""
    wanted = workload.load(
        asked.workload, asked.overrides, repeat=asked.repeat, settings=asked.settings
    )
    runs = estimates.earlier([folder, store.folder()], wanted.name)
    set_to = [spec.lasts() for spec in wanted.steps]
    return estimates.time(estimates.expect(workload.facts(wanted), runs, set_to), boots)
