"""Perform a run for all that follow it: the terminal, the live page, Prometheus, other programs.

Each command that performs a run uses this module, so that all of them have the same options.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replayer import signals
from replayer.cli import bind_address
from replayer.cli.argv_secrets import revealed
from replayer.errors import Impossible
from replayer.live.launcher import Live
from replayer.metrics import sidecar
from replayer.report.terminal.run_output import RunOutput
from replayer.run.plan.forecast import plan
from replayer.run.recovery import give_back
from replayer.run.remote.placement import Placement, placed_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from replayer.metrics.sidecar import MetricsSidecar
    from replayer.model import Run
    from replayer.run.context import Progress
    from replayer.run.result_writer import ResultWriter
    from replayer.run.runner import RunRequest


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """The followers of one run (terminal, live page, metrics), and its time limit."""

    output: RunOutput
    metrics: MetricsSidecar
    timeout: float | None
    """The time limit in seconds; None for no limit."""

    def perform(
        self,
        order: RunRequest,
        kept: ResultWriter,
        *,
        earlier: Sequence[Path],
        place: Placement | None = None,
        between: Callable[[Run, Progress], None] | None = None,
    ) -> None:
        """Perform the run of a request, and store it in `kept` after every step.

        `earlier` are folders with results, from which the duration of the run is estimated.
        `place` has the hosts that take part, by default only this one.  `between` is called with
        the run as it is at the begin, after each step and at the end.  Raises Impossible if the run
        cannot be performed; then the result file of a new run is removed, unless a step was done.
        """
        foreseen = plan(order, earlier)
        try:
            with (
                signals.limited(self.timeout),
                self.output.conversation(foreseen) as progress,
            ):
                if self.metrics.link:
                    self.output.say_here(f"metrics: {self.metrics.link}")
                give_back(progress.say)
                with placed_run(order, place or Placement(), progress) as runs:
                    for current in runs:
                        kept.keep(current, progress.say)
                        self.metrics.follow(kept.path)
                        self.output.report_steps(current, kept.path)
                        if between is not None:
                            between(current, progress)
        except Impossible:
            kept.withdraw()
            raise


@contextlib.contextmanager
def followed(args: argparse.Namespace, *, last: bool = True) -> Iterator[FollowedRun]:
    """Yield an object that performs a run and reports to the followers that the options ask for.

    The options are those of `configure_followers`.  After the run, the live page stays for the time
    of --live-for; with `last` false, because another run follows, it stays only until open browsers
    have the report.  Raises Impossible for an address at which this host cannot listen, or which
    other hosts can reach if the options do not allow that.
    """
    with (
        RunOutput.of(args) as output,
        sidecar.served(args.metrics, public=args.metrics_public) as exported,
        _live_page(args, output) as live,
    ):
        yield FollowedRun(output, exported, args.timeout)
        if live is not None:
            live.stay(_stays(args) if last else 0.0)


def _live_page(
    args: argparse.Namespace, output: RunOutput
) -> contextlib.AbstractContextManager[Live | None]:
    """Return the live page if --live is given, else an empty context.

    Raises Impossible if the options contradict each other or the page cannot be served.
    """
    if args.live is None:
        if args.live_token is not None or args.live_for is not None:
            raise Impossible("--live-token and --live-for are of the page of --live: give that too")
        return contextlib.nullcontext()
    token = None if args.live_token is None else revealed(args.live_token)
    live = Live(bind_address.parsed(args.live, "--live"), token, output.say_here)
    output.followers.append(live.follow)
    return live


def _stays(args: argparse.Namespace) -> float | None:
    """Return how many seconds the page stays after the run; None is until Ctrl-C."""
    if args.live_for is not None:
        return float(args.live_for)
    return None if sys.stdin.isatty() and sys.stderr.isatty() else 0.0
