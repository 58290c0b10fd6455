"""The head of a page: a summary of runs that shows the findings on one screen."""

from collections.abc import Iterator, Sequence

from replayer.analysis.differences.samples import Side
from replayer.report.pages.markup import escaped
from replayer.report.terminal.step_summary import Remark, RunsSummary, StepSummary, Trust
from replayer.report.terminal.summary import summarise
from replayer.units import show_duration

_CLASSES = {Trust.YES: "better", Trust.CARE: "care", Trust.NO: "worse"}
_MOST_POINTS = 8
"""The most remarks that are shown; the others are folded."""
_MOST_SIDES = 8


def head(sides: Sequence[Side]) -> Iterator[str]:
    """Yield the summary of each side as HTML: facts, a line per step, and remarks."""
    for side in sides[:_MOST_SIDES]:
        one = summarise(side.runs)
        if len(sides) > 1:
            yield f"<h2>{escaped(side.name)}</h2>"
        if side.runs:
            yield f'<p class="verdict">{escaped(str(one.headline))}</p>'
        yield from in_short(one)
    if len(sides) > _MOST_SIDES:
        yield f'<p class="quiet">and {len(sides) - _MOST_SIDES} more groups</p>'


def in_short(one: RunsSummary) -> Iterator[str]:
    """Yield a summary as HTML."""
    yield about(one)
    yield steps(one.lines)
    yield from _points(one)


def about(one: RunsSummary) -> str:
    """Return the facts about workload, host and engine as an HTML list."""
    items = "".join(
        f"<div><dt>{escaped(label)}</dt><dd>{escaped(value)}</dd></div>"
        for label, value in one.about
    )
    return f'<dl class="about">{items}</dl>'


def steps(lines: Sequence[StepSummary]) -> str:
    """Return an HTML table of the steps; on a narrow page each step is a block, not a row."""
    headings = ("step", "measured", "proof", "believe it?", "took")
    head_ = "".join(f"<th>{heading}</th>" for heading in headings)
    rows = "".join(map(_row, lines))
    return (
        f'<table class="steps"><thead><tr>{head_}</tr></thead><tbody>{rows}</tbody></table>'
        if lines
        else '<p class="attention">No step was begun.</p>'
    )


def _row(one: StepSummary) -> str:
    name = escaped(one.name) + (
        f' <span class="quiet">{escaped(one.kind)}</span>' if one.kind else ""
    )
    first, *others = (
        (*one.brief.results, one.brief.did) if one.brief.results else one.figures or ("",)
    )
    many = f"medians of {one.repeats}" if one.repeats > 1 else ""
    beside = " · ".join(escaped(words) for words in (*others, many) if words)
    proofs = "<br>".join(
        f'<span class="{"good" if proof.good else "bad"}">{escaped(proof.text)}</span>'
        for proof in one.proofs
    )
    believe = one.trust.value + (f": see {', '.join(map(str, one.see))}" if one.see else "")
    return (
        f"<tr><th>{name}</th>"
        f'<td><strong>{escaped(first)}</strong> <span class="quiet">{beside}</span></td>'
        f"<td>{proofs or _nothing()}</td>"
        f'<td class="{_CLASSES[one.trust]}">{escaped(believe)}</td>'
        f'<td class="number">{escaped(show_duration(one.seconds))}</td></tr>'
    )


def _nothing() -> str:
    return '<span class="quiet">nothing to prove</span>'


def _points(one: RunsSummary) -> Iterator[str]:
    if not one.points:
        return
    yield "<h3>What to know about these numbers</h3>"
    yield _list(one, one.points[:_MOST_POINTS], 1)
    rest = one.points[_MOST_POINTS:]
    if rest:
        yield f'<details class="printed"><summary>and {len(rest)} more</summary>'
        yield _list(one, rest, _MOST_POINTS + 1)
        yield "</details>"


def _list(one: RunsSummary, points: Sequence[Remark], first: int) -> str:
    items = "".join(
        f"<li{' class=bad' if point.loud else ''}>{escaped(point.text)}"
        f"{_anchor(point)}{_often(point, one.runs)}</li>"
        for point in points
    )
    return f'<ol class="points" start="{first}">{items}</ol>'


def _anchor(point: Remark) -> str:
    """Return a warning's anchor in docs/reference.md; no link: a page needs no other file."""
    return f' <span class="quiet">({escaped(point.name)})</span>' if point.name else ""


def _often(point: Remark, runs: int) -> str:
    """Return the number of runs that have a remark, maybe with other numbers; "" for one run."""
    if runs < 2 or point.runs < 2:
        return ""
    words = "every run" if point.runs == runs else f"{point.runs} of {runs} runs"
    return f' <span class="quiet">(so or with other numbers in {words})</span>'
