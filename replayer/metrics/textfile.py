"""Metrics as a file for node_exporter's textfile collector, which may look at any time."""

import os
import sys
from pathlib import Path

from replayer import trusted_path
from replayer.errors import Impossible


def put(wanted: str, text: str) -> None:
    """Write a text in the place of a file, whole or not at all; `-` is stdout.

    Raises Impossible for a file that cannot be written.
    """
    if wanted == "-":
        sys.stdout.write(text)
        return
    path = Path(wanted)
    try:
        with trusted_path.Folder(path.parent) as folder:
            # Its own name: what ends in .prom is read.
            folder.replace(path.name, text, draft=f".{path.name}.{os.getpid()}.new")
    except OSError as error:
        raise Impossible(f"the metrics {path} cannot be written: {error.strerror}") from error
