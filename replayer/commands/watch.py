"""Watch a run that was started elsewhere: the steps that are done, and the one under way.

RUN is a run's id or the start of one, a label, a path or `latest`; without it the newest run that
is under way.  Only the result file is read, as it grows: the run notices nothing.
"""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from replayer.errors import NotFound, ReplayerError
from replayer.model import Status
from replayer.report import voices
from replayer.report.progress import conversation
from replayer.results import editing, store
from replayer.results.store import Summary
from replayer.run import resumption
from replayer.run import workload as workload_file
from replayer.run.runner import turns

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from replayer.model import Run
    from replayer.report.progress import Conversation, Task

EPILOG = """\
examples:
  replayer watch                    the run that is under way in ./results
  replayer watch stock --results /mnt/shared/results
exit status: that of the run, as far as it is known: 1 if it did not end well
"""
_LOOK_SECONDS = 0.5
_STARTING = "the server, and what is measured before the first step"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    parser.add_argument(
        "which", nargs="?", metavar="RUN", help="an id or its start, a label, a path or latest"
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="where results are (default: $REPLAYER_RESULTS or ./results)",
    )


def run(args: argparse.Namespace) -> int:
    """Follow the run to its end, in lines on stderr, and print where it is."""
    where = store.folder(args.results)
    path = store.find(args.which, where) if args.which else _under_way(where)
    with conversation() as progress:
        last = _followed(path, progress)
    words = f": {last.error}" if last.error else ""
    print(f"{last.id} is {last.status.value}{words}", file=sys.stderr)  # noqa: T201
    print(path)  # noqa: T201
    return 0 if last.status is Status.DONE else 1


def _under_way(where: Path) -> Path:
    """Return the newest run that a process writes, as far as can be seen."""
    listed = [one for one in store.runs(where) if isinstance(one, Summary)]
    for one in reversed(listed):
        running = one.status == Status.RUNNING.value
        if running and not editing.cut(one.status, one.writer):
            return one.path
    raise NotFound(f"no run is under way in {where}: name the RUN, or its folder with --results")


def _followed(path: Path, progress: Conversation) -> Run:
    """Tell of each step when it is done, and show the one under way; return the run at its end."""
    voice = voices.Voice(progress, verbose=True, steps=0)
    current = store.load(path)
    progress.say(f"watching {current.id}, which began at {current.started}")
    while True:
        voice.told(current, path)
        if current.status is not Status.RUNNING:
            return current
        title, began = _now(current)
        with progress.task(title) as task:
            current = _changed(path, current, task, began)
        if current.status is Status.RUNNING and editing.cut(current.status.value, current.writer):
            raise ReplayerError(
                f"the process that wrote {current.id} is gone: `replayer run --resume "
                f"{current.id}` does what is missing"
            )


def _changed(path: Path, before: Run, task: Task, began: datetime) -> Run:
    """Return the run once its file says something new, or its process is gone."""
    seen = path.stat().st_mtime_ns
    while not editing.cut(before.status.value, before.writer):
        time_since = max(0.0, (datetime.now(UTC) - began).total_seconds())
        task.update(note=f"for {time_since:.0f} s")
        threading.Event().wait(_LOOK_SECONDS)
        if path.stat().st_mtime_ns != seen:
            return store.load(path)
    # It may have written its last words before it went.
    return store.load(path)


def _now(run: Run) -> tuple[str, datetime]:
    """Return what a run does now, and since when."""
    began = run.steps[-1].started if run.steps else (*run.resumed, run.started)[0]
    since = datetime.fromisoformat(began)
    if run.steps:
        since = datetime.fromtimestamp(since.timestamp() + run.steps[-1].elapsed, UTC)
    try:
        workload = workload_file.of_facts(run.workload)
    except ReplayerError:
        # A capture or a plug-in that is not here: how it goes on is not known.
        return f"{run.workload.name}: step {len(run.steps) + 1}", since
    planned = list(turns(workload))
    left = list(resumption.missing(run, iter(planned)))
    if not run.host or not left:
        return f"{run.workload.name}: {_STARTING if left else 'its end'}", since
    repeat, spec = left[0]
    several = f" (repeat {repeat} of {workload.repeat})" if workload.repeat > 1 else ""
    return f"step {len(planned) - len(left) + 1} of {len(planned)}, {spec.name}{several}", since
