"""The report of a search in a list of candidates, such as versions, for the first that differs.

It has the answer, and all measurements.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from replayer.experiments.search_answer import ALIKE
from replayer.report.document import Curve, Document, Figure, Section, Table
from replayer.run.display import Sentence
from replayer.units import show, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replayer.experiments.search_answer import SearchAnswer

_HEADINGS = ("candidate", "first that differs", "runs", "median", "values")
_MOST_NAMED = 12


def document(answer: SearchAnswer) -> Document:
    """Return the report of a search for the first candidate that differs, such as a version."""
    headline, *lead = _sentences(answer)
    measured = [name for name in answer.names if answer.values(name)]
    others = [name for name in answer.names if not answer.values(name)]
    values = [
        (
            run.candidate,
            answer.chances.get(run.candidate, "") if answer.differs else "",
            run.value,
            answer.metric,
            answer.unit,
        )
        for run in answer.runs
    ]
    return Document(
        f"bisect {answer.name}",
        Sentence(headline),
        [
            *([Section("Where the change is", [_places(answer)])] if answer.differs else []),
            Section(
                f"{answer.metric} of each candidate",
                [_runs(answer, measured), _table(answer, measured)],
            ),
            Section(
                f"{len(others)} without a run",
                [_table(answer, others)],
                is_folded=True,
                is_for_page=True,
            ),
        ],
        lead=lead,
        notes=list(_remarks(answer)),
        is_answer_last=True,
        data=[("candidate", "first_that_differs", "value", "metric", "unit"), *values],
    )


def _sentences(answer: SearchAnswer) -> Iterator[str]:
    """Yield the sentences of the answer, the most important one first.

    They name the candidate found, or the candidates that are left and the cost to continue.  If the
    first and the last candidate do not differ, or were not shown to, one sentence reports that.
    """
    if answer.found is not None:
        yield (
            f"{answer.found} is the first that is {_word(answer)}: {answer.metric} "
            f"{answer.change:+.1%} ({answer.chance:.0%} sure, after {len(answer.runs)} runs)"
        )
        return
    if answer.reason == ALIKE:
        yield alike(answer)
        return
    if answer.differs:
        yield from _left(answer)
    else:
        yield _not_shown(answer)
        yield "the two ends are measured in turns until that is known; --resume continues"
    if answer.reason:
        yield answer.reason


def _left(answer: SearchAnswer) -> Iterator[str]:
    """Yield sentences on the places at which the change may be, and on the cost to decide."""
    left = answer.left
    few = ", ".join(left) if len(left) <= _MOST_NAMED else f"{left[0]} … {left[-1]}"
    yield f"not found yet; {len(left)} of {len(answer.names) - 1} places are left with 95 %: {few}"
    yield f"{_cost(answer)}; --resume continues"


def _not_shown(answer: SearchAnswer) -> str:
    """Return a sentence that it is not known yet if the first and the last candidate differ."""
    first, last = answer.names[0], answer.names[-1]
    if answer.ends_low is None or answer.ends_high is None:
        return f"unclear: whether {first} and {last} differ is known at the soonest after 4 runs"
    runs = f"{len(answer.values(first))} and {len(answer.values(last))} runs"
    return (
        f"unclear: {last} was not shown to differ from {first} in {answer.metric} "
        f"({answer.ends_low:+.1%} to {answer.ends_high:+.1%}, {runs}), so no place of a change is "
        f"named"
    )


def alike(answer: SearchAnswer) -> str:
    """Return a sentence on the largest difference of the first and the last candidate.

    A larger one is excluded.  A smaller one may be there, and is not searched.
    """
    most = max(abs(answer.ends_low or 0.0), abs(answer.ends_high or 0.0))
    return (
        f"{answer.names[0]} and {answer.names[-1]} do not differ in {answer.metric} by more than "
        f"{most:.1%} ({len(answer.runs)} runs): a larger change is excluded, a smaller one may be "
        f"there"
    )


def _table(answer: SearchAnswer, names: Sequence[str]) -> Table:
    """Return a table with a row for each candidate in `names`.

    A row has the chance that it is the first that differs, which is blank unless the ends differ,
    and the values of its runs.
    """
    rows = []
    for name in names:
        values = answer.values(name)
        chance = f"{answer.chances[name]:.0%}" if name in answer.chances else "the one before"
        chance = chance if answer.differs else ""
        middle = show(median(values), answer.unit) if values else ""
        texts = ", ".join(show(value, answer.unit) for value in values)
        rows.append((name, chance, str(len(values)), middle, texts))
    return Table(_HEADINGS, rows, numbers=(1, 2, 3))


def _remarks(answer: SearchAnswer) -> Iterator[str]:
    """Yield remarks: the noise between runs, the folder of results, what disturbed the runs."""
    noise = "" if answer.noise is None else f"noise between runs {answer.noise:.1%}; "
    yield f"{noise}the runs are in {answer.results}/"
    if answer.busy:
        yield f"{answer.busy} runs were next to other programs, which is noise, too"
    if 1 < answer.boots < len(answer.runs):
        yield (
            f"the runs are of {answer.boots} boots: what one boot does to all of its runs may look "
            f"like the change"
        )


def _cost(answer: SearchAnswer) -> str:
    time = "" if answer.seconds_left is None else f", {show_duration(answer.seconds_left)}"
    return f"to separate them takes about {answer.runs_left} more runs{time}"


def _word(answer: SearchAnswer) -> str:
    return {True: "worse", False: "better", None: "different"}[answer.worse]


def _places(answer: SearchAnswer) -> Figure:
    """Return a chart of probabilities: that the change is at each candidate, and that none is."""
    places = {**answer.chances, "no change": answer.no_change}
    chances = [100 * chance for chance in places.values()]
    return Figure(
        "places",
        "Chance that a candidate is the first that differs",
        [Curve("chance", list(places), chances, kind="bar")],
        y="%",
        axes={"zero": True},
    )


def _runs(answer: SearchAnswer, names: Sequence[str]) -> Figure:
    """Return a chart of each run's value, and of the median of each candidate in `names`."""
    values = [(name, value) for name in names for value in answer.values(name)]
    medians = [median(answer.values(name)) for name in names]
    x, y = zip(*values, strict=True)
    return Figure(
        "runs",
        f"{answer.metric} of every run ({answer.better.value} is better)",
        [
            Curve("median", names, medians, kind="line", color=5),
            Curve("runs", x, y, kind="points"),
        ],
        y=answer.unit,
        axes={"zero": False},
    )
