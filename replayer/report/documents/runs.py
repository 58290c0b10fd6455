"""The report of groups of runs, or of the comparison of two groups, for a page and for Markdown.

The answer is that of the comparison, or the summary of the runs.  Below it are the steps with their
charts and measurements, and every fact about the environment.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from statistics import median

from replayer.analysis import repeats
from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.environment import facts
from replayer.analysis.differences.samples import Side
from replayer.model import Run
from replayer.report.document import Document, Figure, Part, Section, Table
from replayer.report.documents import (
    client_hosts,
    comparison,
    csv_rows,
    flame_graphs,
    run_charts,
    run_summary,
    statements,
    step_proof,
    summary,
)
from replayer.report.documents.flame_graphs import StepFlames
from replayer.report.sanitize import short
from replayer.results import run_listing
from replayer.run.display import Sentence, Tone
from replayer.units import show, show_with_noun

_MOST_RUNS = 200
_MOST_SIDES = 8
_PAGE, _TEXT = (200, 400), (20, 100)
"""(largest number of rows of a table of statements, characters of a statement): page, Markdown."""


def document(
    sides: Sequence[Side],
    compared: Comparison | None = None,
    refused: str = "",
    *,
    for_page: bool = True,
) -> Document:
    """Return the report of the groups of runs `sides`, or of their comparison `compared`.

    `refused` is the reason why there is no comparison.  Without `for_page`, the report has no
    charts, and its tables are shorter.
    """
    if compared is not None and not for_page:
        return comparison.document(compared)
    named, compared = _named(sides, compared)
    if compared is None:
        return _uncompared(named, refused, for_page=for_page)
    steps = list(flame_graphs.steps(named))
    shown = comparison.differing(compared)
    functions = [*_functions(compared, steps, shown)]
    report = comparison.document(compared, functions=functions, width=_PAGE[1])
    charts = [chart for _, chart in run_charts.of_steps(named) if _is_of_replay(chart)]
    return replace(
        report,
        title=_title(named),
        parts=[
            *report.parts,
            *statements.sections(named, most=_PAGE[0], width=_PAGE[1]),
            Section("Replay", charts),
            Section(
                "The runs",
                list(_summaries(named)),
                is_folded=True,
                is_printed=True,
                note="what each side measured",
            ),
            *_steps(named, steps, for_page=True, folded=set(run_charts.step_names(named)) - shown),
            *client_hosts.sections(named),
            *run_charts.series(named),
            *_ledgers(named),
            *_everything(named),
        ],
        made=_made(named),
    )


def data(sides: Sequence[Side], compared: Comparison | None) -> Iterator[Sequence[object]]:
    """Return the CSV's rows: those of the comparison if there is one, else every measurement."""
    return csv_rows.compared(compared) if compared else csv_rows.measured(sides)


def _uncompared(sides: Sequence[Side], refused: str, *, for_page: bool) -> Document:
    """Return the report of groups of runs without a comparison; a single group has a headline.

    `refused` is the reason why they are not compared; "" if no comparison was requested.
    Without `for_page`, there are no charts.
    """
    most, width = _PAGE if for_page else _TEXT
    steps = list(flame_graphs.steps(sides)) if for_page else []
    why_not = [Sentence(f"Not compared: {refused}")] if refused else []
    parts: list[Part] = [Section("Comparison", why_not)]
    headline, answer = Sentence(_made(sides)), list[Part]()
    if len(sides) == 1 and sides[0].runs:
        one = summary.summarise(sides[0].runs)
        headline, answer = Sentence(str(one.headline)), [*run_summary.parts(one, sides[0].runs)]
    else:
        parts += _summaries(sides)
    runs = [run for side in sides for run in side.runs]
    parts += [run_summary.spent(run) for run in runs] if len(runs) == 1 else []
    parts += statements.sections(sides, most=most, width=width)
    if for_page:
        charts = [chart for _, chart in run_charts.of_steps(sides) if _is_of_replay(chart)]
        parts += [Section("Replay", charts), *_ledgers(sides), *run_charts.series(sides)]
    parts += [*_steps(sides, steps, for_page=for_page), *client_hosts.sections(sides)]
    parts += [*_everything(sides)] if for_page else [_runs(sides)]
    made = _made(sides) if answer else ""
    return Document(_title(sides), headline, parts, answer=answer, made=made)


