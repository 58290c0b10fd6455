"""Doubts about the results of a comparison: which do not count, and which steps are not judged.

A single run is not believed where a step did not read what was asked of it, such as a cold read
that was hot.  A comparison does not count such results either.  Nor does it count results that
other programs disturbed, if they disturbed one side more than the other: then they may be all that
the sides differ by.  A disturbance of both sides alike is only reported.  If no result of a side
would be left, all of its results are shown, and the step is not judged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from replayer.analysis.advice import as_asked, warnings
from replayer.analysis.differences import statistics
from replayer.analysis.differences.samples import Side
from replayer.model import Advice, Run, Status, StepResult

_DISTURBING = {warning.__name__: warning for warning in warnings.DISTURBING}
_NOT_AS_ASKED = "as_asked"
_FACTOR = 2.0
"""Other programs disturbed both sides alike if the shares of disturbed runs differ by this at most.

And no rank test shows that they disturbed the runs of one side more strongly."""
_REPORTED = frozenset({"coldness", "verdict", "unsteady", "warming_up", "moved", "repeats"})
"""Warnings about a run that a comparison judges by itself, and reports in its own words."""
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True)
class CountedResults:
    """Both sides of a comparison, with the results that count."""

    base: Side
    other: Side
    unjudged: Mapping[str, str]
    """Name of a step -> why its metrics are not judged."""
    remarks: tuple[str, ...]
    """Sentences on results that do not count, and on warnings about the runs."""


def count_results(base: Side, other: Side, by: str = "") -> CountedResults:
    """Return both sides with the results that count, the steps that are not judged, and remarks.

    `by` is the fact by which the groups were formed.  If that is what a step reached, such as
    walk.cold, the comparison is about it, and no result is left out for it.
    """
    unjudged: dict[str, str] = {}
    left_out: list[str] = []
    uneven: set[str] = set()
    results = (result for side in (base, other) for result in _results(side))
    for name in dict.fromkeys(step.name for _, step in results):
        for doubt in (_NOT_AS_ASKED, *_DISTURBING):
            is_asked_about = doubt == _NOT_AS_ASKED and by in {f"{name}.cold", f"{name}.verdict"}
            if is_asked_about or _is_even(base, other, name, doubt):
                continue
            uneven.add(doubt)
            base, other = (
                _without(side, name, doubt, unjudged, left_out) for side in (base, other)
            )
    remarks = (*(f"{name}: {why}" for name, why in unjudged.items()), *left_out)
    return CountedResults(base, other, unjudged, (*remarks, *_warned(base, other, uneven)))


def _results(side: Side, name: str = "") -> list[tuple[Run, StepResult]]:
    """Return the finished results of a side with their runs; with `name`, those of this step."""
    return [
        (run, step)
        for run in side.runs
        for step in run.steps
        if step.status is Status.DONE and name in {"", step.name}
    ]


def _doubted(run: Run, step: StepResult, doubt: str) -> str:
    """Return why a result is in doubt, as text; "" if it is not.

    `doubt` is _NOT_AS_ASKED, or the name of a warning about other programs.
    """
    if doubt == _NOT_AS_ASKED:
        return as_asked.other_than_asked(step)
    stored = next((one for one in run.advice if one.name == doubt), None)
    advice = stored or _DISTURBING[doubt](run)
    if advice is None or (advice.steps and step.name not in advice.steps):
        return ""
    return advice.found.removeprefix(f"{', '.join(advice.steps)}: ")


def _is_even(base: Side, other: Side, name: str, doubt: str) -> bool:
    """Return whether a doubt about the results of a step makes no difference between the sides.

    What was not as asked makes a difference even if it was so on both sides: between cold and hot
    is much that can differ.
    """
    levels = [_levels(side, name, doubt) for side in (base, other)]
    if doubt == _NOT_AS_ASKED or not all(levels):
        return not any(map(any, levels))
    shares = sorted(fmean(map(bool, side)) for side in levels)
    if shares[1] > _FACTOR * shares[0]:
        return False
    return statistics.rank_test(*levels) > statistics.ALPHA


def _levels(side: Side, name: str, doubt: str) -> list[float]:
    """Return for each run how strong a doubt about its results of a step is: 0 if there is none.

    It is the share of the processors that other programs used, if that is the doubt, else 1.
    """
    levels: dict[str, float] = {}
    for run, step in _results(side, name):
        share = step.foreign.cpu_share if doubt == "foreign_processes" and step.foreign else None
        level = (1.0 if share is None else share) if _doubted(run, step, doubt) else 0.0
        levels[run.id] = max(level, levels.get(run.id, 0.0))
    return list(levels.values())


def _without(
    side: Side, name: str, doubt: str, unjudged: dict[str, str], left_out: list[str]
) -> Side:
    """Return a side without the results of a step that are in doubt; all of it if none is left.

    The reason is added to `unjudged` if none is left, else to `left_out`.
    """
    results = _results(side, name)
    reasons = {id(step): why for run, step in results if (why := _doubted(run, step, doubt))}
    if not reasons:
        return side
    runs = {run.id for run, step in results if id(step) in reasons}
    share = f"{len(runs)} of {len({run.id for run, _ in results})} runs of {side.name}"
    why = f"{next(iter(reasons.values()))}, in {share}"
    if len(reasons) == len(results):
        unjudged[name] = "; ".join(filter(None, (unjudged.get(name), why)))
        return side
    left_out.append(f"{name}: {why}, which do not count")
    kept = (
        run.model_copy(update={"steps": tuple(s for s in run.steps if id(s) not in reasons)})
        for run in side.runs
    )
    return Side(side.name, tuple(kept))


def _warned(base: Side, other: Side, uneven: Iterable[str]) -> Iterator[str]:
    """Yield the warnings about the runs of both sides, with the number of runs that have each.

    Those in equal shares of the runs are left out, as they explain no difference, unless other
    programs disturbed the runs.  Those in `uneven` were reported before.
    """
    sides = [_by_warning(side) for side in (base, other)]
    for key in dict.fromkeys(key for side in sides for key in side):
        counts = [len(side.get(key, ())) for side in sides]
        alike = counts[0] * len(other.runs) == counts[1] * len(base.runs)
        if key in uneven or (alike and key not in _DISTURBING):
            continue
        first, second = (
            f"{count} of {len(side.runs)}"
            for count, side in zip(counts, (base, other), strict=True)
        )
        advice = next(side[key][0] for side in reversed(sides) if key in side)
        yield f"{first} runs of {base.name}, {second} of {other.name}: {advice.found}"


def _by_warning(side: Side) -> dict[str, list[Advice]]:
    """Return name of a warning -> the warnings of this kind that runs of a side have.

    Results of earlier versions have no names: their sentences, without numbers, are the names.
    """
    found: dict[str, list[Advice]] = {}
    for run in side.runs:
        kinds = {one.name or _NUMBER.sub("", one.found): one for one in run.advice}
        for name, one in kinds.items():
            if name not in _REPORTED:
                found.setdefault(name, []).append(one)
    return found
