"""A report document as an HTML page: one file that opens from disk and needs no network."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from replayer.report.pages import markup
from replayer.report.pages.charts import Chart, Trace, word
from replayer.report.pages.markup import Drawn
from replayer.run.display import Sentence, Tone

_STARS = re.compile(r"[*-]+(?= \d of \d stars)")
_DRAWN = {ord("*"): "\u2605", ord("-"): "\u2606"}
_MODES = {"line": "lines", "points": "markers", "both": "lines+markers"}


def page(document: Document) -> str:
    """Return the document as HTML, with its charts and the controls of its series."""
    parts = sorted(
        document.parts, key=lambda part: isinstance(part, Section) and part.is_background
    )
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
        body=_body(parts, iter(drawn)),
        drawn=drawn,
        series=[one.entry for one in every if isinstance(one, TimeSeries)],
    )


def _every(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield each part, and each that is in a section, in their order on the page."""
    for part in parts:
        yield part
        if isinstance(part, Section):
            yield from _every(part.parts)


def _body(parts: Iterable[Part], drawn: Iterator[Drawn], level: int = 2) -> Iterator[str]:
    """Yield parts as HTML; `drawn` has their charts in the same order."""
    for part in parts:
        match part:
            case Sentence():
                yield f"<p{_quiet(part.tone)}>{escaped(part.text)}</p>"
            case Facts():
                yield markup.table(["", ""], part.pairs)
            case Bullets() if part.texts:
                items = "".join(f"<li>{escaped(text)}</li>" for text in part.texts)
                yield f"<ul{_quiet(part.tone)}>{items}</ul>"
            case Table() if part.rows:
                yield markup.table(part.headings, part.rows, part.numbers)
            case Figure():
                yield from markup.figures([next(drawn)], "")
            case TimeSeries():
                yield from markup.watched(part.title, hidden=True)
            case Section() if inner := list(_body(part.parts, drawn, level + 1)):
                title = escaped(part.title)
                if part.is_folded:
                    yield from (f"<details><summary>{title}</summary>", *inner, "</details>")
                else:
                    yield from (f"<h{level}>{title}</h{level}>", *inner)


def _quiet(tone: Tone) -> str:
    return ' class="quiet"' if tone is Tone.QUIET else ""


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
