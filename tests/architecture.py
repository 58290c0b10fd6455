"""Draw the six bands of replayer's house from its imports, as docs/architecture.svg.

    python -m tests.architecture          # writes the picture
    make picture                          # the same

A band is a row, a room is a folder or a module of `replayer/`.  An arrow goes from a band to each
band that it imports from; the tooltip of a room lists the rooms that it imports.  No arrow may
point up, and every room stands in exactly one band: `tests/contract/test_architecture.py`.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
BANDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "interface": (
        "what a person or a program talks to",
        ("__main__", "commands", "followers", "live", "metrics", "report"),
    ),
    "jobs": (
        "what people come for",
        ("sizing", "experiments", "boots", "imports", "profiles", "shortlist"),
    ),
    "measurement": (
        "how it is measured",
        (
            *("factors", "steps", "probes", "load", "run", "capture"),
            *("tables", "storage", "conditions"),
        ),
    ),
    "means": (
        "what measuring stands on",
        ("analysis", "results", "cluster", "watch", "collectors"),
    ),
    "platform": ("databases and the machine", ("servers", "engines", "machine")),
    "base": (
        "nouns and tools of the house",
        (
            *(
                "model",
                "units",
                "errors",
                "journal",
                "trusted_path",
                "registry",
                "own_plugins",
                "assets",
            ),
            *("shell", "interpreter", "signals", "lazy_import", "cli"),
        ),
    ),
}
"""Each band, from top to bottom -> what it is, and its rooms."""
_WIDTH, _LEFT, _RIGHT = 1080, 260, 90
_ROOM_HEIGHT, _GAP, _BAND_GAP, _PADDING = 26, 8, 22, 12
_NAMESPACE = "http://www.w3.org/2000/svg"
_CHARACTER = 7.4
"""The width of a character of 13 px monospace, with some air, in px."""
_STYLE = """
  text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2933 }
  .band { fill: #eef2f7; stroke: #9fb3c8 }
  .room { fill: #ffffff; stroke: #627d98 }
  .name { font-weight: bold }
  .what { font-size: 11px; fill: #52667a }
  .arrow { fill: none; stroke: #9fb3c8; stroke-width: 1.5 }
  .tip { fill: #9fb3c8 }
  @media (prefers-color-scheme: dark) {
    text { fill: #d9e2ec } .what { fill: #9fb3c8 }
    .band { fill: #1f2933 } .room { fill: #323f4b }
  }
"""


def band_of() -> dict[str, str]:
    """Return each room's band.

    Raises:
        ValueError: where a room stands in two bands.
    """
    bands: dict[str, str] = {}
    for band, (_, rooms) in BANDS.items():
        for room in rooms:
            if room in bands:
                raise ValueError(f"{room} stands in {bands[room]} and in {band}")
            bands[room] = band
    return bands


@functools.cache
def graph() -> grimp.ImportGraph:
    """Return the graph of replayer's modules."""
    return grimp.build_graph("replayer", cache_dir=None)


def imports() -> dict[str, set[str]]:
    """Return each room of replayer, and the rooms that it imports, by the graph of its modules."""
    rooms: dict[str, set[str]] = {}
    for module in graph().modules - {"replayer"}:
        room = module.split(".")[1]
        imported = {
            other.split(".")[1]
            for other in graph().find_modules_directly_imported_by(module)
            if other != "replayer"
        }
        rooms.setdefault(room, set()).update(imported - {room})
    return rooms


def upward(rooms: Mapping[str, set[str]]) -> list[str]:
    """Return the imports that go to a band above the importer's, as `room -> room`."""
    bands, order = band_of(), list(BANDS)
    return [
        f"{room} -> {other}"
        for room, others in sorted(rooms.items())
        for other in sorted(others)
        if order.index(bands[other]) < order.index(bands[room])
    ]


def _rows(rooms: tuple[str, ...]) -> list[list[tuple[str, float, float]]]:
    """Return rows of rooms with the left edge and the width of each, in px."""
    rows: list[list[tuple[str, float, float]]] = [[]]
    left = float(_LEFT)
    for room in rooms:
        width = len(room) * _CHARACTER + 20
        if left + width > _WIDTH - _RIGHT - _PADDING:
            rows.append([])
            left = float(_LEFT)
        rows[-1].append((room, left, width))
        left += width + _GAP
    return rows


def _drawn_room(room: str, left: float, top: float, width: float, imported: set[str]) -> str:
    listed = ", ".join(sorted(imported)) or "nothing of replayer's"
    return (
        f"<g><title>{escape(room)} imports {escape(listed)}</title>"
        f'<rect class="room" x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" '
        f'height="{_ROOM_HEIGHT}" rx="4"/>'
        f'<text x="{left + 10:.0f}" y="{top + 17:.0f}">{escape(room)}</text></g>'
    )


def _drawn_arrows(
    rooms: Mapping[str, set[str]], edges: Mapping[str, tuple[float, float]]
) -> Iterator[str]:
    """Draw an arrow, right of the bands, from each band to each that it imports from."""
    bands, order = band_of(), list(BANDS)
    arrows = sorted(
        {
            (order.index(bands[room]), order.index(bands[other]))
            for room, others in rooms.items()
            for other in others
            if bands[room] != bands[other]
        }
    )
    right = _WIDTH - _RIGHT
    for above, below in arrows:
        distance = below - above
        start = edges[order[above]][1] - 6 - 5 * distance
        end = edges[order[below]][0] + 6 + 5 * distance
        reach = right + 10 + 12 * abs(distance)
        yield (
            f'<path class="arrow" d="M {right} {start:.0f} C {reach} {start:.0f} '
            f'{reach} {end:.0f} {right + 7} {end:.0f}"/>'
            f'<path class="tip" d="M {right} {end:.0f} l 8 -4 v 8 z"/>'
        )


def drawing() -> str:
    """Return the picture as SVG text; the same imports give the same text."""
    rooms = imports()
    top, shapes = 8.0, []
    edges: dict[str, tuple[float, float]] = {}
    for band, (what, names) in BANDS.items():
        rows = _rows(names)
        height = 2 * _PADDING + len(rows) * (_ROOM_HEIGHT + _GAP) - _GAP
        edges[band] = (top, top + height)
        shapes.append(
            f'<rect class="band" x="8" y="{top:.0f}" width="{_WIDTH - _RIGHT - 8}" '
            f'height="{height}" rx="6"/>'
            f'<text class="name" x="20" y="{top + 22:.0f}">{band}</text>'
            f'<text class="what" x="20" y="{top + 38:.0f}">{escape(what)}</text>'
        )
        for number, row in enumerate(rows):
            y = top + _PADDING + number * (_ROOM_HEIGHT + _GAP)
            shapes += [
                _drawn_room(room, left, y, width, rooms.get(room, set()))
                for room, left, width in row
            ]
        top += height + _BAND_GAP
    shapes += _drawn_arrows(rooms, edges)
    bottom = top - _BAND_GAP + 8
    return "\n".join(
        [
            f'<svg xmlns="{_NAMESPACE}" viewBox="0 0 {_WIDTH} {bottom:.0f}" role="img">',
            "<title>The six bands of replayer; imports point down</title>",
            f"<style>{_STYLE}</style>",
            *shapes,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(drawing())
    print(f"{PICTURE.relative_to(ROOT)} is written")
