"""The report of a search among candidates: the answer, then what was measured of each."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from replayer.experiments.search_answer import ALIKE
from replayer.report.sanitize import sanitize
from replayer.report.text import markdown
from replayer.units import show, show_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replayer.experiments.search_answer import SearchAnswer

HEADINGS = ("candidate", "first that differs", "runs", "median", "values")
_MOST_NAMED = 12


def render(answer: SearchAnswer) -> str:
    """Return the report as lines of text, the answer last."""
    lines = [
        f"  {name}: {chance}; median {middle} of {count}: {values}"
        for name, chance, count, middle, values in rows(answer)
        if count != "0"
    ]
    lines += [*remarks(answer), *reversed([*sentences(answer)])]
    return "\n".join(sanitize(text) for text in lines)


def page(answer: SearchAnswer) -> str:
    """Return the report as Markdown."""
    parts = [markdown.plain(words) for words in sentences(answer)]
    parts.append(markdown.table(HEADINGS, rows(answer)))
    parts += [markdown.plain(words) for words in remarks(answer)]
    return "\n\n".join(parts) + "\n"


def sentences(answer: SearchAnswer) -> Iterator[str]:
    """Yield the answer, its most important sentence first."""
    if answer.found is not None:
        yield (
            f"{answer.found} is the first that is {_word(answer)}: {answer.metric} "
            f"{answer.change:+.1%} ({answer.chance:.0%} sure, after {len(answer.runs)} runs)"
        )
        return
    if answer.reason == ALIKE:
        yield alike(answer)
        return
    left = answer.left
    few = ", ".join(left) if len(left) <= _MOST_NAMED else f"{left[0]} … {left[-1]}"
    yield f"not found yet; {len(left)} of {len(answer.names) - 1} places are left with 95 %: {few}"
    yield f"{_cost(answer)}; --resume goes on"
    if answer.reason:
        yield answer.reason


def alike(answer: SearchAnswer) -> str:
    """Return a sentence that the ends do not differ."""
    return (
        f"{answer.names[0]} and {answer.names[-1]} do not differ in {answer.metric} "
        f"({answer.change:+.1%}, noise {answer.noise or 0:.1%}, no change is "
        f"{answer.no_change:.0%} likely after {len(answer.runs)} runs): there is nothing to find "
        f"between them"
    )


def rows(answer: SearchAnswer) -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each candidate."""
    for name in answer.names:
        values = answer.values(name)
        chance = f"{answer.chances[name]:.0%}" if name in answer.chances else "the one before"
        middle = show(median(values), answer.unit) if values else ""
        yield (
            name,
            chance,
            str(len(values)),
            middle,
            ", ".join(show(value, answer.unit) for value in values),
        )


def remarks(answer: SearchAnswer) -> Iterator[str]:
    """Yield sentences on the noise and on the runs."""
    noise = "" if answer.noise is None else f"noise between runs {answer.noise:.1%}; "
    yield f"{noise}the runs are in {answer.results}/"
    if answer.busy:
        yield f"{answer.busy} runs were next to other programs, which is noise, too"


def _cost(answer: SearchAnswer) -> str:
    if answer.runs_left is None:
        return "how many runs that takes is known when both ends were measured twice"
    time = "" if answer.seconds_left is None else f", {show_duration(answer.seconds_left)}"
    return f"to tell them apart takes about {answer.runs_left} more runs{time}"


def _word(answer: SearchAnswer) -> str:
    return {True: "worse", False: "better", None: "different"}[answer.worse]
