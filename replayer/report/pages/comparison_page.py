"""The parts of a page that are about a comparison: its first screen, every metric, and why."""

from collections.abc import Iterator, Sequence

from replayer.analysis.differences.comparison import LIKELY, SHOWN, Comparison, MetricRow
from replayer.analysis.differences.environment import Sort
from replayer.report.documents import explanation as words_why
from replayer.report.pages import flames
from replayer.report.pages.markup import Drawn, escaped, figures, table
from replayer.report.terminal.comparison import SORTS, explained, sentence, values
from replayer.report.terminal.comparison_answer import answer
from replayer.report.terminal.verdict_words import judged, limits
from replayer.report.writers import page_writer
from replayer.units import show

ANSWER = "comparison"
"""The name of the page's section for the chart of the answer."""
ALL = "all metrics"
"""The name of the page's section for the chart of every metric."""
DIFFERENCE = "difference {}"
"""The name of the page's section for the chart of a step's difference, with its number."""


def differing(comparison: Comparison) -> frozenset[str]:
    """Return the names of the steps of which a metric differs, or likely does."""
    return frozenset(row.step for row in comparison.rows if row.verdict in SHOWN | LIKELY)


def first_screen(comparison: Comparison, drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield the answer: headline, scope, chart, table, and what to know of it."""
    one = answer(comparison)
    yield f'<p class="verdict">{escaped(comparison.headline)}</p>'
    yield f'<p class="quiet">{escaped(one.scope)}</p>'
    yield from figures(drawn, ANSWER)
    if one.rows:
        yield '<div class="answer">'
        yield table(["metric", *one.headings[1:]], one.rows, numbers=range(1, 5))
        yield "</div>"
    if one.rest:
        rest = one.rest.removesuffix(" (--full)")
        yield f'<p class="quiet"><a href="#metrics">{escaped(rest)}</a></p>'
    yield '<dl class="about remarks">'
    label = ""
    for name, words in one.remarks:
        label = name or label
        text = words.removesuffix(" (--full)")
        yield f"<div><dt>{escaped(label)}</dt><dd>{escaped(text)}</dd></div>"
    yield "</dl>"


def warnings(comparison: Comparison) -> Iterator[str]:
    """Yield what to know about the comparison: all of its warnings."""
    if comparison.warnings:
        yield '<h2 id="attention">Attention</h2>'
        yield f"<ul>{''.join(f'<li>{escaped(words)}</li>' for words in comparison.warnings)}</ul>"


def metrics(comparison: Comparison, drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield the verdict on every metric, by step; steps without a difference are folded."""
    yield '<h2 id="metrics">Every metric</h2>'
    yield f'<p class="quiet">{escaped(sentence(comparison))}</p>'
    names = (comparison.base.name, comparison.other.name)
    headings = ["metric", *names, "ratio", "95 % interval", "p", "verdict"]
    different = differing(comparison)
    for step in dict.fromkeys(row.step for row in comparison.rows):
        rows = [row for row in comparison.rows if row.step == step]
        made = table(headings, [_row(row, comparison) for row in rows], numbers=range(1, 6))
        if step in different:
            yield f"<h3>{escaped(step)}</h3>{made}"
        else:
            counted = (
                f"{len(rows)} metric{'s' * (len(rows) > 1)} without a difference that was shown"
            )
            yield (
                f'<details class="printed"><summary>{escaped(step)}: {counted}</summary>'
                f"{made}</details>"
            )
    yield '<details class="printed"><summary>All ratios in one chart</summary>'
    yield from figures(drawn, ALL)
    yield "</details>"
    yield "".join(f'<p class="quiet">{escaped(words)}</p>' for words in explained(comparison))


def _row(row: MetricRow, comparison: Comparison) -> list[str]:
    return [
        row.metric,
        show(row.base, row.unit),
        show(row.other, row.unit),
        "" if row.ratio is None else f"{row.ratio:.3f}",
        limits(row),
        "" if row.p_holm is None else f"{row.p_holm:.3f}",
        judged(row, comparison),
    ]


def why(
    comparison: Comparison,
    differences: Sequence[flames.Differing],
    drawn: Sequence[Drawn],
    left_out: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the parts of the accounts that moved, and the differences of the CPU profiles.

    `left_out` are sentences about steps of which no functions are compared.
    """
    if not (comparison.why or differences):
        return
    yield '<h2 id="why">Why</h2>'
    sections = (words_why.section(one, comparison) for one in comparison.why)
    yield from page_writer.show_parts(sections, level=3)
    yield "".join(f'<p class="quiet">{escaped(one)}</p>' for one in words_why.explained(comparison))
    for number, difference in enumerate(differences):
        yield from figures(drawn, DIFFERENCE.format(number))
        yield f"<p>{escaped(difference.legend)}</p>"
        yield table(difference.headings, difference.rows, numbers=range(2, 5))
    yield "".join(f'<p class="quiet">{escaped(words)}</p>' for words in left_out)


def environment(comparison: Comparison) -> Iterator[str]:
    """Yield a table of what else differs between the sides."""
    yield '<h2 id="else">What else differs</h2>'
    rows = [
        [SORTS[one.sort], one.key, values(one.base), values(one.other)]
        for one in comparison.differences
        if one.sort is not Sort.NOISE
    ]
    headings = ["", "fact", comparison.base.name, comparison.other.name]
    yield table(headings, rows) if rows else "<p>Nothing that is known.</p>"
    noise = [one.key for one in comparison.differences if one.sort is Sort.NOISE]
    if noise:
        yield f'<p class="quiet">noise: {escaped(", ".join(noise))}</p>'
