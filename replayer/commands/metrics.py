"""Export the measurements of runs as metrics for Prometheus: over HTTP, or as a file.

RUN is a run's id or the start of one, a label, a path or `latest`. Without RUN the newest runs of
the folder are exported, also those that begin later. The run itself is not disturbed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prometheus_client import generate_latest

from replayer.cli import run_options
from replayer.errors import Impossible, NotFound
from replayer.metrics import address, serving
from replayer.metrics.run_files import Named, Newest, registry
from replayer.metrics.textfile import put
from replayer.report.messages import say
from replayer.results import store

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from replayer.metrics.run_files import RunFiles

_NEWEST = 10

EPILOG = """\
examples:
  replayer metrics latest           print them
  replayer metrics --listen 127.0.0.1:9464
  replayer metrics stock uek --listen 127.0.0.1:9464
  replayer metrics latest --out /var/lib/prometheus/node-exporter/replayer.prom
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add("runs", nargs="*", metavar="RUN", help="an id or its start, a label, a path or latest")
    add(
        "--last",
        type=int,
        default=_NEWEST,
        metavar="N",
        help=f"without a RUN: the number of newest runs (default: {_NEWEST})",
    )
    where = parser.add_mutually_exclusive_group().add_argument
    where(
        "--listen",
        metavar="ADDR:PORT",
        help="serve the metrics at this address until Ctrl-C; port 0 is any free port",
    )
    where(
        "--out",
        default="-",
        metavar="FILE",
        help=(
            "write the metrics into a file for node_exporter's textfile collector (default: -, "
            "stdout)"
        ),
    )
    add(
        "--metrics-public",
        action="store_true",
        help="allow an address for --listen that other hosts can reach",
    )
    run_options.add_results(add)


def run(args: argparse.Namespace) -> int:
    """Write the metrics of runs to a file or stdout, or serve them until Ctrl-C; return 0.

    Raises NotFound if there is no run to write: a file keeps what it has.
    """
    # A service may be started before the first run makes the folder.
    look = store.folder if args.listen is not None else store.folder_to_read
    where = look(args.results)
    if not os.path.lexists(where) and args.listen is not None:
        say(f"the folder of results {where} is not there yet")
    source = _source(args, where)
    if args.listen is None:
        text = generate_latest(registry(source)).decode()
        if not text:
            raise NotFound(store.none_in(where))
        put(args.out, text)
        return 0
    with address.listening(args.listen, "--listen", public=args.metrics_public) as bound:
        say(f"metrics: {address.link(bound)}")
        serving.serve(bound, registry(source))
    return 0


def _source(args: argparse.Namespace, where: Path) -> RunFiles:
    if args.last < 1:
        raise Impossible(f"--last {args.last}: it must be 1 or more")
    if not args.runs:
        # A folder that cannot be read is refused now, instead of being taken for an empty one.
        store.names(where)
        return Newest(where, args.last)
    paths = tuple(store.find(name, where) for name in args.runs)
    for path in paths:
        # A file that is not a run is refused now, instead of being left out later.
        store.load(path)
    return Named(paths)
