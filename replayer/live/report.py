"""The report of the run that the live page followed: the same page as that of `report --html`."""

from pathlib import Path

from replayer.analysis.differences.selection import choose
from replayer.report.pages import run_page
from replayer.report.pages.charts import needs


def page_of(result: Path) -> str:
    """Return the HTML report of a result file; raise ReplayerError if it cannot be read."""
    chosen = choose([str(result)], result.parent, columns=needs)
    return run_page.page(chosen.sides, None)
