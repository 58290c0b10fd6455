"""The HTML page of a shortlist: one file that opens from disk and needs no network."""

from collections.abc import Iterator, Sequence

from replayer.report.pages.charts import Chart, word
from replayer.report.pages.markup import document, escaped, figures, identified, table
from replayer.report.terminal import shortlist as report
from replayer.shortlist.matching import MachineChoice
from replayer.shortlist.shortlist import Shortlist, show_price
from replayer.sizing.target import Fit
from replayer.units import three

_HEADINGS = (
    *("machine", "disk", "verdict", "gives first", "times", "price a month"),
    "with another disk",
)
_COLORS = {Fit.FITS: "better", Fit.UNCLEAR: 5, Fit.DOES_NOT_FIT: "worse"}
_DETAILED = 100
"""Machines with a table of their resources."""


def page(one: Shortlist) -> str:
    """Return the HTML page of a shortlist."""
    drawn = identified(("price", chart) for chart in _charts(one))
    rows = [_row(each, one) for each in one.machines()]
    body = [
        "<h2>Machine by machine, the cheapest that fits first</h2>",
        table(_HEADINGS, rows, numbers=[4, 5]),
        *figures(drawn, "price"),
        "<h2>What is needed</h2>",
        table(report.NEED_HEADINGS, report.need_rows(one), numbers=[1]),
        "<h2>Resource by resource</h2>",
        *(_details(each) for each in one.candidates[:_DETAILED]),
        "<h2>What to know about it</h2>",
        f"<ul>{''.join(f'<li>{escaped(words)}</li>' for words in report.remarks(one))}</ul>",
    ]
    head = f'<p class="verdict">{escaped(one.headline)}</p><p class="quiet">{escaped(one.made)}</p>'
    return document(report.title(one), head=head, body=body, drawn=drawn, series=[])


def _row(choices: Sequence[MachineChoice], shortlist: Shortlist) -> list[str]:
    """Return the cells of a machine with its best disk, and of its other choices."""
    one = choices[0]
    others = "".join(report.other_disks(choices, shortlist)).partition(": ")[2]
    return [
        one.machine,
        one.disk,
        report.verdict(one),
        one.first or "-",
        "-" if one.multiple is None else three(one.multiple),
        show_price(one.price_month, shortlist.currency) or "not known",
        others,
    ]


def _details(one: MachineChoice) -> str:
    rows = table(report.MARGIN_HEADINGS, report.margin_rows(one), numbers=range(2, 5))
    return (
        f"<details><summary>{escaped(one.title)}: {escaped(one.fit.value)}</summary>{rows}"
        f"</details>"
    )


def _charts(one: Shortlist) -> Iterator[Chart]:
    """Yield a chart of price and room, one point a machine; none if no price is known."""
    known = [
        each
        for each in one.candidates
        if each.price_month is not None and each.multiple is not None
    ]
    if not known:
        return
    traces = []
    for fit, color in _COLORS.items():
        mine = [each for each in known if each.fit is fit]
        if mine:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": word(fit.value),
                    "x": [each.price_month for each in mine],
                    "y": [each.multiple for each in mine],
                    "text": [word(each.title) for each in mine],
                    "color": color,
                    "dash": 0,
                }
            )
    yield {
        "id": "price",
        "title": "Price, and how many times of what is needed there is",
        "traces": traces,
        "layout": {"x": f"{word(one.currency or 'price')} a month", "y": "times", "log_y": True},
    }
