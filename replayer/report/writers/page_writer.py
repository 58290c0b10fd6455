"""A report document as an HTML page: one file that opens from disk and needs no network."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import count, groupby
from string import ascii_lowercase
from typing import Any

from replayer.report.document import (
    Bullets,
    Curve,
    Document,
    Facts,
    Figure,
    FlameGraph,
    Numbered,
    Part,
    RepeatSeries,
    Section,
    SeriesChoice,
    Table,
    Texts,
    TimeSeries,
)
from replayer.report.pages import column_encoding, markup
from replayer.report.pages.markup import Chart
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence, Tone, Verbatim

_STARS = re.compile(r"[*-]+(?= \d of \d stars)")
_DRAWN = {ord("*"): "\u2605", ord("-"): "\u2606"}
_CLASSES = {Tone.QUIET: "quiet", Tone.BAD: "verdict"}
_VERDICTS = {Tone.GOOD: "better", Tone.BAD: "worse", Tone.UNCLEAR: "care"}
"""Tone of a row -> CSS class of its last cell."""
_PANEL = 150
"""Height of a panel of a series, in pixels."""
_LONG = 160
"""If a fact has more characters than this, facts are listed in one column."""
_SHADED = "Shaded: the measured window. Dotted lines: events of the server."
_LINKED = 6
"""A page with at least this many sections has a bar of links to them."""
_MODES = {"line": "lines", "points": "markers", "both": "lines+markers"}


def page(document: Document) -> str:
    """Return the document as HTML, with its charts and the controls of its series."""
    parts = sorted(document.parts, key=lambda one: getattr(one, "on_page", 0))
    if document.notes:
        parts.append(Section("What to know about it", [Bullets(document.notes)]))
    every = [*_every(document.answer), *_every(parts)]
    charts = markup.identified(_chart(one) for one in every if isinstance(one, Figure | FlameGraph))
    writer = _PageWriter(charts)
    shown = list(writer.show_parts(document.answer, level=3))
    head = [
        f'<p class="verdict">{escaped(document.headline.text)}</p>',
        *(f"<p>{escaped(text)}</p>" for text in document.lead),
        *(['<div class="answer">', *shown, "</div>"] if shown else []),
        *([f'<p class="quiet">{escaped(document.made)}</p>'] if document.made else []),
    ]
    body = list(writer.show_parts(parts))
    if sum(isinstance(part, Section) for part in parts) >= _LINKED:
        head.insert(0, markup.navigation(body))
    return markup.document(
        document.title,
        head="\n".join(head),
        body=body,
        charts=charts,
        series=[entry for one in every for entry in _series(one)],
    )


def _every(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield each part, and each part inside a section, in the order of the page."""
    for part in parts:
        yield part
        if isinstance(part, Section):
            yield from _every(part.parts)


class _PageWriter:
    """The writer of the parts of one page; `charts` are in the order in which it writes them."""

    def __init__(self, charts: Iterable[Chart]) -> None:
        self._charts = iter(charts)
        self._places = map(_letters, count())

    def show_parts(self, parts: Iterable[Part], level: int = 2) -> Iterator[str]:
        """Yield parts as HTML, headings at `level`; verbatim lines in a row are one block."""
        for is_verbatim, group in groupby(parts, key=lambda part: isinstance(part, Verbatim)):
            if is_verbatim:
                lines = "\n".join(escaped(one.text) for one in group if isinstance(one, Verbatim))
                yield f"<pre>{lines}</pre>"
                continue
            for part in group:
                match part:
                    case Section():
                        yield from self._section(part, level)
                    case Figure() | FlameGraph():
                        yield markup.figure(next(self._charts))
                    case _:
                        yield from _part(part)

    def _section(self, section: Section, level: int) -> Iterator[str]:
        inner = list(self.show_parts(section.parts, level + 1))
        if not inner:
            return
        title = escaped(section.title)
        # An id is that of a heading that the bar of links has: a title may have any characters.
        place = f' id="part-{next(self._places)}"' if level == 2 else ""
        heading = f"<h{level}{place}>{title}</h{level}>"
        if not section.is_folded:
            yield from (heading, *inner)
            return
        kinds = [*(["printed"] if section.is_printed else []), *(["step"] if place else [])]
        yield f'<details class="{" ".join(kinds)}">' if kinds else "<details>"
        note = f' <span class="quiet">{escaped(section.note)}</span>' if section.note else ""
        yield f"<summary>{heading if place else title}{note}</summary>"
        yield from inner
        yield "</details>"


def _letters(number: int) -> str:
    """Return a number from 0 as letters, for an id in the page: `a` to `z`, then `ba`, `bb`."""
    first, last = divmod(number, len(ascii_lowercase))
    return (_letters(first) if first else "") + ascii_lowercase[last]


