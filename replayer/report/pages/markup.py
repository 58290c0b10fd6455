"""What every page is made of: text that is nothing but text, tables, charts, and the document.

Text that a result brought along is escaped wherever it stands: as markup, and in what the plotting
library would take for tags; the data of the page's script is packed and holds no markup.
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
"""Characters from which on a cell of a table may be broken into lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9-]+")
_KINDS = {
    **{word: word for word in ("better", "worse", "same", "unclear")},
    **{f"likely {word}": "unclear" for word in ("better", "worse", "differs in these runs")},
    "fits": "better",
    "does not fit": "worse",
}
"""What a cell begins with that has a colour of its own -> the class of that colour."""

_END = re.compile("[,;(]")
"""What ends the word that says the kind of a cell."""

Drawn = tuple[str, Chart]
"""The section that a chart stands in, and the chart."""


def document(
    title: str,
    *,
    head: str,
    body: Iterable[str],
    drawn: Sequence[Drawn],
    series: Sequence[Any],
) -> str:
    """Return a self-contained page; the charts' places are in its body, as `figures` makes them."""
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
    """Give each chart an id that is the same as markup and in the script, and no other's.

    What a step is called may be anything; of its name letters, digits and dashes remain.
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


def figures(drawn: Sequence[Drawn], section: str) -> Iterator[str]:
    """Yield the places of the charts of a section."""
    for kind, chart in drawn:
        if kind == section:
            # The chart's words are escaped already.
            what = "flame" if "frames" in chart else "chart"
            yield (
                f"<figure><h3>{chart['title']}</h3>"
                f'<div class="{what}" id="{chart["id"]}"></div></figure>'
            )


def watched(title: str, *, hidden: bool = False) -> Iterator[str]:
    """Yield the place of the series, and what chooses one of them."""
    yield f"<h2>{escaped(title)}</h2>"
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
    """Return a table whose columns with these numbers stand to the right."""
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
    """Return text in which nothing is markup, or steers anything."""
    return escape(sanitize(words))
