"""Do the run that a plan of boots has for this boot, and print the kernel to boot next.

It refuses a kernel that is not due, and a boot that was used before. The runs are kept in a folder
next to the plan.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from replayer import registry
from replayer.analysis.differences import boot_plan
from replayer.errors import Impossible
from replayer.followers.options import (
    configure_followers,
    given_followers,
    pass_followers_on,
)
from replayer.machine.host import Host
from replayer.report.messages import show
from replayer.run.plan import run_words

if TYPE_CHECKING:
    import argparse

EPILOG = """\
examples:
  replayer step boots.plan
  replayer step boots.plan --next   only print the kernel to boot
  replayer step boots.plan --live   follow this boot's run in a browser
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file made by `replayer plan`")
    parser.add_argument("--next", action="store_true", help="only print the kernel to boot next")
    configure_followers(parser)


def run(args: argparse.Namespace) -> int:
    """Do the run that a plan of boots has for this boot; return the exit status.

    With --next only print the kernel to boot. Raises ReplayerError if this boot does not have the
    kernel that is due, or already had a run.
    """
    planned, host = boot_plan.load(args.plan), Host()
    if planned.job:
        return _work(args)
    made = boot_plan.runs(args.plan)
    folder = boot_plan.folder(args.plan)
    left = len(planned.order) - len(boot_plan.finished(planned, made))
    if args.next:
        show(boot_plan.what_next(planned, made, args.plan))
        if left:
            show(run_words.time_of_boots(run_words.parse(planned.arguments), folder, left))
        return 0
    release = host.read("proc/sys/kernel/osrelease")
    line = host.read("proc/cmdline")
    turn = boot_plan.admit(planned, made, release, host.boot_id(), line)
    kernel = planned.order[turn - 1]
    asked = run_words.parse([*planned.arguments, "--label", kernel, "--results", str(folder)])
    pass_followers_on(args, asked)
    title = f"turn {turn} of {len(planned.order)} ({kernel})"
    show(f"{title}: {run_words.time_of_boots(asked, folder, left)}")
    status: int = registry.load("commands", "run").run(asked)
    show(f"{title} is done")
    show(boot_plan.what_next(planned, boot_plan.runs(args.plan), args.plan))
    return status


def _work(args: argparse.Namespace) -> int:
    """Run the command of the plan's job, which does the run of this boot; return the exit status.

    A job is a command, such as `replayer bisect`, that names each next kernel itself. With --next
    only that kernel is printed. As a job names a command to run, a plan of another user is refused.
    Raises Impossible for options of followers, which such a command does not have.
    """
    name, *words = boot_plan.load_own(args.plan).job
    options = [f"--{option.replace('_', '-')}" for option in given_followers(args)]
    if options:
        raise Impossible(
            f"{args.plan} is the plan of a `replayer {name}`, whose runs cannot be followed: leave "
            f"out {', '.join(options)}"
        )
    command = registry.load("commands", name)
    asked = run_words.parse(words, name)
    if args.next:
        kernel = command.name_next_boot(asked)
        show(f"{boot_plan.NEXT}{kernel}" if kernel else "all boots are done")
        return 0
    status: int = command.run(asked)
    return status