def _named(
    sides: Sequence[Side], compared: Comparison | None
) -> tuple[list[Side], Comparison | None]:
    """Return the sides and the comparison, both with the sides' names made short and unique.

    Charts need such names.  The comparison is None if `compared` is None.
    """
    names: dict[str, str] = {}
    for side in sides:
        name = short(side.name)
        same = sum(name == other for other in names.values())
        names[side.name] = f"{name} ({len(names) + 1})" if same else name
    named = [Side(names[side.name], side.runs) for side in sides]
    return named, compared and comparison.shortened(compared, names)


def _title(sides: Sequence[Side]) -> str:
    return " and ".join(side.name for side in sides[:3]) + (" and others" if len(sides) > 3 else "")


def _made(sides: Sequence[Side]) -> str:
    """Return a line: how many runs of which workloads there are, and how they ended."""
    runs = [run for side in sides for run in side.runs]
    workloads = ", ".join(sorted({run.workload.name for run in runs}))
    ended = repeats.counted([run_listing.state(run) for run in runs]) if runs else "none"
    return f"{show_with_noun(len(runs), 'run')} of {workloads}: {ended}"


def _summaries(sides: Sequence[Side]) -> Iterator[Part]:
    """Yield a section with the summary of each group of runs, at most eight.

    A sentence has the number of the groups that are left out.
    """
    for side in sides[:_MOST_SIDES]:
        if side.runs:
            one = summary.summarise(side.runs)
            parts = run_summary.parts(one, side.runs)
            yield Section(side.name, [Sentence(str(one.headline)), *parts])
    if len(sides) > _MOST_SIDES:
        yield Sentence(f"and {len(sides) - _MOST_SIDES} more groups", Tone.QUIET)


def _functions(
    compared: Comparison, steps: Sequence[StepFlames], shown: Collection[str]
) -> Iterator[Part]:
    """Yield the differences of the CPU profiles, and sentences on steps with too few samples.

    `shown` are the names of the steps that have a difference; of others nothing is yielded.
    """
    for parts in flame_graphs.differing(compared, steps, shown):
        yield from parts
    yield from (Sentence(words, Tone.QUIET) for words in flame_graphs.too_few(steps, shown))


def _is_of_replay(chart: Figure) -> bool:
    return chart.name.startswith("replay")


def _steps(
    sides: Sequence[Side],
    steps: Sequence[StepFlames],
    *,
    for_page: bool,
    folded: Collection[str] = (),
) -> Iterator[Part]:
    """Yield the section of each step: its charts, proofs, flame graphs, and every measurement.

    On a page, the sections of the steps in `folded` are closed until a reader opens them.
    """
    figures = [*_charts(sides), *flame_graphs.accounts(steps)] if for_page else []
    graphs, left = flame_graphs.flames(steps)
    explained = False
    for name in run_charts.step_names(sides):
        parts: list[Part] = [one for step, one in figures if step == name]
        own = [graph for step, graph in graphs if step == name]
        parts += _proofs(sides, name)
        parts += own
        if own and not explained:
            parts.append(Sentence(flame_graphs.COLORS, Tone.QUIET))
            explained = True
        of_step = [*flame_graphs.tables([step for step in steps if step.name == name])]
        every = [_measurements(sides, name), *of_step]
        parts.append(Section(f"All measurements of {name}", every, is_folded=for_page))
        is_folded = name in folded
        note = "no difference was shown" if is_folded else ""
        yield Section(name, parts, is_folded=is_folded, is_printed=True, note=note)
    if left:
        words = f"and {left} more flame graphs, which this page has no room for"
        yield Sentence(words, Tone.QUIET)


