"""The report of a comparison, at most 100 columns wide.

It shows first all other differences of the two sides, then the verdict on every metric.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from replayer.analysis.differences import multiple_testing, statistics
from replayer.analysis.differences.comparison import (
    LIKELY,
    SHOWN,
    Comparison,
    MetricRow,
    MetricVerdict,
)
from replayer.analysis.differences.environment import Difference, Sort
from replayer.analysis.differences.samples import Unit
from replayer.model import Better
from replayer.report.sanitize import sanitize, short
from replayer.report.terminal import explanation as words_why
from replayer.report.terminal.tables import INDENT, Fitting, Flow, indented, line, pairs
from replayer.units import show

STYLE = {
    MetricVerdict.BETTER: "bold green",
    MetricVerdict.WORSE: "bold red",
    MetricVerdict.SAME: "cyan",
    MetricVerdict.UNCLEAR: "yellow",
    MetricVerdict.DIFFERS: "bold",
    MetricVerdict.ALIKE: "",
    MetricVerdict.LIKELY_BETTER: "green",
    MetricVerdict.LIKELY_WORSE: "red",
    MetricVerdict.LIKELY_DIFFERS: "",
}
SORTS = {
    Sort.ASKED: "asked for",
    Sort.EXPLAINS: "may explain a difference",
    Sort.NOISE: "noise",
    Sort.REFUSED: "not the same work",
}
_MOST_WARNINGS = 12
_MOST_NAMED = 2
"""The most metrics that the first sentence names."""
_VALUE_WIDTH = 30


def shortened(comparison: Comparison, names: Mapping[str, str]) -> Comparison:
    """Return a copy of a comparison with other names of its sides; `names` is old -> new.

    A side without a new name gets its own name in a shorter form.
    """
    sides = {
        role: group.model_copy(update={"name": names.get(group.name, short(group.name))})
        for role, group in (("base", comparison.base), ("other", comparison.other))
    }
    return comparison.model_copy(update=sides)


def render(comparison: Comparison) -> Group:
    """Return the report of a comparison."""
    comparison = shortened(comparison, {})
    parts: list[RenderableType] = [*_head(comparison), *_differences(comparison)]
    parts += _warnings(comparison.warnings)
    for step in dict.fromkeys(row.step for row in comparison.rows):
        rows = [row for row in comparison.rows if row.step == step]
        parts += ["", Rule(Text(_heading(rows[0]), style="bold"), align="left", style="dim")]
        table = Padding(_table(rows, comparison), (0, 0, 0, INDENT), expand=False)
        parts.append(
            Fitting(table, indented((row_name(row), Flow(_flow(row, comparison))) for row in rows))
        )
        parts += _why(comparison, step)
    return Group(*parts, "", *_tail(comparison))


def sentence(comparison: Comparison) -> str:
    """Return the number of metrics with each verdict, in one line."""
    judged = [row.verdict for row in comparison.rows if row.verdict is not None]
    counts = [(verdict.value, judged.count(verdict)) for verdict in MetricVerdict]
    words = ", ".join(f"{count} {word}" for word, count in counts if count) or "nothing to judge"
    return f"{sanitize(comparison.other.name)} against {sanitize(comparison.base.name)}: {words}"


def verdict_first(comparison: Comparison) -> str:
    """Return the finding in one sentence: the largest differences, and how many are unclear."""
    base, other = sanitize(comparison.base.name), sanitize(comparison.other.name)
    judged = [row for row in comparison.rows if row.verdict is not None]
    apart = [row for row in judged if row.verdict in SHOWN and row.ratio is not None]
    # Leading metrics come first, before metrics that repeat the same information.
    apart.sort(key=lambda row: (not row.leading, -abs(row.change or 0.0)))
    rest = f"{_likely(judged)}{_rest(judged, len(apart))}{_turns(comparison)}"
    if not apart:
        return f"{other} was shown to be neither better nor worse than {base}{rest}"
    shown = "; ".join(_moved(row) for row in apart[:_MOST_NAMED])
    more = f"; {len(apart) - _MOST_NAMED} more differ" if len(apart) > _MOST_NAMED else ""
    return f"{other} against {base}: {shown}{more}{rest}"


def _likely(judged: Sequence[MetricRow]) -> str:
    """Return the likely differences: the first by its name, then the number of others."""
    likely = [row for row in judged if row.verdict in LIKELY]
    likely.sort(key=lambda row: (not row.leading, -abs(row.change or 0.0)))
    if not likely:
        return ""
    first = likely[0]
    named = (
        f"{sanitize(first.title)} {first.ratio:.3g} times" if first.ratio else sanitize(first.title)
    )
    more = f" and {len(likely) - 1} more" if len(likely) > 1 else ""
    return f"; {first.verdict.value if first.verdict else ''}: {named}{more}"


def _turns(comparison: Comparison) -> str:
    """Return a warning if the two sides were not booted in turns, else "".

    Then the boots prove nothing beyond these runs, as the machine may have changed meanwhile.
    """
    if comparison.unit is not Unit.BOOT or comparison.turns:
        return ""
    return "; one came after the other, so that is all it shows: take turns"


def _moved(row: MetricRow) -> str:
    """Return a metric's change in words: its size, its direction, and whether that is better."""
    share = (row.ratio or 1.0) - 1
    how = f"{abs(share):.1%}" if share < 1 else f"{row.ratio:.3g} times"
    way = "less" if share < 0 else "more" if share < 1 else "as much"
    worse = (row.change or 0.0) > 0
    in_these = " in these runs" if row.verdict is MetricVerdict.DIFFERS else ""
    good = "" if row.better is Better.NEITHER else f", which is {'worse' if worse else 'better'}"
    return f"{sanitize(row.title)} {how} {way}{good}{in_these}"


