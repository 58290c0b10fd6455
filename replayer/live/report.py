"""The report of the run that was followed, as `report --html` has it."""

from pathlib import Path

from replayer.analysis.differences.selection import choose
from replayer.report.pages import run_page
from replayer.report.pages.charts import needs


def page_of(result: Path) -> str:
    """Return the report of a stored run; raise ReplayerError where it cannot be read."""
    chosen = choose([str(result)], result.parent, columns=needs)
    return run_page.page(chosen.sides, None)
