"""Do what a plan of boots has for this boot, and say what to boot next.

Refuses a kernel whose turn it is not, and a boot that was used before.  The runs are kept in a
folder beside the plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from replayer import registry
from replayer.analysis import boot_plan
from replayer.machine.host import Host

EPILOG = """\
examples:
  replayer step boots.plan
  replayer step boots.plan --next   only say what to boot
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a file made by `replayer plan`")
    parser.add_argument("--next", action="store_true", help="only say what to boot next")


def run(args: argparse.Namespace) -> int:
    """Run the plan's workload if it is this boot's turn."""
    planned, host = boot_plan.load(args.plan), Host()
    made = boot_plan.runs(args.plan)
    if args.next:
        print(boot_plan.what_next(planned, made, args.plan))  # noqa: T201
        return 0
    release = host.read("proc/sys/kernel/osrelease")
    turn = boot_plan.admit(planned, made, release, host.boot_id())
    kernel = planned.order[turn - 1]
    command = registry.load("commands", "run")
    parser = argparse.ArgumentParser(prog="replayer run", allow_abbrev=False)
    command.configure(parser)
    own = ["--label", kernel, "--results", str(boot_plan.folder(args.plan))]
    status: int = command.run(parser.parse_args([*planned.arguments, *own]))
    print(f"turn {turn} of {len(planned.order)} ({kernel}) is done")  # noqa: T201
    print(boot_plan.what_next(planned, boot_plan.runs(args.plan), args.plan))  # noqa: T201
    return status
