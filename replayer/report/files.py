"""Writing a report where a command's options ask for: terminal, stdout or files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replayer import trusted_path
from replayer.errors import Impossible
from replayer.lazy_import import Later
from replayer.report.messages import say
from replayer.report.terminal import console
from replayer.report.writers import csv_writer, markdown_writer, terminal_writer
from replayer.results import editing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

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


Forms = Mapping[str, Callable[[], str]]
"""Form of a report, such as html -> function that returns its text; `--html` names its file."""


def add_forms(add: Callable[..., Any], what: str, **texts: str) -> None:
    """Add the options --html, --csv and --markdown; `what` names the report in their help texts.

    `add` is the `add_argument` of a parser or of a group.  `texts` has form -> help text, such as
    `html="..."`, for forms that need another help text.
    """
    for form in ("html", "csv", "markdown"):
        text = texts.get(form, f"write {what} as {form} (- is stdout)")
        add(f"--{form}", metavar="FILE", help=text)


def tell(
    args: argparse.Namespace,
    document: Document,
    as_json: Callable[[], str],
    *,
    others: Forms | None = None,
    is_file_enough: bool = False,
) -> None:
    """Print a document, or its JSON with --json; then write the files that `args` asks for.

    Their options are --html, --csv and --markdown.  `as_json` returns the JSON.  `others` has
    form -> function that returns its text: these forms replace those of the document, or add to
    them.  The document is not printed if a file is stdout (`-`) or, with `is_file_enough`, if there
    is any file.  Raises Impossible if a file cannot be written.
    """
    forms: Forms = {
        "html": lambda: page_writer.page(document),
        "csv": lambda: csv_writer.page(document),
        "markdown": lambda: markdown_writer.page(document),
        **(others or {}),
    }
    asked = _asked(args, forms).values()
    # A full disk may refuse the files, so that what is printed comes before them.
    if args.json:
        print(as_json())  # noqa: T201
    elif not asked if is_file_enough else "-" not in asked:
        console.write(terminal_writer.render(document))
    write(args, forms)


def write(args: argparse.Namespace, forms: Forms) -> None:
    """Write the files that the options --html, --csv and --markdown ask for.

    `forms` has the name of each form -> a function that makes its text.  Raises Impossible if a
    file cannot be written.
    """
    for name, wanted in _asked(args, forms).items():
        put(wanted, forms[name]())


def _asked(args: argparse.Namespace, forms: Forms) -> dict[str, str]:
    return {name: wanted for name in forms if (wanted := getattr(args, name, None)) is not None}


def forms_of_runs(sides: Sequence[Side], comparison: Comparison | None, refused: str = "") -> Forms:
    """Return form (html, csv, markdown) -> a function that returns the text of the report.

    The report is about the groups of runs `sides`, and about their comparison unless it is None.
    `refused` is the reason why two groups cannot be compared.
    """
    return {
        "html": lambda: page_writer.page(runs.document(sides, comparison, refused)),
        "csv": lambda: csv_writer.written(runs.data(sides, comparison)),
        "markdown": lambda: markdown_writer.page(
            runs.document(sides, comparison, refused, for_page=False)
        ),
    }


def put(wanted: str, text: str) -> None:
    """Write a text into a file and print its path on stderr; write to stdout for `-`.

    Raises Impossible if the file cannot be written, or is a stored run.
    """
    if wanted == "-":
        sys.stdout.write(text)
        return
    path = Path(wanted)
    try:
        editing.refuse_replacing(path)
        descriptor = trusted_path.open_to_write(path)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise Impossible(f"the report {path} cannot be written: {error.strerror}") from error
    say(f"written: {path}")
