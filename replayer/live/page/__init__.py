"""The files of the live page: its markup, style and script."""

import json
from importlib import resources

from replayer.run.event_stream.events import FIGURES


def part(name: str) -> str:
    """Return the text of the file `name` in the folder replayer/live/page, such as live.js."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def kinds() -> str:
    """Return the quantities that the live page draws, as JSON for its script.

    The JSON is an object: name of a quantity -> its title and unit.
    """
    return json.dumps(
        {name: {"title": one.title, "unit": one.unit} for name, one in FIGURES.items()}
    )