def _rest(judged: Sequence[MetricRow], apart: int) -> str:
    same = sum(row.verdict in (MetricVerdict.SAME, MetricVerdict.ALIKE) for row in judged)
    likely = sum(row.verdict in LIKELY for row in judged)
    unclear = len(judged) - apart - same - likely
    words = [f"{same} the same" if same else "", f"{unclear} unclear" if unclear else ""]
    counts = " and ".join(filter(None, words))
    return f"; {counts} of {_count(len(judged), 'metric')}" if counts else ""


def verdict(row: MetricRow, unit: Unit = Unit.RUN) -> str:
    """Return a row's verdict in words; if it is uncertain, with the samples needed to decide."""
    if row.verdict is None:
        return ""
    few = min(len(row.base_values), len(row.other_values))
    if row.verdict in LIKELY:
        shown = f"; {few + row.more} {unit.value}s a side can show it" if row.more else ""
        return f"{row.verdict.value}{shown}"
    if row.verdict is not MetricVerdict.UNCLEAR or (row.note and row.more is None):
        return row.verdict.value
    if row.more is None:
        unknown = row.ratio is None or few < 2
        return "unclear" if unknown else f"unclear, over {statistics.MOST:,} more"
    return f"unclear, ~{row.more} more"


def judged(row: MetricRow, comparison: Comparison) -> str:
    """Return a row's verdict in words, with the note that explains it."""
    words = verdict(row, comparison.unit)
    return f"{words} ({row.note})" if row.note else words


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
    different = (
        f"{'Better, worse' if comparison.decides else 'Differs'}: a rank test at 5 %, corrected "
        f"for {_count(comparison.family, 'metric')} (Westfall-Young), the leading ones first."
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


def _why(comparison: Comparison, step: str) -> Iterator[RenderableType]:
    """Yield the parts of a step's account that moved, and their possible causes."""
    for why in comparison.why:
        if why.step == step:
            section = words_why.section(why, comparison)
            yield line(f"why: {section.sentence}", "bold")
            yield from map(line, section.remarks)


def _heading(row: MetricRow) -> str:
    """Return a step's name, followed by the kind of step if that is another word."""
    kind = row.metric.partition(".")[0]
    return sanitize(row.step) if kind == row.step else f"{sanitize(row.step)} ({sanitize(kind)})"


def limits(row: MetricRow) -> str:
    """Return a row's interval in words; an end of 1,000 or more is shown as "over 1,000"."""
    if row.low is None or row.high is None:
        return ""
    return " to ".join(f"{end:.3f}" if end < 1000 else "over 1,000" for end in (row.low, row.high))


def _cells(row: MetricRow, comparison: Comparison) -> list[Text]:
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    p = "" if row.p_holm is None else "<0.001" if row.p_holm < 0.001 else f"{row.p_holm:.3f}"
    style = STYLE[row.verdict] if row.verdict else ""
    return [
        Text(row_name(row)),
        Text(show(row.base, row.unit)),
        Text(show(row.other, row.unit)),
        Text(ratio),
        Text(limits(row)),
        Text(p),
        Text(judged(row, comparison), style=style),
    ]


def _tail(comparison: Comparison) -> Iterator[RenderableType]:
    for words in (*explained(comparison), *words_why.explained(comparison)):
        yield Text(words, style="dim")