def _proofs(sides: Sequence[Side], name: str) -> Iterator[Section]:
    """Yield a section for each side: how cold a step's data was, and where its blocks came from.

    If the step was repeated, the section summarises all its repeats.
    """
    for side in sides:
        results = [result for _, result in run_charts.done(side, name)]
        if not results:
            continue
        alone = len(results) == 1
        parts = step_proof.of_result(results[0]) if alone else step_proof.of_repeats(results)
        yield Section("Proof" if len(sides) == 1 else f"Proof, {side.name}", [*parts])


def _charts(sides: Sequence[Side]) -> Iterator[tuple[str, Figure]]:
    yield from run_charts.overlays(sides)
    yield from run_charts.repeats(sides)
    yield from (one for one in run_charts.of_steps(sides) if not _is_of_replay(one[1]))
    yield from run_charts.latencies(sides)


def _measurements(sides: Sequence[Side], name: str) -> Table:
    """Return a step's table: median, minimum, maximum of the repeats by metric and side."""
    metrics = {
        m.metric: m
        for side in sides
        for _, result in run_charts.done(side, name)
        for m in result.measurements
    }
    rows = []
    for metric, kind in metrics.items():
        for side in sides:
            values = [
                value
                for _, result in run_charts.done(side, name)
                if (value := result.value(metric)) is not None
            ]
            if values:
                shown = [show(v, kind.unit) for v in (median(values), min(values), max(values))]
                rows.append([metric, side.name, *shown, str(len(values))])
    headings = ("", "group", "median", "least", "most", "n")
    return Table(headings, rows, numbers=range(2, 6))


def _ledgers(sides: Sequence[Side]) -> Iterator[Part]:
    if ledger := run_charts.ledgers(sides):
        yield Section("Where the blocks came from", [ledger])


def _everything(sides: Sequence[Side]) -> Iterator[Part]:
    """Yield folded sections that few readers need: the runs, notes of steps, every fact."""
    notes = [*_notes([run for side in sides for run in side.runs])]
    known = [[facts(run) for run in side.runs] for side in sides]
    rows = [
        [key, *(comparison.values(sorted({one.get(key, "-") for one in side})) for side in known)]
        for key in sorted({key for side in known for one in side for key in one})
    ]
    environment = Table(("fact", *(side.name for side in sides)), rows)
    yield Section(
        "Everything else",
        [
            replace(_runs(sides), is_folded=True),
            Section(
                f"Notes of single steps ({len(notes)})",
                [Table(("of", "note"), notes)],
                is_folded=True,
            ),
            Section("The environment: every fact", [environment], is_folded=True),
        ],
    )


def _runs(sides: Sequence[Side]) -> Section:
    """Return a section with a table of the runs of all sides, at most 200."""
    runs = [(side, run) for side in sides for run in side.runs]
    rows = [
        [
            side.name,
            run.id,
            run.label,
            run.workload.name,
            run_listing.state(run),
            run.started,
            str(run.host.get("kernel.release") or ""),
        ]
        for side, run in runs[:_MOST_RUNS]
    ]
    headings = ("group", "run", "label", "workload", "ended", "started", "kernel")
    parts: list[Part] = [Table(headings, rows)]
    if len(runs) > _MOST_RUNS:
        parts.append(Sentence(f"and {len(runs) - _MOST_RUNS} more", Tone.QUIET))
    return Section(f"Runs ({len(runs)})", parts)


def _notes(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Yield (steps that have the note and how often, note) for each different note of the steps."""
    of_step: dict[str, Counter[str]] = {}
    for run in runs:
        for step in run.steps:
            for note in (*step.notes, *(step.account.notes if step.account else ())):
                of_step.setdefault(note, Counter())[step.name] += 1
    for note, names in of_step.items():
        yield [", ".join(f"{name} {times}x" for name, times in names.items()), note]
