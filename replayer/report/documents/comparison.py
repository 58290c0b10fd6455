"""The report of a comparison: answer, every metric, where the time went, other differences."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from replayer.analysis.differences import multiple_testing
from replayer.analysis.differences.comparison import LIKELY, SHOWN, Comparison, MetricRow
from replayer.analysis.differences.environment import Sort
from replayer.analysis.differences.finding import has_too_few, with_headline
from replayer.analysis.differences.metric_names import name_ratio
from replayer.analysis.differences.samples import Unit
from replayer.report.document import Bullets, Document, Facts, Part, Section, Table
from replayer.report.documents import csv_rows, ratio_chart, replays
from replayer.report.documents import explanation as words_why
from replayer.report.documents.comparison_answer import answer
from replayer.report.documents.verdict_words import judged, limits, name_verdict, tone_of
from replayer.report.sanitize import sanitize, short
from replayer.run.display import Sentence, Tone
from replayer.units import show, show_with_noun

_SORTS = {
    Sort.ASKED: "asked for",
    Sort.EXPLAINS: "may explain a difference",
    Sort.REFUSED: "not the same work",
}
_MOST_WARNINGS = 12
_LEAST_P = 0.001


def shortened(comparison: Comparison, names: Mapping[str, str]) -> Comparison:
    """Return a copy of a comparison whose sides are renamed; `names` is old name -> new name.

    A side without a new name gets its own name in a shorter form.
    """
    sides = {
        role: group.model_copy(update={"name": names.get(group.name, short(group.name))})
        for role, group in (("base", comparison.base), ("other", comparison.other))
    }
    return with_headline(comparison.model_copy(update=sides))


def document(
    comparison: Comparison,
    asked: str = "",
    *,
    full: bool = True,
    functions: Sequence[Part] = (),
    width: int = replays.WIDTH,
) -> Document:
    """Return the report of a comparison: its answer and, with `full`, every detail.

    `asked` is the command line that makes this comparison; it is the base of the commands that the
    report suggests next.  `functions` are parts on the differences of the CPU profiles, for a page.
    `width` is the number of characters to which statements are cut.
    """
    data = [*csv_rows.compared(comparison)]
    comparison = shortened(comparison, {})
    return Document(
        f"{comparison.other.name} against {comparison.base.name}",
        Sentence(sanitize(comparison.headline)),
        [
            *(_details(comparison, functions) if full else ()),
            *replays.sections(comparison, width=width),
        ],
        answer=answer(comparison, asked, full=full),
        is_answer_last=True,
        data=data,
    )


def differing(comparison: Comparison) -> frozenset[str]:
    """Return the names of the steps that have a metric which differs or likely differs."""
    return frozenset(row.step for row in comparison.rows if row.verdict in SHOWN | LIKELY)


def _details(comparison: Comparison, functions: Sequence[Part]) -> Iterator[Section]:
    yield Section("What else differs", [*_environment(comparison)], is_main=True, on_page=-1)
    warnings = Bullets(comparison.warnings, most=_MOST_WARNINGS)
    yield Section("Attention", [warnings], is_main=True, on_page=-4)
    yield Section("Every metric", [*_metrics(comparison)], is_main=True, on_page=-3)
    if comparison.why or functions:
        whys = [words_why.section(why, comparison) for why in comparison.why]
        legend = [Sentence(text, Tone.QUIET) for text in words_why.explained(comparison)]
        yield Section("Why", [*whys, *legend, *functions], is_main=True, on_page=-2)


def _environment(comparison: Comparison) -> Iterator[Part]:
    """Yield a table for each group of differences between the environments of the two sides.

    Differences that are only noise are named in one line at the end.
    """
    headings = ("fact", comparison.base.name, comparison.other.name)
    for sort, title in _SORTS.items():
        rows = [
            (one.key, values(one.base), values(one.other))
            for one in comparison.differences
            if one.sort is sort
        ]
        if rows:
            yield Section(title, [Table(headings, rows)])
    noise = [one.key for one in comparison.differences if one.sort is Sort.NOISE]
    if len(noise) == len(comparison.differences):
        yield Sentence("Nothing that is known.")
    if noise:
        yield Sentence(f"noise: {', '.join(noise)}", Tone.QUIET)


def _metrics(comparison: Comparison) -> Iterator[Part]:
    """Yield parts about metrics: the verdict on each metric of each step, and how to read it.

    On a page, the sections of steps without a difference are closed until a reader opens them.
    """
    yield Sentence(sentence(comparison))
    sides = (comparison.base, ", the base"), (comparison.other, "")
    yield Facts(
        [
            (side.name, f"{show_with_noun(len(side.runs), 'run')}{_boots(side.boots)}{role}")
            for side, role in sides
        ]
    )
    yield Sentence(comparison.worth)
    different = differing(comparison)
    for step in dict.fromkeys(row.step for row in comparison.rows):
        rows = [row for row in comparison.rows if row.step == step]
        note = f"{show_with_noun(len(rows), 'metric')} without a difference that was shown"
        yield Section(
            _heading(rows[0]),
            [_table(rows, comparison)],
            is_folded=step not in different,
            is_printed=True,
            note="" if step in different else note,
        )
    if chart := ratio_chart.intervals(comparison):
        yield Section("All ratios in one chart", [chart], is_folded=True, is_for_page=True)
    legend = [Sentence(text, Tone.QUIET) for text in explained(comparison)]
    yield Section("How to read it", legend)


def _table(rows: Sequence[MetricRow], comparison: Comparison) -> Table:
    names = (sanitize(side.name)[:16] for side in (comparison.base, comparison.other))
    return Table(
        ("", *names, "ratio", "95 % interval", "p", "verdict"),
        [_cells(row, comparison) for row in rows],
        numbers=(1, 2, 3, 5),
        tones=[*map(tone_of, rows)],
        is_last_folded=True,
    )


def _cells(row: MetricRow, comparison: Comparison) -> list[str]:
    p = row.p_holm
    return [
        row.metric,
        show(row.base, row.unit),
        show(row.other, row.unit),
        name_ratio(row.ratio),
        limits(row),
        "" if p is None else "<0.001" if p < _LEAST_P else f"{p:.3f}",
        judged(row, comparison),
    ]


def sentence(comparison: Comparison) -> str:
    """Return a line with the two sides and the number of metrics for each verdict.

    A metric that states the same fact as another metric is not counted.
    """
    rows = [row for row in comparison.rows if row.verdict is not None]
    known = {(row.step, row.metric) for row in rows}
    # A metric that repeats another one is not a second fact.
    names = [name_verdict(row) for row in rows if (row.step, row.says) not in known]
    counts = Counter(names)
    words = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing to judge"
    return f"{sanitize(comparison.other.name)} against {sanitize(comparison.base.name)}: {words}"


def explained(comparison: Comparison) -> list[str]:
    """Return the legend of a comparison's table of metrics: texts on the ratio and the verdicts."""
    names = f"{sanitize(comparison.other.name)} / {sanitize(comparison.base.name)}"
    unit = comparison.unit.value
    ratio = (
        f"Ratio: {names}, the median over all pairs of {unit}s, with its 95 % interval "
        f"(Hodges-Lehmann)."
    )
    if has_too_few(comparison):
        few = f"Better, worse: so few {unit}s can never show them, so nothing was tested."
        return [ratio, few, f"Unclear: N more {unit}s of each side would settle it."]
    if not comparison.family and comparison.unjudged:
        return [ratio]
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
    return [ratio, _tested(comparison), *([likely] if comparison.family > 1 else []), same]


def _tested(comparison: Comparison) -> str:
    """Return a text on how it was tested whether metrics are better or worse."""
    here = "" if comparison.decides else " in these runs"
    if not comparison.family:
        enough = f"enough {comparison.unit.value}s"
        return f"Better, worse{here}: no metric with {enough} varied, so nothing was tested."
    return (
        f"Better, worse{here}: a rank test at 5 %, corrected for "
        f"{show_with_noun(comparison.family, 'metric')} (Westfall-Young), the leading ones first."
    )


def _boots(boots: int) -> str:
    return f" in {show_with_noun(boots, 'boot')}" if boots else ""


def values(distinct: Iterable[str]) -> str:
    """Return the different values of a fact on one side as one text.

    Of more than four, the first four are shown, and the number of the others.
    """
    known = [sanitize(value) for value in distinct]
    return " | ".join(known[:4]) + (f" | … {len(known) - 4} more" if len(known) > 4 else "")


def _heading(row: MetricRow) -> str:
    """Return the name of a row's step, followed by the step's kind if that is another word."""
    kind = row.metric.partition(".")[0]
    return sanitize(row.step) if kind == row.step else f"{sanitize(row.step)} ({sanitize(kind)})"