def _part(part: Part) -> Iterator[str]:
    match part:
        case Sentence() | Texts():
            yield f"<p{_class(part.tone)}>{escaped(part.text)}</p>"
        case Facts() if part.pairs:
            yield _facts(part)
        case Bullets() if part.texts:
            items = "".join(f"<li>{escaped(text)}</li>" for text in part.texts)
            yield f"<ul{_class(part.tone)}>{items}</ul>"
        case Numbered():
            items = "".join(
                f'<li value="{number}"{_class(one.tone)}>{escaped(one.text)}</li>'
                for number, one in part.items
            )
            yield f'<ol class="points">{items}</ol>' if items else ""
            yield f'<p class="quiet">{escaped(part.more)}</p>' if part.more else ""
        case Table() if part.rows:
            yield _table(part)
        case TimeSeries():
            yield from markup.watched(part.title, hidden=True)
            if part.note:
                yield f'<p class="quiet">{escaped(part.note)}</p>'
        case SeriesChoice() if part.series:
            yield from markup.watched("Second by second")
            yield f'<p class="quiet">{_SHADED}</p>'
            if part.averaged > 1:
                mean = f"Each point is the mean of {part.averaged} intervals"
                yield f'<p class="quiet">{mean}, to keep the page small.</p>'


def _table(table: Table) -> str:
    kinds = [_VERDICTS.get(tone, "") for tone in table.tones]
    return markup.table(
        table.headings, table.rows, table.numbers, kinds=kinds, is_wordy=table.is_wordy
    )


def _facts(facts: Facts) -> str:
    """Return labels with values as HTML; a value with the label "" belongs to the one above."""
    items: list[tuple[str, list[str]]] = []
    for label, text in facts.pairs:
        if label or not items:
            items.append((escaped(label), []))
        items[-1][1].append(escaped(str(text)))
    rows = "".join(
        f"<div><dt>{label}</dt><dd>{'<br>'.join(texts)}</dd></div>" for label, texts in items
    )
    is_long = any(len(str(text)) > _LONG for _, text in facts.pairs)
    return f'<dl class="about{" remarks" if is_long else ""}">{rows}</dl>'


def _class(tone: Tone) -> str:
    return f' class="{_CLASSES[tone]}"' if tone in _CLASSES else ""


def escaped(text: str) -> str:
    """Return text escaped for HTML; `***--` before `3 of 5 stars` becomes star characters."""
    return markup.escaped(_STARS.sub(lambda match: match[0].translate(_DRAWN), text))


def word(text: object) -> str:
    """Return text escaped for Plotly: without tags and without control or invisible characters."""
    return escape(sanitize(text), quote=False)


def _chart(one: Figure | FlameGraph) -> Chart:
    """Return a chart as the page's script reads it, with every text escaped for Plotly."""
    begin = {"id": one.name, "title": word(one.title)}
    if isinstance(one, FlameGraph):
        # The script takes the texts of frames for text.
        return {**begin, "frames": one.frames, "rows": one.rows}
    return {
        **begin,
        "traces": [_trace(curve) for curve in one.curves],
        "layout": {"x": word(one.x), "y": word(one.y), **_escaped(one.axes)},
    }


def _trace(curve: Curve) -> dict[str, Any]:
    kind = (
        {"type": "bar"} if curve.kind == "bar" else {"type": "scatter", "mode": _MODES[curve.kind]}
    )
    texts = {"text": _escaped(curve.texts)} if curve.texts else {}
    points = {"name": word(curve.name), "x": _escaped(curve.x), "y": _escaped(curve.y)}
    return {**kind, **points, **texts, "color": curve.color, **_escaped(curve.style)}


def _series(part: Part) -> Iterator[dict[str, Any]]:
    """Yield the series of a part as the page's script reads them, with encoded columns."""
    if isinstance(part, TimeSeries):
        yield _over_time(part)
    elif isinstance(part, SeriesChoice):
        yield from (_of_repeat(one, part.averaged) for one in part.series)


def _over_time(one: TimeSeries) -> dict[str, Any]:
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


def _of_repeat(one: RepeatSeries, size: int) -> dict[str, Any]:
    # A point is at the end of its last interval, as the point of a single interval is.
    ends = [*one.seconds[size - 1 :: size]]
    if len(one.seconds) % size:
        ends.append(one.seconds[-1])
    return {
        "side": word(one.side),
        "run": word(one.run),
        "step": word(one.step),
        "repeat": one.repeat,
        "times": column_encoding.times(ends),
        "window": one.window,
        "marks": [[at, word(kind), word(text)] for at, kind, text in one.marks],
        "panels": [
            {
                "title": word(title),
                "stacked": stacked,
                "lines": [
                    {
                        "name": word(name),
                        **column_encoding.column(column_encoding.binned(values, size)),
                    }
                    for name, values in lines
                ],
            }
            for title, stacked, lines in one.panels
        ],
    }


def _escaped(value: Any) -> Any:
    """Return a value with every text inside it escaped for Plotly."""
    match value:
        case str():
            return word(value)
        case Mapping():
            return {key: _escaped(one) for key, one in value.items()}
        case Sequence():
            return [_escaped(one) for one in value]
    return value
