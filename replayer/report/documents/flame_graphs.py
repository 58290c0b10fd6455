"""Charts for a page: bars of the parts of a session's time, and flame graphs of the CPU profiles.

The parts come from accounts: an account divides the time per operation of one measured window.  A
flame graph is drawn as an icicle: a caller is above the functions that it called.  The width of a
frame is its CPU time per operation.  In the graph of the difference of two sides, the widths are
those of the second side ("other"), and the colours show the difference per operation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from replayer.analysis.attribution import flame
from replayer.analysis.differences.comparison import Comparison
from replayer.analysis.differences.samples import Side
from replayer.model import Account, Spent, StepResult
from replayer.report.document import Curve, Figure, FlameGraph, Part, Table
from replayer.report.documents.account import Scale, scaled, whole
from replayer.report.documents.run_charts import done, step_names
from replayer.report.sanitize import sanitize
from replayer.run.display import Sentence

_MOST = 16
"""The most flame graphs of a page: each has hundreds of frames to draw."""
_WINDOWS = 40
"""The most windows of a step and side whose profiles are merged; of more, every n-th is used."""
_FAINT = 0.02
"""The strongest colour stands for this share of the whole time or more: small shifts stay pale."""
FEWEST = 30
"""Functions of two sides are compared only if each side has at least this many samples."""
_COLORS = {"kernel": 1, "server": 0, "client": 2, "kernel threads": 5, "others": 6, "replayer": 3}
COLORS = (
    "Blue is code of the server, violet the kernel, slate the client, yellow the kernel's own "
    "threads, pink replayer itself and grey all others.  A click on a frame makes it as wide as "
    "the page, one on what is above it goes back."
)


class WatchedFlames(NamedTuple):
    """One side's data about a step: the accounts of its measured windows, and their CPU profile.

    An account divides the time per operation into parts.  The profiles of all windows are merged.
    """

    side: str
    accounts: tuple[Account, ...]
    stacks: dict[str, float]
    """Stack -> CPU seconds per operation; {} without a profile."""
    samples: int
    """The number of samples in `stacks`, without those of other programs."""


class StepFlames(NamedTuple):
    """A step that has accounts (divisions of its time into parts), and the sides that have them.

    `operation` is the unit of the step's work, such as block or row: times are per operation.
    """

    name: str
    operation: str
    sides: tuple[WatchedFlames, ...]


def steps(sides: Sequence[Side]) -> Iterator[StepFlames]:
    """Yield the steps that have accounts (divisions of the time per operation into parts).

    Windows of one step may count different operations, such as blocks or rows.  Then only the
    windows that count the most frequent operation are used.
    """
    for name in step_names(sides):
        watched = [
            (side, tuple(one for _, one in done(side, name) if one.account is not None))
            for side in sides
        ]
        names = [one.account.operation for _, all_ in watched for one in all_ if one.account]
        if not names:
            continue
        operation = max(names, key=names.count)
        counted = [
            (side.name, [one for one in all_ if one.account and one.account.operation == operation])
            for side, all_ in watched
        ]
        yield StepFlames(name, operation, tuple(_watched(*one) for one in counted if one[1]))


def _watched(side: str, results: Sequence[StepResult]) -> WatchedFlames:
    accounts_ = tuple(one.account for one in results if one.account is not None)
    profiled = [one for one in results if one.profile is not None]
    # More windows add no information, and each profile must be unpacked.
    every = max(1, -(-len(profiled) // _WINDOWS))
    used = profiled[::every]
    return WatchedFlames(side, accounts_, flame.per_operation(used), flame.count_samples(used))


def accounts(watched: Sequence[StepFlames]) -> Iterator[tuple[str, Figure]]:
    """Yield (step's name, chart): the parts of a session's time per operation, one bar per side.

    A step of which fewer than two parts are known has no chart.
    """
    for step in watched:
        table = parts(step)
        if table is None or len(table[1]) == 1:
            continue
        scale, rows = table
        # Plotly draws bars from the bottom up: reverse them so that the first side is on top.
        names = [one.side for one in reversed(step.sides)]
        curves = [
            Curve(
                part,
                [_round(value) for value in reversed(values)],
                names,
                kind="bar",
                color=number,
                style={"orientation": "h", "pattern": number // 7},
            )
            for number, (part, values) in enumerate(rows)
        ]
        unit = f"{scale.name} a {step.operation}"
        title = f"{step.name}: where a session's time went, {unit}"
        axes = {"zero": True, "stack": True, "height": 210 + 46 * len(names)}
        yield step.name, Figure(f"time-{step.name}", title, curves, x=unit, axes=axes)


def parts(step: StepFlames) -> tuple[Scale, list[tuple[str, list[float]]]] | None:
    """Return (unit, [(part, its value on each side)]): a session's time per operation in each part.

    A value is the median of one side's windows.  Returns None if no window has times of sessions.
    """
    sides = [one.accounts for one in step.sides]
    scale = scaled(max(median(map(whole, accounts_)) for accounts_ in sides))
    rows = [(part.value, [_middle(one, part) / scale.seconds for one in sides]) for part in Spent]
    kept = [(part, values) for part, values in rows if any(values)]
    return (scale, kept) if kept else None


def _middle(accounts_: Iterable[Account], part: Spent) -> float:
    return median(account.session.get(part, 0.0) for account in accounts_)


def flames(watched: Sequence[StepFlames]) -> tuple[list[tuple[str, FlameGraph]], int]:
    """Return the flame graphs of all steps and sides, and the number of graphs left out.

    A graph is given as (step's name, flame graph).  At most 16 are made.
    """
    profiled = [(step, one) for step in watched for one in step.sides if one.stacks]
    several = len({one.side for _, one in profiled}) > 1
    charts = [
        (step.name, _flame(step, one.stacks, one.side, f", {one.side}" if several else ""))
        for step, one in profiled[:_MOST]
    ]
    return charts, len(profiled) - len(charts)


def _flame(step: StepFlames, stacks: Mapping[str, float], side: str, of_side: str) -> FlameGraph:
    drawn = flame.pruned(flame.tree({}, stacks))
    scale = scaled(drawn[0].other)
    title = f"{step.name}{of_side}: time of processors, {scale.name} a {step.operation}"
    trace = _frames(drawn, scale)
    trace["colors"] = [-1, *(_COLORS.get(one.whose, 6) for one in drawn[1:])]
    trace["text"] = [f"{one.other / drawn[0].other:.1%}" for one in drawn]
    return _graph(f"flame-{step.name}-{side}", title, trace, drawn)


def differing(
    comparison: Comparison, watched: Sequence[StepFlames], shown: Collection[str]
) -> list[list[Part]]:
    """Return the differences of two sides' CPU profiles: a list of parts for each step.

    The parts are a graph, its legend, and a table of functions.  `shown` are the names of the steps
    with a metric that differs or likely differs: only these are compared, and only if each side has
    at least FEWEST samples.  Otherwise a reader would take chance for a difference.
    """
    names = comparison.base.name, comparison.other.name
    differences = []
    for step in watched:
        stacks = {one.side: one.stacks for one in step.sides if one.samples >= FEWEST}
        if step.name in shown and all(stacks.get(name) for name in names):
            differences.append(_differing(step, names, *(stacks[name] for name in names)))
    return differences[:_MOST]


def too_few(watched: Sequence[StepFlames], shown: Collection[str]) -> list[str]:
    """Return a sentence for each step in `shown` that has too few samples to compare functions."""
    return [
        f"{step.name}: functions are not compared, as there are too few samples "
        f"({', '.join(f'{one.samples} of {one.side}' for one in step.sides)}; {FEWEST} are needed)"
        for step in watched
        if step.name in shown
        and any(one.stacks for one in step.sides)
        and any(one.samples < FEWEST for one in step.sides)
    ]


def _differing(
    step: StepFlames, names: tuple[str, str], base: Mapping[str, float], other: Mapping[str, float]
) -> list[Part]:
    drawn = flame.pruned(flame.tree(base, other))
    scale = scaled(drawn[0].other)
    trace = _frames(drawn, scale)
    shifts = [(one.other - one.base) / scale.seconds for one in drawn]
    trace["shifts"] = list(map(_round, shifts))
    trace["most"] = _round(max(*_own(drawn, shifts), _FAINT * drawn[0].other / scale.seconds))
    trace["text"] = [
        f"{shift:+.3g} {scale.name}: {one.base / scale.seconds:.3g} in {sanitize(names[0])}"
        for one, shift in zip(drawn, shifts, strict=True)
    ]
    unit = f"{scale.name} a {step.operation}"
    a, b = names
    title = f"{step.name}: {b} against {a}, {unit}"
    graph = _graph(f"difference-{step.name}", title, trace, drawn)
    trace["bar"] = f"{sanitize(unit)}, {sanitize(b)} less {sanitize(a)}"
    movers = flame.movers(base, other)
    legend = (
        f"Red: takes longer per {step.operation} in {b} than in {a}.  Blue: takes less per "
        f"{step.operation} in {b} than in {a}.  A frame is as wide as the time that {b} takes; "
        f"what only {a} did is in the table alone.  No test was made of a single function: how "
        f"much of this is chance, the intervals of the parts say."
    )
    rows = [
        (
            one.name,
            one.whose,
            *(f"{seconds / scale.seconds:.3f}" for seconds in (one.base, one.other)),
            f"{(one.other - one.base) / scale.seconds:+.3f}",
        )
        for one in movers
    ]
    headings = ("function", "of", a, b, f"difference, {unit}")
    return [graph, Sentence(legend), Table(headings, rows, numbers=range(2, 5))]


def _frames(drawn: Sequence[flame.Drawn], scale: Scale) -> dict[str, Any]:
    """Return the frames `drawn` of a call tree as columns for the page's script.

    The column `values` has each frame's time per operation, in the unit `scale`, less the time of
    the frames that it called.  `parents` are indices of earlier frames; the root has -1.
    """
    own = _own(drawn, [one.other / scale.seconds for one in drawn])
    return {
        "labels": [sanitize(one.name) for one in drawn],
        "parents": [-1 if one.parent is None else one.parent for one in drawn],
        "values": list(map(_round, own)),
        "unit": scale.name,
    }


def _own(drawn: Sequence[flame.Drawn], whole: Sequence[float]) -> list[float]:
    """Return the value of each frame without its children, always positive.

    `whole` has the value of each frame of `drawn` with its children, the frames that it called.
    Their values are subtracted, and the sign is dropped.
    """
    own = list(whole)
    for one, value in zip(drawn, whole, strict=True):
        if one.parent is not None:
            own[one.parent] -= value
    return list(map(abs, own))


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def _graph(
    name: str, title: str, frames: dict[str, Any], drawn: Sequence[flame.Drawn]
) -> FlameGraph:
    depths: list[int] = []
    for one in drawn:
        depths.append(1 if one.parent is None else depths[one.parent] + 1)
    return FlameGraph(name, title, frames, max(depths))


def tables(steps: Sequence[StepFlames]) -> Iterator[Table]:
    """Yield a table for each step: parts of its time per operation, with a column for each side."""
    for step in steps:
        shares = parts(step)
        if shares:
            scale, rows = shares
            headings = [f"where the time went, {scale.name} a {step.operation}"]
            headings += [one.side for one in step.sides]
            shown = [[part, *(f"{value:.3f}" for value in values)] for part, values in rows]
            yield Table(headings, shown, numbers=range(1, len(headings)))
