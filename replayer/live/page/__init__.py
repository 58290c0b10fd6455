"""The page's parts: markup, style and script of its own."""

import json
from importlib import resources

from replayer.run.event_stream.events import FIGURES


def part(name: str) -> str:
    """Return one of the files of this folder."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def kinds() -> str:
    """Return what the live figures are, for the script: name -> title and unit."""
    return json.dumps(
        {name: {"title": one.title, "unit": one.unit} for name, one in FIGURES.items()}
    )
