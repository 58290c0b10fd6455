"""Metrics as a file for node_exporter's textfile collector, which may read it at any time."""

import os
import sys
from pathlib import Path

from replayer import trusted_path
from replayer.errors import Impossible
from replayer.results import editing


def put(wanted: str, text: str) -> None:
    """Replace the content of the file `wanted` by `text`; if `wanted` is `-`, write to stdout.

    The file is replaced completely or not at all; of a link, the file to which it points.  A device
    or a pipe stays, and the text is written into it.  Raises Impossible if that fails, or if the
    file is a stored run.
    """
    if wanted == "-":
        sys.stdout.write(text)
        return
    path = Path(wanted)
    try:
        if path.exists() and not path.is_file():
            with os.fdopen(trusted_path.open_to_write(path), "w", encoding="utf-8") as file:
                file.write(text)
            return
        editing.refuse_replacing(path)
        target = trusted_path.real(path)
        with trusted_path.Folder(target.parent) as folder:
            # The draft's name must not end in .prom: the collector reads each such file.
            folder.replace(target.name, text, draft=f".{target.name}.{os.getpid()}.new")
    except OSError as error:
        raise Impossible(f"the metrics {path} cannot be written: {error.strerror}") from error
