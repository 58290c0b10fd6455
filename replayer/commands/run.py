"""Run a workload and store what was measured.

The default workload, demo, is the main job: build a columnstore-like table, flush it, read its
files from a proven cold cache, run pgio-style sessions cached and physical.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from replayer.analysis import ceiling
from replayer.engines import engine, environment
from replayer.errors import ReplayerError
from replayer.model import Status
from replayer.report import screen
from replayer.report.progress import conversation
from replayer.results import store
from replayer.run import workload as workload_file
from replayer.run.recovery import give_back
from replayer.run.runner import Order, execute

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from replayer.model import Run, Workload

_PROBE_KEYS = ("clients", "cross_check", "device", "i_will_lose_data")

EPILOG = """\
examples:
  replayer run
  replayer run smoke --json
  replayer run demo --label uek --data-dir /mnt/nvme/replayer
  replayer run slob-physical --set sessions.num_threads=16 --set sessions.run_time=60s
  replayer run cold-walk --set walk.mode=direct --repeat 5
  replayer run orion-simple --clients 3 --data-dir /mnt/nfs/replayer
  replayer run storage --cross-check
  replayer run demo --pg-bindir /usr/lib/postgresql/15/bin --pg-set shared_buffers=2GB
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = EPILOG
    add = parser.add_argument
    add(
        "workload",
        nargs="?",
        default="demo",
        metavar="WORKLOAD",
        help="a name from `replayer list workloads`, or a path to a .toml file (default: demo)",
    )
    add("--label", default="", help="what this machine or kernel is called in comparisons")
    add(
        "--repeat", type=int, metavar="N", help="run the steps N times, instead of as the file says"
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="STEP.KEY=VALUE",
        dest="overrides",
        help="replace one value of the workload",
    )
    add(
        "--engine",
        metavar="NAME|URL",
        help="a name from `replayer list engines`, or the URL of a running server",
    )
    add(
        "--pg-bindir",
        "--bindir",
        type=Path,
        metavar="DIR",
        dest="bindir",
        help="the programs of another server version, such as /usr/lib/postgresql/15/bin",
    )
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="a folder on the disk under test for the server's data; empty, or made by replayer",
    )
    add(
        "--pg-set",
        "--server-set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="settings",
        help="a server setting",
    )
    _configure_probes(parser)
    add("--results", type=Path, metavar="DIR", help="where results go (default: ./results)")
    add("--json", action="store_true", help="print the result as JSON instead of the report")


def _configure_probes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("probes of storage, without a database").add_argument
    add("--clients", type=int, metavar="N", help="independent clients that start at one instant")
    add(
        "--cross-check",
        action="store_true",
        default=None,
        help="run fio, ioping, sysbench or bonnie++ on the same file in turn, and print the ratio",
    )
    add("--device", metavar="DEV", help="a raw block device instead of files; reads are harmless")
    add(
        "--i-will-lose-data",
        metavar="SERIAL",
        help="the serial number of --device, which allows to write on it",
    )


def run(args: argparse.Namespace) -> int:
    """Run the workload; the Run is saved after every step."""
    asked = {key: getattr(args, key) for key in _PROBE_KEYS}
    workload = workload_file.load(
        args.workload,
        args.overrides,
        repeat=args.repeat,
        settings=args.settings,
        probe={key: value for key, value in asked.items() if value is not None},
    )
    order = _order(args, workload)
    kept = _Kept(store.folder(args.results))
    try:
        with conversation() as progress:
            give_back(progress.say)
            for current in execute(order, progress):
                kept.keep(current, progress.say)
    finally:
        kept.finish(as_json=args.json)
    return 0


class _Kept:
    """The run as far as it has come, and its file: in another folder once its own takes nothing."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._path: Path | None = None
        self._run: Run | None = None
        self._refused: ReplayerError | None = None

    def keep(self, run: Run, say: Callable[[str], None]) -> None:
        """Store the run; raise ReplayerError when no folder takes it."""
        if self._path is None:
            self._path = store.reserve(self._where, run)
        self._run = run
        try:
            store.save(self._path, run)
        except ReplayerError as error:
            # Where there was no other place before, there will be none now.
            if self._refused is not None:
                raise
            self._refused = error
            self._path = _elsewhere(run)
            if self._path is None:
                raise
            say(f"{error}: the run is kept in {self._path}")

    def finish(self, *, as_json: bool) -> None:
        """Print what was measured, stored or not; raise ReplayerError when it lies elsewhere."""
        if self._run is None:
            return
        run = ceiling.beside(_ended(self._run), store.with_text(self._where, '"io": ['))
        try:
            if run is not self._run and self._path is not None:
                self.keep(run, _say)
        finally:
            _tell(run, self._path, as_json=as_json)
        if self._refused is not None and self._path is not None:
            raise ReplayerError(f"{self._refused}: the run is in {self._path}") from self._refused


def _elsewhere(run: Run) -> Path | None:
    """Store a run where its own folder takes nothing more; None if no other one does."""
    homes = (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", os.path.expanduser("~"))  # noqa: PTH111, S108
    for home in filter(os.path.isabs, dict.fromkeys(homes)):
        with contextlib.suppress(ReplayerError, OSError):
            # A folder of its own: nobody else can put anything in the place of the file.
            folder = tempfile.mkdtemp(prefix="replayer-results-", dir=home)
            try:
                return store.reserve(folder, run)
            except ReplayerError:
                Path(folder).rmdir()
    return None


def _ended(run: Run) -> Run:
    """Return the run; one that was stopped between two steps is marked as such."""
    if run.status is not Status.RUNNING:
        return run
    return run.model_copy(update={"status": Status.INTERRUPTED, "error": "stopped between steps"})


def _tell(run: Run, path: Path | None, *, as_json: bool) -> None:
    """Print the result on stdout, and where it is on stderr."""
    try:
        if as_json:
            print(store.text(run), end="")  # noqa: T201
        else:
            screen.show(run)
        sys.stdout.flush()
    finally:
        if path is not None:
            _say(f"result: {path}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201


def _order(args: argparse.Namespace, workload: Workload) -> Order:
    named = args.engine or ""
    url = named if "://" in named else environment.url(named)
    chosen = engine.of_url(named) if "://" in named else engine.load(named or engine.default())
    return Order(
        workload=workload,
        engine=chosen,
        label=args.label,
        url=url,
        bindir=args.bindir,
        data_dir=args.data_dir,
        ask=_asker(),
    )


def _asker() -> Callable[[str], str] | None:
    """Return what asks for a password where somebody sits at a terminal, else None."""
    return getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None
