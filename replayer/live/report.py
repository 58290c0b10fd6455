"""The report of the run on the live page: the same page as that of `replayer report --html`."""

from pathlib import Path

from replayer.analysis.differences.selection import choose
from replayer.report.documents import runs
from replayer.report.documents.collector_columns import is_drawn
from replayer.report.writers import page_writer


def page_of(result: Path) -> str:
    """Return the HTML report of a result file; raise ReplayerError if it cannot be read."""
    chosen = choose([str(result)], result.parent, columns=is_drawn)
    return page_writer.page(runs.document(chosen.sides))
