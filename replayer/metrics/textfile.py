"""Metrics as a file for node_exporter's textfile collector, which may read it at any time."""

import os
import sys
from pathlib import Path

from replayer import trusted_path
from replayer.errors import Impossible


def put(wanted: str, text: str) -> None:
    """Replace the content of the file `wanted` by `text`; if `wanted` is `-`, write to stdout.

    The file is replaced completely or not at all.  Raises Impossible if it cannot be written.
    """
    if wanted == "-":
        sys.stdout.write(text)
        return
    path = Path(wanted)
    try:
        with trusted_path.Folder(path.parent) as folder:
            # The draft's name must not end in .prom: the collector reads each such file.
            folder.replace(path.name, text, draft=f".{path.name}.{os.getpid()}.new")
    except OSError as error:
        raise Impossible(f"the metrics {path} cannot be written: {error.strerror}") from error
