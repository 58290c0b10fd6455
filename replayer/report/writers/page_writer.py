"""A report document as an HTML page: one file that opens from disk and needs no network."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from replayer.report.document import (
    Bullets,
    Curve,
    Document,
    Facts,
    Figure,
    Part,
    Section,
    Table,
    TimeSeries,
)
from replayer.report.pages import column_encoding, markup
from replayer.report.pages.charts import Chart, Trace, word
from replayer.report.pages.markup import Drawn
from replayer.run.display import Sentence, Tone, Verbatim

_STARS = re.compile(r"[*-]+(?= \d of \d stars)")
_DRAWN = {ord("*"): "\u2605", ord("-"): "\u2606"}
_CLASSES = {Tone.QUIET: "quiet", Tone.BAD: "verdict"}
_PANEL = 150
"""Pixels of height of a panel of a series."""
_MODES = {"line": "lines", "points": "markers", "both": "lines+markers"}


def page(document: Document) -> str:
    """Return the document as HTML, with its charts and the controls of its series."""
    parts = sorted(document.parts, key=lambda one: getattr(one, "on_page", 0))
    if document.notes:
        parts.append(Section("What to know about it", [Bullets(document.notes)]))
    every = list(_every(parts))
    drawn = markup.identified(("", _chart(one)) for one in every if isinstance(one, Figure))
    head = [
        f'<p class="verdict">{escaped(document.headline.text)}</p>',
        *(f"<p>{escaped(text)}</p>" for text in document.lead),
        *([f'<p class="quiet">{escaped(document.made)}</p>'] if document.made else []),
    ]
    return markup.document(
        document.title,
        head="\n".join(head),
        body=show_parts(parts, iter(drawn)),
        drawn=drawn,
        series=[_series(one) for one in every if isinstance(one, TimeSeries)],
    )


def _every(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield each part, and each that is in a section, in their order on the page."""
    for part in parts:
        yield part
        if isinstance(part, Section):
            yield from _every(part.parts)


def show_parts(
    parts: Iterable[Part], drawn: Iterator[Drawn] | None = None, level: int = 2
) -> Iterator[str]:
    """Yield parts as HTML; `drawn` has their charts in the same order."""
    for is_verbatim, group in groupby(parts, key=lambda part: isinstance(part, Verbatim)):
        if is_verbatim:
            lines = "\n".join(escaped(one.text) for one in group if isinstance(one, Verbatim))
            yield f"<pre>{lines}</pre>"
            continue
        for part in group:
            match part:
                case Section():
                    yield from _section(part, drawn, level)
                case Figure() if drawn is not None:
                    yield from markup.figures([next(drawn)], "")
                case _:
                    yield from _part(part)


def _section(section: Section, drawn: Iterator[Drawn] | None, level: int) -> Iterator[str]:
    inner = list(show_parts(section.parts, drawn, level + 1))
    title = escaped(section.title)
    if section.is_folded and inner:
        yield from (f"<details><summary>{title}</summary>", *inner, "</details>")
    elif inner:
        yield from (f"<h{level}>{title}</h{level}>", *inner)


def _part(part: Part) -> Iterator[str]:
    match part:
        case Sentence():
            yield f"<p{_class(part.tone)}>{escaped(part.text)}</p>"
        case Facts():
            yield markup.table(["", ""], part.pairs)
        case Bullets() if part.texts:
            items = "".join(f"<li>{escaped(text)}</li>" for text in part.texts)
            yield f"<ul{_class(part.tone)}>{items}</ul>"
        case Table() if part.rows:
            yield markup.table(part.headings, part.rows, part.numbers)
        case TimeSeries():
            yield from markup.watched(part.title, hidden=True)
            if part.note:
                yield f'<p class="quiet">{escaped(part.note)}</p>'


def _class(tone: Tone) -> str:
    return f' class="{_CLASSES[tone]}"' if tone in _CLASSES else ""


def escaped(text: str) -> str:
    """Return text escaped for HTML, with the stars of a page in place of those of a terminal."""
    return markup.escaped(_STARS.sub(lambda match: match[0].translate(_DRAWN), text))


def _chart(figure: Figure) -> Chart:
    """Return a chart in the terms of the page's script, with every text escaped for Plotly."""
    return {
        "id": figure.name,
        "title": word(figure.title),
        "traces": [_trace(curve) for curve in figure.curves],
        "layout": {"x": word(figure.x), "y": word(figure.y), **_escaped(figure.axes)},
    }


def _trace(curve: Curve) -> Trace:
    kind = (
        {"type": "bar"} if curve.kind == "bar" else {"type": "scatter", "mode": _MODES[curve.kind]}
    )
    texts = {"text": _escaped(curve.texts)} if curve.texts else {}
    points = {"name": word(curve.name), "x": _escaped(curve.x), "y": _escaped(curve.y)}
    return {**kind, **points, **texts, "color": curve.color, **curve.style}


def _series(one: TimeSeries) -> dict[str, Any]:
    """Return a series in the terms of the page's script, its columns encoded."""
    panels = [
        {
            "title": word(title),
            "stacked": False,
            "lines": [
                {
                    "name": word(curve.name),
                    "color": curve.color,
                    **curve.style,
                    **column_encoding.column(curve.y),
                }
                for curve in curves
            ],
        }
        for title, curves in one.panels
    ]
    return {
        "side": "",
        "run": "",
        "step": "profile",
        "repeat": 1,
        "window": None,
        "epoch": 1000 * one.begin,
        "height": _PANEL * max(3, len(panels)),
        "times": column_encoding.times(one.seconds),
        "marks": [[at, "gap", word(text)] for at, text in one.marks],
        "panels": panels,
    }


def _escaped(value: Any) -> Any:
    """Return a value with every text in it escaped for Plotly."""
    match value:
        case str():
            return word(value)
        case Mapping():
            return {key: _escaped(one) for key, one in value.items()}
        case Sequence():
            return [_escaped(one) for one in value]
    return value
