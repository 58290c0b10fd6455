"""Display of a scan: an explanation of its only number, the time of both statements."""

from replayer.model import StepResult, Temperature
from replayer.run.display import Brief, Form
from replayer.units import show_count, show_duration

_PLACES = {Temperature.HOT: " from memory", Temperature.LUKEWARM: " partly from memory"}
"""Temperature -> the words in the headline for where the data was; a cold scan needs none."""


def form(result: StepResult) -> Form:
    """Return a form that only explains `scan.elapsed`; the report lists the results as usual."""
    return Form(glosses={"scan.elapsed": "all statements"}, brief=_brief(result))


def _brief(result: StepResult) -> Brief:
    rows, elapsed = result.facts.get("rows"), result.value("scan.elapsed")
    what = f"{show_count(rows)} rows" if isinstance(rows, int) else "the table"
    temperature = f", {result.cold.got.value}" if result.cold else ""
    did = f"{what}, by SQL{temperature}"
    if elapsed is None:
        return Brief(did)
    shown = show_duration(elapsed)
    place = _PLACES.get(result.cold.got, "") if result.cold else ""
    return Brief(did, [shown], subject="The database scanned", clause=f"{what}{place} in {shown}")
