"""Write a plan of boots to compare kernels, in an order that separates drift from differences.

One run of each kernel proves little: results differ from boot to boot. The plan alternates the
kernels (A B B A) or draws each round at random. After each boot, `replayer step PLAN` does the run
that is due.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.analysis.advice import estimates
from replayer.analysis.differences import boot_plan
from replayer.cli import run_options
from replayer.errors import Impossible
from replayer.report.documents import planned_run
from replayer.report.messages import show
from replayer.report.terminal import console
from replayer.report.writers import terminal_writer
from replayer.results import store
from replayer.run.plan import forecast, run_words
from replayer.run.plan.request import build_request

if TYPE_CHECKING:
    import argparse

    from replayer.model import Workload
    from replayer.run.runner import RunRequest

EPILOG = """\
examples:
  replayer plan --kernels 6.1.0-44-amd64,6.12.9-amd64 --boots 12
  replayer plan --kernels '5.15.0-*uek*,5.14.0-*' --boots 12 --random --seed 7
  replayer plan --kernels A,B --boots 12 --out nvme.plan -- kernel-compare --data-dir /mnt/nvme
  replayer step boots.plan          after each boot
  replayer compare boots.plan       at the end, or meanwhile
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "--kernels",
        required=True,
        metavar="A,B",
        help="releases as `uname -r` prints them, or patterns; the first is the base",
    )
    add(
        "--boots",
        required=True,
        type=int,
        metavar="N",
        help=("the number of boots of all kernels together"),
    )
    add("--random", action="store_true", help="draw each round at random instead of A B B A")
    add("--seed", type=int, metavar="N", help="the seed of --random (default: drawn)")
    add(
        "--out",
        type=run_options.file_path,
        default=Path("boots.plan"),
        metavar="FILE",
        help=("the plan file to write (default: boots.plan)"),
    )
    add(
        "arguments",
        type=run_options.any_text,
        nargs="*",
        metavar="WORKLOAD …",
        help="the arguments of `replayer run` at each boot, after -- (default: kernel-compare)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the plan file, and print the order of boots and the time that they take; return 0."""
    if args.seed is not None and not args.random:
        raise Impossible("--seed is for --random: A B B A needs none")
    words = args.arguments or ["kernel-compare"]
    asked, order = _check(words)
    seed = args.seed if args.seed is not None else secrets.randbelow(1 << 31)
    drawn = boot_plan.draw(args.kernels.split(","), args.boots, seed=seed if args.random else None)
    drawn = drawn.model_copy(update={"arguments": tuple(words)})
    boot_plan.write(args.out, drawn)
    for number, kernel in enumerate(drawn.order, start=1):
        show(f"{number:3}  {kernel}")
    expected = forecast.expect(asked, [store.folder()])
    print("\neach boot does:")  # noqa: T201
    foreseen = forecast.forecast(order, [store.folder()])
    console.write(terminal_writer.render_parts(planned_run.parts(foreseen)))
    print()  # noqa: T201
    kernels, boots = len(drawn.kernels), len(drawn.order)
    show(estimates.worth(boots // kernels, kernels, expected))
    show(estimates.time(expected, boots))
    show(boot_plan.what_next(drawn, [], args.out))
    return 0


def _check(words: list[str]) -> tuple[Workload, RunRequest]:
    """Return the workload and the request for the run that each boot of the plan does.

    `words` are the arguments of that run. Raises Impossible now for what `replayer run` would
    refuse at the first boot.
    """
    asked = run_words.parse(words)
    taken = [
        f"--{name.replace('_', '-')}"
        for name in ("label", "results", "json", "dry_run", "resume")
        if getattr(asked, name, None)
    ]
    if taken:
        raise Impossible(f"{' and '.join(taken)} cannot be planned: a plan sets them itself")
    wanted = run_words.workload_of(asked)
    order = build_request(wanted, asked.engine or "", bindir=asked.bindir, data_dir=asked.data_dir)
    return wanted, order
