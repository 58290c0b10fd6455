"""Reports as files, or on stdout if the file is `-`."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from replayer import trusted_path
from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.samples import Side
from replayer.errors import Impossible
from replayer.report.pages import run_page
from replayer.report.text import csv, markdown


class WrittenFiles(NamedTuple):
    """The places that reports were written to."""

    files: list[Path]
    stdout: bool
    """True if a report was written there: then nothing else should be."""


def write(
    sides: Sequence[Side],
    comparison: Comparison | None,
    *,
    html: str | None = None,
    csv: str | None = None,
    markdown: str | None = None,
    refused: str = "",
) -> WrittenFiles:
    """Write the requested reports, and return the places that they were written to.

    `refused` is the reason why there is no comparison of two sides.  Raises Impossible if a file
    cannot be written.
    """
    files = []
    on_stdout = False
    for wanted, kind in ((html, "html"), (csv, "csv"), (markdown, "markdown")):
        if wanted is None:
            continue
        path = put(wanted, _text(kind, sides, comparison, refused))
        files += [path] if path else []
        on_stdout |= path is None
    return WrittenFiles(files, on_stdout)


def put(wanted: str, text: str) -> Path | None:
    """Write a text into a file and return its path; write to stdout and return None for `-`.

    Raises Impossible if the file cannot be written.
    """
    if wanted == "-":
        sys.stdout.write(text)
        return None
    return _file(Path(wanted), text)


def _text(kind: str, sides: Sequence[Side], comparison: Comparison | None, refused: str) -> str:
    if kind == "html":
        return run_page.page(sides, comparison, refused)
    if kind == "csv":
        return csv.table(sides, comparison)
    return markdown.page(sides, comparison, refused)


def _file(path: Path, text: str) -> Path:
    try:
        descriptor = trusted_path.open_to_write(path)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise Impossible(f"the report {path} cannot be written: {error.strerror}") from error
    return path
