"""The report of a comparison, at most 100 columns wide.

It shows first all other differences of the two sides, then the verdict on every metric.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from replayer.analysis.differences import multiple_testing
from replayer.analysis.differences.comparison import Comparison, MetricRow
from replayer.analysis.differences.environment import Difference, Sort
from replayer.analysis.differences.finding import with_headline
from replayer.analysis.differences.samples import Unit
from replayer.report.documents import explanation as words_why
from replayer.report.sanitize import sanitize, short
from replayer.report.terminal.comparison_answer import ComparisonAnswer, answer
from replayer.report.terminal.tables import (
    INDENT,
    WIDEST,
    Fitting,
    Flow,
    indented,
    line,
    pairs,
)
from replayer.report.terminal.verdict_words import judged, limits, name_verdict, style_of
from replayer.report.writers import terminal_writer
from replayer.units import show

SORTS = {
    Sort.ASKED: "asked for",
    Sort.EXPLAINS: "may explain a difference",
    Sort.NOISE: "noise",
    Sort.REFUSED: "not the same work",
}
_MOST_WARNINGS = 12
_VALUE_WIDTH = 30


def shortened(comparison: Comparison, names: Mapping[str, str]) -> Comparison:
    """Return a copy of a comparison with other names of its sides; `names` is old -> new.

    A side without a new name gets its own name in a shorter form.
    """
    sides = {
        role: group.model_copy(update={"name": names.get(group.name, short(group.name))})
        for role, group in (("base", comparison.base), ("other", comparison.other))
    }
    return with_headline(comparison.model_copy(update=sides))


def render(comparison: Comparison, asked: str = "", *, full: bool = False) -> Group:
    """Return the report of a comparison: its answer, with `full` below every detail.

    `asked` is the command that makes this comparison, which the next steps name.
    """
    comparison = shortened(comparison, {})
    details = [*_details(comparison), ""] if full else []
    return Group(*details, *_answer(comparison, asked, full=full))


def _details(comparison: Comparison) -> Iterator[RenderableType]:
    yield from _head(comparison)
    yield from _differences(comparison)
    yield from _warnings(comparison.warnings)
    for step in dict.fromkeys(row.step for row in comparison.rows):
        rows = [row for row in comparison.rows if row.step == step]
        yield ""
        yield Rule(Text(_heading(rows[0]), style="bold"), align="left", style="dim")
        table = Padding(_table(rows, comparison), (0, 0, 0, INDENT), expand=False)
        flow = indented((row_name(row), Flow(_flow(row, comparison))) for row in rows)
        yield Fitting(table, flow)
        whys = [words_why.section(why, comparison) for why in comparison.why if why.step == step]
        yield from terminal_writer.show_parts(whys)
    yield ""
    yield from _tail(comparison)


def _answer(comparison: Comparison, asked: str, *, full: bool) -> Iterator[RenderableType]:
    """Yield the answer: a table of what differs, what to know of it, and last one sentence."""
    one = answer(comparison, asked, full=full)
    yield Rule(Text("the answer", style="bold"), align="left", style="dim")
    yield Text(one.scope)
    if one.rows:
        yield ""
        plain = Fitting(_answer_table(one), indented(map(_answer_flow, one.rows)))
        judged_rows = any(bar.strip("·│") for bar in one.bars)
        yield Fitting(_answer_table(one, bars=True), plain, WIDEST) if judged_rows else plain
    if one.rest:
        yield line(one.rest, style="dim")
    if one.remarks:
        yield ""
        yield pairs([(label, Text(words)) for label, words in one.remarks])
    yield ""
    if one.next:
        yield pairs(one.next)
    yield Text(sanitize(comparison.headline), style="bold")


def _answer_table(one: ComparisonAnswer, *, bars: bool = False) -> Padding:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, heading in enumerate(one.headings):
        right = 0 < number < len(one.headings) - 2
        table.add_column(
            Text(heading),
            justify="right" if right else "left",
            no_wrap=number < len(one.headings) - 1 or bars,
        )
    if bars:
        table.add_column(Text("better │ worse"), no_wrap=True)
    for row, bar, style in zip(one.rows, one.bars, one.styles, strict=True):
        shown = [Text(f" {bar}", style=style)] if bars else []
        table.add_row(*map(Text, row[:-1]), Text(row[-1], style=style), *shown)
    return Padding(table, (0, 0, 0, INDENT), expand=False)


def _answer_flow(row: Sequence[str]) -> tuple[str, Flow]:
    """Return a row for a terminal that is too narrow for the table."""
    name, base, other, ratio, interval, words = row
    times = f"{ratio}{f' ({interval})' if interval else ' times'}" if ratio else ""
    return name, Flow([text for text in (f"{base} -> {other}", times, words) if text])


def sentence(comparison: Comparison) -> str:
    """Return the number of metrics with each verdict, in one line; repeated facts do not count."""
    rows = [row for row in comparison.rows if row.verdict is not None]
    known = {(row.step, row.metric) for row in rows}
    # A metric that repeats another one is not a second fact.
    names = [name_verdict(row) for row in rows if (row.step, row.says) not in known]
    counts = Counter(names)
    words = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing to judge"
    return f"{sanitize(comparison.other.name)} against {sanitize(comparison.base.name)}: {words}"


def explained(comparison: Comparison) -> list[str]:
    """Return the legend of the table, one text per topic."""
    names = f"{sanitize(comparison.other.name)} / {sanitize(comparison.base.name)}"
    unit = comparison.unit.value
    ratio = (
        f"Ratio: {names}, the median over all pairs of {unit}s, with its 95 % interval "
        f"(Hodges-Lehmann)."
    )
    if not comparison.family:
        few = f"Better, worse: so few {unit}s can never show them, so nothing was tested."
        return [ratio, few, f"Unclear: N more {unit}s of each side would settle it."]
    here = "" if comparison.decides else " in these runs"
    different = (
        f"Better, worse{here}: a rank test at 5 %, corrected for "
        f"{_count(comparison.family, 'metric')} (Westfall-Young), the leading ones first."
    )
    likely = (
        f"Likely: alone it would count, with the correction not; of those that are called likely "
        f"one in {1 / multiple_testing.FALSE_LIKELY:g} is chance, at most, on average "
        f"(Benjamini-Hochberg).  Intervals are each metric's own, without the correction."
    )
    other = "" if comparison.unit is Unit.BOOT else ", and boots of one kernel may differ as much"
    scope = "" if comparison.decides else f" in these runs{other}"
    same = (
        f"Same: the interval lies within {comparison.threshold * 100:g} %{scope}.  Unclear: "
        f"nothing was shown, which is not the same as no difference; N more: {unit}s of each side."
    )
    return [ratio, different, *([likely] if comparison.family > 1 else []), same]


def _head(comparison: Comparison) -> Iterator[RenderableType]:
    yield Text(sentence(comparison), style="bold")
    yield pairs(
        [
            (sanitize(group.name), f"{_count(len(group.runs), 'run')}{_boots(group.boots)}{role}")
            for group, role in ((comparison.base, ", the base"), (comparison.other, ""))
        ]
    )
    yield Text(comparison.worth)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _boots(boots: int) -> str:
    return f" in {_count(boots, 'boot')}" if boots else ""


def _differences(comparison: Comparison) -> Iterator[RenderableType]:
    yield ""
    yield Rule(Text("what else differs", style="bold"), align="left", style="dim")
    for sort in (Sort.ASKED, Sort.EXPLAINS):
        of_sort = [one for one in comparison.differences if one.sort is sort]
        yield line(f"{SORTS[sort]}:" if of_sort else f"{SORTS[sort]}: nothing")
        if of_sort:
            yield Padding(_facts(of_sort, comparison), (0, 0, 0, 2 * INDENT), expand=False)
    noise = [sanitize(one.key) for one in comparison.differences if one.sort is Sort.NOISE]
    if noise:
        yield line(f"{SORTS[Sort.NOISE]}: {', '.join(noise)}", style="dim")


def _facts(differences: Sequence[Difference], comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    for group in (comparison.base, comparison.other):
        table.add_column(Text(sanitize(group.name)), max_width=_VALUE_WIDTH, overflow="fold")
    for one in differences:
        table.add_row(Text(sanitize(one.key)), Text(values(one.base)), Text(values(one.other)))
    return table


def values(distinct: Iterable[str]) -> str:
    """Return the values that a fact has on one side; of many values, only the first four."""
    known = [sanitize(value) for value in distinct]
    return " | ".join(known[:4]) + (f" | … {len(known) - 4} more" if len(known) > 4 else "")


def _warnings(warnings: Sequence[str]) -> Iterator[RenderableType]:
    if not warnings:
        return
    yield ""
    yield Rule(Text("attention", style="bold yellow"), align="left", style="dim")
    for warning in warnings[:_MOST_WARNINGS]:
        yield line(sanitize(warning))
    if len(warnings) > _MOST_WARNINGS:
        yield line(f"and {len(warnings) - _MOST_WARNINGS} more, all of them with --json")


def _table(rows: Sequence[MetricRow], comparison: Comparison) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", overflow="fold", no_wrap=all(len(row.metric) < 40 for row in rows))
    for name in (comparison.base.name, comparison.other.name):
        table.add_column(Text(sanitize(name)[:16]), justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("95 % interval", no_wrap=True)
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("", overflow="fold", min_width=8)
    for row in rows:
        table.add_row(*_cells(row, comparison))
    return table


def row_name(row: MetricRow) -> str:
    """Return a metric's name without the step's name at its begin."""
    return sanitize(row.metric.partition(".")[2] or row.metric)


def _flow(row: MetricRow, comparison: Comparison) -> list[str]:
    """Return a row of the table as short texts, for a terminal that is too narrow for the table."""
    cells = [text.plain for text in _cells(row, comparison)]
    _, base, other, ratio, interval, p, words = cells
    inside = f" ({interval})" if interval else ""
    shown = [f"{base} -> {other}", f"ratio {ratio}{inside}" if ratio else "", words]
    return [text for text in (*shown, f"p {p}" if p else "") if text]


def _heading(row: MetricRow) -> str:
    """Return a step's name, followed by the kind of step if that is another word."""
    kind = row.metric.partition(".")[0]
    return sanitize(row.step) if kind == row.step else f"{sanitize(row.step)} ({sanitize(kind)})"


def _cells(row: MetricRow, comparison: Comparison) -> list[Text]:
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    p = "" if row.p_holm is None else "<0.001" if row.p_holm < 0.001 else f"{row.p_holm:.3f}"
    return [
        Text(row_name(row)),
        Text(show(row.base, row.unit)),
        Text(show(row.other, row.unit)),
        Text(ratio),
        Text(limits(row)),
        Text(p),
        Text(judged(row, comparison), style=style_of(row)),
    ]


def _tail(comparison: Comparison) -> Iterator[RenderableType]:
    for words in (*explained(comparison), *words_why.explained(comparison)):
        yield Text(words, style="dim")
