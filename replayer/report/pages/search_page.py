"""The HTML page of a search: the answer, where the change lies, and every run of a candidate."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from replayer.report.pages.charts import chart_of, word
from replayer.report.pages.markup import document, escaped, figures, identified, table
from replayer.report.terminal import search as report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replayer.experiments.search_answer import SearchAnswer
    from replayer.report.pages.charts import Chart
    from replayer.report.pages.markup import Drawn

_PLACES, _RUNS = "places", "runs"


def page(answer: SearchAnswer) -> str:
    """Return the HTML page of a search."""
    drawn = identified(_drawn(answer))
    words = [*report.sentences(answer), *report.remarks(answer)]
    head = "\n".join(
        f'<p class="{"quiet" if number else "verdict"}">{escaped(text)}</p>'
        for number, text in enumerate(words)
    )
    body = [
        "<h2>Where the change is</h2>",
        *figures(drawn, _PLACES),
        f"<h2>{escaped(answer.metric)} of each candidate</h2>",
        *figures(drawn, _RUNS),
        table(report.HEADINGS, report.rows(answer), numbers=(1, 2, 3)),
    ]
    return document(f"bisect {answer.name}", head=head, body=body, drawn=drawn, series=[])


def _drawn(answer: SearchAnswer) -> Iterator[Drawn]:
    yield _PLACES, _places(answer)
    yield _RUNS, _runs(answer)


def _places(answer: SearchAnswer) -> Chart:
    """Return the probability of each place of the change, with that of no change."""
    places = {**answer.chances, "no change": answer.no_change}
    return chart_of(
        _PLACES,
        "Chance that a candidate is the first that differs",
        [
            {
                "type": "bar",
                "name": "chance",
                "x": [word(name) for name in places],
                "y": [100 * chance for chance in places.values()],
                "color": 0,
            }
        ],
        x="",
        y="%",
        zero=True,
    )


def _runs(answer: SearchAnswer) -> Chart:
    """Return each run's value, and the median of each candidate that was measured."""
    names = [name for name in answer.names if answer.values(name)]
    return chart_of(
        _RUNS,
        f"{word(answer.metric)} of every run ({answer.better.value} is better)",
        [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "median",
                "x": [word(name) for name in names],
                "y": [median(answer.values(name)) for name in names],
                "color": 5,
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "runs",
                "x": [word(name) for name in names for _ in answer.values(name)],
                "y": [value for name in names for value in answer.values(name)],
                "color": 0,
            },
        ],
        x="",
        y=word(answer.unit),
        zero=False,
    )
