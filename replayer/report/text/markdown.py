"""Reports as Markdown tables, for tickets and READMEs: runs or a comparison."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from replayer.analysis.capacity.client_hosts import bound_words
from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.environment import Sort
from replayer.analysis.differences.samples import Side
from replayer.model import Run, Status
from replayer.report.sanitize import sanitize
from replayer.report.terminal import client_hosts, replays, step_layout
from replayer.report.terminal import explanation as words_why
from replayer.report.terminal.comparison import SORTS, explained, sentence, values
from replayer.report.terminal.comparison_answer import answer
from replayer.report.terminal.summary import summarise
from replayer.report.terminal.verdict_words import judged, limits
from replayer.report.writers.markdown_writer import plain, table
from replayer.run.display import Sentence, TableRows, Verbatim
from replayer.units import show

_MOST_ROWS, _STATEMENT = 20, 100
"""The most rows of a step's own table, and characters of a statement in it."""


def page(sides: Sequence[Side], comparison: Comparison | None, refused: str = "") -> str:
    """Return the report of a comparison if there is one, else a table for each step.

    `refused` is the reason why there is no comparison; "" if none was requested.
    """
    if comparison:
        parts = _comparison(comparison)
    else:
        parts = iter([*([f"Not compared: {plain(refused)}"] if refused else []), *_runs(sides)])
    return "\n\n".join(parts) + "\n"


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield from _answer(comparison)
    yield f"**Every metric: {plain(sentence(comparison))}**"
    yield plain(comparison.worth)
    names = [comparison.base.name, comparison.other.name]
    facts = [
        [SORTS[one.sort], one.key, values(one.base), values(one.other)]
        for one in comparison.differences
        if one.sort is not Sort.NOISE
    ]
    if facts:
        yield table(["what else differs", "fact", *names], facts)
    if comparison.warnings:
        yield "\n".join(f"- {plain(words)}" for words in comparison.warnings)
    rows = [
        [
            row.title,
            show(row.base, row.unit),
            show(row.other, row.unit),
            "" if row.ratio is None else f"{row.ratio:.3f}",
            limits(row),
            "" if row.p_holm is None else f"{row.p_holm:.3f}",
            judged(row, comparison),
        ]
        for row in comparison.rows
    ]
    yield table(["metric", *names, "ratio", "95 % interval", "p", "verdict"], rows)
    yield from _why(comparison)
    for section in replays.sections(comparison):
        yield f"**{plain(section.title)}**"
        yield "\n".join(f"- {plain(words)}" for words in section.sentences)
        yield from (table([title, *names[1:]], rows) for title, names, rows in section.tables)
    yield " ".join(plain(one) for one in (*explained(comparison), *words_why.explained(comparison)))


def _answer(comparison: Comparison) -> Iterator[str]:
    """Yield the answer: the headline, a table of what differs, and what to know of it."""
    one = answer(comparison, full=True)
    yield f"**{plain(comparison.headline)}**"
    yield plain(one.scope)
    if one.rows:
        yield table(["metric", *one.headings[1:]], one.rows)
    remarks, label = [], ""
    for name, words in one.remarks:
        label = name or label
        remarks.append(f"- {label}: {plain(words.removesuffix(' (--full)'))}")
    if remarks:
        yield "\n".join(remarks)


def _why(comparison: Comparison) -> Iterator[str]:
    """Yield the parts of the account that moved, for each step that differs."""
    for why in comparison.why:
        section = words_why.section(why, comparison)
        yield f"**Why: {plain(section.sentence)}**"
        if section.remarks:
            yield "\n".join(f"- {plain(remark)}" for remark in section.remarks)
        if why.parts:
            yield table(words_why.headings(comparison, why), words_why.rows(why))


def _runs(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        if side.runs:
            yield f"**{plain(summarise(side.runs).headline)}**"
        yield f"{plain(side.name)}: {', '.join(plain(run.id) for run in side.runs)}"
        values_of: dict[tuple[str, str, str], list[float]] = {}
        for run in side.runs:
            for step in run.steps:
                for m in step.measurements if step.status is Status.DONE else ():
                    values_of.setdefault((step.name, m.metric, m.unit), []).append(m.value)
        rows = [
            [
                step,
                metric,
                *(show(v, unit) for v in (median(all_), min(all_), max(all_))),
                str(len(all_)),
            ]
            for (step, metric, unit), all_ in values_of.items()
        ]
        yield table(["step", "metric", "median", "least", "most", "n"], rows)
        for run in side.runs[-1:]:
            yield from _client_hosts(run)
            yield from _own_sections(run)


def _client_hosts(run: Run) -> Iterator[str]:
    """Yield a table of the client hosts' shares, for each step of a run."""
    for step in run.steps:
        rows = client_hosts.rows(step)
        if rows:
            words = [client_hosts.title(step), client_hosts.start(step), bound_words(step, run)]
            yield plain(f"{step.name}, {run.id}: {'; '.join(filter(None, words))}")
            yield table(client_hosts.HEADINGS, rows)


def _own_sections(run: Run) -> Iterator[str]:
    """Yield the parts that displays of steps add, such as a replay set against its source."""
    for name, parts in step_layout.own_sections(run, most=_MOST_ROWS, width=_STATEMENT):
        yield f"**{plain(name)}**"
        for verbatim, group in groupby(parts, key=lambda part: isinstance(part, Verbatim)):
            if verbatim:
                lines = (one.text for one in group if isinstance(one, Verbatim))
                yield "\n".join(f"    {sanitize(words)}" for words in lines)
                continue
            for part in group:
                if isinstance(part, Sentence):
                    yield plain(part.text)
                elif isinstance(part, TableRows):
                    yield table(part.headings, part.rows)
