"""Reports in the forms that a command's options ask for: as files, on stdout, on the terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from replayer import trusted_path
from replayer.errors import Impossible
from replayer.lazy_import import Later
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, markdown_writer, terminal_writer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from replayer.analysis.differences.comparison import Comparison
    from replayer.analysis.differences.samples import Side
    from replayer.report.document import Document
    from replayer.report.documents import runs
    from replayer.report.writers import page_writer
else:
    # They load arrays, charts and comparisons, for files alone.
    page_writer, runs = (
        Later(f"replayer.report.{name}") for name in ("writers.page_writer", "documents.runs")
    )


class WrittenFiles(NamedTuple):
    """The places that reports were written to."""

    files: list[Path]
    stdout: bool
    """True if a report was written there: then nothing else should be."""


def add_forms(add: Callable[..., Any], what: str, **texts: str) -> None:
    """Add the options that ask for files; `texts` are help texts of single forms."""
    for form in ("html", "csv", "markdown"):
        text = texts.get(form, f"write {what} as {form} (- is stdout)")
        add(f"--{form}", metavar="FILE", help=text)


def tell(
    args: argparse.Namespace,
    document: Document,
    as_json: Callable[[], str],
    *,
    others: Mapping[str, Callable[[], str]] | None = None,
    is_file_enough: bool = False,
) -> None:
    """Print a document or its JSON, then write it into the files that were asked for.

    `others` are the texts of a command's own options for files.  The report is not printed where a
    file is stdout, or with `is_file_enough` where there is any file.
    """
    forms: dict[str, Callable[[], str]] = {
        "html": lambda: page_writer.page(document),
        "csv": lambda: csv_writer.page(document),
        "markdown": lambda: markdown_writer.page(document),
        **(others or {}),
    }
    asked = {name: wanted for name in forms if (wanted := getattr(args, name, None)) is not None}
    # A full disk may refuse the files, so that what is printed comes before them.
    if args.json:
        print(as_json())  # noqa: T201
    elif not asked if is_file_enough else "-" not in asked.values():
        console.write(terminal_writer.render(document))
    paths = [put(wanted, forms[name]()) for name, wanted in asked.items()]
    for path in filter(None, paths):
        print(f"written: {path}", file=sys.stderr)  # noqa: T201


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
        return page_writer.page(runs.document(sides, comparison, refused))
    if kind == "csv":
        return csv_writer.written(runs.data(sides, comparison))
    return markdown_writer.page(runs.document(sides, comparison, refused, for_page=False))


def _file(path: Path, text: str) -> Path:
    try:
        descriptor = trusted_path.open_to_write(path)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise Impossible(f"the report {path} cannot be written: {error.strerror}") from error
    return path
