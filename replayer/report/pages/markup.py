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
from replayer.report.sanitize import sanitize

_LONG = 48
"""A table's cell with more characters than this may be wrapped."""
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
"""The end of a cell's first words; these words decide the colour of the cell."""

Chart = dict[str, Any]
"""A chart as the page's script reads it: `{id, title, traces, layout}` or `{..., frames}`."""


def document(
    title: str,
    *,
    head: str,
    body: Iterable[str],
    charts: Sequence[Chart],
    series: Sequence[Any],
) -> str:
    """Return a self-contained HTML page.

    `head` is the HTML of the answer at the top, `body` has the HTML of the parts below it.
    `charts` and `series` are the data that the page's script draws.  `body` has an element for each
    chart, made by `figure`.
    """
    return Template(scripts.part("page.html")).substitute(
        title=escaped(title),
        style=scripts.part("page.css"),
        allowed=scripts.allowed(),
        head=head,
        body="\n".join(body),
        foot=f"replayer {escaped(__version__)}",
        plotly=scripts.plotly(),
        data=scripts.data({"charts": charts, "series": series}),
        script=scripts.own(),
    )


def identified(charts: Iterable[Chart]) -> list[Chart]:
    """Return the charts with unique ids that are safe in markup and in the script.

    A step's name may have any characters; only its letters, digits and dashes are kept.
    """
    seen: set[str] = set()
    charts_with_ids = []
    for chart in charts:
        plain = _UNSAFE.sub("-", chart["id"])
        identity = next(one for one in chain([plain], _numbered(plain)) if one not in seen)
        seen.add(identity)
        charts_with_ids.append({**chart, "id": identity})
    return charts_with_ids


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}--{number}" for number in count(2))


def navigation(body: Iterable[str]) -> str:
    """Return a bar of links to the sections of a page: to each h2 heading with an id."""
    links = "".join(
        f'<a href="#{identity}">{title}</a>'
        for part in body
        for identity, title in _SECTION.findall(part)
    )
    return f'<nav class="sections" aria-label="sections of this page">{links}</nav>'


def figure(chart: Chart) -> str:
    """Return the HTML element in which the script draws a chart; the chart's texts are escaped."""
    what = "flame" if "frames" in chart else "chart"
    return (
        f'<figure><h3>{chart["title"]}</h3><div class="{what}" id="{chart["id"]}"></div></figure>'
    )


def watched(title: str, *, hidden: bool = False) -> Iterator[str]:
    """Yield the HTML of the time-series chart: heading, controls to select a repeat, empty figure.

    The page's script fills the figure.  With `hidden`, the controls are not shown.
    """
    yield f'<h2 id="series-title">{escaped(title)}</h2>'
    yield f'<div class="choice"{" hidden" if hidden else ""}>'
    yield (
        '<button type="button" id="series-back">&#8592; before</button>'
        '<select id="series-choice" aria-label="which repeat"></select>'
        '<button type="button" id="series-on">next &#8594;</button></div>'
    )
    yield '<figure><div class="chart series" id="series"></div></figure>'


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Iterable[int] = (),
    *,
    kinds: Sequence[str] = (),
    is_wordy: bool = False,
) -> str:
    """Return a table as HTML; the columns in `numbers` are aligned to the right.

    `kinds` has the CSS class of each row's last cell; "" if the cell's first words decide it.  With
    `is_wordy`, cells are wrapped, and on a narrow page each row is a block.
    """
    right = set(numbers)
    head = "".join(_cell("th", text, number=i in right) for i, text in enumerate(headings))
    body = ""
    for number, row in enumerate(rows):
        kind = kinds[number] if kinds else ""
        last = len(row) - 1
        cells = (
            _cell(
                "th" if is_wordy and i == 0 else "td",
                text,
                number=i in right,
                kind=kind if i == last else "",
                label=headings[i].rstrip("?") if is_wordy and i else "",
            )
            for i, text in enumerate(row)
        )
        body += f"<tr>{''.join(cells)}</tr>\n"
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    # Cells that are folded need no frame that scrolls, and their lines no spreadsheet.
    if is_wordy:
        return f'<table class="steps">{inner}'
    return f'<div class="scroll"><table>{inner}</div>'


def _cell(tag: str, text: str, *, number: bool, kind: str = "", label: str = "") -> str:
    """Return a cell of a table as HTML.

    `tag` is `td` or `th`.  The CSS class is `kind`, else that of numbers (if `number`), of a
    verdict, or of long text.  `label` is the column's heading, for a narrow page.  With a label,
    each line of `text` is a line of the cell.
    """
    first = _END.split(text)[0].strip()
    words = _KINDS.get(first) or ("long" if len(text) > _LONG else "")
    kind = kind or ("number" if number else words)
    named = f' class="{kind}"' if kind else ""
    named += f' data-label="{escaped(label)}"' if label else ""
    lines = text.split("\n") if label else [text]
    return f"<{tag}{named}>{'<br>'.join(map(escaped, lines))}</{tag}>"


def escaped(words: object) -> str:
    """Return text escaped for HTML, without control or invisible characters."""
    return escape(sanitize(words))
