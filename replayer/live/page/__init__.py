"""The files of the live page: its markup, style and script."""

import json
from importlib import resources

from replayer.run.event_stream.events import FIGURES


def part(name: str) -> str:
    """Return the text of a file of this folder."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def kinds() -> str:
    """Return the figures of the live page as JSON for its script: name -> title and unit."""
    return json.dumps(
        {name: {"title": one.title, "unit": one.unit} for name, one in FIGURES.items()}
    )
