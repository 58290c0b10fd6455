"""The process that serves the metrics of a run under way; `sidecar` starts and ends it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from replayer.metrics import serving
from replayer.metrics.run_files import Named, registry

_NICE = 10


def main(number: str, path: str) -> None:
    """Serve the metrics of a run until this process is killed.

    `number` is the descriptor of the listening socket, `path` the run's result file.
    """
    # The work that is measured has priority.
    os.nice(_NICE)
    with socket.socket(fileno=int(number)) as bound:
        serving.serve(bound, registry(Named((Path(path),))))


if __name__ == "__main__":
    main(*sys.argv[1:])
