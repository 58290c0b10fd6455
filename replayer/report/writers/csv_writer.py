"""A report as CSV: the rows of its `data`, with text that no spreadsheet takes for a formula."""

import csv
import io
from collections.abc import Iterable, Sequence

from replayer.report.document import Document
from replayer.report.sanitize import sanitize

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that start a formula in a spreadsheet, also in their full-width forms."""


def page(document: Document) -> str:
    """Return the document's data as CSV."""
    return written(document.data)


def written(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV, with text escaped so that no spreadsheet takes it for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value; a ' is put before text that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    words = sanitize(value)
    # Leading blanks do not protect: some programs drop them.
    return f"'{words}" if words.lstrip().startswith(_FORMULA) else words
