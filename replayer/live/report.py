"""The report of the run that was followed, as `report --html` has it."""

from pathlib import Path

from replayer.analysis.selection import choose
from replayer.report import html
from replayer.report.charts import needs


def page_of(result: Path) -> str:
    """Return the report of a stored run; raise ReplayerError where it cannot be read."""
    chosen = choose([str(result)], result.parent, columns=needs)
    return html.page(chosen.sides, None)
