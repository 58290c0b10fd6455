"""The building blocks of every page: escaped text, tables, charts, and the document.

All text from a result is escaped: for HTML, and for the tags that the plotting library would
interpret.  The data of the page's script is packed and cannot contain markup.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import chain, count
from string import Template
from typing import Any

from replayer import __version__
from replayer.report.pages import scripts
from replayer.report.pages.charts import Chart
from replayer.report.sanitize import sanitize

_LONG = 48
"""A cell of a table with more characters may be broken into lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")
_KINDS = {
    **{word: word for word in ("better", "worse", "same", "unclear")},
    **{f"{word} in these runs": word for word in ("better", "worse", "same")},
    **{
        f"likely {word}": "care"
        for word in (
            "better",
            "worse",
            *(f"{w} in these runs" for w in ("better", "worse", "differs")),
        )
    },
    "fits": "better",
    "does not fit": "worse",
}
"""First words of a cell that has a special colour -> the CSS class of that colour."""

_SECTION = re.compile('<h2 id="([a-z-]+)">([^<]*)</h2>')
_END = re.compile("[,;(]")
"""The end of the first words of a cell, which decide its colour."""

Drawn = tuple[str, Chart]
"""The section of the page that a chart belongs to, and the chart."""


def document(
    title: str,
    *,
    head: str,
    body: Iterable[str],
    drawn: Sequence[Drawn],
    series: Sequence[Any],
) -> str:
    """Return a self-contained HTML page; its body has the places of charts, made by `figures`."""
    return Template(scripts.part("page.html")).substitute(
        title=escaped(title),
        style=scripts.part("page.css"),
        allowed=scripts.allowed(),
        head=head,
        body="\n".join(body),
        foot=f"replayer {escaped(__version__)}",
        plotly=scripts.plotly(),
        data=scripts.data({"charts": [one for _, one in drawn], "series": series}),
        script=scripts.own(),
    )


def identified(drawn: Iterable[Drawn]) -> list[Drawn]:
    """Return the charts with unique ids that are safe in markup and in the script.

    A step's name may have any characters; only its letters, digits and dashes are kept.
    """
    seen: set[str] = set()
    charts_with_ids = []
    for section, chart in drawn:
        plain = _UNSAFE.sub("-", chart["id"])
        identity = next(one for one in chain([plain], _numbered(plain)) if one not in seen)
        seen.add(identity)
        charts_with_ids.append((section, {**chart, "id": identity}))
    return charts_with_ids


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}--{number}" for number in count(2))


def navigation(body: Iterable[str]) -> str:
    """Return a bar of links to the sections of a page: its headings that have an id."""
    links = "".join(
        f'<a href="#{identity}">{title}</a>'
        for part in body
        for identity, title in _SECTION.findall(part)
    )
    return f'<nav class="sections" aria-label="sections of this page">{links}</nav>'


def figures(drawn: Sequence[Drawn], section: str) -> Iterator[str]:
    """Yield the HTML elements in which the script draws the charts of a section."""
    for kind, chart in drawn:
        if kind == section:
            # The chart's texts are escaped already.
            what = "flame" if "frames" in chart else "chart"
            yield (
                f"<figure><h3>{chart['title']}</h3>"
                f'<div class="{what}" id="{chart["id"]}"></div></figure>'
            )


def watched(title: str, *, hidden: bool = False) -> Iterator[str]:
    """Yield the HTML element in which the script draws a series, and the controls to choose one."""
    yield f'<h2 id="series-title">{escaped(title)}</h2>'
    yield f'<div class="choice"{" hidden" if hidden else ""}>'
    yield (
        '<button type="button" id="series-back">&#8592; before</button>'
        '<select id="series-choice" aria-label="which repeat"></select>'
        '<button type="button" id="series-on">next &#8594;</button></div>'
    )
    yield '<figure><div class="chart series" id="series"></div></figure>'


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    """Return a table as HTML; the columns in `numbers` are aligned to the right."""
    right = set(numbers)

    def cell(tag: str, i: int, text: str) -> str:
        first = _END.split(text)[0].strip()
        kind = (
            "number"
            if i in right
            else _KINDS[first]
            if first in _KINDS
            else "long"
            if len(text) > _LONG
            else ""
        )
        return f"<{tag}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escaped(text)}</{tag}>"

    head = "".join(cell("th", i, text) for i, text in enumerate(headings))
    body = "".join(
        f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>\n" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def escaped(words: object) -> str:
    """Return text escaped for HTML, without control or invisible characters."""
    return escape(sanitize(words))
